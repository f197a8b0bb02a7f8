//! Figures by response size, on two logarithmic axes.

use stats::Estimate;

use super::AxisFormat;
use super::scale::{Scale, extent};
use super::svg::{Canvas, SERIES, Svg, text_width};
use crate::text::{bounds, interval};

/// A figure by response size, for several variants.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Title.
    pub title: String,
    /// Summary in words, for screen readers.
    pub description: String,
    /// The unit, above the axis.
    pub unit: String,
    /// Format of the figures.
    pub format: AxisFormat,
    /// One line per variant.
    pub lines: Vec<SweepLine>,
}

/// One variant's figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepLine {
    /// Its name.
    pub name: String,
    /// Colour and shape.
    pub series: usize,
    /// Its figures, by ascending size.
    pub points: Vec<SweepPoint>,
}

/// One figure with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepPoint {
    /// Response size in bytes.
    pub bytes: f64,
    /// The estimate; the lower end is NaN if nothing bounds it.
    pub estimate: Estimate,
}

const PLOT: f64 = 230.0;
/// Space between the labels of two sizes.
const GAP: f64 = 10.0;

/// Distance in pixels between the marks of two variants of the same size.
const APART: f64 = 8.0;
/// Half-width of an interval's end bars.
const END: f64 = 3.0;

/// Draws figures by size, both axes logarithmic.
pub fn sweep(data: &Sweep, width: u32) -> Svg {
    let mut canvas = Canvas::new(width, &data.title, &data.description);
    let names = data.lines.iter().map(|line| (line.series, line.name.as_str()));
    let top = canvas.legend_by_series(names, 0.0) + 22.0;
    let (left, right, bottom) = (72.0, f64::from(width) - 26.0, top + PLOT);
    let points = || data.lines.iter().flat_map(|line| &line.points);
    let ends = |Estimate { value, low, high }| [value, low, high];
    let figures: Vec<f64> = points().flat_map(|p| ends(p.estimate)).collect();
    let sizes: Vec<f64> = points().map(|p| p.bytes).collect();
    let positive = |values: &[f64]| {
        let positive: Vec<f64> = values.iter().copied().filter(|value| *value > 0.0).collect();
        extent(&positive)
    };
    let (low, high) = positive(&figures);
    let y = Scale::log(low / 1.2, high * 1.2, bottom - 2.0, top + 2.0);
    let (smallest, largest) = positive(&sizes);
    // Side by side, so that intervals of the same size do not overlap.
    let middle = (data.lines.len().max(1) - 1) as f64 / 2.0;
    let margin = middle * APART + 8.0;
    let x = Scale::log(smallest, largest, left + margin, right - margin);

    canvas.small_line(top - 10.0, &data.unit);
    canvas.grid(&y, &y.ticks(6), data.format, left, right);
    sizes_below(&mut canvas, sizes, &x, top, bottom);
    canvas.text("muted small end", right, bottom + 34.0, "response size in bytes");
    for (place, line) in data.lines.iter().enumerate() {
        let beside = (place as f64 - middle) * APART;
        draw_line(&mut canvas, data, line, |bytes| x.at(bytes) + beside, &y);
    }
    canvas.finish(bottom + 38.0)
}

/// The sizes whose labels fit.
fn sizes_below(canvas: &mut Canvas, mut sizes: Vec<f64>, x: &Scale, top: f64, bottom: f64) {
    sizes.sort_by(f64::total_cmp);
    let mut free_from = f64::NEG_INFINITY;
    for size in sizes {
        let (at, label) = (x.at(size), crate::text::size(size));
        let half = text_width(&label) / 2.0;
        if at - half >= free_from {
            canvas.line("grid", (at, top), (at, bottom));
            canvas.text("muted mid small", at, bottom + 16.0, &label);
            free_from = at + half + GAP;
        }
    }
}

fn draw_line(
    canvas: &mut Canvas,
    data: &Sweep,
    line: &SweepLine,
    x: impl Fn(f64) -> f64,
    y: &Scale,
) {
    let series = line.series % SERIES;
    let is_drawn = |point: &&SweepPoint| {
        let value = point.estimate.value;
        value.is_finite() && value > 0.0
    };
    let whole = || line.points.iter().filter(is_drawn);
    let path: Vec<(f64, f64)> = whole().map(|p| (x(p.bytes), y.at(p.estimate.value))).collect();
    if path.len() > 1 {
        canvas.polyline(&format!("line join dash{series} s{series}"), &path);
    }
    for SweepPoint { bytes, estimate } in whole() {
        let at = x(*bytes);
        let [low, high] = bounds(estimate);
        if low != high {
            let class = format!("line s{series}");
            let (from, to) = (y.at(estimate.low), y.at(estimate.high));
            canvas.line(&class, (at, from), (at, to));
            for (end, at_y, back) in [(low, from, -END), (high, to, END)] {
                match end {
                    Some(_) => canvas.line(&class, (at - END, at_y), (at + END, at_y)),
                    None => {
                        let tips = [(at - END, at_y + back), (at, at_y), (at + END, at_y + back)];
                        canvas.polyline(&class, &tips);
                    }
                }
            }
        }
        let write = |value: f64| data.format.write(value);
        let interval = interval(estimate, write).filter(|_| low != high);
        let tip = format!(
            "{}, {}: {}{} {}",
            line.name,
            crate::text::size(*bytes),
            write(estimate.value),
            interval.map_or_else(String::new, |ends| format!(" ({ends})")),
            data.unit
        );
        canvas.mark("mark", line.series, (at, y.at(estimate.value)), 4.4, &tip);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(points: &[(f64, f64)]) -> Sweep {
        let point = |&(bytes, value): &(f64, f64)| {
            let estimate = Estimate { value, low: value * 0.9, high: value * 1.1 };
            SweepPoint { bytes, estimate }
        };
        Sweep {
            title: "Requests per second by size".to_owned(),
            description: String::new(),
            unit: "requests/s".to_owned(),
            format: AxisFormat::Rate,
            lines: vec![SweepLine {
                name: "tcp".to_owned(),
                series: 0,
                points: points.iter().map(point).collect(),
            }],
        }
    }

    #[test]
    fn sizes_stand_below_in_their_own_units() {
        let drawing = sweep(&data(&[(64.0, 9e4), (1024.0, 8e4), (67_108_864.0, 21.0)]), 748);
        let text = drawing.inline();
        for label in ["64 B", "1 KiB", "64 MiB", "100,000", "tcp, 1 KiB: 80,000"] {
            assert!(text.contains(label), "{label} is missing: {text}");
        }
    }

    #[test]
    fn lines_that_lie_on_each_other_are_told_apart() {
        let mut both = data(&[(64.0, 9e4), (1024.0, 8e4)]);
        both.lines.push(SweepLine { name: "unix".to_owned(), series: 1, ..both.lines[0].clone() });
        let text = sweep(&both, 748).inline();
        assert!(text.contains("join dash0 s0") && text.contains("join dash1 s1"), "{text}");
        let place = |series: &str| {
            let line = text.lines().find(|line| line.contains(series)).unwrap();
            line.split_once("points=").unwrap().1.to_owned()
        };
        assert_ne!(place("dash0"), place("dash1"), "side by side");
    }

    #[test]
    fn labels_that_would_overlap_are_left_out() {
        let sizes: Vec<(f64, f64)> = (10..26).map(|n| (f64::from(1 << n), 5.0)).collect();
        let text = sweep(&data(&sizes), 340).inline();
        assert!(text.contains(">1 KiB<") && !text.contains(">2 KiB<"), "{text}");
    }

    #[test]
    fn an_end_without_a_bound_is_an_arrow() {
        let mut one = data(&[(64.0, 9e4), (1024.0, 8e4)]);
        one.lines[0].points[0].estimate.high = f64::INFINITY;
        let text = sweep(&one, 748).inline();
        assert!(text.contains("tcp, 64 B: 90,000 (≥ 81,000) requests/s"), "{text}");
        assert_eq!(text.matches("<polyline class=\"line s0\"").count(), 1, "{text}");
        assert!(text.contains("tcp, 1 KiB: 80,000 (72,000–88,000) requests/s"), "{text}");
    }

    #[test]
    fn what_is_no_number_is_not_drawn() {
        let text = sweep(&data(&[(64.0, f64::NAN), (1024.0, 0.0)]), 748).inline();
        assert!(!text.contains("NaN") && !text.contains("tcp, "), "{text}");
    }
}
