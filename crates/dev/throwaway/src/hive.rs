//! A temporary HiveServer2, `hive/server.py`: independent parts that speak its protocol, over DuckDB.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::kdc::Kdc;
use crate::{HeldProcess, NoServer, failed};

const SCRIPT: &str = include_str!("../hive/server.py");

/// The packages of the server, pinned.
const PACKAGES: [&str; 3] = ["impyla==0.24.0", "thrift==0.25.0", "duckdb==2.0.0"];

/// Debian's Python, for which Debian has python3-gssapi.
const PYTHON: &str = "/usr/bin/python3";

/// A running server. It ends with this value, or with the process, however that ends.
#[derive(Debug)]
pub struct HiveServer {
    _child: HeldProcess,
    port: u16,
    said: Arc<Mutex<String>>,
}

impl HiveServer {
    /// Starts a server with these options, in a realm if there is one, and by `faketime` with
    /// another clock if `shift` is given, such as `+10m`.
    ///
    /// # Errors
    /// [`NoServer`].
    pub fn start(
        options: &[&str],
        realm: Option<&Kdc>,
        shift: Option<&str>,
    ) -> Result<HiveServer, NoServer> {
        let python = python()?;
        let mut command = match shift {
            Some(shift) => {
                let mut command = Command::new("faketime");
                command.args(["-f", shift]).arg(python);
                command
            }
            None => Command::new(python),
        };
        command.args(["-c", SCRIPT]).args(options);
        if let Some(realm) = realm {
            // A cache of past logins in /var/tmp would outlive the server.
            command.envs(realm.environment()).env("KRB5RCACHENAME", "none:");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(NoServer::Failed("the server has no output".to_owned()));
        };
        let said = Arc::new(Mutex::new(String::new()));
        let keep = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                let mut said = keep.lock().unwrap_or_else(PoisonError::into_inner);
                said.push_str(&line);
                said.push('\n');
            }
        });
        let mut server = HiveServer { _child: HeldProcess(child), port: 0, said };
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).map_err(failed)?;
        let port = line.trim().strip_prefix("listening on ").and_then(|port| port.parse().ok());
        server.port = port.ok_or_else(|| {
            NoServer::Failed(format!(
                "the Hive server printed '{}'\n{}",
                line.trim(),
                server.said()
            ))
        })?;
        Ok(server)
    }

    /// The port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What the server wrote to standard error so far: statements and logins.
    pub fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The interpreter with the server's packages.
fn python() -> Result<&'static Path, NoServer> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let packages = PACKAGES.map(str::to_owned);
        let folder = stage::python::ensure_env(&packages, Some(Path::new(PYTHON)), &mut |_| ());
        folder.map(|folder| folder.join("python")).map_err(|error| error.to_string())
    });
    found.as_deref().map_err(|error| NoServer::Failed(error.clone()))
}
