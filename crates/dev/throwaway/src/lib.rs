//! Temporary servers for tests, proofs and benches: PostgreSQL on a Unix socket, a network of
//! machines that are reached by ssh, a Kerberos realm ([`kdc`]), a HiveServer2 of small parts
//! ([`hive`]), that of Apache ([`apache_hive`]) and a Spark cluster ([`spark`]).
//!
//! Each is in a temporary folder, and ends with the process that started it, however that ends: a
//! shell, or the server itself, holds the other end of a pipe and stops when the pipe closes.

pub mod apache_hive;
pub mod hive;
mod java_server;
pub mod kdc;
mod network;
pub mod spark;

pub use java_server::JavaServer;
pub use network::{DelayedLink, Network, NoNetwork};

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

/// How long the server may take to respond after its start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Stops the server when the pipe closes, or when told to crash or to kill it; then the folder stays.
/// A server that is to be killed is suspended first, so that it starts no further processes.
const GUARD: &str = r#"
dir=$1; shift
"$@" >>"$dir/log" 2>&1 &
server=$!
read -r word
case "$word" in
crash) kill -QUIT "$server" ;;
kill)
    kill -STOP "$server"
    until grep -q '^State:.T' /proc/"$server"/status; do sleep 0.01; done
    children=$(cat /proc/"$server"/task/*/children)
    kill -KILL $children "$server"
    # While one of them has its memory, the server does not start again.
    for child in $children; do
        while grep -q . /proc/"$child"/maps 2>/dev/null; do sleep 0.01; done
    done ;;
*) kill -INT "$server" ;;
esac
wait "$server"
[ -n "$word" ] || rm -rf "$dir"
"#;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum NoServer {
    /// Its programs are not installed.
    #[error("PostgreSQL's server is not installed: apt-get install postgresql")]
    Missing,
    /// It could not be set up or started.
    #[error("a throw-away server could not be started: {0}")]
    Failed(String),
}

/// A running server.
#[derive(Debug)]
pub struct Throwaway {
    folder: PathBuf,
    programs: PathBuf,
    settings: Vec<String>,
    guard: Option<HeldProcess>,
}

/// A process that ends when its standard input does, which is when this is dropped.
#[derive(Debug)]
pub(crate) struct HeldProcess(pub(crate) Child);

impl Drop for HeldProcess {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Throwaway {
    /// Creates and starts a server with additional settings, such as `fsync=off`.
    ///
    /// # Errors
    /// [`NoServer`].
    pub fn start(settings: &[&str]) -> Result<Throwaway, NoServer> {
        Throwaway::start_in(&std::env::temp_dir(), settings)
    }

    /// Creates and starts a server whose files are in a new folder within this one, where the user
    /// `postgres` may write if this is root.
    ///
    /// # Errors
    /// [`NoServer`].
    pub fn start_in(parent: &Path, settings: &[&str]) -> Result<Throwaway, NoServer> {
        let programs = programs().ok_or(NoServer::Missing)?;
        let folder = new_folder(parent)?;
        let settings = settings.iter().map(|s| (*s).to_owned()).collect();
        let mut server = Throwaway { folder, programs, settings, guard: None };
        server.init()?;
        server.resume()?;
        Ok(server)
    }

    /// Starts the server again after [`Throwaway::crash`] or [`Throwaway::kill`].
    ///
    /// # Errors
    /// [`NoServer::Failed`] with the server's message.
    pub fn resume(&mut self) -> Result<(), NoServer> {
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "guard"]).arg(&self.folder).args(as_postgres());
        command.arg(self.programs.join("postgres"));
        command.arg("-D").arg(self.folder.join("data")).arg("-k").arg(&self.folder);
        command.args(["-c", "listen_addresses=", "-c", "max_connections=50"]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // In a separate group, so that Ctrl-C does not reach the guard.
        self.guard = Some(HeldProcess(command.process_group(0).spawn().map_err(failed)?));
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            match Client::connect(&self.url("postgres"), NoTls) {
                Ok(_) => return Ok(()),
                Err(_) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(50))
                }
                Err(error) => {
                    let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                    return Err(NoServer::Failed(format!("{error}\n{log}")));
                }
            }
        }
    }

    /// Stops the server without a shutdown, as in a crash; committed data is there after
    /// [`Throwaway::resume`].
    pub fn crash(&mut self) {
        self.end(b"crash\n");
    }

    /// Ends all processes of the server by SIGKILL; committed data is there after
    /// [`Throwaway::resume`].
    pub fn kill(&mut self) {
        self.end(b"kill\n");
    }

    /// Whether the process that guards it runs, as it does unless all processes were killed.
    pub fn has_guard(&mut self) -> bool {
        self.guard.as_mut().is_some_and(|guard| matches!(guard.0.try_wait(), Ok(None)))
    }

    fn end(&mut self, word: &[u8]) {
        if let Some(pipe) = self.guard.as_mut().and_then(|guard| guard.0.stdin.as_mut()) {
            // If the guard is gone, there is nothing to stop.
            let _ = pipe.write_all(word);
        }
        self.guard = None;
    }

    /// The number that a query of one row and one column finds in one of its databases.
    ///
    /// # Errors
    /// [`NoServer::Failed`] with the server's message.
    pub fn number(&self, database: &str, query: &str) -> Result<f64, NoServer> {
        let mut client = Client::connect(&self.url(database), NoTls).map_err(failed)?;
        let query = format!("SELECT ({query})::double precision");
        client.query_one(&query, &[]).and_then(|row| row.try_get(0)).map_err(failed)
    }

    /// The URL of one of its databases.
    pub fn url(&self, database: &str) -> String {
        format!("postgres:///{database}?host={}&user=postgres", self.folder.display())
    }

    /// Creates an empty database, and returns its URL.
    ///
    /// # Errors
    /// [`NoServer::Failed`] with the server's message.
    pub fn database(&self, name: &str) -> Result<String, NoServer> {
        let mut client = Client::connect(&self.url("postgres"), NoTls).map_err(failed)?;
        client.batch_execute(&format!("CREATE DATABASE {name}")).map_err(failed)?;
        Ok(self.url(name))
    }

    /// The server's data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the data folder: a copy of the first one, which takes a tenth of the time.
    fn init(&self) -> Result<(), NoServer> {
        let data = self.folder.join("data");
        let first = self.first_data();
        if first.as_deref().is_some_and(|first| copy(first, &data)) {
            return Ok(());
        }
        let mut command = Command::new("env");
        command.args(as_postgres()).arg(self.programs.join("initdb"));
        command.args(["-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--no-locale", "-D"]);
        let output = command.arg(&data).output().map_err(failed)?;
        if !output.status.success() {
            return Err(NoServer::Failed(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        if let Some(first) = first {
            let part = PathBuf::from(format!("{}.{}", first.display(), std::process::id()));
            // Another process may have been first.
            if copy(&data, &part) && std::fs::rename(&part, &first).is_err() {
                let _ = std::fs::remove_dir_all(&part);
            }
        }
        Ok(())
    }

    /// Where the first data folder of this version is kept, if that can be told.
    fn first_data(&self) -> Option<PathBuf> {
        let output = Command::new(self.programs.join("postgres")).arg("--version").output().ok()?;
        let version = String::from_utf8_lossy(&output.stdout);
        let version = version.split_whitespace().nth(2)?;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/tmp");
        std::fs::create_dir_all(&folder).ok()?;
        Some(folder.join(format!("postgresql-{version}")))
    }
}

impl Drop for Throwaway {
    fn drop(&mut self) {
        // A guard removes the folder itself.
        if self.guard.is_none() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// Copies a folder with owners and rights; leaves nothing if that fails.
fn copy(from: &Path, to: &Path) -> bool {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).stderr(Stdio::null()).status();
    let is_copied = copied.is_ok_and(|status| status.success());
    if !is_copied {
        let _ = std::fs::remove_dir_all(to);
    }
    is_copied
}

fn failed(error: impl std::error::Error) -> NoServer {
    let mut text = error.to_string();
    if let Some(cause) = error.source() {
        text = format!("{text}: {cause}");
    }
    NoServer::Failed(text)
}

/// The folder of `initdb` and `postgres`: on the path, or Debian's newest version.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|entry| entry.path()).collect();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<f64>().ok();
    versions.sort_by(|a, b| number(b).unwrap_or(0.0).total_cmp(&number(a).unwrap_or(0.0)));
    folders.extend(versions.into_iter().map(|version| version.join("bin")));
    folders.into_iter().find(|f| f.join("initdb").exists() && f.join("postgres").exists())
}

/// PostgreSQL refuses to run as root, so root runs it as the user `postgres`.
fn as_postgres() -> Vec<&'static str> {
    if is_root() {
        vec!["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    } else {
        Vec::new()
    }
}

fn is_root() -> bool {
    let me = std::fs::metadata("/proc/self");
    me.is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0)
}

/// A folder owned by the server's user. Its path is short, because Unix socket paths are limited.
fn new_folder(parent: &Path) -> Result<PathBuf, NoServer> {
    let mut command = Command::new("env");
    command.args(as_postgres()).args(["mktemp", "-d"]);
    let output = command
        .arg(parent.join("tachograph-pg-XXXXXX"))
        .current_dir("/")
        .output()
        .map_err(failed)?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if path.is_empty() {
        return Err(NoServer::Failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(PathBuf::from(path))
}
