//! Latency over rate, both axes logarithmic, with the limit and the capacities.

use stats::Estimate;

use super::AxisFormat;
use super::scale::{Scale, extent};
use super::svg::{Canvas, SERIES, Svg, text_width};
use crate::text::bounds;

/// Latency over rate of several variants.
#[derive(Clone, Debug, PartialEq)]
pub struct Knee {
    /// Title.
    pub title: String,
    /// Summary in words, for screen readers.
    pub description: String,
    /// What the marks are: `p99 of latency`.
    pub unit: String,
    /// The limit on it, in nanoseconds, if there is one.
    pub limit_ns: Option<f64>,
    /// One curve per variant.
    pub curves: Vec<KneeCurve>,
}

/// One variant's trials and capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct KneeCurve {
    /// Its name.
    pub name: String,
    /// Colour and shape.
    pub series: usize,
    /// Its trials.
    pub points: Vec<KneePoint>,
    /// Requests per second at which the condition stops holding.
    pub capacity: Option<Estimate>,
}

/// One trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KneePoint {
    /// Requests per second.
    pub rate_per_s: f64,
    /// The latency in nanoseconds.
    pub latency_ns: f64,
    /// Whether it only looked for the right range.
    pub is_rough: bool,
}

const PLOT: f64 = 260.0;
/// Trials per point of the line, so that the line is smooth where there are many.
const TOGETHER: usize = 5;

/// Draws the trials as marks, their medians as a line, the limit as a line and each capacity with its
/// interval as a band.
pub fn knee(data: &Knee, width: u32) -> Svg {
    let mut canvas = Canvas::new(width, &data.title, &data.description);
    let names = data.curves.iter().map(|curve| (curve.series, curve.name.as_str()));
    let top = canvas.legend_by_series(names, 0.0) + 22.0;
    let (left, right, bottom) = (72.0, f64::from(width) - 16.0, top + PLOT);
    let points = || data.curves.iter().flat_map(|curve| &curve.points);
    let positive = |values: Vec<f64>| {
        extent(&values.into_iter().filter(|value| *value > 0.0).collect::<Vec<f64>>())
    };
    let latencies = points().map(|point| point.latency_ns).chain(data.limit_ns);
    let (low, high) = positive(latencies.collect());
    let y = Scale::log(low / 1.3, high * 1.3, bottom, top);
    let (slowest, fastest) = positive(points().map(|point| point.rate_per_s).collect());
    let x = Scale::log(slowest / 1.03, fastest * 1.03, left + 6.0, right - 6.0);

    canvas.small_line(top - 10.0, &data.unit);
    canvas.grid(&y, &y.ticks(6), AxisFormat::Time, left, right);
    rates_below(&mut canvas, &x, top, bottom, width);
    canvas.text("muted small end", right, bottom + 34.0, "offered requests per second");
    for curve in &data.curves {
        band(&mut canvas, curve, &x, top, bottom);
    }
    if let Some(limit) = data.limit_ns {
        let at = y.at(limit);
        canvas.line("badline", (left, at), (right, at));
        canvas.text(
            "small halo",
            left + 6.0,
            at - 5.0,
            &format!("limit {}", crate::text::time(limit)),
        );
    }
    for curve in &data.curves {
        draw(&mut canvas, curve, &x, &y);
    }
    canvas.finish(bottom + 38.0)
}

/// The rates whose labels fit.
fn rates_below(canvas: &mut Canvas, x: &Scale, top: f64, bottom: f64, width: u32) {
    let ticks = x.ticks(if width < 500 { 4 } else { 8 });
    let mut free_from = f64::NEG_INFINITY;
    for (tick, label) in ticks.iter().zip(AxisFormat::Rate.ticks(&ticks)) {
        let (at, half) = (x.at(*tick), text_width(&label) / 2.0);
        canvas.line("grid", (at, top), (at, bottom));
        if at - half >= free_from {
            canvas.text("muted mid small", at, bottom + 16.0, &label);
            free_from = at + half + 8.0;
        }
    }
}

fn band(canvas: &mut Canvas, curve: &KneeCurve, x: &Scale, top: f64, bottom: f64) {
    let Some(capacity) = &curve.capacity else { return };
    let series = curve.series % SERIES;
    let [low, high] = bounds(capacity);
    let from = low.map_or(x.at(0.0), |low| x.at(low));
    let to = high.map_or(x.at(f64::MAX), |high| x.at(high));
    let write = |rate: f64| AxisFormat::Rate.write(rate);
    let tip = format!("{}: capacity {} requests/s", curve.name, write(capacity.value));
    canvas.rect(&format!("band s{series}"), from, top, to - from, bottom - top, &tip);
    let at = x.at(capacity.value);
    canvas.line(&format!("line dash{series} s{series}"), (at, top), (at, bottom));
}

fn draw(canvas: &mut Canvas, curve: &KneeCurve, x: &Scale, y: &Scale) {
    let series = curve.series % SERIES;
    let mut points: Vec<&KneePoint> =
        curve.points.iter().filter(|p| p.latency_ns > 0.0 && p.rate_per_s > 0.0).collect();
    points.sort_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s));
    let median = |trials: &[&KneePoint]| {
        let middle = |of: fn(&KneePoint) -> f64| {
            let mut all: Vec<f64> = trials.iter().map(|point| of(point)).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        (x.at(middle(|p| p.rate_per_s)), y.at(middle(|p| p.latency_ns)))
    };
    let (rough, blocks): (Vec<&KneePoint>, Vec<&KneePoint>) =
        points.iter().copied().partition(|point| point.is_rough);
    let together = (blocks.len() / TOGETHER).clamp(1, TOGETHER);
    // Around the crossing the blocks say more than single trials.
    let ends = [blocks.first(), blocks.last()].map(|end| end.map(|p| p.rate_per_s));
    let outside = |p: &&&KneePoint| match ends {
        [Some(low), Some(high)] => p.rate_per_s < low || p.rate_per_s > high,
        _ => true,
    };
    let mut path: Vec<(f64, f64)> = blocks.chunks(together).map(median).collect();
    path.extend(rough.iter().filter(outside).map(|p| (x.at(p.rate_per_s), y.at(p.latency_ns))));
    path.sort_by(|a, b| a.0.total_cmp(&b.0));
    if path.len() > 1 {
        canvas.polyline(&format!("line join s{series}"), &path);
    }
    for point in points {
        let tip = format!(
            "{}, {} requests/s: {}",
            curve.name,
            AxisFormat::Rate.write(point.rate_per_s),
            crate::text::time(point.latency_ns)
        );
        let (class, size) = if point.is_rough { ("hollow", 3.2) } else { ("mark", 3.8) };
        canvas.mark(
            class,
            curve.series,
            (x.at(point.rate_per_s), y.at(point.latency_ns)),
            size,
            &tip,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Knee {
        let point = |rate_per_s: f64, latency_ns: f64| KneePoint {
            rate_per_s,
            latency_ns,
            is_rough: rate_per_s < 500.0,
        };
        let points = vec![point(100.0, 2e6), point(800.0, 2e7), point(1000.0, 2e8)];
        Knee {
            title: "p99 over rate".to_owned(),
            description: String::new(),
            unit: "p99 of latency".to_owned(),
            limit_ns: Some(5e7),
            curves: vec![KneeCurve {
                name: "tcp".to_owned(),
                series: 0,
                points,
                capacity: Some(Estimate { value: 900.0, low: 850.0, high: 930.0 }),
            }],
        }
    }

    #[test]
    fn the_limit_and_the_capacity_stand_on_their_axes() {
        let text = knee(&data(), 748).inline();
        for part in ["limit 50.0 ms", "tcp: capacity 900 requests/s", "band s0", "hollow s0"] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
    }

    #[test]
    fn without_trials_or_bounds_there_is_still_a_chart() {
        let mut none = data();
        none.curves[0].points.clear();
        none.curves[0].capacity = Some(Estimate { value: 900.0, low: 0.0, high: f64::INFINITY });
        let text = knee(&none, 340).inline();
        assert!(!text.contains("NaN") && text.contains("band s0"), "{text}");
    }
}
