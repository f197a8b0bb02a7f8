//! A running `tachograph serve`, as the proofs use it.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::Bytes;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use series::Step;
use store::{Selector, StoreError};

/// Timeout of everything that a daemon does.
const PATIENCE: Duration = Duration::from_secs(120);

/// A daemon, or the one that has taken over from it. It is killed when this is dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    id: i32,
    /// The addresses of the process that started last.
    addresses: Vec<String>,
    count: usize,
    out: Receiver<String>,
    notes: Receiver<String>,
}

/// The lines of a pipe that several processes write to.
fn lines(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (to, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

impl Daemon {
    /// Starts a daemon, and waits until it listens on `count` addresses.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub fn start(mut command: Command, count: usize) -> Result<Daemon, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let (Some(out), Some(notes)) = (child.stdout.take(), child.stderr.take()) else {
            return Err("the daemon has no output".to_owned());
        };
        let id = child.id() as i32;
        let (out, notes) = (lines(out), lines(notes));
        let mut daemon = Daemon { child, id, addresses: Vec::new(), count, out, notes };
        daemon.listens()?;
        Ok(daemon)
    }

    fn listens(&mut self) -> Result<(), String> {
        self.addresses.clear();
        while self.addresses.len() < self.count {
            let line = self.out.recv_timeout(PATIENCE).map_err(|_| {
                format!("the daemon does not listen: {:?}", self.notes.try_iter().last())
            })?;
            let address = line.strip_prefix("listening on ");
            self.addresses.push(address.ok_or_else(|| format!("it printed {line}"))?.to_owned());
        }
        Ok(())
    }

    /// The first address that starts like this, without it.
    ///
    /// # Panics
    /// If there is none.
    pub fn at(&self, kind: &str, nth: usize) -> String {
        let mut found = self.addresses.iter().filter_map(|address| address.strip_prefix(kind));
        found.nth(nth).expect("it listens there").to_owned()
    }

    /// The id of the process that serves.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// The peak memory of the process that serves (proc(5), VmHWM).
    ///
    /// # Errors
    /// If it has ended.
    pub fn peak_memory(&self) -> Result<Bytes, String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id));
        let status = status.map_err(|error| error.to_string())?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.map(|kib| Bytes(kib << 10)).ok_or_else(|| "no peak memory".to_owned())
    }

    /// Whether the process that was started has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal to the process that serves.
    ///
    /// # Errors
    /// The system's error.
    pub fn signal(&self, signal: Signal) -> Result<(), String> {
        let id = Pid::from_raw(self.id).ok_or("no process id")?;
        kill_process(id, signal).map_err(|error| error.to_string())
    }

    /// Starts a successor by SIGUSR2, and waits until it serves.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub fn replace(&mut self) -> Result<(), String> {
        self.signal(Signal::USR2)?;
        let note = self.note()?;
        let by = note.strip_prefix("process ").and_then(|rest| rest.split(' ').next());
        let by = by.and_then(|by| by.parse().ok()).ok_or(format!("it was not replaced: {note}"))?;
        if self.child.id() as i32 == self.id {
            let ended = self.child.wait().map_err(|error| error.to_string())?;
            if !ended.success() {
                return Err(format!("the replaced process ended with {ended}"));
            }
        }
        self.id = by;
        self.listens()
    }

    /// The next line on standard error.
    ///
    /// # Errors
    /// If there is none.
    pub fn note(&self) -> Result<String, String> {
        self.notes.recv_timeout(PATIENCE).map_err(|_| "the daemon is silent".to_owned())
    }

    /// Waits until the process that was started ends by itself; returns its exit status, and what it
    /// printed to standard error.
    ///
    /// # Errors
    /// If it does not end.
    pub fn ended(mut self) -> Result<(Option<i32>, String), String> {
        let mut notes = Vec::new();
        loop {
            match self.notes.recv_timeout(PATIENCE) {
                Ok(note) => notes.push(note),
                Err(RecvTimeoutError::Timeout) => return Err("it does not end".to_owned()),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let ended = self.child.wait().map_err(|error| error.to_string())?;
        Ok((ended.code(), notes.join("\n")))
    }

    /// Stops the process that serves, and waits until it has ended.
    ///
    /// # Errors
    /// What it printed to standard error, or another status than 0.
    pub fn stop(mut self) -> Result<(), String> {
        self.signal(Signal::TERM)?;
        // Its standard error is closed when it ends.
        match self.notes.recv_timeout(PATIENCE) {
            Ok(note) => Err(note),
            Err(RecvTimeoutError::Timeout) => Err("it does not end".to_owned()),
            // A successor is no child of ours, so its status is unknown.
            Err(RecvTimeoutError::Disconnected) if self.child.id() as i32 != self.id => Ok(()),
            Err(RecvTimeoutError::Disconnected) => match self.child.wait() {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(format!("it ended with {status}")),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let serving = Pid::from_raw(self.id).filter(|id| test_kill_process(*id).is_ok());
        if let Some(id) = serving {
            let _ = kill_process(id, Signal::KILL);
        }
        let _ = self.child.wait();
        // The other process is not our child; its pipes are closed when it has ended.
        while self.notes.recv_timeout(PATIENCE).is_ok() {}
    }
}

/// Sends bytes over a TCP connection: whether the daemon ended it in order, by which it acknowledges
/// them.
///
/// # Errors
/// Those of the connection.
pub fn over_tcp(at: &str, bytes: &[u8]) -> io::Result<bool> {
    let stream = TcpStream::connect(at)?;
    sent(&stream, bytes, || stream.shutdown(Shutdown::Write))
}

/// The same over a Unix stream socket.
///
/// # Errors
/// Those of the connection.
pub fn over_unix(at: &Path, bytes: &[u8]) -> io::Result<bool> {
    let stream = UnixStream::connect(at)?;
    sent(&stream, bytes, || stream.shutdown(Shutdown::Write))
}

fn sent(
    mut stream: impl Read + Write,
    bytes: &[u8],
    close: impl FnOnce() -> io::Result<()>,
) -> io::Result<bool> {
    stream.write_all(bytes)?;
    close()?;
    Ok(stream.read(&mut [0])? == 0)
}

/// Number of points of each measurement in a store.
///
/// # Errors
/// Those of the store.
pub fn points(place: &str, measurements: &[&str]) -> Result<Vec<i64>, StoreError> {
    let mut store = store::open_read_only(place)?;
    let Some(step) = Step::from_secs(10) else { return Ok(Vec::new()) };
    let mut count = |measurement: &&str| {
        let measurement = Some((*measurement).to_owned());
        let found = store.find(&Selector { measurement, ..Selector::default() })?;
        let ids: Vec<i64> = found.iter().map(|series| series.id).collect();
        let slots = store.slots(step, &ids, i64::MIN, i64::MAX)?;
        Ok(slots.iter().map(|(_, slot)| slot.n).sum())
    };
    measurements.iter().map(&mut count).collect()
}

/// The clock, in microseconds since the epoch.
pub fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64
}
