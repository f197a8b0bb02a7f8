//! `--setup` and `--cleanup`.

use std::sync::atomic::AtomicBool;

use crate::failure::{Failure, Outcome};

/// Runs the setup commands, then `measure`, then in any case the cleanup commands. Identical
/// commands run once.
pub(super) fn around(
    setup: &[String],
    cleanup: &[String],
    measure: impl FnOnce() -> Outcome,
) -> Outcome {
    if setup.is_empty() && cleanup.is_empty() {
        return measure();
    }
    let stop = stage::signals::install().map_err(Failure::new)?;
    let measured = run("--setup", setup, &stop).map_err(Failure::from).and_then(|()| measure());
    // Cleanup also runs if the user stopped the measurement.
    let cleaned = run("--cleanup", cleanup, &AtomicBool::new(false)).map_err(Failure::from);
    let status = measured?;
    cleaned?;
    Ok(status)
}

fn run(option: &str, commands: &[String], stop: &AtomicBool) -> Result<(), stage::StageError> {
    let mut done: Vec<&String> = Vec::new();
    for command in commands {
        if !done.contains(&command) {
            stage::run_hook(option, command, None, stop)?;
            done.push(command);
        }
    }
    Ok(())
}
