//! Python packages for stacks: virtual environments, created once per set of pinned requirements
//! and kept in the cache folder.

use std::collections::VecDeque;
use std::env;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::command;
use crate::error::StageError;
use crate::redact::Secrets;
use crate::{sharing, signals};

/// The file that marks an environment as complete.
const STAMP: &str = "complete";

/// Lines of pip's output to examine, and to show for an unknown error.
const OUTPUT_LINES: usize = 200;
const SHOWN_LINES: usize = 8;

/// How often to check for a stop request.
const LOOK: Duration = Duration::from_millis(100);

/// An environment with exactly these packages; returns its `bin` folder.
///
/// `requirements` are pinned: `gunicorn==23.0.0`, or `name @ file:///...`. `python` is the
/// interpreter; the default is `python3` on PATH. `log` receives progress messages if there is
/// something to wait for. Concurrent callers, also in other processes, wait for each other.
///
/// # Errors
/// [`StageError::Python`] with what is missing and how to get it;
/// [`StageError::Interrupted`] after Ctrl-C.
pub fn ensure_env(
    requirements: &[String],
    python: Option<&Path>,
    log: &mut dyn FnMut(&str),
) -> Result<PathBuf, StageError> {
    ensure_env_in(&cache_dir()?, requirements, python, log)
}

/// The same in a given cache folder.
pub fn ensure_env_in(
    cache: &Path,
    requirements: &[String],
    python: Option<&Path>,
    log: &mut dyn FnMut(&str),
) -> Result<PathBuf, StageError> {
    check_pinned(requirements)?;
    let python = Interpreter::find(python, requirements)?;
    let dir = folder(cache, &python, requirements);
    fs::create_dir_all(cache).map_err(|error| unusable(cache, &error))?;
    let lock = File::create(dir.with_extension("lock")).map_err(|error| unusable(cache, &error))?;
    wait_for(&lock, cache, log)?;
    if !is_complete(&dir, requirements) {
        log(&format!("installing {} (kept for next time)", requirements.join(", ")));
        let made = make(&dir, requirements, &python, log);
        if made.is_err() {
            // An incomplete environment is useless, and the next attempt would remove it anyway.
            let _ = fs::remove_dir_all(&dir);
        }
        made?;
    }
    share(&dir).map_err(|error| unusable(&dir, &error))?;
    Ok(dir.join("bin"))
}

/// Whether this environment exists, so that nothing has to be installed.
pub fn is_installed(requirements: &[String], python: Option<&Path>) -> bool {
    let Ok(cache) = cache_dir() else { return false };
    Interpreter::find(python, requirements)
        .is_ok_and(|python| is_complete(&folder(&cache, &python, requirements), requirements))
}

fn folder(cache: &Path, python: &Interpreter, requirements: &[String]) -> PathBuf {
    let key = fingerprint(&[&python.identity, &requirements.join("\n")]);
    cache.join(format!("{key:016x}"))
}

/// An interpreter with its identity.
struct Interpreter {
    path: PathBuf,
    /// `3.11.7`.
    version: String,
    identity: String,
}

impl Interpreter {
    fn find(chosen: Option<&Path>, requirements: &[String]) -> Result<Interpreter, StageError> {
        let path = match chosen {
            Some(path) => path.to_owned(),
            None => command::find("python3", &env::var("PATH").unwrap_or_default(), None)
                .ok_or_else(|| no_python(None, requirements))?,
        };
        let script = "import sys; print('%d.%d.%d' % sys.version_info[:3]); print(sys.base_prefix); print(sys.version)";
        let output = clean(&path)
            .args(["-c", script])
            .output()
            .map_err(|_| no_python(chosen, requirements))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match text.lines().next() {
            Some(version) if output.status.success() => {
                Ok(Interpreter { path, version: version.to_owned(), identity: text })
            }
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                let secrets = Secrets::of_environment();
                Err(StageError::Python(format!(
                    "'{}' does not work ({}): {}; install it, or put one that works first on PATH",
                    path.display(),
                    output.status,
                    secrets.redact(reason(&said)),
                )))
            }
        }
    }
}

/// The line that says why: Python ends a traceback with it, a version manager begins with it and
/// then gives advice.
fn reason(said: &str) -> &str {
    let mut lines = said.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or("it prints nothing");
    if first.starts_with("Traceback") { lines.next_back().unwrap_or(first) } else { first }
}

fn no_python(chosen: Option<&Path>, requirements: &[String]) -> StageError {
    let (program, remedy) = match chosen {
        None => ("python3".into(), "to install it: apt install python3 python3-venv"),
        Some(path) => (path.to_string_lossy(), "install that version of Python and add it to PATH"),
    };
    let packages = requirements.join(", ");
    StageError::Python(format!(
        "'{program}' is missing, and the packages {packages} need it; {remedy}"
    ))
}

/// A Python command that ignores Python settings in our environment.
fn clean(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.stdin(Stdio::null());
    for name in
        ["PYTHONHOME", "PYTHONPATH", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "__PYVENV_LAUNCHER__"]
    {
        command.env_remove(name);
    }
    command
}

fn cache_dir() -> Result<PathBuf, StageError> {
    match cache_root() {
        Some(root) => Ok(root.join("python")),
        None => Err(StageError::Python(
            "no location for Python packages: set HOME or XDG_CACHE_HOME".to_owned(),
        )),
    }
}

/// Our cache folder: `$XDG_CACHE_HOME/tachograph` (XDG Base Directory Specification 0.8), or
/// `~/.cache/tachograph`. For root it is `/var/cache/tachograph`: Apache drops root's rights before
/// it reads an application, and then cannot read root's home.
pub fn cache_root() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| rustix::process::getuid().is_root().then(|| PathBuf::from("/var/cache")))
        .or_else(|| Some(absolute("HOME")?.join(".cache")))
        .map(|cache| cache.join("tachograph"))
}

fn check_pinned(requirements: &[String]) -> Result<(), StageError> {
    let is_pinned = |text: &str| {
        let names_package = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        names_package && !text.contains('\n') && (text.contains("==") || text.contains(" @ "))
    };
    match requirements.iter().find(|text| !is_pinned(text)) {
        None => Ok(()),
        Some(text) => Err(StageError::Python(format!(
            "the Python package '{text}' has no fixed version; write it as name==1.2.3"
        ))),
    }
}

fn wait_for(lock: &File, cache: &Path, log: &mut dyn FnMut(&str)) -> Result<(), StageError> {
    let mut said = false;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(unusable(cache, &error)),
            Err(TryLockError::WouldBlock) if signals::came() => {
                return Err(StageError::Interrupted);
            }
            Err(TryLockError::WouldBlock) => {
                if !said {
                    log("waiting for another tachograph to install the same packages");
                    said = true;
                }
                thread::sleep(LOOK);
            }
        }
    }
}

/// Complete, for exactly these requirements, and with an existing interpreter.
fn is_complete(dir: &Path, requirements: &[String]) -> bool {
    let stamp = fs::read_to_string(dir.join(STAMP));
    stamp.is_ok_and(|text| text == requirements.join("\n")) && dir.join("bin/python").exists()
}

fn make(
    dir: &Path,
    requirements: &[String],
    python: &Interpreter,
    log: &mut dyn FnMut(&str),
) -> Result<(), StageError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unusable(dir, &error)),
        _ => {}
    }
    let venv = run(clean(&python.path).args(["-m", "venv"]).arg(dir), log)?;
    venv.check(|output| no_venv(output, dir, python))?;
    if !requirements.is_empty() {
        let mut pip = clean(&dir.join("bin/python"));
        pip.args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check"])
            .args(["--progress-bar", "off", "--"])
            .args(requirements);
        run(&mut pip, log)?.check(|output| no_packages(output, dir, requirements, python))?;
    }
    fs::write(dir.join(STAMP), requirements.join("\n")).map_err(|error| unusable(dir, &error))
}

/// Lets everybody read a folder of root's cache, and reach it, whatever the umask was: servers that
/// drop root's rights read it. Does nothing for other users.
///
/// # Errors
/// Those of reading it and of changing its permissions.
pub fn share(folder: &Path) -> io::Result<()> {
    let Some(cache) = cache_root().filter(|_| rustix::process::getuid().is_root()) else {
        return Ok(());
    };
    for above in folder.ancestors().skip(1).take_while(|above| above.starts_with(&cache)) {
        sharing::share(above)?;
    }
    // The folder itself comes last: where it is open, so is what is in it.
    if fs::metadata(folder)?.permissions().mode() & 0o005 == 0o005 {
        return Ok(());
    }
    sharing::share_all(folder)
}

/// A command's exit status and the end of its output.
struct CommandResult {
    status: ExitStatus,
    output: Vec<String>,
}

impl CommandResult {
    fn check(self, explain: impl FnOnce(&[String]) -> String) -> Result<(), StageError> {
        match self.status.success() {
            true => Ok(()),
            false => Err(StageError::Python(explain(&self.output))),
        }
    }
}

/// Runs a command, passing on each line; kills it on Ctrl-C.
fn run(command: &mut Command, log: &mut dyn FnMut(&str)) -> Result<CommandResult, StageError> {
    let failed = |error: io::Error| StageError::Python(format!("cannot run Python: {error}"));
    let (reader, writer) = io::pipe().map_err(failed)?;
    command.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
    let mut child = command.spawn().map_err(failed)?;
    // The command holds the pipe's other end; until it is dropped, the reader does not see the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (sender, lines) = mpsc::channel();
    let thread = thread::spawn(move || {
        for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                return;
            }
        }
    });
    let secrets = Secrets::of_environment();
    let mut output = VecDeque::new();
    let mut interrupted = false;
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                let line = secrets.redact(&line).into_owned();
                log(&line);
                output.push_back(line);
                if output.len() > OUTPUT_LINES {
                    output.pop_front();
                }
            }
            Err(RecvTimeoutError::Timeout) if signals::came() && !interrupted => {
                interrupted = true;
                child.kill().map_err(failed)?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().map_err(failed)?;
    // The channel is closed, so the thread is ending.
    let _ = thread.join();
    match interrupted {
        true => Err(StageError::Interrupted),
        false => Ok(CommandResult { status, output: output.into() }),
    }
}

fn says(output: &[String], signs: &[&str]) -> bool {
    output.iter().any(|line| signs.iter().any(|sign| line.contains(sign)))
}

fn no_venv(output: &[String], dir: &Path, python: &Interpreter) -> String {
    let signs = [
        "ensurepip is not available",
        "No module named venv",
        "No module named ensurepip",
        "No module named 'ensurepip'",
    ];
    if says(output, &signs) {
        return format!(
            "Python {} cannot create virtual environments, because its venv module is missing; to \
             install it: apt install python3-venv",
            python.version
        );
    }
    full_or_unknown(output, dir, "python3 -m venv failed")
}

fn no_packages(
    output: &[String],
    dir: &Path,
    requirements: &[String],
    python: &Interpreter,
) -> String {
    let offline = [
        "Failed to establish a new connection",
        "Temporary failure in name resolution",
        "Name or service not known",
        "Network is unreachable",
        "ConnectTimeoutError",
        "Read timed out",
        "ProxyError",
        "SSLError",
    ];
    let missing = output.iter().find_map(|line| {
        line.split_once("No matching distribution found for ").map(|(_, name)| name.trim())
    });
    if says(output, &["No space left on device"]) {
        return full_or_unknown(output, dir, "");
    }
    if says(output, &offline) {
        return format!(
            "the Python packages {} cannot be downloaded, because the package index is \
             unreachable; check the network or the proxy, or set PIP_FIND_LINKS to a folder with \
             the packages",
            requirements.join(", ")
        );
    }
    match missing {
        Some(name) => format!(
            "there is no package {name} for Python {}; check its name and version",
            python.version
        ),
        None => full_or_unknown(
            output,
            dir,
            &format!("pip could not install {}", requirements.join(", ")),
        ),
    }
}

fn full_or_unknown(output: &[String], dir: &Path, what: &str) -> String {
    if says(output, &["No space left on device"]) {
        return full(dir);
    }
    let last = &output[output.len().saturating_sub(SHOWN_LINES)..];
    let lines: String = last.iter().map(|line| format!("\n  | {line}")).collect();
    format!("{what}. End of its output:{lines}")
}

fn full(dir: &Path) -> String {
    format!(
        "no space left for Python packages in {}; free some space, or set XDG_CACHE_HOME to \
         another folder",
        dir.display()
    )
}

fn unusable(dir: &Path, error: &io::Error) -> StageError {
    StageError::Python(match error.kind() {
        io::ErrorKind::StorageFull => full(dir),
        _ => format!(
            "cannot write Python packages to {} ({error}); set XDG_CACHE_HOME to a writable folder",
            dir.display()
        ),
    })
}

/// FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>. The stamp detects collisions.
fn fingerprint(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
