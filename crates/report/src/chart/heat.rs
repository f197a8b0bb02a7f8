//! Heat map of ratios by variant and part: darker is further from 1.

use super::svg::{Canvas, GLYPH, Svg, text_width};
use crate::text::fit;

/// A heat map of ratios.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heat {
    /// Title.
    pub title: String,
    /// Summary in words, for screen readers.
    pub description: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, top to bottom.
    pub rows: Vec<HeatRow>,
}

/// A row of the heat map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatRow {
    /// Its name.
    pub label: String,
    /// One cell per column.
    pub cells: Vec<HeatCell>,
}

/// A cell of the heat map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatCell {
    /// The ratio, which determines the colour.
    pub ratio: Option<f64>,
    /// Text of the cell.
    pub words: String,
    /// Whether the interval excludes 1; others are grey.
    pub decided: bool,
    /// Tooltip.
    pub tip: String,
}

const ROW: f64 = 30.0;
const HEAD: f64 = 22.0;

/// Draws the heat map.
pub fn heat(heat: &Heat, width: u32) -> Svg {
    let mut canvas = Canvas::new(width, &heat.title, &heat.description);
    let right = f64::from(width);
    let longest = heat.rows.iter().map(|row| text_width(&row.label)).fold(0.0, f64::max);
    let left = (longest + 12.0).min(right * 0.4);
    let cell = (right - left) / heat.columns.len().max(1) as f64;
    let room = (cell / GLYPH).max(2.0) as usize;
    for (at, column) in heat.columns.iter().enumerate() {
        let x = left + (at as f64 + 0.5) * cell;
        canvas.text("muted mid small", x, HEAD - 8.0, &fit(column, room));
    }
    for (at, row) in heat.rows.iter().enumerate() {
        let top = HEAD + at as f64 * ROW;
        canvas.text("", 2.0, top + 19.0, &fit(&row.label, (left / GLYPH) as usize));
        for (at, one) in row.cells.iter().enumerate() {
            let x = left + at as f64 * cell;
            let class = one.ratio.map_or("heat none".to_owned(), shade);
            canvas.rect(&class, x + 1.0, top + 1.0, cell - 2.0, ROW - 2.0, &one.tip);
            let class = if one.decided { "mid strong" } else { "mid muted" };
            canvas.text(class, x + cell / 2.0, top + 19.0, &fit(&one.words, room));
        }
    }
    canvas.finish(HEAD + heat.rows.len() as f64 * ROW + 2.0)
}

/// The shade of a ratio, in steps at 2%, 10%, 30% and a factor of 2.
fn shade(ratio: f64) -> String {
    let distance = ratio.max(1.0 / ratio);
    let step = [1.02, 1.1, 1.3, 2.0].iter().filter(|limit| distance >= **limit).count();
    match step {
        0 => "heat same".to_owned(),
        step if ratio > 1.0 => format!("heat above{step}"),
        step => format!("heat below{step}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_and_half_are_equally_dark() {
        for (ratio, class) in [
            (1.0, "heat same"),
            (1.019, "heat same"),
            (1.05, "heat above1"),
            (1.0 / 1.05, "heat below1"),
            (1.29, "heat above2"),
            (2.0, "heat above4"),
            (0.5, "heat below4"),
            (0.7, "heat below3"),
        ] {
            assert_eq!(shade(ratio), class, "{ratio}");
        }
    }

    #[test]
    fn a_cell_without_a_ratio_is_drawn_empty() {
        let grid = Heat {
            columns: vec!["64B".to_owned(), "1MiB".to_owned()],
            rows: vec![HeatRow {
                label: "unix".to_owned(),
                cells: vec![
                    HeatCell {
                        ratio: Some(1.5),
                        words: "1.50×".to_owned(),
                        decided: true,
                        tip: "unix, 64B".to_owned(),
                    },
                    HeatCell { words: "–".to_owned(), ..HeatCell::default() },
                ],
            }],
            ..Heat::default()
        };
        let drawing = heat(&grid, 400).inline();
        assert!(drawing.contains("<rect class=\"heat above3\""), "{drawing}");
        assert!(drawing.contains("<rect class=\"heat none\""), "{drawing}");
        assert!(drawing.contains("<title>unix, 64B</title>"), "{drawing}");
        assert_eq!(drawing.matches("<rect").count(), 2);
    }
}
