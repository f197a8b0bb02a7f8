//! The temporary folder of one run, and its lock.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::{RunId, Seed};

use crate::accounting::Accounting;
use crate::error::StageError;
use crate::guard::{Watch, remove_dir};
use crate::layout::{LOCK, NEW_PREFIX, RUN_PREFIX, make_dir, word};
use crate::ready::SOCKET_PATH_BYTES_MAX;
use crate::worktrees;

/// Longest path of our sockets below the temporary folder: `/tg-xxxxxx/xxxxxxxxxxxx/9.sock`.
pub(crate) const BELOW_ROOT_BYTES_MAX: usize = 30;

/// State shared by a stage and its stacks.
#[derive(Debug)]
pub(crate) struct RunFolder {
    pub(crate) executable: PathBuf,
    pub(crate) id: RunId,
    pub(crate) accounting: Accounting,
    pub(crate) dir: PathBuf,
    ports: Mutex<BTreeSet<u16>>,
    /// Held for the lifetime of the run; the kernel releases it even if we are killed.
    _lock: File,
    /// Cleans up if we cannot. It ends on drop, after the folder is gone.
    _watch: Watch,
}

impl RunFolder {
    /// Creates and locks the folder of a run below `root`.
    pub(crate) fn create(
        root: &Path,
        executable: PathBuf,
        id: RunId,
        accounting: Accounting,
    ) -> Result<RunFolder, StageError> {
        let (dir, lock, watch) = make_run_dir(root, &executable)?;
        Ok(RunFolder {
            executable,
            id,
            accounting,
            dir,
            ports: Mutex::default(),
            _lock: lock,
            _watch: watch,
        })
    }

    /// The ports of this run's living stacks.
    pub(crate) fn ports(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        worktrees::forget(&self.dir);
        remove_dir(&self.dir);
    }
}

/// The parent folder of runs.
pub(crate) fn temp_root(chosen: Option<PathBuf>) -> Result<PathBuf, StageError> {
    let fits = |root: &Path| socket_bytes(root) <= SOCKET_PATH_BYTES_MAX;
    let root = match chosen {
        Some(root) => root,
        None => match env::var_os("TMPDIR").map(PathBuf::from) {
            Some(root) if root.is_absolute() && fits(&root) => root,
            _ => PathBuf::from("/tmp"),
        },
    };
    let root = fs::canonicalize(&root)
        .map_err(StageError::file("cannot use the temporary folder", &root))?;
    match fits(&root) {
        true => Ok(root),
        false => Err(StageError::TempTooLong { bytes: socket_bytes(&root), path: root }),
    }
}

fn socket_bytes(root: &Path) -> usize {
    root.as_os_str().len() + BELOW_ROOT_BYTES_MAX
}

/// Creates the folder under a name that a sweep ignores, and renames it once the lock is held, so
/// no sweep ever sees it unlocked. The watch over both names starts first, so there is no moment
/// without it.
fn make_run_dir(root: &Path, executable: &Path) -> Result<(PathBuf, File, Watch), StageError> {
    let mut rng = Seed::from_time().rng("run folder");
    for _ in 0..100 {
        let word = word(&mut rng, 6);
        let new = root.join(format!("{NEW_PREFIX}{word}"));
        let dir = root.join(format!("{RUN_PREFIX}{word}"));
        if new.exists() || dir.exists() {
            continue;
        }
        let watch = Watch::start(executable, &[new.clone(), dir.clone()]).map_err(|error| {
            StageError::Guard(format!("cannot start {}: {error}", executable.display()))
        })?;
        match make_dir(&new) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(StageError::file("cannot create", new)(error)),
        }
        let lock = File::create(new.join(LOCK))
            .and_then(|lock| lock.lock().map(|()| lock))
            .and_then(|lock| fs::rename(&new, &dir).map(|()| lock))
            .map_err(StageError::file("cannot create", &dir))?;
        return Ok((dir, lock, watch));
    }
    let path = root.join(RUN_PREFIX);
    Err(StageError::file("cannot create", path)(io::ErrorKind::AlreadyExists.into()))
}
