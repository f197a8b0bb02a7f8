//! What the agent does.

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::{CpuSet, RunId};
use drive::{DriveError, Session, StopFlag};
use host::{Canary, Identity, Meter};
use profile::{ProfiledStack, Profiler, WatchedStack};
use spec::Target;
use stage::server_count::CountReader;
use stage::{CpuLock, Errand, LiveStack, Stage, StageError, StageOptions, StartOptions};

use super::{Binary, locked};
use crate::error::AgentError;
use crate::message::{
    Answer, Ask, Claim, ErrandOrder, Facts, Look, MachineReading, OpenSession, StackOptions,
};

/// A body of more bytes is not sent to the near end.
const BODY_BYTES_MAX: usize = 12 << 20;

/// Things by number, each used by one thread at a time.
struct Shelf<T> {
    things: Mutex<HashMap<u64, Arc<Mutex<Option<T>>>>>,
    next: AtomicU64,
}

impl<T> Default for Shelf<T> {
    fn default() -> Shelf<T> {
        Shelf { things: Mutex::default(), next: AtomicU64::new(0) }
    }
}

impl<T> Shelf<T> {
    fn add(&self, thing: T) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        locked(&self.things).insert(id, Arc::new(Mutex::new(Some(thing))));
        id
    }

    fn with<R>(&self, id: u64, of: impl FnOnce(&mut T) -> R) -> Result<R, AgentError> {
        let thing = locked(&self.things).get(&id).map(Arc::clone);
        let thing = thing.ok_or_else(|| AgentError::other("it is not there"))?;
        let mut thing = thing.lock().unwrap_or_else(PoisonError::into_inner);
        thing.as_mut().map(of).ok_or_else(|| AgentError::other("it has ended"))
    }

    fn take(&self, id: u64) -> Result<T, AgentError> {
        let thing = locked(&self.things).remove(&id);
        let thing = thing.ok_or_else(|| AgentError::other("it is not there"))?;
        let taken = locked(&thing).take();
        taken.ok_or_else(|| AgentError::other("it has ended"))
    }

    fn is_empty(&self) -> bool {
        locked(&self.things).is_empty()
    }
}

/// The agent's stage, stacks, counters and sessions.
pub(super) struct Work {
    pub(super) stop: StopFlag,
    binary: Binary,
    meter: Meter,
    canary: Mutex<Option<(CpuSet, Canary)>>,
    claims: Mutex<Vec<CpuLock>>,
    stage: Mutex<Option<Arc<Stage>>>,
    stacks: Shelf<LiveStack>,
    counters: Shelf<CountReader>,
    sessions: Shelf<Session>,
    /// Starts and errands that have not ended yet.
    starting: AtomicU64,
    profiler: Mutex<Option<Profiler>>,
    /// By stack, those that are sampled.
    profiled: Mutex<HashMap<u64, ProfiledStack>>,
}

impl Work {
    pub(super) fn new(binary: Binary) -> Work {
        Work {
            stop: StopFlag::default(),
            binary,
            meter: Meter::open(),
            canary: Mutex::default(),
            claims: Mutex::default(),
            stage: Mutex::default(),
            stacks: Shelf::default(),
            counters: Shelf::default(),
            sessions: Shelf::default(),
            starting: AtomicU64::new(0),
            profiler: Mutex::default(),
            profiled: Mutex::default(),
        }
    }

    /// Removes the folder of the run if no stack is left. Stacks that still run are stopped by
    /// their guards when the process ends, which takes less time than to ask each politely.
    pub(super) fn end(&self) {
        if self.stacks.is_empty() && self.starting.load(Ordering::SeqCst) == 0 {
            drop(locked(&self.stage).take());
        }
    }

    pub(super) fn answer(&self, ask: Ask) -> Result<Answer, AgentError> {
        Ok(match ask {
            Ask::Facts => Answer::Facts(Box::new(self.facts())),
            // The reader answers it.
            Ask::Clock => Answer::Done,
            Ask::Claim(claim) => self.claim(&claim)?,
            Ask::Canary(cpus) => self.canary(cpus),
            Ask::Way { server } => {
                let (way, round_trip) = crate::way(&server)
                    .map_err(|error| AgentError::other(format!("{server}: {error}")))?;
                Answer::Way { way, round_trip }
            }
            Ask::Begin(run) => self.begin(run)?,
            Ask::FilesFolder => Answer::Folder(self.begun()?.create_files_folder()?),
            Ask::Piece(piece) => {
                self.begun()?.write_piece(&piece)?;
                Answer::Done
            }
            Ask::Errand(errand) => self.errand(&errand)?,
            Ask::Python { requirements, interpreter } => {
                let interpreter = interpreter.as_deref().map(Path::new);
                Answer::Folder(stage::python::ensure_env(&requirements, interpreter, &mut |_| {})?)
            }
            Ask::Hook { option, command, folder } => {
                stage::run_hook(&option, &command, folder.as_deref(), &self.stop)?;
                Answer::Done
            }
            Ask::Start { stack, options } => self.start(&stack, *options)?,
            Ask::Expand { stack, text } => {
                Answer::Text(self.stacks.with(stack, |live| live.expand(&text))?)
            }
            Ask::Look(look) => Answer::Looked(Box::new(self.look(look)?)),
            Ask::Unpinned { stack } => {
                Answer::Maybe(self.stacks.with(stack, |live| live.cpus_allowed_violation())?)
            }
            Ask::LogTail { stack, count } => {
                Answer::Lines(self.stacks.with(stack, |live| live.log_tail(count))?)
            }
            Ask::End { stack } => {
                let stopped = self.stacks.take(stack)?.stop();
                locked(&self.profiled).remove(&stack);
                Answer::Stopped(stopped)
            }
            Ask::Sample(options) => {
                let profiler = Profiler::start(options).map_err(AgentError::other)?;
                *locked(&self.profiler) = Some(profiler);
                Answer::Done
            }
            Ask::Watch { stack, folders } => self.watch(stack, folders)?,
            Ask::Step { stack, step } => {
                locked(&self.profiled).get(&stack).iter().for_each(|of| of.step(step));
                Answer::Done
            }
            Ask::Profiles { stack } => {
                let of_stack = locked(&self.profiled).get(&stack).map(ProfiledStack::take);
                Answer::Profiles(of_stack.unwrap_or_default())
            }
            Ask::Counter { by, stack } => {
                let reader = self.stacks.with(stack, |live| CountReader::new(&by, live))??;
                let (per_request, counts_discarded) =
                    (reader.per_request(), reader.counts_discarded());
                Answer::Counter { id: self.counters.add(reader), per_request, counts_discarded }
            }
            Ask::Read { counter } => {
                Answer::Count(self.counters.with(counter, CountReader::read)??)
            }
            Ask::ReadSettled { counter, quiet, patience } => {
                let read = |reader: &mut CountReader| reader.read_settled(quiet, patience);
                Answer::Count(self.counters.with(counter, read)??)
            }
            Ask::ReadSettledFrom { counter, base, wanted, quiet, patience } => {
                let read = |reader: &mut CountReader| {
                    reader.read_settled_from(base, wanted, quiet, patience)
                };
                Answer::Count(self.counters.with(counter, read)??)
            }
            Ask::Open(open) => self.open(&open)?,
            Ask::Learn { session } => self.sessions.with(session, learn)??,
            Ask::KeepLearning { session } => {
                self.sessions.with(session, Session::keep_learning)?;
                Answer::Done
            }
            Ask::Settle { session } => self.sessions.with(session, settle)??,
            Ask::Run { session, slice, begin } => {
                let run = |session: &mut Session| -> Result<Answer, DriveError> {
                    let seen = Box::new(session.run_at(&slice, begin)?);
                    Ok(Answer::Ran { seen, begun: session.begun(), life: session.life() })
                };
                self.sessions.with(session, run)??
            }
            Ask::Close { session } => Answer::Closed(self.sessions.take(session)?.close()),
        })
    }

    fn facts(&self) -> Facts {
        Facts {
            machine: self.binary.machine.clone(),
            identity: Identity::own(),
            cpus: host::online_cpus().unwrap_or_default(),
            env: self.binary.env.clone(),
            ssh: ssh_addresses(&env::var("SSH_CONNECTION").unwrap_or_default()),
            shortest_slice: self.meter.shortest_slice(),
        }
    }

    fn claim(&self, claim: &Claim) -> Result<Answer, AgentError> {
        let exclusive = match claim.wait {
            false => stage::exclusive(&claim.cpus, &claim.command)?,
            true => {
                stage::exclusive_when_free(&claim.cpus, &claim.command, &self.stop, &mut |_| {})?
            }
        };
        locked(&self.claims).push(exclusive);
        Ok(Answer::Done)
    }

    fn canary(&self, cpus: CpuSet) -> Answer {
        let mut known = locked(&self.canary);
        if known.as_ref().is_none_or(|(of, _)| *of != cpus) {
            *known = Some((cpus.clone(), Canary::calibrate(&cpus)));
        }
        Answer::Instant(known.as_ref().map(|(_, canary)| canary.run()).unwrap_or_default())
    }

    fn begin(&self, run: RunId) -> Result<Answer, AgentError> {
        let mut stage = locked(&self.stage);
        if stage.is_none() {
            let options = StageOptions::new(self.binary.executable.clone(), run);
            *stage = Some(Arc::new(Stage::new(options)?));
        }
        Ok(Answer::Done)
    }

    fn begun(&self) -> Result<Arc<Stage>, AgentError> {
        let stage = locked(&self.stage).as_ref().map(Arc::clone);
        stage.ok_or_else(|| AgentError::other("no run has begun"))
    }

    fn errand(&self, order: &ErrandOrder) -> Result<Answer, AgentError> {
        let stage = self.begun()?;
        self.starting.fetch_add(1, Ordering::SeqCst);
        let ended = stage.run(Errand {
            name: &order.name,
            argv: order.argv.clone(),
            folder: &order.folder,
            env: order.env.clone(),
            timeout: order.timeout.into(),
            stop: &self.stop,
        });
        self.starting.fetch_sub(1, Ordering::SeqCst);
        Ok(Answer::Ended(ended?))
    }

    fn start(&self, stack: &spec::Stack, options: StackOptions) -> Result<Answer, AgentError> {
        let stage = self.begun()?;
        let is_apart = options.host != spec::LOOPBACK;
        self.starting.fetch_add(1, Ordering::SeqCst);
        let started = stage.start(
            stack,
            StartOptions {
                cpus: options.cpus,
                client_cpus: options.client_cpus,
                draws: options.draws,
                host: options.host,
                path_prepend: options.path_prepend,
                files: options.files,
                working_dir: options.working_dir,
                stop: Arc::clone(&self.stop),
                ..StartOptions::new(options.name, options.seed)
            },
        );
        let started = started.map(|live| self.stacks.add(live));
        self.starting.fetch_sub(1, Ordering::SeqCst);
        match started {
            Err(error @ StageError::NotReady { .. }) if is_apart => {
                Err(AgentError::other(format!(
                    "{error}\n  note: clients on other machines reach it only if it listens on $HOST, or \
                 on all addresses"
                )))
            }
            started => Ok(Answer::Made(started?)),
        }
    }

    fn watch(&self, stack: u64, mut folders: Vec<PathBuf>) -> Result<Answer, AgentError> {
        let watched = self.stacks.with(stack, |live| {
            folders.push(live.dir().to_owned());
            WatchedStack {
                stack: stack as u32,
                guard: Some(live.guard_pid() as u32),
                processes: live.pids().into_iter().map(|pid| pid as u32).collect(),
                folders,
            }
        })?;
        let profiler = locked(&self.profiler);
        let profiler = profiler.as_ref().ok_or_else(|| AgentError::other("nothing is sampled"))?;
        locked(&self.profiled).insert(stack, profiler.watch(watched));
        Ok(Answer::Done)
    }

    fn look(&self, look: Look) -> Result<MachineReading, AgentError> {
        let mut looked = MachineReading {
            reading: self.meter.read(),
            throttled: stage::throttled(),
            ..MachineReading::default()
        };
        if let Some(stack) = look.stack {
            let of_stack = |live: &mut LiveStack| {
                let usage = look.memory.then(|| live.usage().ok()).flatten();
                (
                    live.cpu().ok(),
                    usage.map(|usage| usage.peak_memory_bytes),
                    live.check_alive().err().map(|error| error.to_string()),
                )
            };
            (looked.stack_cpu, looked.peak_memory_bytes, looked.died) =
                self.stacks.with(stack, of_stack)?;
        }
        Ok(looked)
    }

    fn open(&self, open: &OpenSession) -> Result<Answer, AgentError> {
        let target = Target::parse(&open.target).map_err(AgentError::other)?;
        let options = drive::Options {
            cpus: open.cpus.clone(),
            seed: open.seed,
            step: open.step,
            stop: Arc::clone(&self.stop),
            among: open.among,
        };
        let session = Session::open(&target, &open.load, &options)?;
        let (engine, life) = (session.engine(), session.life());
        Ok(Answer::Opened { id: self.sessions.add(session), engine, life })
    }
}

fn learn(session: &mut Session) -> Result<Answer, DriveError> {
    let learned = session.learn()?;
    let bytes = learned.body.as_ref().map_or(0, Vec::len);
    if bytes > BODY_BYTES_MAX {
        return Err(DriveError::Unfit(format!(
            "the response has {bytes} bytes, and a client on another machine can check at most \
             {BODY_BYTES_MAX}"
        )));
    }
    Ok(Answer::Learned { learned, life: session.life() })
}

fn settle(session: &mut Session) -> Result<Answer, DriveError> {
    let nothing = || DriveError::Unfit("no response was learned".to_owned());
    let learned = session.settle().ok_or_else(nothing)?;
    Ok(Answer::Learned { learned, life: session.life() })
}

/// The client's and the server's address of `SSH_CONNECTION` (ssh(1)): client address, client port,
/// server address, server port.
fn ssh_addresses(connection: &str) -> Option<(String, String)> {
    let words: Vec<&str> = connection.split_ascii_whitespace().collect();
    match words.as_slice() {
        [client, _, server, _] => Some(((*client).to_owned(), (*server).to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_the_ssh_connection_are_known() {
        let known = ssh_addresses("10.0.0.1 50000 10.0.0.2 22");
        assert_eq!(known, Some(("10.0.0.1".to_owned(), "10.0.0.2".to_owned())));
        assert_eq!(ssh_addresses(""), None);
        assert_eq!(ssh_addresses("10.0.0.1 50000"), None);
    }

    #[test]
    fn what_is_on_no_shelf_is_refused() {
        let shelf = Shelf::default();
        let id = shelf.add(7);
        assert_eq!(shelf.with(id, |thing| *thing).ok(), Some(7));
        assert_eq!(shelf.take(id).ok(), Some(7));
        assert!(shelf.with(id, |_| ()).is_err() && shelf.take(id).is_err() && shelf.is_empty());
    }
}
