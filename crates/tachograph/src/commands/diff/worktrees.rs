//! The worktrees of both commits: checked out and built under a guard, here or on another machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use far::{ErrandOrder, Machine};
use record::Revision;
use stage::{Errand, ErrandEnd, Stage};

use super::sent_commits::{self, REPOSITORY};
use super::{Commits, NAMES};
use crate::failure::Failure;
use crate::flags::diff::DiffFlags;
use crate::repository::{self, Repository};

/// Timeout of a checkout: large files may have to be fetched.
const CHECKOUT_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The worktrees of base and head in the run's folder, which removes them when it is dropped.
pub(super) struct Worktrees<'s> {
    stage: &'s Stage,
    /// The other machine, if they are there.
    machine: Option<Arc<Machine>>,
    repository: &'s Repository,
    /// Where git adds worktrees: the user's working tree, or the repository that was sent.
    root: PathBuf,
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
            machine: None,
            repository,
            root: repository.root().to_owned(),
            folder: stage.folder_of_worktrees(repository.git_dir())?,
            build: flags.build.as_deref(),
            build_timeout: flags.build_timeout.into(),
            stop: Arc::clone(stop),
        })
    }

    /// The same on another machine, to which both commits are sent, without history.
    pub(super) fn on(
        mut self,
        machine: &Arc<Machine>,
        run: &base::RunId,
        commits: &Commits,
    ) -> Result<Worktrees<'s>, Failure> {
        let sent = self.stage.dir().join(REPOSITORY);
        let path = sent.display().to_string();
        let format = format!("--object-format={}", self.repository.object_format()?);
        let init = ["init", "--quiet", "--bare", "--template=", &format, &path];
        check(&self.git(&self.root, &init)?, "git cannot make a repository for the two commits")?;
        // A server may refuse commits that no branch or tag names; this one is the user's own.
        let serve = "git -c uploadpack.allowAnySHA1InWant=true upload-pack";
        let git_dir = self.repository.git_dir().display().to_string();
        // All objects are in one pack, however few they are.
        let fetch = ["-c", "fetch.unpackLimit=1", "fetch", "--quiet", "--depth=1", "--no-tags"];
        let rest = ["--upload-pack", serve, &git_dir, &commits.base.id, &commits.head.id];
        let fetched = self.git(&sent, &[&fetch[..], &rest].concat())?;
        check(&fetched, "git cannot copy the two commits")?;
        machine.begin(run).map_err(Failure::new)?;
        self.machine = Some(Arc::clone(machine));
        let found = self.git(Path::new("/"), &["--version"])?;
        check(&found, &format!("on {}: git is missing; install it there", machine.name()))?;
        self.root = sent_commits::send(&sent, machine)?;
        self.folder = self.root.with_file_name("worktrees");
        Ok(self)
    }

    /// The end of a sentence about what happened, with the machine.
    fn place(&self) -> String {
        self.machine.as_ref().map(|machine| format!(" on {}", machine.name())).unwrap_or_default()
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
            &self.root,
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
        let (short, place) = (&revision.short, self.place());
        check(&ended, &format!("{name} {short} cannot be checked out{place}"))?;
        if self.has("-e", &worktree.join(".gitmodules"))? {
            self.submodules(name, revision, &worktree, say)?;
        }
        if revision.dirty {
            copy_changes(self.repository, &worktree)?;
        }
        let folder = worktree.join(self.repository.prefix());
        match self.has("-d", &folder)? {
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
        if let Some(machine) = &self.machine {
            say(&format!(
                "note: submodules are left out, because they are not sent to {}",
                machine.name()
            ));
            return Ok(());
        }
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
        let place = self.place();
        say(&format!("building {name} {short} ({subject}){place}: {shown}"));
        let argv = ["sh", "-c", command].map(str::to_owned).to_vec();
        let ended = self.errand("build", argv, folder, Vec::new(), self.build_timeout)?;
        let what = format!("{name} {short} ({subject}) does not build{place}: `{shown}`");
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

    /// Whether there is such a path: of any kind (`-e`), or a folder (`-d`).
    fn has(&self, kind: &str, path: &Path) -> Result<bool, Failure> {
        match &self.machine {
            None if kind == "-d" => Ok(path.is_dir()),
            None => Ok(path.exists()),
            Some(_) => {
                let argv = ["test", kind, &path.display().to_string()].map(str::to_owned).to_vec();
                let ended = self.errand("test", argv, &self.root, Vec::new(), CHECKOUT_TIMEOUT)?;
                Ok(ended.is_success())
            }
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
        let Some(machine) = &self.machine else {
            return Ok(self.stage.run(Errand { name, argv, folder, env, timeout, stop })?);
        };
        let (name, folder, timeout) = (name.to_owned(), folder.to_owned(), timeout.into());
        let order = ErrandOrder { name, argv, folder, env, timeout };
        machine.errand(order).map_err(Failure::new)
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
