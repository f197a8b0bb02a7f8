//! Another machine: the near end of its agent.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base::{CpuSet, Nanos, RunId, monotonic_now};
use drive::{RoundTrip, StopFlag};
use host::{Identity, Way};
use profile::ProfilerOptions;
use stage::{ErrandEnd, ExperimentFile};

use crate::clock::Offset;
use crate::error::{AgentError, FarError};
use crate::link::{AgentChannel, Ends, PendingAnswer};
use crate::message::{Answer, Ask, Claim, ErrandOrder, Facts, Look, MachineReading};

/// Pieces of files that are sent before the first of them is acknowledged.
const PIECES_AHEAD: usize = 8;

/// Exchanges for one measurement of the clock offset.
const EXCHANGES: usize = 8;

/// A machine with an agent. The agent ends when this is dropped, and whatever it has started.
pub struct Machine {
    pub(crate) link: Arc<AgentChannel>,
    facts: Facts,
    offset: Mutex<Offset>,
}

/// What the agent reads, when it has arrived.
pub struct PendingReading(PendingAnswer);

impl PendingReading {
    /// Waits for it.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn looked(self) -> Result<MachineReading, FarError> {
        let name = self.0.name();
        match self.0.answer()? {
            Answer::Looked(looked) => Ok(*looked),
            _ => Err(out_of_step(&name)),
        }
    }
}

/// The error for an answer to another question.
pub(crate) fn out_of_step(machine: &str) -> FarError {
    let why = "its answer is not one to our question; please report this bug in tachograph";
    FarError::of(machine, AgentError::other(why))
}

/// Takes the one kind of answer that fits.
macro_rules! answered {
    ($machine:expr, $ask:expr, $pattern:pat => $value:expr) => {
        match $machine.ask($ask)? {
            $pattern => Ok($value),
            _ => Err($crate::machine::out_of_step($machine.name())),
        }
    };
}
pub(crate) use answered;

impl Machine {
    /// Greets the agent at the other end of a channel, and learns what machine it is on.
    ///
    /// `version` must be that of the agent's build. Once `stop` is set, slices and starts there end
    /// early.
    ///
    /// # Errors
    /// If the other end is no agent, or one of another build.
    pub fn connect(
        name: &str,
        ends: Ends,
        version: &str,
        stop: StopFlag,
    ) -> Result<Machine, FarError> {
        let link = AgentChannel::open(name, ends, version, stop)?;
        let closing = Arc::clone(&link);
        let facts = match link.ask(Ask::Facts).answer() {
            Ok(Answer::Facts(facts)) => Ok(*facts),
            Ok(_) => Err(out_of_step(name)),
            Err(error) => Err(error),
        };
        let facts = facts.inspect_err(|_| closing.close())?;
        let machine = Machine { link, facts, offset: Mutex::default() };
        machine.sync()?;
        Ok(machine)
    }

    /// The name as given to ssh.
    pub fn name(&self) -> &str {
        self.link.name()
    }

    /// What the agent knows of its machine.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The address at which this machine reaches a server there: the one that is `given`, or the one
    /// that ssh uses; the loopback address where both are in one network of one machine.
    pub fn address(&self, given: Option<&str>) -> String {
        if self.facts.identity.is_same_network(&Identity::own()) {
            return spec::LOOPBACK.to_owned();
        }
        let ssh = self.facts.ssh.as_ref().map(|(_, server)| server.as_str());
        bracketed(given.or(ssh).unwrap_or(spec::LOOPBACK))
    }

    /// Whether the connection has ended.
    pub fn is_lost(&self) -> bool {
        self.link.is_lost()
    }

    pub(crate) fn ask(&self, ask: Ask) -> Result<Answer, FarError> {
        self.link.ask(ask).answer()
    }

    /// Measures the offset of its clock again.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn sync(&self) -> Result<Offset, FarError> {
        let mut exchanges = Vec::with_capacity(EXCHANGES);
        for _ in 0..EXCHANGES {
            let asked = monotonic_now();
            let theirs = answered!(self, Ask::Clock, Answer::Instant(at) => at)?;
            exchanges.push(Offset::of_exchange(asked, theirs, monotonic_now()));
        }
        let best = Offset::best(exchanges).unwrap_or_default();
        *self.offset.lock().unwrap_or_else(PoisonError::into_inner) = best;
        Ok(best)
    }

    /// The offset of its clock, as measured last.
    pub fn offset(&self) -> Offset {
        *self.offset.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims CPUs there for a measurement, until the machine is dropped.
    ///
    /// # Errors
    /// [`FarError::Busy`] if another measurement has them and the claim does not wait.
    pub fn claim(&self, claim: Claim) -> Result<(), FarError> {
        answered!(self, Ask::Claim(claim), Answer::Done => ())
    }

    /// Runs the reference loop on these CPUs, all if empty; returns the longest duration.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn canary(&self, cpus: &CpuSet) -> Result<Nanos, FarError> {
        answered!(self, Ask::Canary(cpus.clone()), Answer::Instant(duration) => duration)
    }

    /// The way from there to a listening server, `HOST:PORT`, and its round trip.
    ///
    /// # Errors
    /// If the server cannot be reached, or the connection is lost.
    pub fn way(&self, server: &str) -> Result<(Option<Way>, RoundTrip), FarError> {
        let server = server.to_owned();
        answered!(self, Ask::Way { server }, Answer::Way { way, round_trip } => (way, round_trip))
    }

    /// Creates the folder of a run's stacks.
    ///
    /// # Errors
    /// If there is no place for it.
    pub fn begin(&self, run: &RunId) -> Result<(), FarError> {
        answered!(self, Ask::Begin(run.clone()), Answer::Done => ())
    }

    /// Copies the files of an experiment into the folder of its run; returns the folder of `$FILES`.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn copy(&self, files: &[ExperimentFile]) -> Result<PathBuf, FarError> {
        let folder = answered!(self, Ask::FilesFolder, Answer::Folder(folder) => folder)?;
        let mut waiting = VecDeque::new();
        for piece in files.iter().flat_map(ExperimentFile::pieces) {
            waiting.push_back(self.link.ask(Ask::Piece(piece)));
            if waiting.len() > PIECES_AHEAD
                && let Some(first) = waiting.pop_front()
            {
                first.answer()?;
            }
        }
        waiting.into_iter().try_for_each(|pending| pending.answer().map(drop))?;
        Ok(folder)
    }

    /// Runs a command there, and waits for it; what it leaves running is stopped.
    ///
    /// # Errors
    /// If it cannot be started, if the near end stops it, or if the connection is lost.
    pub fn errand(&self, errand: ErrandOrder) -> Result<ErrandEnd, FarError> {
        answered!(self, Ask::Errand(errand), Answer::Ended(ended) => ended)
    }

    /// Creates an environment with these Python packages; returns the folder of its programs.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn python(
        &self,
        requirements: &[String],
        interpreter: Option<&str>,
    ) -> Result<PathBuf, FarError> {
        let (requirements, interpreter) = (requirements.to_vec(), interpreter.map(str::to_owned));
        answered!(self, Ask::Python { requirements, interpreter }, Answer::Folder(folder) => folder)
    }

    /// Runs a shell command, in a folder there if one is given; `option` is the option that gave it.
    ///
    /// # Errors
    /// If it fails.
    pub fn hook(&self, option: &str, command: &str, folder: Option<&Path>) -> Result<(), FarError> {
        let folder = folder.map(Path::to_owned);
        let (option, command) = (option.to_owned(), command.to_owned());
        answered!(self, Ask::Hook { option, command, folder }, Answer::Done => ())
    }

    /// Samples its CPUs from now on, for the stacks that are watched.
    ///
    /// # Errors
    /// If the kernel there does not permit it, or the connection is lost.
    pub fn sample(&self, options: ProfilerOptions) -> Result<(), FarError> {
        answered!(self, Ask::Sample(options), Answer::Done => ())
    }

    /// Reads the machine's counters and, if wanted, a stack's usage.
    pub fn look(&self, look: Look) -> PendingReading {
        PendingReading(self.link.ask(Ask::Look(look)))
    }
}

/// An address as it stands before a port: one of IPv6 in brackets (RFC 3986, section 3.2.2).
pub fn bracketed(address: &str) -> String {
    match address.contains(':') && !address.starts_with('[') {
        true => format!("[{address}]"),
        false => address.to_owned(),
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.link.close();
    }
}
