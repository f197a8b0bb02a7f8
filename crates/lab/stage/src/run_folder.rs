//! The temporary folder of one run, and its lock.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{RunId, Seed};
use rand::Rng as _;

use crate::checkout;
use crate::error::StageError;
use crate::guard::{Watch, remove_dir};
use crate::ready::SOCKET_PATH_BYTES_MAX;
use crate::stack::LiveStack;
use crate::starting::{self, StartOptions};
use crate::sweep::{self, LOCK, NEW_PREFIX, RUN_PREFIX, Swept};
use crate::usage::Accounting;

/// Longest path of our sockets below the temporary folder: `/tg-xxxxxx/xxxxxxxxxxxx/9.sock`.
const BELOW_ROOT_BYTES_MAX: usize = 30;

/// Options of a stage.
#[derive(Clone, Debug)]
pub struct StageOptions {
    /// Our own executable, whose subcommand `guard` calls [`crate::guard_main`].
    pub executable: PathBuf,
    /// The run, whose id is in the environment of every process.
    pub run: RunId,
    /// Where to create the run's folder; default `TMPDIR`, or `/tmp` if that is unset or too long.
    pub temp_root: Option<PathBuf>,
    /// How to count CPU time.
    pub accounting: Accounting,
}

impl StageOptions {
    /// The default options.
    pub fn new(executable: PathBuf, run: RunId) -> StageOptions {
        StageOptions { executable, run, temp_root: None, accounting: Accounting::default() }
    }
}

/// The stacks of one run. Its folder is removed when the last of them ends.
#[derive(Debug)]
pub struct Stage {
    pub(crate) run: Arc<RunFolder>,
    swept: Swept,
}

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

impl Stage {
    /// Cleans up after dead runs and creates this run's folder.
    ///
    /// # Errors
    /// If the folder cannot be created, or its path is too long for sockets.
    pub fn new(options: StageOptions) -> Result<Stage, StageError> {
        let root = temp_root(options.temp_root)?;
        let swept = sweep::sweep(&root);
        let (dir, lock, watch) = make_run_dir(&root, &options.executable)?;
        let run = RunFolder {
            executable: options.executable,
            id: options.run,
            accounting: options.accounting,
            dir,
            ports: Mutex::default(),
            _lock: lock,
            _watch: watch,
        };
        Ok(Stage { run: Arc::new(run), swept })
    }

    /// Starts a stack and waits until all its processes are ready.
    ///
    /// # Errors
    /// Anything that keeps it from being ready; it is stopped then. If [`StageError::is_address_in_use`],
    /// another start with another seed may succeed.
    pub fn start(
        &self,
        stack: &spec::Stack,
        options: StartOptions,
    ) -> Result<LiveStack, StageError> {
        starting::start(&self.run, stack, options)
    }

    /// The run's folder.
    pub fn dir(&self) -> &Path {
        &self.run.dir
    }

    /// What was cleaned up after dead runs.
    pub fn swept(&self) -> &Swept {
        &self.swept
    }
}

impl RunFolder {
    /// The ports of this run's living stacks.
    pub(crate) fn ports(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        checkout::forget(&self.dir);
        remove_dir(&self.dir);
    }
}

/// Stops what remains of this user's runs that were killed together with their guards, and removes
/// their folders; living runs are not touched. [`Stage::new`] does this too.
///
/// # Errors
/// If the temporary folder is unusable.
pub fn sweep() -> Result<Swept, StageError> {
    Ok(sweep::sweep(&temp_root(None)?))
}

/// The parent folder of runs.
fn temp_root(chosen: Option<PathBuf>) -> Result<PathBuf, StageError> {
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

/// Creates a folder that others can enter but not list: servers that drop their rights must still
/// reach their sockets.
pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o711).create(path)
}

/// A random string of letters and digits.
pub(crate) fn word(rng: &mut base::Rng, length: usize) -> String {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    (0..length).map(|_| LETTERS[(rng.next_u64() % 32) as usize] as char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(root: &Path) -> StageOptions {
        let run = RunId("20261121-071530-test".to_owned());
        StageOptions {
            temp_root: Some(root.to_owned()),
            ..StageOptions::new(PathBuf::from("/bin/false"), run)
        }
    }

    #[test]
    fn a_stage_has_a_folder_as_long_as_it_lives() {
        let root = tempfile::tempdir().unwrap();
        let stage = Stage::new(options(root.path())).unwrap();
        let dir = stage.dir().to_owned();
        assert!(dir.join(LOCK).exists());
        assert_eq!(sweep::sweep(root.path()), Swept::default());
        drop(stage);
        assert!(!dir.exists());
    }

    #[test]
    fn a_folder_too_long_for_sockets_is_refused_before_anything_starts() {
        let root = tempfile::tempdir().unwrap();
        let long = root.path().join("a".repeat(90));
        fs::create_dir(&long).unwrap();
        let text = Stage::new(options(&long)).unwrap_err().to_string();
        let bytes = fs::canonicalize(&long).unwrap().as_os_str().len() + BELOW_ROOT_BYTES_MAX;
        assert_eq!(
            text,
            format!(
                "the temporary folder {} is too long: a Unix socket in it would have {bytes} \
                 bytes, and the kernel's limit is 107. Set TMPDIR to a shorter folder, such as \
                 /tmp",
                fs::canonicalize(&long).unwrap().display()
            )
        );
        let missing = root.path().join("missing");
        assert_eq!(
            Stage::new(options(&missing)).unwrap_err().to_string(),
            format!(
                "cannot use the temporary folder {}: there is no such folder",
                missing.display()
            )
        );
    }
}
