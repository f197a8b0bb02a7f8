//! Git worktrees of a run.
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

use crate::error::StageError;
use crate::guard::remove_dir;
use crate::layout::make_dir;

/// The folder of the worktrees in a run's folder.
pub(crate) const FOLDER: &str = "w";

/// The list of repositories in a run's folder: the path of a `worktrees` folder per line.
const LIST: &str = "repositories";

/// The folder for worktrees in a run's folder. The repository's folder `git_dir` is cleaned up with
/// the run's.
pub(crate) fn folder(run_dir: &Path, git_dir: &Path) -> Result<PathBuf, StageError> {
    let folder = run_dir.join(FOLDER);
    if !folder.exists() {
        make_dir(&folder).map_err(StageError::file("cannot create", &folder))?;
    }
    let list = run_dir.join(LIST);
    let line = format!("{}\n", git_dir.join("worktrees").display());
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(&list)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(StageError::file("cannot write", &list))?;
    Ok(folder)
}

/// Removes what the listed repositories keep about the worktrees of this run, and nothing else.
pub(crate) fn forget(run_dir: &Path) {
    let Ok(list) = fs::read_to_string(run_dir.join(LIST)) else { return };
    for kept in list.lines().map(Path::new) {
        for entry in fs::read_dir(kept).into_iter().flatten().flatten() {
            let gitdir = fs::read_to_string(entry.path().join("gitdir")).unwrap_or_default();
            if Path::new(gitdir.trim_end()).starts_with(run_dir) {
                remove_dir(&entry.path());
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
