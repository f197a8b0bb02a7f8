//! Rounds: a fresh server, then every client in turn.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Options;
use super::calls::{InstalledClient, Outcome, Place};
use super::clients::Client;
use super::lines::{Line, Offer, Transport, Work};
use super::results::{LineResults, Run, Spread};
use crate::process::{Cost, PinnedProcess, free_port};
use crate::tools::rounds::Rounds;
use crate::{binary, pages};

/// Additional time for a client's turn, and for a server to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long no connection must have ended for all to have.
const SETTLED: Duration = Duration::from_millis(200);

/// What the lines share.
pub(super) struct Bench {
    options: Options,
    rounds: Rounds,
    ours: PathBuf,
    own: PathBuf,
    folder: tempfile::TempDir,
}

/// A server with its counter.
struct Server {
    // Killed on drop.
    _process: PinnedProcess,
    place: Place,
    count: PathBuf,
    /// The responses on each connection that has ended, where there are many.
    answers: PathBuf,
}

impl Bench {
    pub(super) fn new(options: &Options) -> Result<Bench, String> {
        let text = |error: std::io::Error| error.to_string();
        Ok(Bench {
            options: options.clone(),
            rounds: Rounds::new("xtask bench", options.rounds, options.seed)?,
            ours: binary::path()?,
            own: std::env::current_exe().map_err(text)?,
            folder: tempfile::tempdir().map_err(text)?,
        })
    }

    /// Set to end it.
    pub(super) fn is_stopped(&self) -> bool {
        self.rounds.stop.load(Ordering::Relaxed)
    }

    /// Measures one line in all its rounds.
    pub(super) fn measure(&self, line: &Line) -> Result<LineResults, String> {
        let (mut here, mut skipped) = (Vec::new(), Vec::new());
        for client in line.clients {
            match client.find(&self.ours, &self.own) {
                Some(installed) => here.push(installed),
                None => skipped.extend(
                    client
                        .source()
                        .map(|from| format!("{} is not installed ({from})", client.name())),
                ),
            }
        }
        let (offered_per_s, auto) = self.prepare(line)?;
        let mut measured = LineResults {
            date: pages::now(),
            machine: self.rounds.machine.clone(),
            versions: versions(&here),
            skipped,
            seed: self.options.seed.0,
            rounds: self.options.rounds,
            seconds: self.options.seconds,
            offered_per_s,
            auto,
            runs: Vec::new(),
        };
        let mut broken = Vec::new();
        for (round, order) in self.rounds.of(line.id, &here) {
            let server = self.serve(line)?;
            for installed in order {
                if broken.contains(&installed.client) {
                    continue;
                }
                match self.turn(round, line, installed, &server, offered_per_s) {
                    Ok(run) => measured.runs.push(run),
                    Err(what) if self.rounds.stop.load(Ordering::Relaxed) => return Err(what),
                    Err(what) => {
                        let name = installed.client.name();
                        measured.skipped.push(format!("{name} failed in round {round}: {what}"));
                        broken.push(installed.client);
                    }
                }
            }
        }
        // With half of a client's rounds, others would be compared in the wrong ones.
        measured.runs.retain(|run| broken.iter().all(|client| client.name() != run.client));
        if measured.runs.is_empty() { Err(measured.skipped.join("; ")) } else { Ok(measured) }
    }

    fn turn(
        &self,
        round: u32,
        line: &Line,
        installed: &InstalledClient,
        server: &Server,
        rate: Option<f64>,
    ) -> Result<Run, String> {
        let arguments = installed.client.arguments(line, &server.place, self.options.seconds, rate);
        let (before, ended) = (server.served(), server.answers().len());
        let (outcome, cost) = self.load(line, installed, &arguments, &server.place)?;
        let served = match (before, server.served()) {
            (Some(before), Some(after)) if line.work != Work::Bulk => Some(after - before),
            _ => None,
        };
        if let Some(served) = served
            && served < outcome.completed
        {
            return Err(format!(
                "it says {} requests, and the server counted {served}",
                outcome.completed
            ));
        }
        Ok(Run {
            round,
            client: installed.client.name().to_owned(),
            rate_per_s: outcome.rate_per_s,
            completed: outcome.completed,
            served,
            failed: outcome.failed,
            user_s: cost.user_s,
            system_s: cost.system_s,
            lateness_p99_ns: outcome.lateness_p99_ns,
            peak_bytes: Some(cost.peak_bytes).filter(|bytes| *bytes > 0),
            spread: match line.has_many_connections() {
                true => Spread::of(server.settled_answers().split_off(ended)),
                false => None,
            },
        })
    }

    /// Runs one client.
    fn load(
        &self,
        line: &Line,
        installed: &InstalledClient,
        arguments: &[String],
        place: &Place,
    ) -> Result<(Outcome, Cost), String> {
        // iperf3 needs its own server.
        let _peer = match installed.client {
            Client::Iperf3 => Some(self.iperf3(installed, place)?),
            _ => None,
        };
        let cpus = match line {
            Line { same_cpu: true, .. } => &base::CpuSet::one(self.rounds.server_cpu),
            Line { threads: 1, .. } => &base::CpuSet::one(self.rounds.tool_cpu),
            _ => &self.rounds.other_cpus,
        };
        let (program, folder) = (&installed.path, self.folder.path());
        let client = PinnedProcess::start_on(cpus, program, arguments, folder)?;
        let limit = Duration::from_secs_f64(self.options.seconds) + PATIENCE;
        let (text, cost) = client.finish(limit, &self.rounds.stop)?;
        Ok((installed.client.read(line.work, &text)?, cost))
    }

    fn start(
        &self,
        cpu: usize,
        program: &Path,
        arguments: &[impl AsRef<OsStr>],
    ) -> Result<PinnedProcess, String> {
        PinnedProcess::start(cpu, program, arguments, self.folder.path())
    }

    fn iperf3(&self, installed: &InstalledClient, place: &Place) -> Result<PinnedProcess, String> {
        let arguments = ["-s", "-1", "--forceflush", "-p", &place.other_port.to_string()];
        let mut server = self.start(self.rounds.server_cpu, &installed.path, &arguments)?;
        self.until_printed(&mut server, "listening")?;
        Ok(server)
    }

    /// Measures what the rounds need: the rate of an open loop, and the I/O backend that ours
    /// chooses.
    fn prepare(&self, line: &Line) -> Result<(Option<f64>, Option<String>), String> {
        let Some(ours) = Client::Epoll.find(&self.ours, &self.own) else {
            return Err("ours is not there".to_owned());
        };
        let server = self.serve(line)?;
        let auto = |line: &Line, seconds: f64, rate: Option<f64>| {
            let mut arguments = ours.client.arguments(line, &server.place, seconds, rate);
            if let Some(engine) = arguments.iter().position(|word| word == "--engine") {
                arguments[engine + 1] = "auto".to_owned();
            }
            self.load(line, &ours, &arguments, &server.place)
        };
        let offered = match line.work {
            Work::Open(Offer::PerSecond(rate)) => Some(rate),
            Work::Open(Offer::OfCapacity(share)) => {
                let closed = Line { work: Work::Kept, ..*line };
                Some((auto(&closed, self.options.seconds, None)?.0.rate_per_s * share).round())
            }
            _ => None,
        };
        let (outcome, _) = auto(line, 0.2, offered)?;
        Ok((offered, outcome.engine))
    }

    fn serve(&self, line: &Line) -> Result<Server, String> {
        let folder = self.folder.path();
        let place = Place {
            port: free_port()?,
            other_port: free_port()?,
            socket: folder.join("server.sock"),
        };
        let (count, answers) = (folder.join("served"), folder.join("answers"));
        let listen = match line.transport {
            Transport::Tcp => format!("tcp://127.0.0.1:{}", place.port),
            Transport::Unix => format!("unix:{}", place.socket.display()),
        };
        let mode = if line.work == Work::Bulk { "bulk" } else { "http" };
        let (counted, distributed) = (count.display().to_string(), answers.display().to_string());
        let mut arguments =
            vec!["serve-fixture", "--mode", mode, "--listen", &listen, "--served-file", &counted];
        if line.has_many_connections() {
            arguments.extend(["--answers-file", &distributed]);
        }
        arguments.extend(line.tls.then_some("--tls"));
        arguments.extend((line.streams > 0).then_some("--http2"));
        let mut process = self.start(self.rounds.server_cpu, &self.ours, &arguments)?;
        self.until_printed(&mut process, "listening")?;
        Ok(Server { _process: process, place, count, answers })
    }

    fn until_printed(&self, process: &mut PinnedProcess, word: &str) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let text = process.printed();
            if text.contains(word) {
                return Ok(());
            }
            if self.rounds.stop.load(Ordering::Relaxed) {
                return Err("stopped".to_owned());
            }
            if process.ended()?.is_some() || began.elapsed() > PATIENCE {
                return Err(format!("the server did not begin to listen: {}", text.trim()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Server {
    /// The responses on each connection that has ended.
    fn answers(&self) -> Vec<u32> {
        // There is no file where there are few connections.
        let bytes = std::fs::read(&self.answers).unwrap_or_default();
        bytes.as_chunks().0.iter().map(|four| u32::from_le_bytes(*four)).collect()
    }

    /// The same once no more connections end.
    fn settled_answers(&self) -> Vec<u32> {
        let mut before = self.answers();
        loop {
            std::thread::sleep(SETTLED);
            let now = self.answers();
            if now.len() == before.len() {
                return now;
            }
            before = now;
        }
    }

    /// The number of requests served so far.
    fn served(&self) -> Option<u64> {
        let bytes = std::fs::read(&self.count).ok()?;
        Some(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?))
    }
}

fn versions(here: &[InstalledClient]) -> BTreeMap<String, String> {
    let version = |InstalledClient { client, version, .. }: &InstalledClient| {
        let is_ours = client.engine().is_some();
        let name = if is_ours { "tachograph" } else { client.source().map(|_| client.name())? };
        Some((name.to_owned(), version.clone()))
    };
    here.iter().filter_map(version).collect()
}
