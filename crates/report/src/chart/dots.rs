//! Trials as dots, block by block, with the estimate.

use stats::Estimate;

use super::AxisFormat;
use super::scale::Scale;
use super::svg::{Canvas, SERIES, Svg};

/// One figure per variant and block.
#[derive(Clone, Debug, PartialEq)]
pub struct Dots {
    /// Title.
    pub title: String,
    /// Summary in words, for screen readers.
    pub description: String,
    /// The unit, above the axis.
    pub unit: String,
    /// Format of the axis labels.
    pub format: AxisFormat,
    /// Names of the variants.
    pub names: Vec<String>,
    /// Number of blocks, including those that do not count.
    pub blocks: u32,
    /// Numbers of the blocks that do not count.
    pub left_out: Vec<u32>,
    /// The trials.
    pub dots: Vec<Dot>,
    /// An estimate and its interval for each variant that has one.
    pub levels: Vec<Level>,
}

/// One trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dot {
    /// Index of its variant.
    pub variant: usize,
    /// Number of its block, from 1.
    pub block: u32,
    /// The figure.
    pub value: f64,
}

/// An estimate over all complete blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Index of its variant.
    pub variant: usize,
    /// The estimate; the lower end is NaN if nothing bounds it.
    pub estimate: Estimate,
}

const PLOT: f64 = 210.0;

/// Draws trials as dots by block.
pub fn dots(data: &Dots, width: u32) -> Svg {
    let mut canvas = Canvas::new(width, &data.title, &data.description);
    let names: Vec<&str> = data.names.iter().map(String::as_str).collect();
    let top = canvas.legend(&names, 0.0) + 22.0;
    let (left, right, bottom) = (54.0, f64::from(width) - 6.0, top + PLOT);
    let mut values: Vec<f64> = data.dots.iter().map(|dot| dot.value).collect();
    values.extend(data.levels.iter().flat_map(|level| [level.estimate.low, level.estimate.high]));
    let y = Scale::around(&values, bottom - 4.0, top + 4.0);
    let blocks = f64::from(data.blocks.max(1));
    let column = (right - left) / blocks;
    let x = |block: u32| left + (f64::from(block) - 0.5) * column;

    canvas.small_line(top - 10.0, &data.unit);
    canvas.grid(&y, &y.ticks(5), data.format, left, right);
    for block in &data.left_out {
        let tip = format!("block {block} does not count");
        canvas.rect("gone", x(*block) - column / 2.0, top, column, PLOT, &tip);
    }
    block_numbers(&mut canvas, data.blocks, x, bottom + 16.0, (right - left) / 26.0);
    canvas.text("muted small end", right, bottom + 34.0, "block");
    for Level { variant, estimate } in &data.levels {
        let series = variant % SERIES;
        let (from, to) = (y.at(estimate.high), y.at(estimate.low));
        canvas.rect(&format!("band s{series}"), left, from, right - left, (to - from).max(1.0), "");
        let at = y.at(estimate.value);
        canvas.line(&format!("line thin s{series}"), (left, at), (right, at));
    }
    let spread = if data.names.len() > 1 { (column * 0.5).min(18.0) } else { 0.0 };
    for dot in data.dots.iter().filter(|dot| dot.value.is_finite()) {
        let name = data.names.get(dot.variant).map_or("", String::as_str);
        let left_out = data.left_out.contains(&dot.block);
        let note = if left_out { " (does not count)" } else { "" };
        let value = data.format.write(dot.value);
        let tip = format!("{name}, block {}{note}: {value} {}", dot.block, data.unit);
        let share = dot.variant as f64 / (data.names.len().max(2) - 1) as f64 - 0.5;
        let at = (x(dot.block) + share * spread, y.at(dot.value));
        let size = if column < 14.0 { 3.2 } else { 4.4 };
        canvas.mark(if left_out { "hollow" } else { "mark" }, dot.variant, at, size, &tip);
    }
    canvas.finish(bottom + 38.0)
}

/// The block numbers that fit on the axis.
fn block_numbers(canvas: &mut Canvas, blocks: u32, x: impl Fn(u32) -> f64, y: f64, room: f64) {
    let every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
        .into_iter()
        .find(|every| f64::from(blocks) / f64::from(*every) <= room.max(1.0))
        .unwrap_or(1000);
    for block in (1..=blocks).filter(|block| every == 1 || block % every == 0) {
        canvas.text("muted mid small", x(block), y, &block.to_string());
    }
}
