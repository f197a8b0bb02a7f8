//! Latency distribution: time by percentile.

use super::AxisFormat;
use super::scale::{Scale, extent};
use super::svg::{Canvas, SERIES, Svg};

/// Latency distributions of several variants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantiles {
    /// Title.
    pub title: String,
    /// Summary in words, for screen readers.
    pub description: String,
    /// Unit, above the axis.
    pub unit: String,
    /// One curve per variant, in nanoseconds.
    pub curves: Vec<Curve>,
}

/// One variant's times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Colour and shape.
    pub series: usize,
    /// Quantile (0 to below 1), lowest, typical and highest time among trials.
    pub points: Vec<(f64, f64, f64, f64)>,
}

const PLOT: f64 = 240.0;
const MARKED: [(f64, &str); 6] =
    [(0.0, "0%"), (0.5, "50%"), (0.9, "90%"), (0.99, "99%"), (0.999, "99.9%"), (0.9999, "99.99%")];

/// Number of requests per one slower than this quantile; the axis is its logarithm.
fn rarity(quantile: f64) -> f64 {
    1.0 / (1.0 - quantile).max(1e-9)
}

/// Draws times by percentile, on an axis where each additional nine takes the same space.
pub fn quantiles(data: &Quantiles, width: u32) -> Svg {
    let mut canvas = Canvas::new(width, &data.title, &data.description);
    let names = data.curves.iter().map(|curve| (curve.series, curve.name.as_str()));
    let top = canvas.legend_by_series(names, 0.0) + 22.0;
    let (left, right, bottom) = (62.0, f64::from(width) - 14.0, top + PLOT);
    let points = || data.curves.iter().flat_map(|curve| &curve.points);
    let times: Vec<f64> = points().flat_map(|(_, low, _, high)| [*low, *high]).collect();
    let (low, high) = extent(&times);
    let y = Scale::log(low.max(1.0) / 1.1, high * 1.1, bottom - 2.0, top + 2.0);
    let last = points().map(|(q, ..)| rarity(*q)).fold(10.0, f64::max);
    let x = Scale::log(1.0, last * 1.02, left, right);

    canvas.small_line(top - 10.0, &data.unit);
    canvas.grid(&y, &y.ticks(6), AxisFormat::Time, left, right);
    for (quantile, name) in MARKED.iter().filter(|(q, _)| rarity(*q) <= last * 1.02) {
        let at = x.at(rarity(*quantile));
        canvas.line("grid", (at, top), (at, bottom));
        // The last label stays within the chart.
        canvas.text("muted mid small", at.min(f64::from(width) - 20.0), bottom + 16.0, name);
    }
    let axis = "share of requests that were at least this fast";
    canvas.text("muted small end", right, bottom + 34.0, axis);
    for curve in &data.curves {
        draw_curve(&mut canvas, curve, &x, &y);
    }
    canvas.finish(bottom + 38.0)
}

fn draw_curve(canvas: &mut Canvas, curve: &Curve, x: &Scale, y: &Scale) {
    let series = curve.series % SERIES;
    let place = |q: f64, time: f64| (x.at(rarity(q)), y.at(time));
    let mut band: Vec<(f64, f64)> = curve.points.iter().map(|p| place(p.0, p.1)).collect();
    band.extend(curve.points.iter().rev().map(|p| place(p.0, p.3)));
    canvas.polygon(&format!("band s{series}"), &band);
    let line: Vec<(f64, f64)> = curve.points.iter().map(|p| place(p.0, p.2)).collect();
    canvas.polyline(&format!("line s{series}"), &line);
    for (quantile, name) in MARKED.iter().skip(1) {
        let near = curve.points.iter().find(|p| (p.0 - quantile).abs() < 1e-9);
        if let Some((q, _, time, _)) = near {
            let tip =
                format!("{}: {name} took at most {}", curve.name, AxisFormat::Time.write(*time));
            canvas.mark("mark", curve.series, place(*q, *time), 4.4, &tip);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_axis_is_was_cut_off_in_a_narrow_window() {
        let unit = "p99 of latency of completed requests, open loop at 6,342 requests/s";
        let data = Quantiles {
            unit: unit.to_owned(),
            curves: vec![Curve { points: vec![(0.5, 1.0, 2.0, 3.0)], ..Curve::default() }],
            ..Quantiles::default()
        };
        assert!(quantiles(&data, 748).inline().contains(unit));
        let narrow = quantiles(&data, 340).inline();
        assert!(!narrow.contains(unit) && narrow.contains("open loop at"), "{narrow}");
        assert!(narrow.contains('…'), "{narrow}");
    }
}
