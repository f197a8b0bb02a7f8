//! `tachograph list`: the built-in experiments and the recorded runs.

use record::{RunState, Store};

use crate::experiments;
use crate::failure::{Failure, Outcome, Status};
use crate::flags::Global;
use crate::flags::report::ListFlags;
use crate::output;
use crate::store::Place;

pub(crate) fn run(flags: &ListFlags, global: &Global) -> Outcome {
    let mut text = String::from("Experiments (tachograph run NAME):\n");
    for found in experiments::built_in()? {
        let experiment = found.experiment()?;
        text += &format!("  {:<26} {}\n", experiment.name(), experiment.title());
    }
    text += "\nRecorded runs (tachograph report RUN):\n";
    text += &recorded(flags, global)?;
    output::print(&text);
    Ok(Status::Well)
}

fn recorded(flags: &ListFlags, global: &Global) -> Result<String, Failure> {
    let path = match Place::of(global)? {
        Place::File(path) => path,
        place @ Place::Postgres(_) => {
            let text = format!(
                "none in {}, which keeps series alone; runs are in a file: --record FILE",
                place.shown()
            );
            return Ok(output::wrapped(&text, 2, output::style(global.color).width));
        }
    };
    if !path.exists() {
        return Ok(format!("  none yet; they will be kept in {}\n", path.display()));
    }
    let runs = Store::open_read_only(&path)?.list(flags.limit)?;
    if runs.is_empty() {
        return Ok(format!("  none yet; they will be kept in {}\n", path.display()));
    }
    let mut text = String::new();
    for run in runs {
        let state = match run.state {
            RunState::Running => "running or cut off",
            RunState::Done if run.valid => "done",
            RunState::Done => "INVALID",
            RunState::Interrupted => "interrupted",
            RunState::Failed => "failed",
        };
        text += &format!("  {}  {:<22} {state}, {} blocks\n", run.id, run.name, run.blocks);
        if let Some(sentence) = run.sentence {
            text += &output::wrapped(&sentence, 6, output::style(global.color).width);
        }
    }
    Ok(text)
}
