//! A server as a process of its own.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::http;
use crate::process::{KilledOnDrop, comes_true, free_port, listens};

/// Timeout of a start and of a stop, and how often to look.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);

/// A server that is killed on drop.
pub(super) struct Server {
    pub(super) port: u16,
    /// The path that answers once it is ready; without one, it is ready when it listens.
    ready: Option<&'static str>,
    command: Box<dyn Fn(u16) -> Command>,
    /// The signal that ends it in an orderly way.
    pub(super) stop_by: Signal,
    running: Option<KilledOnDrop>,
}

impl Server {
    /// A server that `command` starts on a port.
    pub(super) fn new(
        ready: Option<&'static str>,
        command: impl Fn(u16) -> Command + 'static,
    ) -> Result<Server, String> {
        let command = Box::new(command);
        Ok(Server { port: free_port()?, ready, command, stop_by: Signal::TERM, running: None })
    }

    /// Starts it unless it runs, and waits until it is ready.
    pub(super) fn start(&mut self) -> Result<(), String> {
        if self.process().is_some() && !self.has_ended()? {
            return Ok(());
        }
        let mut command = (self.command)(self.port);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let shown = command.get_program().display().to_string();
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
    pub(super) fn stop(&mut self) -> Result<(), String> {
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

    pub(super) fn process(&self) -> Option<u32> {
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
