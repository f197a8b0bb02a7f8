//! Stacks, counts and clients of this machine or another one, with the same methods.

use std::sync::Arc;

use base::{Nanos, Seed};
use drive::{EngineKind, LearnedResponse, Life, Observation, Slice};
use spec::{Load, ServedBy, Target};
use stage::server_count::{self, Count};
use stage::{LiveStack, Stage, StartOptions, StopReport};

use crate::error::StartError;
use crate::machines::Site;

/// A running stack.
pub(crate) enum Stack {
    Near(Box<LiveStack>),
    Far(far::Stack),
}

impl Stack {
    /// Starts a stack at its site; `options` are those of this machine, from which another one takes
    /// what is not bound to this one.
    pub(crate) fn start(
        stage: &Stage,
        site: &Site,
        stack: &spec::Stack,
        options: StartOptions,
    ) -> Result<Stack, StartError> {
        let Some(machine) = &site.stack else {
            return Ok(Stack::Near(Box::new(stage.start(stack, options)?)));
        };
        Ok(Stack::Far(far::Stack::start(machine, stack, options.into())?))
    }

    /// That of this machine, for what only works here.
    pub(crate) fn near(&self) -> Option<&LiveStack> {
        match self {
            Stack::Near(stack) => Some(stack),
            Stack::Far(_) => None,
        }
    }

    /// Its number on another machine.
    pub(crate) fn far_id(&self) -> Option<u64> {
        match self {
            Stack::Near(_) => None,
            Stack::Far(stack) => Some(stack.id()),
        }
    }

    pub(crate) fn expand(&self, text: &str) -> Result<String, StartError> {
        match self {
            Stack::Near(stack) => Ok(stack.expand(text)),
            Stack::Far(stack) => Ok(stack.expand(text)?),
        }
    }

    /// What a failure to reach it means: that of the connection to its machine, if that is lost.
    pub(crate) fn unreached(&self, error: StartError) -> StartError {
        match self {
            Stack::Near(_) => error,
            Stack::Far(stack) => stack.expand("").map_or_else(StartError::from, |_| error),
        }
    }

    /// Describes a process that may run outside the stack's CPUs, if that is known.
    pub(crate) fn unpinned(&self) -> Option<String> {
        match self {
            Stack::Near(stack) => stack.cpus_allowed_violation(),
            Stack::Far(stack) => stack.cpus_allowed_violation().ok().flatten(),
        }
    }

    /// The end of its logs, as far as it is known.
    pub(crate) fn log_tail(&self, count: usize) -> Vec<String> {
        match self {
            Stack::Near(stack) => stack.log_tail(count),
            Stack::Far(stack) => stack.log_tail(count).unwrap_or_default(),
        }
    }

    /// Stops it. If the connection is lost, the stack is stopped on its machine, and how is unknown.
    pub(crate) fn stop(self) -> StopReport {
        match self {
            Stack::Near(stack) => stack.stop(),
            Stack::Far(stack) => stack.stop().unwrap_or_default(),
        }
    }
}

/// Reads the server-side count where it is.
pub(crate) enum CountReader {
    Near(server_count::CountReader),
    Far(far::CountReader),
}

impl CountReader {
    pub(crate) fn new(by: &ServedBy, stack: &Stack) -> Result<CountReader, StartError> {
        Ok(match stack {
            Stack::Near(stack) => CountReader::Near(server_count::CountReader::new(by, stack)?),
            Stack::Far(stack) => CountReader::Far(far::CountReader::new(by, stack)?),
        })
    }

    pub(crate) fn per_request(&self) -> u64 {
        match self {
            CountReader::Near(reader) => reader.per_request(),
            CountReader::Far(reader) => reader.per_request(),
        }
    }

    pub(crate) fn counts_discarded(&self) -> bool {
        match self {
            CountReader::Near(reader) => reader.counts_discarded(),
            CountReader::Far(reader) => reader.counts_discarded(),
        }
    }

    pub(crate) fn read(&mut self) -> Result<Count, StartError> {
        Ok(match self {
            CountReader::Near(reader) => reader.read()?,
            CountReader::Far(reader) => reader.read()?,
        })
    }

    pub(crate) fn read_settled(
        &mut self,
        quiet: Nanos,
        patience: Nanos,
    ) -> Result<Count, StartError> {
        Ok(match self {
            CountReader::Near(reader) => reader.read_settled(quiet, patience)?,
            CountReader::Far(reader) => reader.read_settled(quiet, patience)?,
        })
    }

    pub(crate) fn read_settled_from(
        &mut self,
        base: Count,
        wanted: u64,
        quiet: Nanos,
        patience: Nanos,
    ) -> Result<Count, StartError> {
        Ok(match self {
            CountReader::Near(reader) => reader.read_settled_from(base, wanted, quiet, patience)?,
            CountReader::Far(reader) => reader.read_settled_from(base, wanted, quiet, patience)?,
        })
    }
}

/// The client, or the clients on other machines.
pub(crate) enum ClientSession {
    Near(Box<drive::Session>),
    Far(far::Clients),
}

impl ClientSession {
    /// Opens a session at a site. `options` are those of a client on this machine.
    pub(crate) fn open(
        site: &Site,
        target: &Target,
        load: &Load,
        options: &drive::Options,
    ) -> Result<ClientSession, StartError> {
        if site.clients.is_empty() {
            let session = drive::Session::open(target, load, options)?;
            return Ok(ClientSession::Near(Box::new(session)));
        }
        let on: Vec<_> =
            site.clients.iter().map(Arc::clone).zip(site.client_cpus.iter().cloned()).collect();
        let (seed, step): (Seed, Nanos) = (options.seed, options.step);
        Ok(ClientSession::Far(far::Clients::open(&on, target, load, seed, step)?))
    }

    /// The session of this machine, for what only works here.
    pub(crate) fn near(&mut self) -> Option<&mut drive::Session> {
        match self {
            ClientSession::Near(session) => Some(session),
            ClientSession::Far(_) => None,
        }
    }

    /// The I/O backend, of the first of several clients.
    pub(crate) fn engine(&self) -> Option<EngineKind> {
        match self {
            ClientSession::Near(session) => Some(session.engine()),
            ClientSession::Far(clients) => clients.engine(),
        }
    }

    /// Whether deviations may be learned from. Of a client on another machine that is not known.
    pub(crate) fn is_learning(&self) -> bool {
        match self {
            ClientSession::Near(session) => session.is_learning(),
            ClientSession::Far(_) => true,
        }
    }

    pub(crate) fn learn(&mut self) -> Result<LearnedResponse, StartError> {
        Ok(match self {
            ClientSession::Near(session) => session.learn()?,
            ClientSession::Far(clients) => clients.learn()?,
        })
    }

    pub(crate) fn keep_learning(&mut self) -> Result<(), StartError> {
        match self {
            ClientSession::Near(session) => session.keep_learning(),
            ClientSession::Far(clients) => clients.keep_learning()?,
        }
        Ok(())
    }

    pub(crate) fn settle(&mut self) -> Result<LearnedResponse, StartError> {
        Ok(match self {
            ClientSession::Near(session) => {
                let nothing = || StartError::Unfit("no response was learned".to_owned());
                session.settle().ok_or_else(nothing)?
            }
            ClientSession::Far(clients) => clients.settle()?,
        })
    }

    pub(crate) fn life(&self) -> Life {
        match self {
            ClientSession::Near(session) => session.life(),
            ClientSession::Far(clients) => clients.life(),
        }
    }

    /// Runs a slice; also returns how far apart several clients began.
    pub(crate) fn run(
        &mut self,
        slice: &Slice,
    ) -> Result<(Observation, Option<Nanos>), StartError> {
        Ok(match self {
            ClientSession::Near(session) => (session.run(slice)?, None),
            ClientSession::Far(clients) => {
                let ran = clients.run(slice)?;
                (ran.seen, ran.apart)
            }
        })
    }

    /// Closes every connection; returns the counts of the session's life.
    pub(crate) fn close(self) -> Life {
        match self {
            ClientSession::Near(session) => session.close(),
            // Of a machine that is lost, the counts so far; its slice has failed, and says so.
            ClientSession::Far(clients) => clients.close().0,
        }
    }
}
