//! Forest plot: ratios with their intervals.

use stats::Estimate;

use super::scale::{Scale, extent};
use super::svg::{Canvas, GLYPH, Svg};
use crate::text::{bounds, fit, without_zeros};

/// Ratios on a logarithmic axis, so that 2 and 1/2 are at the same distance from 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forest {
    /// Title.
    pub title: String,
    /// Summary in words, for screen readers.
    pub description: String,
    /// Label for ratios below 1.
    pub below: String,
    /// Label for ratios above 1.
    pub above: String,
    /// The ratios, top to bottom.
    pub rows: Vec<ForestRow>,
}

/// One ratio.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForestRow {
    /// What is divided by what.
    pub label: String,
    /// The ratio and its verdict in words.
    pub words: String,
    /// The ratio.
    pub value: f64,
    /// Lower end of its interval: 0 if nothing bounds it, NaN if there is no interval.
    pub low: f64,
    /// Upper end of its interval: infinite if nothing bounds it, NaN if there is no interval.
    pub high: f64,
    /// Colour and shape.
    pub series: usize,
    /// The published ratio, if any.
    pub published: Option<f64>,
    /// Whether the ratio is invalid.
    pub invalid: bool,
}

impl ForestRow {
    /// The ends of the interval, `None` where nothing bounds it.
    pub(crate) fn bounds(&self) -> [Option<f64>; 2] {
        bounds(&Estimate { value: self.value, low: self.low, high: self.high })
    }
}

const ROW: f64 = 46.0;
const FOOT: f64 = 42.0;
/// Height of the text at the top of a row.
const TEXT: f64 = 20.0;

/// Length of an arrow's head, and its distance from the edge.
const ARROW: f64 = 6.0;

/// Draws ratios with their intervals.
pub fn forest(forest: &Forest, width: u32) -> Svg {
    let mut canvas = Canvas::new(width, &forest.title, &forest.description);
    let right = f64::from(width);
    let mut values = vec![1.0];
    for row in &forest.rows {
        values.extend([row.value, row.low, row.high].into_iter().chain(row.published));
    }
    values.retain(|value| value.is_finite() && *value > 0.0);
    let (low, high) = extent(&values);
    let margin = (high / low).powf(0.08).max(1.004);
    let x = Scale::log(low / margin, high * margin, 10.0, right - 10.0);
    let bottom = forest.rows.len() as f64 * ROW + 4.0;

    let ticks = x.ticks(if width < 500 { 5 } else { 10 });
    let step = ticks.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
    for tick in &ticks {
        let at = x.at(*tick);
        canvas.line("grid", (at, 0.0), (at, bottom));
        let middle = at.clamp(16.0, right - 16.0);
        canvas.text("muted mid small", middle, bottom + 15.0, &times(*tick, step));
    }
    let one = x.at(1.0);
    for row in 0..forest.rows.len().max(1) {
        // The line skips the text of each row, which may cross it in a narrow chart.
        let top = row as f64 * ROW;
        canvas.line("one", (one, top + TEXT), (one, (top + ROW).min(bottom)));
    }
    side_words(&mut canvas, forest, one, bottom + 33.0, right);
    for (index, row) in forest.rows.iter().enumerate() {
        draw_row(&mut canvas, row, &x, index as f64 * ROW, right);
    }
    canvas.finish(bottom + FOOT)
}

/// The labels left and right of 1, kept inside the chart even if 1 is at its edge.
fn side_words(canvas: &mut Canvas, forest: &Forest, one: f64, y: f64, right: f64) {
    let below = format!("← {}", forest.below);
    let above = format!("{} →", forest.above);
    let room = |text: &str| text.chars().count() as f64 * GLYPH;
    let both = room(&below) + room(&above) + 16.0;
    if both > right {
        let shorter =
            if one > right / 2.0 { (&below, "muted small") } else { (&above, "muted small end") };
        let at = if one > right / 2.0 { 0.0 } else { right };
        canvas.text(shorter.1, at, y, shorter.0);
        return;
    }
    let gap = one.clamp(room(&below) + 8.0, right - room(&above) - 8.0);
    canvas.text("muted small end", gap - 8.0, y, &below);
    canvas.text("muted small", gap + 8.0, y, &above);
}

fn draw_row(canvas: &mut Canvas, row: &ForestRow, x: &Scale, top: f64, right: f64) {
    let (text, line) = (top + 15.0, top + 31.0);
    let words = row.words.chars().count() as f64 * GLYPH;
    let room = ((right - words - 24.0) / GLYPH).max(8.0) as usize;
    canvas.text("strong halo", 2.0, text, &fit(&row.label, room));
    let class = if row.invalid { "end halo bad strong" } else { "end halo" };
    canvas.text(class, right - 2.0, text, &row.words);
    let class = if row.invalid { " struck" } else { "" };
    let series = format!("s{}", row.series % super::svg::SERIES);
    let ends = row.bounds();
    if ends != [None, None] {
        // An end without a bound is an arrow at the edge of the chart.
        let at = [
            ends[0].map_or(ARROW, |low| x.at(low)),
            ends[1].map_or(right - ARROW, |high| x.at(high)),
        ];
        let class = format!("line {series}{class}");
        canvas.line(&class, (at[0], line), (at[1], line));
        for ((end, at), back) in ends.iter().zip(at).zip([ARROW, -ARROW]) {
            match end {
                Some(_) => canvas.line(&class, (at, line - 4.0), (at, line + 4.0)),
                None => {
                    let tips = [(at + back, line - 5.0), (at, line), (at + back, line + 5.0)];
                    canvas.polyline(&class, &tips);
                }
            }
        }
    }
    if let Some(published) = row.published {
        let at = x.at(published);
        let points = [(at, line - 7.0), (at + 7.0, line), (at, line + 7.0), (at - 7.0, line)];
        canvas.polygon("published", &points);
    }
    if row.value.is_finite() {
        let tip = format!("{}: {}", row.label, row.words);
        canvas.mark(&format!("mark{class}"), row.series, (x.at(row.value), line), 5.0, &tip);
        if row.invalid {
            let end = |end: Option<f64>| x.at(end.unwrap_or(row.value));
            let (from, to) = (end(ends[0]) - 10.0, end(ends[1]) + 10.0);
            canvas.line("badline", (from, line), (to, line));
        }
    }
}

/// A ratio on the axis, with as many decimals as the distance of the ticks needs.
fn times(value: f64, step: f64) -> String {
    let decimals =
        if step.is_finite() { (-step.log10()).ceil().clamp(0.0, 4.0) as usize } else { 1 };
    format!("{}×", without_zeros(&format!("{value:.decimals$}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_without_a_bound_is_an_arrow_at_the_edge() {
        let row = |low, high| ForestRow { value: 2.0, low, high, ..ForestRow::default() };
        let drawn = |row: ForestRow| {
            let text = forest(&Forest { rows: vec![row], ..Forest::default() }, 400).inline();
            let of = |tag: &str| text.matches(tag).count();
            (of("<line class=\"line s0\""), of("<polyline class=\"line s0\""), text)
        };
        assert_eq!(drawn(row(1.5, 3.0)).0, 3, "a line with two ends");
        let (lines, arrows, text) = drawn(row(1.5, f64::INFINITY));
        assert_eq!((lines, arrows), (2, 1), "{text}");
        assert!(text.contains(" 394,") || text.contains("394.0,"), "{text}");
        let (lines, arrows, text) = drawn(row(0.0, 3.0));
        assert_eq!((lines, arrows), (2, 1), "{text}");
        for nothing in [row(f64::NAN, f64::NAN), row(0.0, f64::INFINITY)] {
            let (lines, arrows, text) = drawn(nothing);
            assert_eq!((lines, arrows), (0, 0), "{text}");
        }
    }

    #[test]
    fn ticks_have_the_decimals_they_need() {
        assert_eq!(times(1.0, 0.05), "1×");
        assert_eq!(times(1.05, 0.05), "1.05×");
        assert_eq!(times(1.1, 0.05), "1.1×");
        assert_eq!(times(0.999, 0.001), "0.999×");
        assert_eq!(times(20.0, 5.0), "20×");
        assert_eq!(times(100.0, f64::INFINITY), "100×");
    }
}
