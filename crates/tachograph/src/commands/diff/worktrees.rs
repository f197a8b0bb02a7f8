//! The worktrees of both commits: checked out and built under a guard.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use record::Revision;
use stage::{Errand, ErrandEnd, Stage};

use super::{Commits, NAMES};
use crate::failure::Failure;
use crate::flags::diff::DiffFlags;
use crate::repository::{self, Repository};

/// Timeout of a checkout: large files may have to be fetched.
const CHECKOUT_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The worktrees of base and head in the run's folder, which removes them when it is dropped.
pub(super) struct Worktrees<'s> {
    stage: &'s Stage,
    repository: &'s Repository,
    folder: PathBuf,
    build: Option<&'s str>,
    build_timeout: Duration,
    stop: Arc<AtomicBool>,
}

impl<'s> Worktrees<'s> {
    /// Worktrees that do not exist yet.
    pub(super) fn new(
        stage: &'s Stage,
        repository: &'s Repository,
        flags: &'s DiffFlags,
        stop: &Arc<AtomicBool>,
    ) -> Result<Worktrees<'s>, Failure> {
        Ok(Worktrees {
            stage,
            repository,
            folder: stage.folder_of_worktrees(repository.git_dir())?,
            build: flags.build.as_deref(),
            build_timeout: flags.build_timeout.into(),
            stop: Arc::clone(stop),
        })
    }

    /// The working directories of both servers.
    pub(super) fn folders(&self) -> [PathBuf; 2] {
        NAMES.map(|name| self.folder.join(name).join(self.repository.prefix()))
    }

    /// Checks out and builds both commits; `say` receives progress messages.
    pub(super) fn make(&self, commits: &Commits, say: &dyn Fn(&str)) -> Result<(), Failure> {
        let sides = [&commits.base, &commits.head];
        for (name, revision) in NAMES.into_iter().zip(sides) {
            self.check_out(name, revision, say)?;
        }
        for ((name, revision), folder) in NAMES.into_iter().zip(sides).zip(self.folders()) {
            self.build(name, revision, &folder, say)?;
        }
        Ok(())
    }

    fn check_out(
        &self,
        name: &str,
        revision: &Revision,
        say: &dyn Fn(&str),
    ) -> Result<(), Failure> {
        let worktree = self.folder.join(name);
        let path = worktree.display().to_string();
        // Hooks are for the user's own checkout; an absolute path is what the cleanup looks for.
        let ended = self.git(
            self.repository.root(),
            &[
                "-c",
                "core.hooksPath=/dev/null",
                "-c",
                "worktree.useRelativePaths=false",
                "worktree",
                "add",
                "--quiet",
                "--detach",
                &path,
                &revision.id,
            ],
        )?;
        check(&ended, &format!("{name} {} cannot be checked out", revision.short))?;
        if worktree.join(".gitmodules").exists() {
            self.submodules(name, revision, &worktree, say)?;
        }
        if revision.dirty {
            copy_changes(self.repository, &worktree)?;
        }
        let folder = worktree.join(self.repository.prefix());
        match folder.is_dir() {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "{name} {} ({}) has no folder {}; run diff in a folder that both commits have",
                revision.short,
                revision.subject,
                self.repository.prefix().display()
            ))),
        }
    }

    /// Checks out the submodules that the user has initialised.
    fn submodules(
        &self,
        name: &str,
        revision: &Revision,
        worktree: &Path,
        say: &dyn Fn(&str),
    ) -> Result<(), Failure> {
        if !self.repository.has_submodules()? {
            say("note: submodules are left out, because none is initialised in your checkout; \
                 `git submodule update --init` does that");
            return Ok(());
        }
        say(&format!("checking out submodules of {name} {}", revision.short));
        // Without --init, which would write to the configuration that all worktrees share.
        let ended = self.git(
            worktree,
            &["-c", "core.hooksPath=/dev/null", "submodule", "update", "--recursive"],
        )?;
        check(&ended, &format!("the submodules of {name} {} cannot be checked out", revision.short))
    }

    fn build(
        &self,
        name: &str,
        revision: &Revision,
        folder: &Path,
        say: &dyn Fn(&str),
    ) -> Result<(), Failure> {
        let Some(command) = self.build else { return Ok(()) };
        let Revision { short, subject, .. } = revision;
        let shown = base::redact(command);
        say(&format!("building {name} {short} ({subject}): {shown}"));
        let argv = ["sh", "-c", command].map(str::to_owned).to_vec();
        let ended = self.errand("build", argv, folder, Vec::new(), self.build_timeout)?;
        let what = format!("{name} {short} ({subject}) does not build: `{shown}`");
        match ended.exit {
            None => Err(Failure::new(format!(
                "{what} took longer than {}; --build-timeout allows more{}",
                base::Nanos::from(self.build_timeout),
                log(&ended)
            ))),
            Some(_) if ended.is_success() => Ok(()),
            Some(exit) => Err(Failure::new(format!("{what} {exit}{}", log(&ended)))),
        }
    }

    fn git(&self, folder: &Path, args: &[&str]) -> Result<ErrandEnd, Failure> {
        let argv = std::iter::once("git").chain(args.iter().copied()).map(str::to_owned);
        let env = vec![("LC_ALL".to_owned(), "C".to_owned())];
        self.errand("git", argv.collect(), folder, env, CHECKOUT_TIMEOUT)
    }

    fn errand(
        &self,
        name: &str,
        argv: Vec<String>,
        folder: &Path,
        env: Vec<(String, String)>,
        timeout: Duration,
    ) -> Result<ErrandEnd, Failure> {
        let stop = &self.stop;
        let argv = [repository::without_git_variables(), argv].concat();
        Ok(self.stage.run(Errand { name, argv, folder, env, timeout, stop })?)
    }
}

fn check(ended: &ErrandEnd, what: &str) -> Result<(), Failure> {
    match ended.is_success() {
        true => Ok(()),
        false => Err(Failure::new(format!("{what}{}", log(ended)))),
    }
}

/// The end of an errand's output, as in errors of servers.
fn log(ended: &ErrandEnd) -> String {
    stage::LogTail(ended.log.clone()).to_string()
}

/// Copies uncommitted changes and new files into a worktree of HEAD.
fn copy_changes(repository: &Repository, worktree: &Path) -> Result<(), Failure> {
    for path in repository.uncommitted()? {
        let (from, to) = (repository.root().join(&path), worktree.join(&path));
        copy(&from, &to).map_err(|error| {
            Failure::new(format!("cannot copy the uncommitted file {}: {error}", path.display()))
        })?;
    }
    Ok(())
}

/// Copies a file or a symbolic link over another one; removes it if there is none to copy.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let kind = match from.symlink_metadata() {
        Ok(data) => Some(data.file_type()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    // A submodule with changes, or a repository within the repository.
    if kind.is_some_and(|kind| kind.is_dir()) {
        return Ok(());
    }
    match std::fs::remove_file(to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let Some(kind) = kind else { return Ok(()) };
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    if kind.is_symlink() {
        return std::os::unix::fs::symlink(std::fs::read_link(from)?, to);
    }
    std::fs::copy(from, to).map(drop)
}
