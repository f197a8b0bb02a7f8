//! `tachograph list`: the built-in experiments and the recorded runs.

use archive::{RecordError, Store};
use base::{Nanos, Timestamp};
use record::{RunKind, RunLine};

use crate::experiments;
use crate::failure::{Failure, Outcome, Status};
use crate::flags::GlobalFlags;
use crate::flags::report::ListFlags;
use crate::output;
use crate::stores::RecordLocation;

pub(crate) fn run(flags: &ListFlags, global: &GlobalFlags) -> Outcome {
    let mut text = String::from("Experiments (tachograph run NAME):\n");
    for found in experiments::built_in()? {
        let experiment = found.experiment()?;
        text += &format!("  {:<26} {}\n", experiment.name(), experiment.title());
    }
    text += "\nRecorded runs, newest first (tachograph report RUN):\n";
    text += &recorded(flags, global)?;
    output::print(&text)?;
    Ok(Status::Well)
}

fn recorded(flags: &ListFlags, global: &GlobalFlags) -> Result<String, Failure> {
    let path = match RecordLocation::of(global)? {
        RecordLocation::File(path) => path,
        place @ RecordLocation::Postgres(_) => {
            let text = format!(
                "none in {}, which stores only series; for runs use --record FILE",
                place.shown()
            );
            return Ok(report::indented(&text, 2, output::style(global.color).width));
        }
    };
    let runs = match Store::open_read_only(&path) {
        Err(RecordError::Empty(_)) => Vec::new(),
        store => store?.list(flags.limit)?,
    };
    if runs.is_empty() {
        return Ok(format!("  none yet; they will be stored in {}\n", path.display()));
    }
    let width = output::style(global.color).width;
    Ok(runs.iter().map(|run| entry(run, width)).collect())
}

/// A run in a few lines: name and time, question, and result.
fn entry(run: &RunLine, width: usize) -> String {
    let when = run.started.strftime("%Y-%m-%d %H:%M UTC");
    let took = run.finished.map_or(String::new(), |end| format!(", took {}", took(run, end)));
    let named = |unnamed: &str, text: String| match run.name == unnamed {
        true => text,
        false => format!("{}: {text}", run.name),
    };
    let asked = match run.kind {
        RunKind::Load => named("load", format!("load {}", run.title)),
        RunKind::Run if !run.question.is_empty() => format!("{}: {}", run.name, run.question),
        RunKind::Compare => named("compare", run.title.clone()),
        RunKind::Capacity => named("capacity", format!("capacity of {}", run.title)),
        RunKind::Run => run.title.clone(),
    };
    let mut text = format!("  {}  {when}{took}\n", run.id);
    text += &report::indented(&asked, 6, width);
    text += &report::indented(&report::outcome(run), 6, width);
    text
}

fn took(run: &RunLine, end: Timestamp) -> Nanos {
    let nanos = (end.as_nanosecond() - run.started.as_nanosecond()).max(0);
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{FirstComparison, Metric, RunState};
    use stats::{Estimate, Judgement, Opinion, Verdict};

    fn line(kind: RunKind) -> RunLine {
        RunLine {
            id: base::RunId("20261121-071530-k3f9".to_owned()),
            kind,
            state: RunState::Done,
            name: if kind == RunKind::Load { "load" } else { "sockets" }.to_owned(),
            title: "http://127.0.0.1:8000/".to_owned(),
            question: "Which serves more?".to_owned(),
            started: Timestamp::from_second(1_795_245_330).unwrap(),
            finished: Some(Timestamp::from_second(1_795_245_708).unwrap()),
            last_block: Some(Timestamp::from_second(1_795_245_707).unwrap()),
            blocks: 24,
            throughput_per_s: None,
            valid: true,
            first: None,
        }
    }

    fn judgement(verdict: Verdict) -> Judgement {
        Judgement {
            ratio: Estimate { value: 1.14, low: 1.12, high: 1.17 },
            verdict,
            precision: 0.02,
            confidence: 0.95,
            adjusted_for: 1,
            margin: None,
            blocks: 24,
            merged: 1,
            second_opinion_p: None,
            second_opinion: Opinion::Agrees,
            anytime: false,
            more_blocks: None,
            biases: Vec::new(),
        }
    }

    fn first(verdict: Verdict) -> Option<FirstComparison> {
        Some(FirstComparison {
            variant: "unix".to_owned(),
            baseline: "tcp".to_owned(),
            metric: Metric::Throughput,
            judgement: judgement(verdict),
        })
    }

    #[test]
    fn a_run_is_listed_with_its_question_and_its_verdict() {
        let run = RunLine { first: first(Verdict::Faster), ..line(RunKind::Run) };
        assert_eq!(
            entry(&run, 80),
            "  20261121-071530-k3f9  2026-11-21 07:15 UTC, took 6.30 min\n      \
             sockets: Which serves more?\n      unix serves 1.14× tcp (1.12–1.17); 24 blocks\n"
        );
    }

    #[test]
    fn a_load_is_listed_with_its_target_and_its_throughput() {
        let run = RunLine { throughput_per_s: Some(1_837.2), ..line(RunKind::Load) };
        assert!(
            entry(&run, 80)
                .ends_with("      load http://127.0.0.1:8000/\n      1,837 requests/s\n")
        );
        let invalid = RunLine { valid: false, ..run };
        assert_eq!(report::outcome(&invalid), "INVALID; 1,837 requests/s");
    }

    #[test]
    fn a_run_had_no_name_of_its_own() {
        let run = RunLine { name: "before the change".to_owned(), ..line(RunKind::Load) };
        assert!(entry(&run, 80).contains("before the change: load http://127.0.0.1:8000/\n"));
        let run = RunLine { name: "nightly".to_owned(), ..line(RunKind::Compare) };
        assert!(entry(&run, 80).contains("      nightly: http"));
    }

    #[test]
    fn invalid_is_said_once() {
        let run = line(RunKind::Compare);
        let refused = RunLine { valid: false, first: first(Verdict::Invalid), ..run.clone() };
        assert_eq!(report::outcome(&refused), "INVALID: unix ÷ tcp; 24 blocks");
        let later = RunLine { valid: false, first: first(Verdict::Faster), ..run.clone() };
        assert_eq!(
            report::outcome(&later),
            "INVALID; unix serves 1.14× tcp (1.12–1.17); 24 blocks"
        );
        let stopped = RunLine { state: RunState::Interrupted, blocks: 1, ..run };
        assert_eq!(report::outcome(&stopped), "stopped early; 1 block");
    }
}
