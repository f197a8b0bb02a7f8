//! SVG as text: escaping, coordinates, marks and the frame of a drawing.

use std::fmt::{self, Write};

use super::AxisFormat;
use super::scale::Scale;

/// Number of colours and shapes before they repeat.
pub(crate) const SERIES: usize = 6;

const STYLE: &str = include_str!("style.css");

/// The colours of charts and pages, light and dark, as CSS custom properties.
pub(crate) const COLOURS: &str = include_str!("colours.css");

/// The rules for charts; they need [`COLOURS`].
pub(crate) fn style() -> &'static str {
    STYLE
}

/// Escapes text for HTML and XML, between tags and in quoted attributes. Characters that XML does
/// not allow become the replacement character.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate with at most one decimal.
pub(crate) struct Px(pub(crate) f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round() / 10.0;
        // Negative zero would print its sign.
        write!(f, "{}", if tenths == 0.0 || !tenths.is_finite() { 0.0 } else { tenths })
    }
}

/// A chart: for a page with our style, or as a standalone file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Svg {
    title: String,
    description: String,
    width: u32,
    height: u32,
    body: String,
}

impl Svg {
    /// Title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The drawing for a page that defines our colours.
    pub fn inline(&self) -> String {
        self.wrapped(0.0, 0.0, self.width, self.height, "")
    }

    /// A standalone file with its style, its title and a card behind it, for light and dark
    /// readers; `<img>` on GitHub shows it.
    pub fn standalone(&self) -> String {
        let (w, h) = (self.width + 2 * MARGIN, self.height + 2 * MARGIN + TITLE);
        let (x, y) = (-f64::from(MARGIN), -f64::from(MARGIN + TITLE));
        let frame = format!(
            "<style>\n{COLOURS}{STYLE}</style>\n<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"8\" fill=\"var(--card)\" stroke=\"var(--grid)\"/>\n<text class=\"title\" x=\"2\" y=\"{}\">{}</text>\n",
            Px(x + 0.5),
            Px(y + 0.5),
            w - 1,
            h - 1,
            Px(-14.0),
            escape(&self.title)
        );
        self.wrapped(x, y, w, h, &frame)
    }

    fn wrapped(&self, x: f64, y: f64, w: u32, h: u32, frame: &str) -> String {
        let (title, description) = (escape(&self.title), escape(&self.description));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" viewBox=\"{} {} {w} {h}\" width=\"{w}\" height=\"{h}\" aria-label=\"{title}\">\n<title>{title}</title>\n<desc>{description}</desc>\n{frame}{}</svg>\n",
            Px(x),
            Px(y),
            self.body
        )
    }
}

/// Margin of a standalone chart.
const MARGIN: u32 = 18;
/// Height of its title.
const TITLE: u32 = 26;

/// A drawing in progress.
pub(crate) struct Canvas {
    svg: Svg,
}

impl Canvas {
    pub(crate) fn new(width: u32, title: &str, description: &str) -> Canvas {
        Canvas {
            svg: Svg {
                title: title.to_owned(),
                description: description.to_owned(),
                width,
                height: 0,
                body: String::new(),
            },
        }
    }

    pub(crate) fn finish(mut self, height: f64) -> Svg {
        self.svg.height = height.ceil() as u32;
        self.svg
    }

    fn put(&mut self, element: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.svg.body.write_fmt(element);
        self.svg.body.push('\n');
    }

    pub(crate) fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.put(format_args!(
            "<text{class} x=\"{}\" y=\"{}\">{}</text>",
            Px(x),
            Px(y),
            escape(text)
        ));
    }

    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.put(format_args!(
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            Px(from.0),
            Px(from.1),
            Px(to.0),
            Px(to.1)
        ));
    }

    pub(crate) fn rect(&mut self, class: &str, x: f64, y: f64, w: f64, h: f64, tip: &str) {
        let tip = tip_element(tip);
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">{tip}</rect>",
            Px(x),
            Px(y),
            Px(w.max(0.0)),
            Px(h.max(0.0))
        ));
    }

    pub(crate) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        self.put(format_args!("<polyline class=\"{class}\" points=\"{}\"/>", joined(points)));
    }

    pub(crate) fn polygon(&mut self, class: &str, points: &[(f64, f64)]) {
        self.put(format_args!("<polygon class=\"{class}\" points=\"{}\"/>", joined(points)));
    }

    /// Lines at the ticks of a vertical axis, labelled at its left.
    pub(crate) fn grid(
        &mut self,
        y: &Scale,
        ticks: &[f64],
        format: AxisFormat,
        left: f64,
        right: f64,
    ) {
        for (tick, label) in ticks.iter().zip(format.ticks(ticks)) {
            let at = y.at(*tick);
            self.line("grid", (left, at), (right, at));
            self.text("muted end small", left - 8.0, at + 4.0, &label);
        }
    }

    /// The mark of a series, distinct in shape and colour; `tip` is its tooltip.
    pub(crate) fn mark(
        &mut self,
        class: &str,
        series: usize,
        at: (f64, f64),
        size: f64,
        tip: &str,
    ) {
        let (x, y) = at;
        let tip = tip_element(tip);
        let class = format!("{class} s{}", series % SERIES);
        let around = |corners: &[(f64, f64)]| {
            joined(&corners.iter().map(|(a, b)| (x + a * size, y + b * size)).collect::<Vec<_>>())
        };
        match series % SERIES {
            0 => self.put(format_args!(
                "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{}\">{tip}</circle>",
                Px(x),
                Px(y),
                Px(size)
            )),
            shape => {
                let points = match shape {
                    1 => around(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
                    2 => around(&[(0.0, -1.2), (1.1, 0.85), (-1.1, 0.85)]),
                    3 => around(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
                    4 => around(&[(0.0, 1.2), (1.1, -0.85), (-1.1, -0.85)]),
                    _ => around(&[
                        (-0.4, -1.2),
                        (0.4, -1.2),
                        (0.4, -0.4),
                        (1.2, -0.4),
                        (1.2, 0.4),
                        (0.4, 0.4),
                        (0.4, 1.2),
                        (-0.4, 1.2),
                        (-0.4, 0.4),
                        (-1.2, 0.4),
                        (-1.2, -0.4),
                        (-0.4, -0.4),
                    ]),
                };
                self.put(format_args!(
                    "<polygon class=\"{class}\" points=\"{points}\">{tip}</polygon>"
                ));
            }
        }
    }

    /// The legend of these series; see [`Canvas::legend`].
    pub(crate) fn legend_by_series<'a>(
        &mut self,
        named: impl Iterator<Item = (usize, &'a str)>,
        top: f64,
    ) -> f64 {
        let mut names = Vec::new();
        for (series, name) in named {
            names.resize(names.len().max(series + 1), "");
            names[series] = name;
        }
        self.legend(&names, top)
    }

    /// A line of small grey text at the left edge, shortened to the width of the chart.
    pub(crate) fn small_line(&mut self, y: f64, words: &str) {
        let columns = (f64::from(self.svg.width) - 4.0) / SMALL_GLYPH;
        self.text("muted small", 2.0, y, &crate::text::fit(words, columns as usize));
    }

    /// Marks and names in as many rows as necessary; a series without a name has no mark. Returns
    /// the height used.
    pub(crate) fn legend(&mut self, names: &[&str], top: f64) -> f64 {
        let width = f64::from(self.svg.width);
        let (mut x, mut y) = (6.0, top + 10.0);
        for (series, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let name = crate::text::fit(name, ((width - 30.0) / GLYPH) as usize);
            let length = 16.0 + text_width(&name) + 18.0;
            if x > 6.0 && x + length - 18.0 > width {
                (x, y) = (6.0, y + 20.0);
            }
            self.mark("mark", series, (x, y - 4.0), 4.5, "");
            self.text("", x + 12.0, y, &name);
            x += length;
        }
        y + 10.0 - top
    }
}

/// Approximate width of a small character in pixels.
const SMALL_GLYPH: f64 = 5.8;

/// Mean glyph width at the charts' 12 px; digits are wider, so estimates are generous.
pub(crate) const GLYPH: f64 = 6.6;

/// Approximate width of a text, for placing what is beside it.
pub(crate) fn text_width(text: &str) -> f64 {
    crate::text::width(text) as f64 * GLYPH
}

/// The mark of a series alone, for a table.
pub(crate) fn key(series: usize) -> String {
    let mut canvas = Canvas::new(14, "", "");
    canvas.mark("mark", series, (7.0, 7.0), 4.8, "");
    let body = canvas.svg.body;
    format!(
        "<svg class=\"chart key\" viewBox=\"0 0 14 14\" aria-hidden=\"true\">{}</svg>",
        body.trim_end()
    )
}

fn tip_element(tip: &str) -> String {
    if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escape(tip)) }
}

fn joined(points: &[(f64, f64)]) -> String {
    let points: Vec<String> =
        points.iter().map(|(x, y)| format!("{},{}", Px(*x), Px(*y))).collect();
    points.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_cannot_leave_its_element() {
        assert_eq!(escape("<b a=\"1\" c='2'>&"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
        assert_eq!(escape("bell\u{7}"), "bell\u{fffd}");
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(Px(12.345).to_string(), "12.3");
        assert_eq!(Px(12.0).to_string(), "12");
        assert_eq!(Px(-0.01).to_string(), "0");
        assert_eq!(Px(f64::NAN).to_string(), "0");
    }
}
