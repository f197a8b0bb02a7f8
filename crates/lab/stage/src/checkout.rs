//! Git worktrees of a run, and the commands that fill them.
//!
//! A worktree lies in the run's folder, but its repository keeps a folder about it
//! (`.git/worktrees/NAME`, gitrepository-layout(5)). The repositories are listed in the run's
//! folder. Whatever removes that folder (the run itself, its watch, or a later sweep) removes these
//! entries too.
//!
//! They delete exactly the entries that point into that folder: `git worktree prune` would also delete
//! the user's stale ones, and would keep those that git was still creating when it was killed.
//! A worktree shares the objects and the configuration of the user's repository and needs no copy of
//! it. Checkouts and builds run below a guard, without the user's hooks. `git submodule update` runs
//! without `--init`, which would write to the shared configuration. `--dirty` copies files into a
//! worktree of HEAD instead of making a commit, so that the repository gets no object.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::Seed;

use crate::draws::Draws;
use crate::error::StageError;
use crate::protocol::{Launch, ProcessExit};
use crate::run_folder::{Stage, make_dir};
use crate::stack::{Done, LiveStack, Surroundings};
use crate::starting::{self, StartOptions};
use crate::vars::Variables;

/// The folder of the worktrees in a run's folder.
pub(crate) const FOLDER: &str = "w";

/// The list of repositories in a run's folder: the path of a `worktrees` folder per line.
const LIST: &str = "repositories";

/// How long an errand gets to stop when asked.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Lines of the log to return.
const LOG_LINES: usize = 20;

/// A command that is neither measured nor a server, such as a checkout or a build.
#[derive(Clone, Debug)]
pub struct Errand<'a> {
    /// Its name, for messages.
    pub name: &'a str,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Its working directory.
    pub folder: &'a Path,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// When to stop it.
    pub timeout: Duration,
    /// Set to stop it earlier.
    pub stop: &'a AtomicBool,
}

/// The outcome of an errand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrandEnd {
    /// How it ended; `None` after the timeout.
    pub exit: Option<ProcessExit>,
    /// The last lines of its output.
    pub log: Vec<String>,
}

impl ErrandEnd {
    /// Whether it ended with status 0.
    pub fn is_success(&self) -> bool {
        self.exit == Some(ProcessExit::Exited(0))
    }
}

impl Stage {
    /// Runs a command under a guard, and waits for it. What it leaves running is stopped.
    ///
    /// # Errors
    /// [`StageError::Interrupted`] if stopped by request; others if it could not be started.
    pub fn run(&self, errand: Errand<'_>) -> Result<ErrandEnd, StageError> {
        let seed = Seed::from_time();
        let mut rng = seed.rng("errand");
        let allocation = starting::allocate(&self.run, Draws::of(seed).folder_letters, &mut rng)?;
        let id = starting::stack_id(&self.run, &mut rng);
        let launch = Launch {
            name: errand.name.to_owned(),
            argv: errand.argv,
            env: errand.env,
            working_dir: Some(errand.folder.to_owned()),
            log: allocation.dir.join("log/errand.log"),
            stop_signal: rustix::process::Signal::TERM.as_raw(),
            stop_timeout_ms: STOP_TIMEOUT.as_millis() as u64,
            cpus: base::CpuSet::default(),
            signal_group: true,
        };
        let log = launch.log.clone();
        let options = StartOptions::new(errand.name, seed);
        let (vars, around) = (Variables::default(), Surroundings::default());
        let live = LiveStack::guarded(allocation, id, vars, around, &options)?;
        let deadline = Instant::now() + errand.timeout;
        let stopped = || errand.stop.load(Ordering::Relaxed);
        let done = live.command(launch, &|| stopped() || Instant::now() > deadline)?;
        let exit = match done {
            Done::Ended(exit) => Some(exit),
            _ if stopped() => return Err(StageError::Interrupted),
            _ => None,
        };
        Ok(ErrandEnd { exit, log: crate::stack::tail(&log, LOG_LINES) })
    }

    /// The folder for worktrees of a repository, whose `git_dir` (`git rev-parse --git-common-dir`)
    /// is cleaned up at the end of the run.
    ///
    /// # Errors
    /// If the folder or the list cannot be written.
    pub fn folder_of_worktrees(&self, git_dir: &Path) -> Result<PathBuf, StageError> {
        let folder = self.dir().join(FOLDER);
        if !folder.exists() {
            make_dir(&folder).map_err(StageError::file("cannot create", &folder))?;
        }
        let list = self.dir().join(LIST);
        let line = format!("{}\n", git_dir.join("worktrees").display());
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&list)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .map_err(StageError::file("cannot write", &list))?;
        Ok(folder)
    }
}

/// Removes what the listed repositories keep about the worktrees of this run, and nothing else.
pub(crate) fn forget(run_dir: &Path) {
    let Ok(list) = fs::read_to_string(run_dir.join(LIST)) else { return };
    for kept in list.lines().map(Path::new) {
        for entry in fs::read_dir(kept).into_iter().flatten().flatten() {
            let gitdir = fs::read_to_string(entry.path().join("gitdir")).unwrap_or_default();
            if Path::new(gitdir.trim_end()).starts_with(run_dir) {
                crate::guard::remove_dir(&entry.path());
            }
        }
        // As git does, only if it is empty.
        let _ = fs::remove_dir(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_worktrees_are_forgotten() {
        let root = tempfile::tempdir().unwrap();
        let run_dir = root.path().join("tg-run");
        let kept = root.path().join("repo/.git/worktrees");
        let entry = |name: &str, gitdir: &Path| {
            fs::create_dir_all(kept.join(name)).unwrap();
            fs::write(kept.join(name).join("gitdir"), format!("{}\n", gitdir.display())).unwrap();
        };
        entry("base", &run_dir.join("w/base/.git"));
        entry("theirs", &root.path().join("tg-run2/w/base/.git"));
        fs::create_dir_all(kept.join("unreadable")).unwrap();
        fs::create_dir(&run_dir).unwrap();
        fs::write(run_dir.join(LIST), format!("{}\n/no/such/folder\n", kept.display())).unwrap();
        forget(&run_dir);
        assert!(!kept.join("base").exists());
        assert!(kept.join("theirs").exists() && kept.join("unreadable").exists());
    }
}
