//! Starting a process of a stack: the guard starts tachograph's own executable again, which sets
//! itself up and then executes the command. So everything is set before the command's first
//! instruction, and no code runs between fork and exec.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, setsid};

use crate::cgroup::{self, Cgroup};
use crate::protocol::Launch;
use crate::sharing::share_new_files;

/// The subcommand of `guard` for this.
pub(super) const SUBCOMMAND: &str = "launch";

/// Arguments before the command: the guard's pid, the control group or nothing, and a list of CPUs
/// or nothing.
const ARGUMENTS: usize = 3;

/// A shell's exit status for a missing command and for one that cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Size of a log above which its beginning is deallocated.
const LOG_BYTES_MAX: u64 = 256 << 20;

/// How much of the end is kept.
const LOG_BYTES_KEPT: u64 = 1 << 20;

/// Starts a process; returns its pid, which is also its session and process group.
pub(super) fn spawn(
    launch: &Launch,
    index: usize,
    stack: &str,
    group: Option<&Cgroup>,
) -> io::Result<i32> {
    let log = OpenOptions::new().create(true).append(true).open(&launch.log)?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("guard")
        .arg(SUBCOMMAND)
        .arg(std::process::id().to_string())
        .arg(group.map_or(OsStr::new(""), |group| group.dir.as_os_str()))
        .arg(launch.cpus.to_string())
        .args(&launch.argv)
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .env("TACHOGRAPH_STACK", stack)
        .env("TACHOGRAPH_PROCESS", index.to_string())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    if let Some(dir) = &launch.working_dir {
        command.current_dir(dir);
    }
    // The handle is dropped: the guard waits for all of its children at once.
    Ok(command.spawn()?.id() as i32)
}

/// Becomes the process described by `args`; returns only if that fails.
pub(super) fn launch(args: &[OsString]) -> ExitCode {
    let Some((place, argv)) = args.split_at_checked(ARGUMENTS) else {
        return ExitCode::from(NOT_EXECUTABLE);
    };
    let Some((program, rest)) = argv.split_first() else {
        return ExitCode::from(NOT_EXECUTABLE);
    };
    if let Err(error) = take_place(place) {
        complain(&format!("tachograph could not prepare {}: {error}", program.display()));
        return ExitCode::from(NOT_EXECUTABLE);
    }
    let error = Command::new(program).args(rest).exec();
    complain(&format!("tachograph could not start {}: {error}", program.display()));
    ExitCode::from(match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    })
}

fn take_place(place: &[OsString]) -> io::Result<()> {
    let [guard, group, cpus] = place else { return Err(io::ErrorKind::InvalidInput.into()) };
    setsid()?;
    // SIGTERM instead of SIGKILL, so that a master process also stops its workers.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let guard = guard.to_str().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    if getppid() != guard {
        return Err(io::Error::other("its guard is gone"));
    }
    if !group.is_empty() {
        cgroup::join(Path::new(group))?;
    }
    share_new_files();
    if !cpus.is_empty() {
        let cpus = cpus.to_string_lossy().parse().map_err(io::Error::other)?;
        super::run_on(&cpus).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Standard error is the process's log, which is shown with the error.
fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Deallocates the beginning of a very long log; its end stays at its offset.
pub(super) fn bound_log(path: &Path) {
    bound(path, LOG_BYTES_MAX, LOG_BYTES_KEPT);
}

fn bound(path: &Path, bytes_max: u64, bytes_kept: u64) {
    let Ok(log) = File::options().write(true).open(path) else { return };
    let Ok(meta) = log.metadata() else { return };
    // `blocks` are 512 bytes each, whatever the file system's block size (stat(2)).
    if meta.blocks() * 512 > bytes_max {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // A file system without holes keeps the whole log.
        let _ = fallocate(&log, flags, 0, meta.len().saturating_sub(bytes_kept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_keeps_its_end_and_its_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let text = "0123456789abcde\n".repeat(1 << 16);
        std::fs::write(&path, &text).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let blocks = || std::fs::metadata(&path).unwrap().blocks();
        let before = blocks();
        bound(&path, 2 << 20, 1 << 16);
        assert_eq!(blocks(), before, "it is not long yet");
        bound(&path, 1 << 19, 1 << 16);
        assert!(blocks() < before / 4);
        let now = std::fs::read_to_string(&path).unwrap();
        assert_eq!(now.len(), text.len());
        assert!(now.ends_with(&text[..1 << 16]) && now.starts_with('\0'));
    }
}
