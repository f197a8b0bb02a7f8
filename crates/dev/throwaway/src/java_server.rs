//! A server that runs in Java and speaks HiveServer2's protocol.

use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::kdc::free_port;
use crate::{HeldProcess, NoServer, failed};

/// How long a server may take to listen, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running server. It ends with this value, or with the process, however that ends.
#[derive(Debug)]
pub struct JavaServer {
    name: &'static str,
    /// What it wrote, all processes in one file or the one that listens.
    log: PathBuf,
    port: u16,
    _guard: HeldProcess,
}

impl JavaServer {
    /// Starts a server by a script whose first argument is a folder, in which it writes `log`; the
    /// other arguments are those of `arguments`, which is given the port to listen on.
    pub(crate) fn start(
        name: &'static str,
        script: &str,
        log: &str,
        arguments: impl FnOnce(&mut Command, u16) -> Result<(), NoServer>,
    ) -> Result<JavaServer, NoServer> {
        if Command::new("java").arg("-version").output().is_err() {
            let reason = format!("{name} needs Java: apt-get install default-jre-headless");
            return Err(NoServer::Failed(reason));
        }
        let port = free_port()?;
        // Two servers of a kind may run at once.
        let folder = format!("tachograph-{name}-{}-{port}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir(&folder).map_err(failed)?;
        let mut command = Command::new("sh");
        command.args(["-c", script, name]).arg(&folder);
        arguments(&mut command, port)?;
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // In a separate group, so that Ctrl-C does not reach the guard.
        let guard = HeldProcess(command.process_group(0).spawn().map_err(failed)?);
        let server = JavaServer { name, log: folder.join(log), port, _guard: guard };
        server.wait()?;
        Ok(server)
    }

    fn wait(&self) -> Result<(), NoServer> {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            if Instant::now() > deadline || self.log().contains("Shutdown hook called") {
                return Err(NoServer::Failed(format!("{}:\n{}", self.name, self.errors())));
            }
            std::thread::sleep(Duration::from_millis(250));
        }
        Ok(())
    }

    /// The port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The first errors in what it wrote.
    fn errors(&self) -> String {
        let log = self.log();
        let errors = log.lines().filter(|line| line.contains("ERROR") || line.contains("Caused"));
        errors.take(5).collect::<Vec<&str>>().join("\n")
    }
}
