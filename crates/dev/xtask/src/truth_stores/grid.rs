//! The picture of the page: a row for each store, a column for each trial.

use std::fmt::Write as _;

use super::page::measured;
use super::results::{Cell, Results, worst};
use super::trials::TRIALS;

/// Widths and heights, in pixels.
const NAME: usize = 178;
const HEAD: usize = 92;
const WIDTH: usize = 54;
const HEIGHT: usize = 26;

/// Colours for a light and a dark page. What a cell says is also written in it.
const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#1f2328}\
.cell{font-size:11px;text-anchor:middle}\
.true{fill:#cdebd3}.refused{fill:#fbe8b6}.wrong{fill:#f6c3bd}.none{fill:#eceef0}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}\
.true{fill:#1c4428}.refused{fill:#5a4611}.wrong{fill:#702a24}.none{fill:#2b3036}}";

/// The picture of these results, with the worst of several rounds.
pub(super) fn grid(results: &Results) -> String {
    let rows: Vec<_> = measured(results).collect();
    let (width, height) = (NAME + WIDTH * TRIALS.len() + 40, HEAD + HEIGHT * rows.len() + 4);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>What stores keep: a row for each store, a column for each trial</title>\n\
         <style>{STYLE}</style>\n"
    );
    for (column, trial) in TRIALS.iter().enumerate() {
        let (x, y) = (NAME + WIDTH * column + WIDTH / 2, HEAD - 8);
        let _ = writeln!(
            out,
            "<text transform=\"translate({x} {y}) rotate(-40)\">{}</text>",
            trial.title
        );
    }
    for (row, (kind, result)) in rows.into_iter().enumerate() {
        let y = HEAD + HEIGHT * row;
        let _ = writeln!(out, "<text x=\"0\" y=\"{}\">{}</text>", y + 17, kind.name);
        for (column, trial) in TRIALS.iter().enumerate() {
            let rounds = result.trials.get(trial.id).map(|trial| trial.rounds.as_slice());
            let (class, words) = look(rounds.unwrap_or_default());
            let x = NAME + WIDTH * column;
            let _ = writeln!(
                out,
                "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"3\"/>\
                 <text class=\"cell\" x=\"{}\" y=\"{}\">{words}</text>",
                WIDTH - 2,
                HEIGHT - 2,
                x + WIDTH / 2 - 1,
                y + 16,
            );
        }
    }
    out + "</svg>\n"
}

/// The class and the words of a cell.
fn look(rounds: &[Cell]) -> (&'static str, String) {
    let Some(cell) = worst(rounds) else { return ("none", "–".to_owned()) };
    if cell.unconcerned.is_some() {
        return ("none", "–".to_owned());
    }
    if cell.is_complete() {
        return match cell.wrong_slots {
            0 => ("true", "true".to_owned()),
            _ => ("refused", "slots".to_owned()),
        };
    }
    if cell.failure.is_some() {
        return ("wrong", "failed".to_owned());
    }
    if cell.unsayable.is_some() {
        return ("wrong", "no form".to_owned());
    }
    if cell.is_right() {
        return ("refused", "refused".to_owned());
    }
    let percent = 100.0 * (cell.reported / cell.taken - 1.0);
    let words = match percent.abs() {
        // Some is in another hour.
        _ if (cell.reported - cell.taken).abs() < 1.0 => return ("wrong", "moved".to_owned()),
        size if size < 0.095 => format!("{percent:+.2}%"),
        size if size < 9.95 => format!("{percent:+.1}%"),
        size if size < 1_000.0 => format!("{percent:+.0}%"),
        _ => format!("×{:.0}", cell.reported / cell.taken),
    };
    let mark = if rounds.iter().any(Cell::is_right) { "*" } else { "" };
    ("wrong", words.replace('-', "−") + mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_shows_its_worst_round() {
        let right = Cell { truth: 200.0, taken: 200.0, reported: 200.0, ..Cell::default() };
        let wrong = |reported| Cell { wrong_totals: 1, reported, ..right.clone() };
        let refused = Cell { taken: 100.0, reported: 100.0, ..right.clone() };
        let words = |rounds: &[Cell]| look(rounds).1;
        assert_eq!(words(&[]), "–");
        assert_eq!(words(&[right.clone(), right.clone()]), "true");
        let slots = Cell { wrong_slots: 1, ..right.clone() };
        assert_eq!(look(&[slots]), ("refused", "slots".to_owned()));
        assert_eq!(look(&[right.clone(), refused]), ("refused", "refused".to_owned()));
        assert_eq!(words(&[wrong(201.0), wrong(400.0), right.clone()]), "+100%*");
        assert_eq!(words(&[wrong(199.0), wrong(199.0)]), "−0.5%");
        assert_eq!(words(&[wrong(40_000.0)]), "×200");
        assert_eq!(words(&[wrong(200.0)]), "moved");
    }
}
