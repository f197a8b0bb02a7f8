//! The watch: a process that sleeps until tachograph is gone and then ensures that nothing of the
//! run remains, whatever happened to the guards.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::setsid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::{layout, sweep};

/// The subcommand of `guard` for this.
pub(super) const SUBCOMMAND: &str = "watch";

/// How long the guards have to clean up by themselves.
const GUARDS: Duration = Duration::from_secs(5);

/// How often to check.
const LOOK: Duration = Duration::from_millis(20);

/// How long a dead tachograph's lock may still be held: the kernel closes its files one by one.
const LOCK: Duration = Duration::from_secs(5);

/// A running watch.
#[derive(Debug)]
pub(crate) struct Watch(Child);

impl Watch {
    /// Starts the watch over folders that may not exist yet.
    pub(crate) fn start(executable: &Path, dirs: &[PathBuf]) -> io::Result<Watch> {
        let child = Command::new(executable)
            .arg("guard")
            .arg(SUBCOMMAND)
            .args(dirs)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Watch(child))
    }
}

impl Drop for Watch {
    /// Closes the pipe and waits until the watch has finished.
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It cannot fail: nothing else reaps this child.
        let _ = self.0.wait();
    }
}

/// Waits for the end of standard input, then cleans up the given folders.
pub(super) fn watch(dirs: &[OsString]) -> ExitCode {
    // As for the guard, neither the terminal nor SIGTERM may end it before its work is done.
    let _ = setsid();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
    let mut byte = [0];
    loop {
        match io::stdin().read(&mut byte) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(count) if count > 0 => {}
            _ => break,
        }
    }
    for dir in dirs.iter().map(Path::new) {
        clear_up(dir);
    }
    ExitCode::SUCCESS
}

fn clear_up(dir: &Path) {
    // If the lock is held although the pipe is closed, the folder belongs to another run.
    if !dir.exists() || !wait(LOCK, || is_unlocked(dir)) {
        return;
    }
    wait(GUARDS, || sweep::stacks_of(dir).is_empty());
    let engine_was_used = crate::container::was_used(dir);
    sweep::clear(dir);
    if engine_was_used {
        // The processes that would have removed its containers were killed too.
        crate::container::sweep_after_kill(dir);
    }
}

fn is_unlocked(dir: &Path) -> bool {
    match File::open(dir.join(layout::LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(_) => true,
    }
}

fn wait(patience: Duration, holds: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}
