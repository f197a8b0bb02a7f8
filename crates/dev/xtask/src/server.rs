//! Servers of others, as processes of their own.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::http;
use crate::process::{KilledOnDrop, comes_true, free_port, listens};

/// Timeout of a start and of a stop, and how often to look.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);

/// A server that is killed on drop.
pub(crate) struct Server {
    pub(crate) port: u16,
    /// The path that answers once it is ready; without one, it is ready when it listens.
    ready: Option<&'static str>,
    command: Box<dyn Fn(u16) -> Command>,
    /// The signal that ends it in an orderly way.
    pub(crate) stop_by: Signal,
    running: Option<KilledOnDrop>,
}

impl Server {
    /// A server that `command` starts on a port.
    pub(crate) fn new(
        ready: Option<&'static str>,
        command: impl Fn(u16) -> Command + 'static,
    ) -> Result<Server, String> {
        let command = Box::new(command);
        Ok(Server { port: free_port()?, ready, command, stop_by: Signal::TERM, running: None })
    }

    /// Starts it unless it runs, and waits until it is ready.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        if self.process().is_some() && !self.has_ended()? {
            return Ok(());
        }
        let mut command = tied((self.command)(self.port));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let shown = shown(&command);
        let child = command.spawn().map_err(|error| format!("{shown}: {error}"))?;
        self.running = Some(KilledOnDrop(child));
        let is_ready = match self.ready {
            Some(path) => comes_true(PATIENCE, LOOK, || {
                http::get(self.port, path).is_ok_and(|answer| answer.is_success())
            }),
            None => listens(self.port, PATIENCE),
        };
        is_ready.then_some(()).ok_or_else(|| format!("{shown} does not get ready"))
    }

    /// Ends it.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        if let Some(running) = &self.running {
            // It may have ended by itself.
            let _ = kill_process(Pid::from_child(&running.0), self.stop_by);
        }
        let mut ended = Ok(false);
        comes_true(PATIENCE, LOOK, || {
            ended = self.has_ended();
            ended != Ok(false)
        });
        match ended? {
            true => Ok(()),
            false => Err("it does not end".to_owned()),
        }
    }

    pub(crate) fn process(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.0.id())
    }

    fn has_ended(&mut self) -> Result<bool, String> {
        let Some(running) = &mut self.running else { return Ok(true) };
        let ended = running.0.try_wait().map_err(|error| error.to_string())?.is_some();
        if ended {
            self.running = None;
        }
        Ok(ended)
    }
}

/// A command whose process is killed when this one ends, however it ends (setpriv(1)).
pub(crate) fn tied(command: Command) -> Command {
    let mut tied = Command::new("setpriv");
    tied.args(["--pdeathsig", "KILL"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => tied.env(name, value),
            None => tied.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        tied.current_dir(folder);
    }
    tied
}

/// The program of a tied command.
pub(crate) fn shown(command: &Command) -> String {
    let mut arguments = command.get_args().skip(2);
    arguments.next().unwrap_or(command.get_program()).display().to_string()
}

/// InfluxDB 1 with its usual settings, in a folder.
pub(crate) fn influxdb(folder: &Path) -> Result<Server, String> {
    let (folder, rpc) = (folder.to_owned(), free_port()?);
    Server::new(Some("/ping"), move |port| {
        let mut command = Command::new("influxd");
        command.args(["run", "-config", "/dev/null"]);
        command.env("INFLUXDB_META_DIR", folder.join("meta"));
        command.env("INFLUXDB_DATA_DIR", folder.join("data"));
        command.env("INFLUXDB_DATA_WAL_DIR", folder.join("data/wal"));
        command.env("INFLUXDB_HTTP_BIND_ADDRESS", format!("127.0.0.1:{port}"));
        command.env("INFLUXDB_BIND_ADDRESS", format!("127.0.0.1:{rpc}"));
        command.env("INFLUXDB_HTTP_LOG_ENABLED", "false");
        command.env("INFLUXDB_REPORTING_DISABLED", "true");
        command
    })
}

/// VictoriaMetrics with its data in a folder, with further options.
pub(crate) fn victoria_metrics(data: &Path, options: &[String]) -> Result<Server, String> {
    let (data, options) = (data.to_owned(), options.to_vec());
    Server::new(Some("/health"), move |port| {
        let mut command = Command::new("victoria-metrics");
        command.arg(format!("-storageDataPath={}", data.display())).args(&options);
        command.arg(format!("-httpListenAddr=127.0.0.1:{port}")).arg("-retentionPeriod=100y");
        command
    })
}
