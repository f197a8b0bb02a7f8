//! Curves over time, as series of a recorder have them: a value for each step.

use super::AxisFormat;
use super::scale::Scale;
use super::svg::{Canvas, SERIES, Svg};

/// Curves over a common range of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Title.
    pub title: String,
    /// Summary in words, for screen readers.
    pub description: String,
    /// The unit, above the axis; may be empty.
    pub unit: String,
    /// Begin of the range, in seconds since the epoch.
    pub from_s: f64,
    /// End of the range.
    pub until_s: f64,
    /// Times on the axis with their labels.
    pub ticks: Vec<(f64, String)>,
    /// Height of the plot in pixels, without legend and labels.
    pub height: u32,
    /// The curves.
    pub curves: Vec<TimesCurve>,
}

/// One curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimesCurve {
    /// Its name.
    pub name: String,
    /// Start of the first step, in seconds since the epoch.
    pub start_s: f64,
    /// Length of a step in seconds.
    pub step_s: f64,
    /// A value for each step; NaN is unknown.
    pub values: Vec<f64>,
}

const LEFT: f64 = 72.0;

/// How many curves are named.
const NAMED: usize = 12;

/// Draws the curves on one axis, which includes zero: what is counted per second then has its total
/// as its area.
pub fn times(data: &Times, width: u32) -> Svg {
    let mut canvas = Canvas::new(width, &data.title, &data.description);
    let names: Vec<&str> =
        data.curves.iter().take(NAMED).map(|curve| curve.name.as_str()).collect();
    let mut top = if names.is_empty() { 0.0 } else { canvas.legend(&names, 0.0) };
    if data.curves.len() > NAMED {
        let words = format!("and {} more", base::format_count((data.curves.len() - NAMED) as u64));
        canvas.small_line(top + 6.0, &words);
        top += 16.0;
    }
    top += 20.0;
    let (right, bottom) = (f64::from(width) - 10.0, top + f64::from(data.height));
    let known = data.curves.iter().flat_map(|curve| &curve.values).filter(|v| v.is_finite());
    let (low, high) = known.fold((0.0_f64, 0.0_f64), |(l, h), v| (l.min(*v), h.max(*v)));
    let margin = if high > low { (high - low) * 0.05 } else { 1.0 };
    let low = if low < 0.0 { low - margin } else { 0.0 };
    let y = Scale::linear(low, high + margin, bottom, top);
    let x = Scale::linear(data.from_s, data.until_s, LEFT, right);

    canvas.small_line(top - 8.0, &data.unit);
    let ticks = y.ticks((data.height / 45).max(2) as usize);
    canvas.grid(&y, &ticks, AxisFormat::Rate, LEFT, right);
    for (at_s, label) in &data.ticks {
        canvas.line("grid", (x.at(*at_s), top), (x.at(*at_s), bottom));
        canvas.text("muted mid small", x.at(*at_s).min(right - 14.0), bottom + 16.0, label);
    }
    for (place, curve) in data.curves.iter().enumerate() {
        for piece in pieces(curve, data.from_s, data.until_s, &x, &y) {
            let colour = place % SERIES;
            if data.curves.len() == 1 {
                let ends = [piece[piece.len() - 1].0, piece[0].0].map(|at| (at, y.at(0.0)));
                let area: Vec<_> = piece.iter().copied().chain(ends).collect();
                canvas.polygon(&format!("area s{colour}"), &area);
            }
            let dash = (place / SERIES) % SERIES;
            canvas.polyline(&format!("line trace dash{dash} s{colour}"), &piece);
        }
    }
    if data.curves.iter().all(|curve| curve.values.iter().all(|value| !value.is_finite())) {
        canvas.text("muted mid", (LEFT + right) / 2.0, (top + bottom) / 2.0, "no data");
    }
    canvas.line("base", (LEFT, y.at(0.0)), (right, y.at(0.0)));
    canvas.finish(bottom + 24.0)
}

/// The known stretches of a curve within the range, as steps: never empty ones.
fn pieces(
    curve: &TimesCurve,
    from_s: f64,
    until_s: f64,
    x: &Scale,
    y: &Scale,
) -> Vec<Vec<(f64, f64)>> {
    let mut all = Vec::new();
    let mut piece: Vec<(f64, f64)> = Vec::new();
    for (place, value) in curve.values.iter().enumerate() {
        let start_s = curve.start_s + curve.step_s * place as f64;
        let (begin_s, end_s) = (start_s.max(from_s), (start_s + curve.step_s).min(until_s));
        if value.is_finite() && begin_s < end_s {
            piece.extend([begin_s, end_s].map(|at_s| (x.at(at_s), y.at(*value))));
        } else if !piece.is_empty() {
            all.push(std::mem::take(&mut piece));
        }
    }
    if !piece.is_empty() {
        all.push(piece);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, values: &[f64]) -> TimesCurve {
        TimesCurve { name: name.to_owned(), start_s: 0.0, step_s: 10.0, values: values.to_vec() }
    }

    fn data(curves: Vec<TimesCurve>) -> Times {
        Times {
            title: "Requests".to_owned(),
            unit: "per second".to_owned(),
            until_s: 50.0,
            ticks: vec![(0.0, "00:00".to_owned()), (30.0, "00:30".to_owned())],
            height: 200,
            curves,
            ..Times::default()
        }
    }

    #[test]
    fn what_is_unknown_is_not_drawn() {
        let text = times(&data(vec![curve("a <b>", &[1.0, f64::NAN, 3.0, 4.0])]), 600).inline();
        assert_eq!(text.matches("<polyline").count(), 2, "{text}");
        assert_eq!(text.matches("<polygon class=\"area s0\"").count(), 2, "{text}");
        assert!(text.contains("a &lt;b&gt;") && text.contains(">00:30<"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("no data"), "{text}");
    }

    #[test]
    fn a_step_reaches_to_its_end_and_not_beyond_the_range() {
        let one = curve("a", &[0.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]);
        let x = Scale::linear(0.0, 50.0, 0.0, 500.0);
        let y = Scale::linear(0.0, 2.0, 100.0, 0.0);
        let drawn = pieces(&one, 0.0, 50.0, &x, &y);
        assert_eq!(drawn.len(), 1);
        assert_eq!(drawn[0][..4], [(0.0, 100.0), (100.0, 100.0), (100.0, 0.0), (200.0, 0.0)]);
        assert_eq!(drawn[0].last(), Some(&(500.0, 0.0)));
    }

    #[test]
    fn without_data_it_says_so() {
        for curves in [Vec::new(), vec![curve("a", &[f64::NAN])]] {
            assert!(times(&data(curves), 600).inline().contains(">no data<"));
        }
    }

    #[test]
    fn many_curves_are_counted() {
        let curves: Vec<TimesCurve> = (0..15).map(|n| curve(&format!("c{n}"), &[1.0])).collect();
        let text = times(&data(curves), 600).inline();
        assert!(text.contains("and 3 more") && !text.contains(">c12<"), "{text}");
        assert!(text.contains("dash1 s0"), "colours repeat with another dash: {text}");
    }
}
