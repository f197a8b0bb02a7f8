//! Throughput over time, as a tachograph draws speed: the area is the count.

use super::AxisFormat;
use super::scale::Scale;
use super::svg::{Canvas, SERIES, Svg};
use crate::text::fit;

/// One strip per variant, all with the same axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strips {
    /// Title.
    pub title: String,
    /// Summary in words, for screen readers.
    pub description: String,
    /// Shortest length of the time axis in seconds, which gives several charts the same scale.
    pub span_s: f64,
    /// The variants, top to bottom.
    pub strips: Vec<Strip>,
}

impl Strips {
    /// Time under load in seconds, of the variant that was loaded longest.
    pub(crate) fn seconds(&self) -> f64 {
        self.strips.iter().map(Strip::seconds).fold(0.0, f64::max)
    }
}

/// One variant's rate over its trials.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strip {
    /// Its name.
    pub name: String,
    /// The count that the area represents, in words.
    pub total: String,
    /// Colour and shape.
    pub series: usize,
    /// For each trial: its block's number, whether the block counts, and the completed requests of
    /// each step of `step_s` seconds.
    pub trials: Vec<(u32, bool, Vec<u64>)>,
    /// Length of a step in seconds.
    pub step_s: f64,
}

const STRIP: f64 = 58.0;
const HEAD: f64 = 24.0;
const LEFT: f64 = 54.0;

impl Strip {
    fn seconds(&self) -> f64 {
        self.trials.iter().map(|(_, _, steps)| steps.len() as f64).sum::<f64>() * self.step_s
    }

    fn highest(&self) -> f64 {
        let steps = self.trials.iter().flat_map(|(_, _, steps)| steps);
        steps.max().map_or(0.0, |most| *most as f64 / self.step_s)
    }
}

/// Draws each variant's rate over its time under load.
pub fn strips(data: &Strips, width: u32) -> Svg {
    let mut canvas = Canvas::new(width, &data.title, &data.description);
    let right = f64::from(width) - 6.0;
    let seconds = data.seconds().max(data.span_s);
    let highest = data.strips.iter().map(Strip::highest).fold(0.0, f64::max);
    let x = Scale::linear(0.0, seconds, LEFT, right);
    let mut top = 0.0;
    for strip in &data.strips {
        let bottom = top + HEAD + STRIP;
        let y = Scale::linear(0.0, highest * 1.05, bottom, top + HEAD);
        draw_strip(&mut canvas, strip, &x, &y, top, right);
        top = bottom + 12.0;
    }
    let ticks = x.ticks(if width < 500 { 4 } else { 8 });
    for (tick, label) in ticks.iter().zip(AxisFormat::Rate.ticks(&ticks)) {
        canvas.text("muted mid small", x.at(*tick).min(right - 8.0), top + 4.0, &label);
    }
    let several = data.strips.iter().any(|strip| strip.trials.len() > 1);
    let after = if several { ", block after block" } else { "" };
    canvas.text("muted small end", right, top + 22.0, &format!("seconds under load{after}"));
    canvas.finish(top + 26.0)
}

fn draw_strip(canvas: &mut Canvas, strip: &Strip, x: &Scale, y: &Scale, top: f64, right: f64) {
    let bottom = top + HEAD + STRIP;
    let room = (right / 6.6) as usize - strip.total.chars().count().min((right / 6.6) as usize) - 6;
    canvas.mark("mark", strip.series, (6.0, top + 10.0), 4.5, "");
    canvas.text("strong", 18.0, top + 14.0, &fit(&strip.name, room));
    canvas.text("muted end small", right, top + 14.0, &strip.total);
    let ticks = Some(y.ticks(2)).filter(|ticks| ticks.len() > 1).unwrap_or_else(|| y.ticks(4));
    canvas.grid(y, &ticks, AxisFormat::Rate, LEFT, right);
    let mut start = 0.0;
    for (block, counts, steps) in &strip.trials {
        let end = start + steps.len() as f64 * strip.step_s;
        let (from, to) = (x.at(start), x.at(end));
        let note = if *counts { "" } else { " does not count" };
        let tip = format!("block {block}{note}");
        let outline = outline(steps, strip.step_s, start, x, y);
        let mut area = vec![(from, bottom)];
        area.extend(&outline);
        area.push((to, bottom));
        let series = strip.series % SERIES;
        canvas.polygon(&format!("area s{series}"), &area);
        canvas.polyline(&format!("line trace s{series}"), &outline);
        let class = if *counts { "tip" } else { "gone" };
        canvas.rect(class, from, top + HEAD, to - from, STRIP, &tip);
        canvas.line("grid", (to, top + HEAD), (to, bottom));
        start = end;
    }
    canvas.line("base", (LEFT, bottom), (right, bottom));
}

/// The upper edge of one trial: at most one step per pixel and a half; neighbours are averaged, so
/// the area stays the count.
fn outline(steps: &[u64], step_s: f64, start: f64, x: &Scale, y: &Scale) -> Vec<(f64, f64)> {
    let width = x.at(start + steps.len() as f64 * step_s) - x.at(start);
    let wanted = ((width / 1.5) as usize).clamp(1, steps.len().max(1));
    let mut points = Vec::new();
    for i in 0..wanted {
        let (a, b) = (i * steps.len() / wanted, (i + 1) * steps.len() / wanted);
        if a == b {
            continue;
        }
        let rate = steps[a..b].iter().sum::<u64>() as f64 / ((b - a) as f64 * step_s);
        points.push((x.at(start + a as f64 * step_s), y.at(rate)));
        points.push((x.at(start + b as f64 * step_s), y.at(rate)));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_part_had_longer_seconds() {
        let of = |steps: usize| {
            let strip =
                Strip { trials: vec![(1, true, vec![5; steps])], step_s: 1.0, ..Strip::default() };
            Strips { span_s: 40.0, strips: vec![strip], ..Strips::default() }
        };
        // The end of the only trial, as the grey line after it.
        let end = |data: &Strips| {
            let text = strips(data, 748).inline();
            let line = text.split("<rect class=\"tip\"").nth(1).unwrap_or_default().to_owned();
            let width = line.split("width=\"").nth(1).unwrap_or_default().to_owned();
            width.split('"').next().unwrap_or_default().parse::<f64>().unwrap_or(f64::NAN)
        };
        let (long, short) = (end(&of(40)), end(&of(10)));
        assert!((long / short - 4.0).abs() < 0.01, "{long} is not four times {short}");
    }

    #[test]
    fn the_seconds_of_a_short_trial_differ() {
        let strip = Strip { trials: vec![(1, true, vec![5; 10])], step_s: 0.1, ..Strip::default() };
        let data = Strips { strips: vec![strip], ..Strips::default() };
        let text = strips(&data, 748).inline();
        for label in [">0<", ">0.2<", ">0.4<", ">1<"] {
            assert!(text.contains(label), "{label} is not in {text}");
        }
    }
}
