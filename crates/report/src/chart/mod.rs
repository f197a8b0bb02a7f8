//! Charts as SVG text, drawn from plain data.
//!
//! This is the only place that draws. Each function takes numbers and names and
//! a width in pixels, and returns an [`Svg`] that a page includes or that is
//! written to a file of its own. Variants are told apart by shape and by
//! colour, in colours that people with any common colour vision can tell apart
//! (after Okabe & Ito, Color Universal Design, 2008), and nothing needs a script.

mod dots;
mod forest;
mod quantiles;
mod scale;
mod strips;
mod svg;

pub use dots::{Dot, Dots, Level, dots};
pub use forest::{Forest, ForestRow, forest};
pub use quantiles::{Curve, Quantiles, quantiles};
pub use strips::{Strip, Strips, strips};
pub(crate) use svg::{COLOURS, style};
pub use svg::{Svg, escape};

/// How the numbers of an axis are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Per second: `1,837`.
    #[default]
    Rate,
    /// A time given in nanoseconds: `5.44 ms`.
    Time,
}

impl Format {
    /// The number in words.
    pub fn write(self, value: f64) -> String {
        match self {
            Format::Rate => base::format_rate(value),
            Format::Time => crate::text::time(value),
        }
    }
}
