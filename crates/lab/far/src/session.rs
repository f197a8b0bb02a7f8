//! Clients on other machines that load one target together.

use std::sync::Arc;

use base::{CpuSet, Nanos, Seed, monotonic_now};
use drive::{EngineKind, LearnedResponse, Life, Observation, Slice, ThreadShare};
use spec::{Load, Target};

use crate::error::FarError;
use crate::link::PendingAnswer;
use crate::machine::{Machine, answered, out_of_step};
use crate::message::{Answer, Ask, OpenSession};

/// How long before its beginning a slice is announced, at first.
const LEAD_MIN: Nanos = Nanos::from_millis(3);

/// The longest lead. If clients begin late even so, the difference is reported.
const LEAD_MAX: Nanos = Nanos::from_millis(200);

/// One client's session on its machine.
struct Client {
    machine: Arc<Machine>,
    id: u64,
    engine: EngineKind,
    life: Life,
}

/// Sessions of one load, one on each machine. Their connections and arrivals add up to the load's.
pub struct Clients {
    all: Vec<Client>,
    lead: Nanos,
}

/// One slice of all clients.
#[derive(Debug)]
pub struct CombinedSlice {
    /// The sum of their observations.
    pub seen: Observation,
    /// From the first client's beginning to the last one's, as far as the clock offsets tell;
    /// `None` with one client.
    pub apart: Option<Nanos>,
}

/// The `index`-th of `parts` shares of a number, the first ones larger.
fn share(number: u64, index: usize, parts: usize) -> u64 {
    let (index, parts) = (index as u64, parts.max(1) as u64);
    number / parts + u64::from(index < number % parts)
}

impl Clients {
    /// Opens a session on each of these machines with its CPUs; each has its share of the
    /// connections, and its threads are among those of all.
    ///
    /// # Errors
    /// Those of [`drive::Session::open`].
    pub fn open(
        on: &[(Arc<Machine>, CpuSet)],
        target: &Target,
        load: &Load,
        seed: Seed,
        step: Nanos,
    ) -> Result<Clients, FarError> {
        let (count, streams) = (on.len(), load.streams.max(1));
        let connections = |all: u32, index: usize| -> u32 {
            share(u64::from(all / streams), index, count) as u32 * streams
        };
        let part = |index: usize| Load {
            connections: connections(load.connections, index),
            connections_max: load.connections_max.map(|most| connections(most, index)),
            ..load.clone()
        };
        let loads: Vec<Load> = (0..count).map(part).collect();
        let threads: Vec<u32> =
            loads.iter().map(|load| load.threads.min(load.connections / streams)).collect();
        let all = threads.iter().sum();
        let mut first = 0;
        let mut opening = Vec::with_capacity(count);
        for ((machine, cpus), (load, threads)) in on.iter().zip(loads.into_iter().zip(threads)) {
            let open = OpenSession {
                target: target.to_string(),
                load,
                cpus: cpus.clone(),
                seed,
                step,
                among: (count > 1).then_some(ThreadShare { first, all }),
            };
            first += threads;
            opening.push((machine, machine.link.ask(Ask::Open(Box::new(open)))));
        }
        let opened = opening.into_iter().map(|(machine, pending)| match pending.answer()? {
            Answer::Opened { id, engine, life } => {
                Ok(Client { machine: Arc::clone(machine), id, engine, life })
            }
            _ => Err(out_of_step(machine.name())),
        });
        let all = opened.collect::<Result<Vec<Client>, FarError>>()?;
        Ok(Clients { all, lead: LEAD_MIN })
    }

    /// The I/O backend of the first client.
    pub fn engine(&self) -> Option<EngineKind> {
        self.all.first().map(|client| client.engine)
    }

    /// Each client sends its three probes, one client after another. Returns what all of them
    /// agree on.
    ///
    /// # Errors
    /// Those of [`drive::Session::learn`].
    pub fn learn(&mut self) -> Result<LearnedResponse, FarError> {
        self.learned(|session| Ask::Learn { session })
    }

    /// See [`drive::Session::keep_learning`].
    ///
    /// # Errors
    /// If a machine cannot be reached.
    pub fn keep_learning(&mut self) -> Result<(), FarError> {
        self.all.iter().try_for_each(|client| {
            answered!(
                client.machine, Ask::KeepLearning { session: client.id },
                Answer::Done => ()
            )
        })
    }

    /// See [`drive::Session::settle`]. Returns what all clients agree on.
    ///
    /// # Errors
    /// If a machine cannot be reached.
    pub fn settle(&mut self) -> Result<LearnedResponse, FarError> {
        self.learned(|session| Ask::Settle { session })
    }

    fn learned(&mut self, ask: impl Fn(u64) -> Ask) -> Result<LearnedResponse, FarError> {
        let mut agreed: Option<LearnedResponse> = None;
        for client in &mut self.all {
            let (learned, life) = answered!(
                client.machine, ask(client.id),
                Answer::Learned { learned, life } => (learned, life)
            )?;
            client.life = life;
            agreed = Some(match agreed {
                None => learned,
                Some(before) => together(before, learned),
            });
        }
        agreed.ok_or_else(|| drive::DriveError::Unfit("there is no client".to_owned()).into())
    }

    /// Loads the target for one slice from all machines at once. Of a number of requests each has its
    /// share.
    ///
    /// # Errors
    /// Those of [`drive::Session::run`].
    pub fn run(&mut self, slice: &Slice) -> Result<CombinedSlice, FarError> {
        let begin = (self.all.len() > 1).then(|| monotonic_now() + self.lead);
        let ask = |(index, client): (usize, &Client)| {
            let requests = slice.requests.map(|all| share(all, index, self.all.len()));
            let begin = begin.map(|at| client.machine.offset().there(at));
            let slice = Slice { requests, ..*slice };
            let ask = Ask::Run { session: client.id, slice, begin };
            (requests != Some(0)).then(|| (client.machine.link.ask(ask), begin))
        };
        let asked: Vec<Option<(PendingAnswer, Option<Nanos>)>> =
            self.all.iter().enumerate().map(ask).collect();
        let mut sum: Option<Observation> = None;
        let mut late = Vec::with_capacity(asked.len());
        let mut failure = None;
        // Every client is waited for, also after an error of one: its slice must be over.
        for (client, asked) in self.all.iter_mut().zip(asked) {
            let Some((pending, agreed)) = asked else { continue };
            match pending.answer() {
                Ok(Answer::Ran { seen, begun, life }) => {
                    client.life = life;
                    late.extend(begun.zip(agreed).map(|(at, agreed)| at.saturating_sub(agreed)));
                    match &mut sum {
                        None => sum = Some(*seen),
                        Some(sum) => sum.merge(*seen),
                    }
                }
                Ok(_) => failure = Some(out_of_step(client.machine.name())),
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        let none = || drive::DriveError::Unfit("there is no client".to_owned());
        let apart = self.note_lateness(&late);
        Ok(CombinedSlice { seen: sum.ok_or_else(none)?, apart })
    }

    /// The time between the first beginning and the last; the next slice is announced earlier if
    /// this one came late.
    fn note_lateness(&mut self, late: &[Nanos]) -> Option<Nanos> {
        let (first, last) = (late.iter().min()?, late.iter().max()?);
        if *last > Nanos::ZERO {
            let needed = self.lead + *last * 2;
            self.lead = needed.clamp(LEAD_MIN, LEAD_MAX);
        }
        Some(last.saturating_sub(*first))
    }

    /// Counts over the life of all sessions so far, including probes.
    pub fn life(&self) -> Life {
        let mut sum = Life::default();
        self.all.iter().for_each(|client| sum.merge(&client.life));
        sum
    }

    /// Closes every connection and returns the counts of all sessions' lives; of a machine whose
    /// connection is lost, those that it last reported, with the error.
    pub fn close(self) -> (Life, Option<FarError>) {
        let ask = |client: &Client| client.machine.link.ask(Ask::Close { session: client.id });
        let closing: Vec<PendingAnswer> = self.all.iter().map(ask).collect();
        let mut sum = Life::default();
        let mut failure = None;
        for (client, pending) in self.all.into_iter().zip(closing) {
            match pending.answer() {
                Ok(Answer::Closed(life)) => sum.merge(&life),
                Ok(_) => failure = Some(out_of_step(client.machine.name())),
                Err(error) => {
                    sum.merge(&client.life);
                    failure = Some(error);
                }
            }
        }
        (sum, failure)
    }
}

/// What two clients agree on.
fn together(one: LearnedResponse, other: LearnedResponse) -> LearnedResponse {
    let same_body = one.body == other.body;
    let same_length = one.length == other.length;
    LearnedResponse {
        status: one.status.filter(|status| other.status == Some(*status)),
        varies: one.varies || other.varies || !same_body || !same_length,
        body: one.body.filter(|_| same_body),
        length: one.length.filter(|_| same_length),
        kinds: one.kinds.into_iter().zip(other.kinds).map(|(a, b)| together(a, b)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (number, parts) in [(10, 3), (100, 100), (7, 7), (1, 1), (64, 5)] {
            let shares: Vec<u64> = (0..parts).map(|i| share(number, i, parts)).collect();
            assert_eq!(shares.iter().sum::<u64>(), number, "{shares:?}");
            assert!(shares.iter().all(|share| *share >= 1));
        }
    }

    #[test]
    fn clients_that_got_different_answers_agree_on_the_rest() {
        let learned = |body: &str| LearnedResponse {
            status: Some(200),
            body: Some(body.into()),
            length: Some(body.len() as u64),
            ..LearnedResponse::default()
        };
        assert_eq!(together(learned("a"), learned("a")), learned("a"));
        let differing = LearnedResponse { body: None, varies: true, ..learned("a") };
        assert_eq!(together(learned("a"), learned("b")), differing);
        let other = LearnedResponse { length: None, ..differing.clone() };
        assert_eq!(together(learned("a"), learned("bb")), other);
    }
}
