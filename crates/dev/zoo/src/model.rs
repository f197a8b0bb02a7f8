//! When a server answers.

use base::Rng;
use base::Seed;
use rand::RngExt as _;

use crate::behaviour::{Behaviour, Pace, SlowSelection, StopTime};
use crate::clock::Clock;

/// One process of a server.
#[derive(Clone, Debug)]
pub struct Model {
    behaviour: Behaviour,
    clock: Clock,
    rng: Rng,
    received: u64,
    answered: u64,
    /// Work at which the lock is free again.
    lock_free_s: f64,
}

/// The service of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// Work at which it is answered; see [`Model::real_at`].
    pub due_work_s: f64,
    /// Whether it uses a CPU until then.
    pub computes: bool,
}

impl Model {
    /// A process that starts now.
    pub fn new(behaviour: Behaviour, seed: Seed) -> Model {
        let clock = Clock::new(behaviour.pace.clone(), seed.rng("pace"));
        let mut rng = seed.rng("requests");
        let received = match behaviour.slow.as_ref().map(|slow| &slow.which) {
            Some(SlowSelection::Every(n)) => rng.random_range(0..*n),
            _ => 0,
        };
        let answered = match behaviour.pace {
            Pace::Stops { when: StopTime::Requests(n), .. } => rng.random_range(0..n),
            _ => 0,
        };
        Model { behaviour, clock, rng, received, answered, lock_free_s: 0.0 }
    }

    /// A connection is accepted; returns by what factor its requests take longer.
    pub fn accept(&mut self) -> f64 {
        match &self.behaviour.slow_connections {
            Some(slow) if self.rng.random_bool(slow.share) => slow.factor,
            _ => 1.0,
        }
    }

    /// A request arrives on a connection of this factor.
    pub fn receive(&mut self, at_work_s: f64, factor: f64) -> Service {
        self.received += 1;
        let slow = self.behaviour.slow.as_ref().filter(|slow| match slow.which {
            SlowSelection::Share(share) => self.rng.random_bool(share),
            SlowSelection::Every(n) => self.received.is_multiple_of(n),
        });
        let work_s = slow.map_or(self.behaviour.fast_s * factor, |slow| slow.length_s);
        let computes = slow.is_some_and(|slow| slow.computes);
        let mut begin_s = at_work_s;
        if let Some(lock) = &self.behaviour.lock {
            begin_s = begin_s.max(self.lock_free_s);
            if self.rng.random_bool(lock.share) {
                begin_s += lock.hold_s;
                self.lock_free_s = begin_s;
            }
        }
        Service { due_work_s: begin_s + work_s, computes }
    }

    /// A request is answered that was due at this work.
    pub fn answer(&mut self, due_work_s: f64) {
        self.answered += 1;
        if let Pace::Stops { when: StopTime::Requests(n), length_s } = self.behaviour.pace
            && self.answered.is_multiple_of(n)
        {
            self.clock.stop(due_work_s, length_s);
        }
    }

    /// The work done at a real time.
    pub fn work_at(&mut self, real_s: f64) -> f64 {
        self.clock.work_at(real_s)
    }

    /// The real time at which so much work is done. Later stops by count may defer it.
    pub fn real_at(&mut self, work_s: f64) -> f64 {
        self.clock.real_at(work_s)
    }
}
