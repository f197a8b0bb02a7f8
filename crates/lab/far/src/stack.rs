//! A stack on another machine, with the methods of one here.

use std::path::PathBuf;
use std::sync::Arc;

use base::Nanos;
use profile::ProfileStep;
use record::Profile;
use spec::ServedBy;
use stage::StopReport;
use stage::server_count::Count;

use crate::error::FarError;
use crate::machine::{Machine, answered};
use crate::message::{Answer, Ask, StackOptions};

/// A running stack. Dropping it stops it.
pub struct Stack {
    machine: Arc<Machine>,
    id: u64,
    stopped: bool,
}

impl Stack {
    /// Starts a stack and waits until all its processes are ready.
    ///
    /// # Errors
    /// Those of [`stage::Stage::start`], in the words of that machine.
    pub fn start(
        machine: &Arc<Machine>,
        stack: &spec::Stack,
        options: StackOptions,
    ) -> Result<Stack, FarError> {
        let ask = Ask::Start { stack: Box::new(stack.clone()), options: Box::new(options) };
        let id = answered!(machine, ask, Answer::Made(id) => id)?;
        Ok(Stack { machine: Arc::clone(machine), id, stopped: false })
    }

    /// Its number among those of the machine.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The machine that it runs on.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// Expands `$HOST`, `$PORT` and so on; other variables stay.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn expand(&self, text: &str) -> Result<String, FarError> {
        let ask = Ask::Expand { stack: self.id, text: text.to_owned() };
        answered!(self.machine, ask, Answer::Text(text) => text)
    }

    /// Describes a process that may run outside the stack's CPUs.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn cpus_allowed_violation(&self) -> Result<Option<String>, FarError> {
        answered!(self.machine, Ask::Unpinned { stack: self.id }, Answer::Maybe(text) => text)
    }

    /// The last `count` lines of each process's log.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn log_tail(&self, count: usize) -> Result<Vec<String>, FarError> {
        answered!(self.machine, Ask::LogTail { stack: self.id, count }, Answer::Lines(lines) => lines)
    }

    /// Stops every process and removes the stack's files.
    ///
    /// # Errors
    /// If the connection is lost: then the stack is stopped there.
    pub fn stop(mut self) -> Result<StopReport, FarError> {
        self.stopped = true;
        answered!(self.machine, Ask::End { stack: self.id }, Answer::Stopped(report) => report)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if !self.stopped {
            // If the connection is lost, the stack is stopped there.
            let _ = self.machine.ask(Ask::End { stack: self.id });
        }
    }
}

/// A stack whose functions are sampled on its machine; see [`profile::ProfiledStack`]. That ends with the
/// stack.
pub struct ProfiledStack {
    machine: Arc<Machine>,
    stack: u64,
}

impl ProfiledStack {
    /// Samples a stack from now on, on a machine that samples. `folders` are left out of the names of
    /// source files.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn watch(stack: &Stack, folders: Vec<PathBuf>) -> Result<ProfiledStack, FarError> {
        let machine = Arc::clone(&stack.machine);
        answered!(machine, Ask::Watch { stack: stack.id, folders }, Answer::Done => ())?;
        Ok(ProfiledStack { machine, stack: stack.id })
    }

    /// Tells it what comes.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn step(&self, step: ProfileStep) -> Result<(), FarError> {
        answered!(self.machine, Ask::Step { stack: self.stack, step }, Answer::Done => ())
    }

    /// Names the samples of its trials.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn take(&self) -> Result<Vec<(usize, Profile)>, FarError> {
        let ask = Ask::Profiles { stack: self.stack };
        answered!(self.machine, ask, Answer::Profiles(profiles) => profiles)
    }
}

/// Reads a server's count on its machine; see [`stage::server_count::CountReader`].
pub struct CountReader {
    machine: Arc<Machine>,
    id: u64,
    per_request: u64,
    counts_discarded: bool,
}

impl CountReader {
    /// Creates a reader; reads nothing yet.
    ///
    /// # Errors
    /// If the target or the regular expression is malformed.
    pub fn new(served_by: &ServedBy, stack: &Stack) -> Result<CountReader, FarError> {
        let machine = Arc::clone(&stack.machine);
        let ask = Ask::Counter { by: served_by.clone(), stack: stack.id };
        let (id, per_request, counts_discarded) = answered!(
            machine, ask,
            Answer::Counter { id, per_request, counts_discarded } =>
                (id, per_request, counts_discarded)
        )?;
        Ok(CountReader { machine, id, per_request, counts_discarded })
    }

    /// How much a request adds to the count.
    pub fn per_request(&self) -> u64 {
        self.per_request
    }

    /// Whether the messages that the server's kernel discards are counted too.
    pub fn counts_discarded(&self) -> bool {
        self.counts_discarded
    }

    /// The current count.
    ///
    /// # Errors
    /// Those of [`stage::server_count::CountReader::read`].
    pub fn read(&mut self) -> Result<Count, FarError> {
        answered!(self.machine, Ask::Read { counter: self.id }, Answer::Count(count) => count)
    }

    /// The count once it has been unchanged for `quiet`.
    ///
    /// # Errors
    /// Those of [`stage::server_count::CountReader::read`].
    pub fn read_settled(&mut self, quiet: Nanos, patience: Nanos) -> Result<Count, FarError> {
        let ask = Ask::ReadSettled { counter: self.id, quiet, patience };
        answered!(self.machine, ask, Answer::Count(count) => count)
    }

    /// The count since `base`, once it accounts for `wanted` requests and has been unchanged for
    /// `quiet`.
    ///
    /// # Errors
    /// Those of [`stage::server_count::CountReader::read`].
    pub fn read_settled_from(
        &mut self,
        base: Count,
        wanted: u64,
        quiet: Nanos,
        patience: Nanos,
    ) -> Result<Count, FarError> {
        let ask = Ask::ReadSettledFrom { counter: self.id, base, wanted, quiet, patience };
        answered!(self.machine, ask, Answer::Count(count) => count)
    }
}
