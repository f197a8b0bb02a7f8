//! The near end of a channel: questions, answers and signs of life.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use drive::StopFlag;

use crate::error::{AgentError, FarError};
use crate::frame::{FrameError, HeardStream, read_frame, write_frame};
use crate::message::{Answer, Ask, FromAgent, Hello, ToAgent};
use crate::{BEAT, SILENCE_MAX};

/// How often waiting for an answer checks for a request to stop.
const LOOK: Duration = Duration::from_millis(50);

/// How long an agent may take to say its first word.
const HELLO_MAX: Duration = Duration::from_secs(20);

/// The streams of a channel whose far end is an agent.
pub struct Ends {
    /// What the agent writes.
    pub reader: Box<dyn Read + Send>,
    /// What the agent reads.
    pub writer: Box<dyn Write + Send>,
    /// What carries the streams, such as ssh.
    pub transport: Box<dyn Transport>,
}

/// What carries the streams of a channel. Dropping it ends it, within a few seconds at most.
pub trait Transport: Send {
    /// Why it ended although it should not have, if it knows.
    fn why_ended(&mut self) -> Option<String>;
}

/// A channel to an agent.
pub(crate) struct AgentChannel {
    name: String,
    writer: Mutex<Option<Box<dyn Write + Send>>>,
    waiting: Mutex<Waiters>,
    heard: Arc<Mutex<Instant>>,
    transport: Mutex<Option<Box<dyn Transport>>>,
    next: AtomicU64,
    stop: StopFlag,
    /// Whether the agent has been told to stop.
    told: AtomicBool,
}

type AnswerResult = Result<Answer, AgentError>;

/// Who waits for which answer.
#[derive(Default)]
struct Waiters {
    by_id: HashMap<u64, Sender<AnswerResult>>,
    /// Why no more answers will come.
    lost: Option<String>,
}

/// An answer to come.
pub(crate) struct PendingAnswer {
    link: Arc<AgentChannel>,
    answer: Receiver<AnswerResult>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AgentChannel {
    /// Exchanges versions, and starts the threads that listen and give signs of life.
    pub(crate) fn open(
        name: &str,
        ends: Ends,
        version: &str,
        stop: StopFlag,
    ) -> Result<Arc<AgentChannel>, FarError> {
        let Ends { reader, writer, transport } = ends;
        let link = Arc::new(AgentChannel {
            name: name.to_owned(),
            writer: Mutex::new(Some(writer)),
            waiting: Mutex::default(),
            heard: Arc::new(Mutex::new(Instant::now())),
            transport: Mutex::new(Some(transport)),
            next: AtomicU64::new(0),
            stop,
            told: AtomicBool::new(false),
        });
        let greeted = link.listen(reader);
        link.greet(version, &greeted).inspect_err(|_| link.close())?;
        let beating = Arc::downgrade(&link);
        let beat = move || {
            while let Some(link) = beating.upgrade() {
                link.beat();
                drop(link);
                thread::sleep(BEAT);
            }
        };
        thread::Builder::new()
            .name("beat".to_owned())
            .spawn(beat)
            .map_err(|error| link.lost(&error.to_string()))?;
        Ok(link)
    }

    /// Sends our version and checks the agent's.
    fn greet(
        &self,
        version: &str,
        greeted: &Receiver<Result<Hello, FrameError>>,
    ) -> Result<(), FarError> {
        // If this fails, so does the answer, with a better reason.
        let _ = self.write(&Hello { tachograph: version.to_owned() });
        let why = match greeted.recv_timeout(HELLO_MAX) {
            Ok(Ok(hello)) if hello.tachograph == version => return Ok(()),
            Ok(Ok(hello)) => {
                return Err(FarError::Mismatch {
                    machine: self.name.clone(),
                    there: hello.tachograph,
                    here: version.to_owned(),
                });
            }
            // The transport may know more.
            Ok(Err(error)) => {
                locked(&self.waiting).lost.clone().unwrap_or_else(|| error.to_string())
            }
            Err(_) => "tachograph there does not answer".to_owned(),
        };
        Err(self.lost(&why))
    }

    /// Starts the thread that reads the agent's version, then its answers.
    fn listen(
        self: &Arc<AgentChannel>,
        reader: Box<dyn Read + Send>,
    ) -> Receiver<Result<Hello, FrameError>> {
        let (greeting, greeted) = channel();
        let mut reader = HeardStream::new(reader, Arc::clone(&self.heard));
        let link = Arc::clone(self);
        let listen = move || {
            match read_frame::<Hello>(&mut reader) {
                Ok(hello) => drop(greeting.send(Ok(hello))),
                Err(error) => {
                    link.ended(&error.to_string());
                    drop(greeting.send(Err(error)));
                    return;
                }
            }
            loop {
                match read_frame::<FromAgent>(&mut reader) {
                    Ok(message) => {
                        if let FromAgent::Reply { id, answer } = message {
                            let waiter = locked(&link.waiting).by_id.remove(&id);
                            // The thread that asked may have given up.
                            waiter.inspect(|waiter| drop(waiter.send(answer)));
                        }
                    }
                    Err(error) => return link.ended(&error.to_string()),
                }
            }
        };
        // Without the thread nothing is answered, which is noticed at once: its sender is gone.
        drop(thread::Builder::new().name("listen".to_owned()).spawn(listen));
        greeted
    }

    /// Sends a sign of life, unless something else is being sent, and notices a silent agent.
    fn beat(&self) {
        if locked(&self.heard).elapsed() > SILENCE_MAX {
            self.lose(&format!("nothing was heard for {} s", SILENCE_MAX.as_secs()));
            return;
        }
        if let Ok(mut writer) = self.writer.try_lock()
            && let Some(writer) = &mut *writer
        {
            // A broken channel is noticed by the reader.
            let _ = write_frame(writer, &ToAgent::Beat);
        }
    }

    fn write(&self, message: &impl serde::Serialize) -> io::Result<()> {
        match &mut *locked(&self.writer) {
            Some(writer) => write_frame(writer, message),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Asks; the answer can be waited for later.
    pub(crate) fn ask(self: &Arc<AgentChannel>, ask: Ask) -> PendingAnswer {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = channel();
        let mut waiting = locked(&self.waiting);
        if waiting.lost.is_none() {
            waiting.by_id.insert(id, reply);
        }
        drop(waiting);
        match self.write(&ToAgent::Ask { id, ask }) {
            Ok(()) => {}
            // A message that is too long was not sent, and the channel goes on without it.
            Err(error) if error.kind() == io::ErrorKind::Other => {
                let waiter = locked(&self.waiting).by_id.remove(&id);
                waiter.inspect(|waiter| drop(waiter.send(Err(AgentError::other(error)))));
            }
            Err(error) => self.lose(&error.to_string()),
        }
        PendingAnswer { link: Arc::clone(self), answer }
    }

    /// The channel has ended by itself: the transport may know why.
    fn ended(&self, why: &str) {
        let known = match &mut *locked(&self.transport) {
            Some(transport) => transport.why_ended(),
            None => None,
        };
        self.lose(&known.unwrap_or_else(|| why.to_owned()));
    }

    /// Notes why no more answers come, and ends the transport.
    fn lose(&self, why: &str) {
        let mut waiting = locked(&self.waiting);
        waiting.lost.get_or_insert_with(|| why.to_owned());
        waiting.by_id.clear();
        drop(waiting);
        let transport = locked(&self.transport).take();
        drop(transport);
    }

    fn lost(&self, why: &str) -> FarError {
        FarError::Lost { machine: self.name.clone(), why: why.to_owned() }
    }

    /// Whether the channel has ended.
    pub(crate) fn is_lost(&self) -> bool {
        locked(&self.waiting).lost.is_some()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Tells the agent once that the run is to stop.
    fn pass_on_stop(&self) {
        if self.stop.load(Ordering::Relaxed) && !self.told.swap(true, Ordering::Relaxed) {
            // A broken channel is noticed by the reader.
            let _ = self.write(&ToAgent::Stop);
        }
    }

    /// Closes the channel, which ends the agent, and waits for the transport.
    pub(crate) fn close(&self) {
        if let Ok(mut writer) = self.writer.try_lock() {
            *writer = None;
        }
        let transport = locked(&self.transport).take();
        drop(transport);
    }
}

impl PendingAnswer {
    /// The machine's name.
    pub(crate) fn name(&self) -> String {
        self.link.name.clone()
    }

    /// Waits for the answer; a request to stop is passed on meanwhile.
    pub(crate) fn answer(self) -> Result<Answer, FarError> {
        loop {
            self.link.pass_on_stop();
            match self.answer.recv_timeout(LOOK) {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(refusal)) => return Err(FarError::of(&self.link.name, refusal)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let why = locked(&self.link.waiting).lost.clone();
                    let why = why.unwrap_or_else(|| "it did not answer".to_owned());
                    return Err(self.link.lost(&why));
                }
            }
        }
    }
}
