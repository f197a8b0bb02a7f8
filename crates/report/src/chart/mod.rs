//! Charts as SVG text, drawn from plain data.
//!
//! All drawing happens here. Each function takes numbers, names and a width in pixels, and returns
//! an [`Svg`] to include in a page or write to a file. Variants differ in shape and in colour, in
//! colours that people with any common colour vision can distinguish (after Okabe & Ito, Color
//! Universal Design, 2008). No scripts.

mod dots;
mod forest;
mod heat;
mod knee;
mod quantiles;
mod scale;
mod strips;
mod svg;
mod sweep;
mod times;

pub use dots::{Dot, Dots, Level, dots};
pub use forest::{Forest, ForestRow, forest};
pub use heat::{Heat, HeatCell, HeatRow, heat};
pub use knee::{Knee, KneeCurve, KneePoint, knee};
pub use quantiles::{Curve, Quantiles, quantiles};
pub use strips::{Strip, Strips, strips};
pub(crate) use svg::{COLOURS, key, style};
pub use svg::{Svg, escape};
pub use sweep::{Sweep, SweepLine, SweepPoint, sweep};
pub use times::{Times, TimesCurve, times};

/// Number format of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AxisFormat {
    /// Per second: `1,837`.
    #[default]
    Rate,
    /// A duration in nanoseconds: `5.44 ms`.
    Time,
    /// Bytes per second: `3.21 GB/s`.
    Bandwidth,
}

impl AxisFormat {
    /// The formatted number.
    pub fn write(self, value: f64) -> String {
        match self {
            AxisFormat::Rate => base::format_rate(value),
            AxisFormat::Time => crate::text::time(value),
            AxisFormat::Bandwidth => crate::text::bandwidth(value),
        }
    }

    /// Tick labels: enough decimals to distinguish neighbours, and no trailing zeros.
    fn ticks(self, values: &[f64]) -> Vec<String> {
        let step = values.windows(2).map(|w| (w[1] - w[0]).abs()).fold(f64::INFINITY, f64::min);
        values.iter().map(|value| self.tick(*value, step.min(value.abs()))).collect()
    }

    fn tick(self, value: f64, step: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        let (scale, unit) = match self {
            AxisFormat::Rate => (1.0, ""),
            AxisFormat::Time if value < 1e3 => (1.0, " ns"),
            AxisFormat::Time if value < 1e6 => (1e3, " µs"),
            AxisFormat::Time if value < 1e9 => (1e6, " ms"),
            AxisFormat::Time => (1e9, " s"),
            AxisFormat::Bandwidth if value < 1e3 => (1.0, " B/s"),
            AxisFormat::Bandwidth if value < 1e6 => (1e3, " kB/s"),
            AxisFormat::Bandwidth if value < 1e9 => (1e6, " MB/s"),
            AxisFormat::Bandwidth => (1e9, " GB/s"),
        };
        let decimals = (-(step / scale).log10()).ceil().clamp(0.0, 9.0) as usize;
        let text = format!("{:.decimals$}", value / scale);
        let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
        let whole = whole.parse().map_or(whole.to_owned(), base::format_count);
        let rest = rest.trim_end_matches('0');
        let point = if rest.is_empty() { "" } else { "." };
        format!("{whole}{point}{rest}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_on_an_axis_read_differently() {
        let times = AxisFormat::Time.ticks(&[11.54e6, 11.56e6, 11.58e6]);
        assert_eq!(times, ["11.54 ms", "11.56 ms", "11.58 ms"]);
        let log = AxisFormat::Time.ticks(&[5e5, 1e6, 2e6, 20e6]);
        assert_eq!(log, ["500 µs", "1 ms", "2 ms", "20 ms"]);
        assert_eq!(AxisFormat::Rate.ticks(&[0.0, 5_000.0, 10_000.0]), ["0", "5,000", "10,000"]);
        assert_eq!(AxisFormat::Rate.ticks(&[2.5, 3.0, 3.5]), ["2.5", "3", "3.5"]);
        let bytes = AxisFormat::Bandwidth.ticks(&[5e6, 1e8, 1e9, 2e9]);
        assert_eq!(bytes, ["5 MB/s", "100 MB/s", "1 GB/s", "2 GB/s"]);
        assert_eq!(AxisFormat::Rate.ticks(&[0.0, 2e-4, 4e-4]), ["0", "0.0002", "0.0004"]);
        assert_eq!(AxisFormat::Rate.ticks(&[]), [] as [String; 0]);
    }
}
