//! The user's shell commands around a measurement.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::StageError;

/// How often to check for the command's end and for a stop request.
const LOOK: Duration = Duration::from_millis(5);

/// Runs `command` with `sh -c` and waits for it. Discards its output, shows its errors. `option` is
/// the option's name: `--setup`; `folder` is the working directory if it is not our own.
///
/// # Errors
/// If it cannot start, exits with a status other than 0, or `stop` is set meanwhile.
pub fn run_hook(
    option: &str,
    command: &str,
    folder: Option<&Path>,
    stop: &AtomicBool,
) -> Result<(), StageError> {
    let failed = |why: String| StageError::Hook {
        option: option.to_owned(),
        command: command.to_owned(),
        why,
    };
    let mut shell = Command::new("sh");
    if let Some(folder) = folder {
        shell.current_dir(folder);
    }
    let mut child = shell
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| failed(format!("sh cannot be started: {error}")))?;
    loop {
        match child.try_wait() {
            Err(error) => return Err(failed(error.to_string())),
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(failed(format!("it ended with {status}"))),
            Ok(None) if stop.load(Ordering::Relaxed) => {
                if let Some(group) = Pid::from_raw(child.id() as i32) {
                    // It may just have ended.
                    let _ = kill_process_group(group, Signal::TERM);
                }
                let _ = child.wait();
                return Err(failed("it was stopped on request".to_owned()));
            }
            Ok(None) => thread::sleep(LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_that_fails_is_named_with_its_status() {
        let stop = AtomicBool::new(false);
        assert!(run_hook("--setup", "test a = a && true", None, &stop).is_ok());
        let error = run_hook("--setup", "exit 3", None, &stop).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the --setup command `exit 3` failed: it ended with exit status: 3"
        );
        stop.store(true, Ordering::Relaxed);
        let error = run_hook("--cleanup", "exec sleep 600", None, &stop).unwrap_err();
        assert!(error.to_string().ends_with("it was stopped on request"), "{error}");
    }
}
