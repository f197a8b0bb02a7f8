//! The git repository of the current folder: commits, their common ancestor, uncommitted changes.
//!
//! Nothing here writes to the repository.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use record::Revision;

use crate::failure::Failure;

/// A repository with a working tree.
pub(crate) struct Repository {
    /// The top folder of the working tree.
    root: PathBuf,
    /// The user's folder, relative to it.
    prefix: PathBuf,
    /// The folder that all working trees share.
    git_dir: PathBuf,
    is_shallow: bool,
}

/// The output of a git command.
struct GitOutput {
    is_success: bool,
    out: Vec<u8>,
    err: String,
}

impl GitOutput {
    fn line(&self) -> String {
        String::from_utf8_lossy(&self.out).trim_end_matches('\n').to_owned()
    }

    /// The paths of an answer to `-z`.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let parts = self.out.split(|byte| *byte == 0).filter(|part| !part.is_empty());
        parts.map(|part| Path::new(OsStr::from_bytes(part)))
    }
}

/// Where the main branch is looked for, in this order.
const MAIN_BRANCHES: [&str; 5] = ["origin/HEAD", "origin/main", "origin/master", "main", "master"];

impl Repository {
    /// The repository of the current folder.
    ///
    /// # Errors
    /// If git is missing, or the folder belongs to no repository with a working tree.
    pub(crate) fn here() -> Result<Repository, Failure> {
        let here = std::env::current_dir()?;
        let of = ["rev-parse", "--path-format=absolute", "--is-shallow-repository"];
        let found = git(&here, &[&of[..], &["--git-common-dir", "--show-toplevel"]].concat())?;
        if !found.is_success {
            return Err(not_a_repository(&here, &found.err));
        }
        let text = found.line();
        let [shallow, git_dir, root] = text.lines().collect::<Vec<_>>()[..] else {
            return Err(Failure::new(format!("git rev-parse printed something unknown: {text}")));
        };
        let prefix = git(&here, &["rev-parse", "--show-prefix"])?.line();
        Ok(Repository {
            root: PathBuf::from(root),
            prefix: PathBuf::from(prefix.trim_end_matches('/')),
            git_dir: PathBuf::from(git_dir),
            is_shallow: shallow == "true",
        })
    }

    /// The top folder of the working tree.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The user's folder, relative to the root.
    pub(crate) fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The folder that all working trees share.
    pub(crate) fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The hash by which its objects are named: `sha1` or `sha256`.
    ///
    /// # Errors
    /// If git is older than 2.29.
    pub(crate) fn object_format(&self) -> Result<String, Failure> {
        let format = self.git(&["rev-parse", "--show-object-format"])?;
        Ok(format.checked("git rev-parse")?.line())
    }

    /// The commit that a revision names.
    ///
    /// # Errors
    /// If there is no such commit.
    pub(crate) fn commit(&self, revision: &str) -> Result<Revision, Failure> {
        self.find(revision)?.ok_or_else(|| {
            let remedy = match self.is_shallow {
                true => SHALLOW,
                false => "`git branch -a` and `git log` list what there is; fetch it if it is new",
            };
            Failure::new(format!("there is no commit '{revision}' in this repository; {remedy}"))
        })
    }

    fn find(&self, revision: &str) -> Result<Option<Revision>, Failure> {
        let name = format!("{revision}^{{commit}}");
        let verified =
            self.git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name])?;
        if !verified.is_success {
            return Ok(None);
        }
        let id = verified.line();
        let shown = self.git(&["log", "-1", "--no-show-signature", "--format=%h%n%s", &id])?;
        let shown = shown.checked("git log")?.line();
        let (short, subject) = shown.split_once('\n').unwrap_or((&shown, ""));
        let (short, subject) = (short.to_owned(), subject.to_owned());
        Ok(Some(Revision { id, short, subject, dirty: false }))
    }

    /// The name of the main branch.
    ///
    /// # Errors
    /// If no usual name exists.
    pub(crate) fn main_branch(&self) -> Result<&'static str, Failure> {
        for name in MAIN_BRANCHES {
            if self.find(name)?.is_some() {
                return Ok(name);
            }
        }
        let remedy = match self.is_shallow {
            true => format!("{SHALLOW}, or name the base"),
            false => "name the base".to_owned(),
        };
        Err(Failure::new(format!(
            "there is no main branch to compare with ({}); {remedy}: tachograph diff BASE COMMAND",
            MAIN_BRANCHES.join(", ")
        )))
    }

    /// The best common ancestor of two commits; `names` are those that the user knows them by.
    ///
    /// # Errors
    /// If they have none.
    pub(crate) fn merge_base(
        &self,
        commits: [&Revision; 2],
        names: [&str; 2],
    ) -> Result<Revision, Failure> {
        let found = self.git(&["merge-base", &commits[0].id, &commits[1].id])?;
        let [base, head] = names;
        match found.is_success {
            true => self.commit(&found.line()),
            false if self.is_shallow => Err(Failure::new(format!(
                "{base} and {head} have no common ancestor in this shallow clone; {SHALLOW}"
            ))),
            false => Err(Failure::new(format!(
                "{base} and {head} have no common ancestor, so there is nothing that {head} changed"
            ))),
        }
    }

    /// Number of tracked files with uncommitted changes.
    pub(crate) fn changed_files(&self) -> Result<usize, Failure> {
        let args = ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=none"];
        let status = self.git(&args)?;
        Ok(status.checked("git status")?.line().lines().count())
    }

    /// Files with uncommitted changes and new files that are not ignored, relative to the root.
    pub(crate) fn uncommitted(&self) -> Result<Vec<PathBuf>, Failure> {
        let changed = self.git(&["diff", "--name-only", "--no-renames", "-z", "HEAD"])?;
        let new = self.git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
        let changed = changed.checked("git diff")?;
        let new = new.checked("git ls-files")?;
        Ok(changed.paths().chain(new.paths()).map(Path::to_owned).collect())
    }

    /// Whether the user has initialised any submodule.
    pub(crate) fn has_submodules(&self) -> Result<bool, Failure> {
        let found = self.git(&["config", "--get-regexp", r"^submodule\..*\.url$"])?;
        Ok(found.is_success)
    }

    fn git(&self, args: &[&str]) -> Result<GitOutput, Failure> {
        git(&self.root, args)
    }
}

impl GitOutput {
    fn checked(self, command: &str) -> Result<GitOutput, Failure> {
        match self.is_success {
            true => Ok(self),
            false => Err(Failure::new(format!("{command} failed: {}", self.err))),
        }
    }
}

const SHALLOW: &str = "the clone is shallow: fetch its history with `git fetch --unshallow`, or in \
    GitHub Actions with `fetch-depth: 0` for actions/checkout";

/// Variables that bind git to one repository or index, as in a hook. With them, git would write to
/// the user's index instead of a worktree's.
const GIT_VARIABLES: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
];

/// The beginning of a command that runs without these variables.
pub(crate) fn without_git_variables() -> Vec<String> {
    let unset = GIT_VARIABLES.iter().flat_map(|name| ["-u", name]);
    std::iter::once("env").chain(unset).map(str::to_owned).collect()
}

/// Runs git in a folder. It must not even refresh the user's index.
fn git(folder: &Path, args: &[&str]) -> Result<GitOutput, Failure> {
    let mut command = Command::new("git");
    for name in GIT_VARIABLES {
        command.env_remove(name);
    }
    let output = command
        .args(["--no-optional-locks", "--literal-pathspecs"])
        .args(args)
        .current_dir(folder)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) => Ok(GitOutput {
            is_success: output.status.success(),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Failure::new(
            "git is not on PATH, and diff needs it to check out two commits; to install it: apt \
             install git",
        )),
        Err(error) => Err(Failure::new(format!("git cannot be started: {error}"))),
    }
}

fn not_a_repository(here: &Path, err: &str) -> Failure {
    let here = here.display();
    if err.contains("must be run in a work tree") {
        return Failure::new(format!(
            "{here} is a bare repository; run diff in a checkout of it (git clone)"
        ));
    }
    if err.contains("not a git repository") {
        return Failure::new(format!(
            "{here} is not in a git repository; run diff in a checkout of the server's source, or \
             compare two commands with tachograph compare"
        ));
    }
    // Such as the owner's protection, whose message names the command that lifts it.
    Failure::new(format!("git cannot read the repository of {here}: {err}"))
}
