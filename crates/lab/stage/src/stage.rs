//! The stacks of one run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::RunId;

use crate::accounting::Accounting;
use crate::error::StageError;
use crate::experiment_files::{self, FilePiece};
use crate::run_folder::{RunFolder, temp_root};
use crate::stack::LiveStack;
use crate::start_options::StartOptions;
use crate::sweep::{self, SweepResult};
use crate::{sharing, starting, worktrees};

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
    swept: SweepResult,
}

impl Stage {
    /// Cleans up after dead runs and creates this run's folder.
    ///
    /// # Errors
    /// If the folder cannot be created, or its path is too long for sockets.
    pub fn new(options: StageOptions) -> Result<Stage, StageError> {
        let root = temp_root(options.temp_root)?;
        let swept = sweep::sweep(&root);
        let run = RunFolder::create(&root, options.executable, options.run, options.accounting)?;
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

    /// Creates the folder of `$FILES` for an experiment of another machine, which is removed with the
    /// run's.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create_files_folder(&self) -> Result<PathBuf, StageError> {
        let folder = self.files_folder();
        let created = std::fs::create_dir_all(&folder).and_then(|()| sharing::share(&folder));
        created.map_err(StageError::file("cannot create", &folder))?;
        Ok(folder)
    }

    /// Writes a piece of a file in that folder.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_piece(&self, piece: &FilePiece) -> Result<(), StageError> {
        experiment_files::write(piece, &self.files_folder())
    }

    fn files_folder(&self) -> PathBuf {
        self.dir().join("files")
    }

    /// The run's folder.
    pub fn dir(&self) -> &Path {
        &self.run.dir
    }

    /// What was cleaned up after dead runs.
    pub fn swept(&self) -> &SweepResult {
        &self.swept
    }

    /// The folder for worktrees of a repository, whose `git_dir` (`git rev-parse --git-common-dir`)
    /// is cleaned up at the end of the run.
    ///
    /// # Errors
    /// If the folder or the list cannot be written.
    pub fn folder_of_worktrees(&self, git_dir: &Path) -> Result<PathBuf, StageError> {
        worktrees::folder(self.dir(), git_dir)
    }
}

/// Stops what remains of this user's runs that were killed together with their guards, and removes
/// their folders; living runs are not touched. [`Stage::new`] does this too.
///
/// # Errors
/// If the temporary folder is unusable.
pub fn sweep() -> Result<SweepResult, StageError> {
    Ok(sweep::sweep(&temp_root(None)?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::layout::LOCK;
    use crate::run_folder::BELOW_ROOT_BYTES_MAX;

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
        assert_eq!(sweep::sweep(root.path()), SweepResult::default());
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
