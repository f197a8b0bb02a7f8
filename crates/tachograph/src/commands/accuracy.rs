//! `tachograph run series-accuracy`: the same updates through several recorders.

use accuracy::Experiment;
use base::Seed;

use crate::failure::{Failure, Outcome, Status};
use crate::flags::GlobalFlags;
use crate::flags::run::RunFlags;
use crate::output;

/// Random updates with --quick.
const QUICK: u32 = 50_000;

pub(crate) fn run(mut experiment: Experiment, flags: &RunFlags, global: &GlobalFlags) -> Outcome {
    if let Some(flag) = unfit(flags) {
        return Err(Failure::new(format!(
            "{flag} applies only to experiments that load servers; {} accepts --seed, --quick and \
             --show",
            experiment.experiment.name
        )));
    }
    if flags.schedule.quick {
        experiment.series.random = experiment.series.random.min(QUICK);
    }
    let seed = flags.schedule.machine.seed.unwrap_or_else(Seed::from_time);
    let width = output::style(global.color).width;
    let head = &experiment.experiment;
    output::print(&format!("{}\n{}", head.title, report::indented(&head.question, 0, width)))?;
    let mut printed = Ok(());
    let mut say = |text: &str| {
        for line in text.split('\n') {
            let wide = line.chars().count() > width;
            let line = if wide { report::indented(line, 0, width) } else { format!("{line}\n") };
            if printed.is_ok() {
                printed = output::print(&line);
            }
        }
    };
    let outcome = accuracy::run(&experiment, seed, &mut say)?;
    let mut text = String::from("\n");
    if outcome.wrong.is_empty() {
        let reproduced = !experiment.published.is_empty() && outcome.skipped.is_empty();
        let also = if reproduced { ", and every published figure is reproduced" } else { "" };
        let sentence = format!("Every total of tachograph's is the truth{also}.");
        text += &report::indented(&sentence, 0, width);
    }
    for wrong in &outcome.wrong {
        text += &report::indented(&format!("WRONG: {wrong}"), 0, width);
    }
    for skipped in &outcome.skipped {
        text += &report::indented(&format!("skipped: {skipped}"), 0, width);
    }
    printed.and_then(|()| output::print(&text))?;
    Ok(if outcome.wrong.is_empty() { Status::Well } else { Status::VerdictFailed })
}

/// A flag that does not apply.
fn unfit(flags: &RunFlags) -> Option<&'static str> {
    let (schedule, result) = (&flags.schedule, &flags.result);
    let given = [
        (!flags.only.is_empty(), "--only"),
        (!flags.skip.is_empty(), "--skip"),
        (flags.offer.closed_only, "--closed-only"),
        (flags.site.on.is_some(), "--on"),
        (!flags.site.clients.from.is_empty(), "--from"),
        (flags.site.clients.at.is_some(), "--at"),
        (schedule.precision.is_some(), "--precision"),
        (schedule.max_time.is_some(), "--max-time"),
        (schedule.isolated, "--isolated"),
        (schedule.independent_starts, "--independent-starts"),
        (schedule.margin.is_some(), "--margin"),
        (schedule.why, "--why"),
        (result.name.is_some(), "--name"),
        (!result.fail_if.is_empty(), "--fail-if"),
        (result.json, "--json"),
        (result.export_json.is_some(), "--export-json"),
        (result.export_markdown.is_some(), "--export-markdown"),
        (result.export_csv.is_some(), "--export-csv"),
        (result.export_html.is_some(), "--export-html"),
    ];
    given.into_iter().find_map(|(given, flag)| given.then_some(flag))
}
