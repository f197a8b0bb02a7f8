//! The results as a Markdown table.

use std::fmt::Write as _;

use crate::ScenarioResult;

/// One row per scenario; shares in percent.
pub fn markdown(results: &[ScenarioResult]) -> String {
    let mut table = String::from(
        "| scenario | disturbance | coverage | goal | false alarms | 2% found | wrong sign | blocks | ± |\n\
         | --- | --- | --: | --- | --: | --: | --: | --: | --: |\n",
    );
    for result in results {
        let share = |count: u32| 100.0 * f64::from(count) / f64::from(result.runs);
        let goal = match result.goal {
            Some((low, high)) if high < 1.0 => {
                format!("{:.1}–{:.1}%", 100.0 * low, 100.0 * high)
            }
            Some((low, _)) => format!("≥ {:.1}%", 100.0 * low),
            None => "contrast".to_owned(),
        };
        let missed = if result.passed() { "" } else { " **missed**" };
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "| {} | {} | {:.1}% | {goal}{missed} | {:.1}% | {:.1}% | {:.1}% | {} | {:.2}% |",
            result.name,
            result.about,
            share(result.covered),
            share(result.false_alarms),
            share(result.found),
            share(result.wrong_sign),
            result.blocks,
            100.0 * result.half_width,
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_pinned() {
        let result = ScenarioResult {
            name: "normal",
            about: "noise",
            goal: Some((0.935, 0.965)),
            runs: 200,
            covered: 190,
            false_alarms: 9,
            found: 195,
            wrong_sign: 0,
            blocks: 18.5,
            half_width: 0.0098,
        };
        let missed = ScenarioResult { covered: 180, ..result.clone() };
        let contrast = ScenarioResult { goal: None, ..result.clone() };
        let floor = ScenarioResult { goal: Some((0.93, 1.0)), ..result.clone() };
        let table = markdown(&[result, missed, floor, contrast]);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| normal | noise | 95.0% | 93.5–96.5% | 4.5% | 97.5% | 0.0% | 18.5 | 0.98% |",
                "| normal | noise | 90.0% | 93.5–96.5% **missed** | 4.5% | 97.5% | 0.0% | 18.5 | 0.98% |",
                "| normal | noise | 95.0% | ≥ 93.0% | 4.5% | 97.5% | 0.0% | 18.5 | 0.98% |",
                "| normal | noise | 95.0% | contrast | 4.5% | 97.5% | 0.0% | 18.5 | 0.98% |",
            ]
        );
    }
}
