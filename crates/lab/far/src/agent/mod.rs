//! The far end: does what the near end asks, and ends with its channel.

mod work;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use base::{Machine, monotonic_now};

use crate::error::AgentError;
use crate::frame::{FrameError, HeardStream, read_frame, write_frame};
use crate::message::{Answer, Ask, FromAgent, Hello, ToAgent};
use crate::{BEAT, SILENCE_MAX};
use work::Work;

/// How often the agent checks when it last heard of the near end.
const LOOK: Duration = Duration::from_millis(250);

/// What the agent needs to know of its own binary.
#[derive(Clone, Debug)]
pub struct Binary {
    /// Version and commit.
    pub version: String,
    /// Our own executable, which is also the guard.
    pub executable: PathBuf,
    /// The machine, for the record.
    pub machine: Machine,
    /// Additional environment variables of every process.
    pub env: Vec<(String, String)>,
}

/// Why an agent has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The channel was closed.
    Closed,
    /// Nothing was heard for [`SILENCE_MAX`].
    Silent,
    /// What arrived is not from our near end.
    Foreign(String),
}

/// Where the agent writes.
type Output = Arc<Mutex<Box<dyn Write + Send>>>;

fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves the near end until the channel closes or is silent.
///
/// The caller then has to end the process at once: what still runs is stopped by its guards, which
/// notice the end of their own channels, and threads may be stuck in a stream that leads nowhere.
pub fn serve(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    binary: Binary,
) -> Ending {
    let output: Output = Arc::new(Mutex::new(Box::new(output)));
    let hello = Hello { tachograph: binary.version.clone() };
    if write_frame(&mut *locked(&output), &hello).is_err() {
        return Ending::Closed;
    }
    let heard = Arc::new(Mutex::new(Instant::now()));
    let (ending, over) = channel();
    let work = Arc::new(Work::new(binary));
    let input = HeardStream::new(input, Arc::clone(&heard));
    let reader = QuestionReader { output: Arc::clone(&output), work: Arc::clone(&work), ending };
    // Without a thread nothing would be read: then the silence ends the agent.
    drop(thread::Builder::new().name("read".to_owned()).spawn(move || reader.run(input)));
    drop(thread::Builder::new().name("beat".to_owned()).spawn(move || beat(&output)));
    let ending = wait(&over, &heard);
    work.stop.store(true, Ordering::Relaxed);
    work.end();
    ending
}

/// Waits for the end of the channel, or for silence.
fn wait(over: &Receiver<Ending>, heard: &Mutex<Instant>) -> Ending {
    loop {
        match over.recv_timeout(LOOK) {
            Ok(ending) => return ending,
            Err(RecvTimeoutError::Disconnected) => return Ending::Closed,
            Err(RecvTimeoutError::Timeout) if locked(heard).elapsed() > SILENCE_MAX => {
                return Ending::Silent;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Says every now and then that the agent is alive.
fn beat(output: &Output) {
    loop {
        thread::sleep(BEAT);
        // If another thread is writing, that shows that the agent is alive.
        let Ok(mut output) = output.try_lock() else { continue };
        if write_frame(&mut *output, &FromAgent::Beat).is_err() {
            return;
        }
    }
}

/// Reads questions and lets each be answered by a thread of its own.
struct QuestionReader {
    output: Output,
    work: Arc<Work>,
    ending: Sender<Ending>,
}

impl QuestionReader {
    fn run(self, mut input: impl Read) {
        let ending = match read_frame::<Hello>(&mut input) {
            Ok(_) => self.read(&mut input),
            Err(error) => ending(error),
        };
        // The agent may have ended by itself.
        let _ = self.ending.send(ending);
    }

    fn read(&self, input: &mut impl Read) -> Ending {
        loop {
            let message = match read_frame::<ToAgent>(input) {
                Ok(message) => message,
                Err(error) => return ending(error),
            };
            match message {
                ToAgent::Beat => {}
                ToAgent::Stop => self.work.stop.store(true, Ordering::Relaxed),
                // At once, because the time that it takes is the error of the clock offset.
                ToAgent::Ask { id, ask: Ask::Clock } => {
                    reply(&self.output, id, Ok(Answer::Instant(monotonic_now())));
                }
                ToAgent::Ask { id, ask } => self.answer(id, ask),
            }
        }
    }

    fn answer(&self, id: u64, ask: Ask) {
        let (output, work) = (Arc::clone(&self.output), Arc::clone(&self.work));
        let answer = move || reply(&output, id, work.answer(ask));
        if let Err(error) = thread::Builder::new().name("work".to_owned()).spawn(answer) {
            let refusal = AgentError::other(format!("no thread could be started: {error}"));
            reply(&self.output, id, Err(refusal));
        }
    }
}

fn reply(output: &Output, id: u64, answer: Result<Answer, AgentError>) {
    let mut output = locked(output);
    if let Err(error) = write_frame(&mut *output, &FromAgent::Reply { id, answer }) {
        // Too long a message was not sent; if the channel has ended, nothing else can be either.
        let answer = Err(AgentError::other(error));
        let _ = write_frame(&mut *output, &FromAgent::Reply { id, answer });
    }
}

fn ending(error: FrameError) -> Ending {
    match error {
        FrameError::Closed | FrameError::Truncated | FrameError::Io(_) => Ending::Closed,
        error @ (FrameError::Foreign(_) | FrameError::Malformed(_)) => {
            Ending::Foreign(error.to_string())
        }
    }
}
