//! Work and real time, and what lies between them.

use base::Rng;
use rand::RngExt as _;

use crate::behaviour::{Pace, StopTime};

/// A stretch of time in which the server works at one speed.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Its beginning in real time.
    real_s: f64,
    /// Its beginning in work.
    work_s: f64,
    /// Work per real time: 1 normally, 0 during a stop.
    speed: f64,
}

impl Segment {
    fn work_at(&self, real_s: f64) -> f64 {
        self.work_s + (real_s - self.real_s) * self.speed
    }
}

/// The relation of work and real time, drawn as far as it is needed.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    pace: Pace,
    rng: Rng,
    segments: Vec<Segment>,
    /// End of the last segment in real time.
    end_real_s: f64,
}

impl Clock {
    pub(crate) fn new(pace: Pace, mut rng: Rng) -> Clock {
        // A cycle that the process enters at a random moment: the server's long-run behaviour is
        // then also that of its first seconds.
        let (speed, end_real_s) = match &pace {
            Pace::Even | Pace::Stops { when: StopTime::Requests(_), .. } => (1.0, f64::INFINITY),
            Pace::SlowStart { length_s, factor } => (1.0 / factor, *length_s),
            Pace::Phases { length_s, factor } => {
                let speed = if rng.random_bool(0.5) { 1.0 } else { 1.0 / factor };
                (speed, rng.random_range(0.0..*length_s))
            }
            Pace::Stops { when: StopTime::Fixed(run_s), length_s } => {
                let left = rng.random_range(0.0..run_s + length_s);
                if left < *length_s { (0.0, left) } else { (1.0, left - length_s) }
            }
            Pace::Stops { when: StopTime::Exponential(mean_s), length_s } => {
                if rng.random_bool(length_s / (mean_s + length_s)) {
                    (0.0, rng.random_range(0.0..*length_s))
                } else {
                    (1.0, exponential(*mean_s, &mut rng))
                }
            }
        };
        let first = Segment { real_s: 0.0, work_s: 0.0, speed };
        Clock { pace, rng, segments: vec![first], end_real_s }
    }

    fn last(&self) -> Segment {
        self.segments[self.segments.len() - 1]
    }

    fn push(&mut self, speed: f64, length_s: f64) {
        let segment = Segment { real_s: self.end_real_s, work_s: self.end_work_s(), speed };
        self.segments.push(segment);
        self.end_real_s += length_s;
    }

    fn end_work_s(&self) -> f64 {
        let last = self.last();
        // A stop without an end would be 0 × ∞.
        if last.speed == 0.0 { last.work_s } else { last.work_at(self.end_real_s) }
    }

    /// Draws the next segment.
    fn extend(&mut self) {
        let worked = self.last().speed == 1.0;
        let (speed, length_s) = match &self.pace {
            Pace::Phases { length_s, factor } => {
                (if worked { 1.0 / factor } else { 1.0 }, *length_s)
            }
            Pace::Stops { length_s, .. } if worked => (0.0, *length_s),
            Pace::Stops { when: StopTime::Fixed(run_s), .. } => (1.0, *run_s),
            Pace::Stops { when: StopTime::Exponential(mean_s), .. } => {
                (1.0, exponential(*mean_s, &mut self.rng))
            }
            Pace::Even | Pace::SlowStart { .. } | Pace::Stops { .. } => (1.0, f64::INFINITY),
        };
        self.push(speed, length_s);
    }

    /// The work done at a real time.
    pub(crate) fn work_at(&mut self, real_s: f64) -> f64 {
        while self.end_real_s <= real_s {
            self.extend();
        }
        let after = self.segments.partition_point(|segment| segment.real_s <= real_s);
        self.segments[after.saturating_sub(1)].work_at(real_s)
    }

    /// The first real time at which so much work is done.
    pub(crate) fn real_at(&mut self, work_s: f64) -> f64 {
        while self.end_work_s() < work_s {
            self.extend();
        }
        let after = self.segments.partition_point(|segment| segment.work_s < work_s);
        let segment = self.segments[after.saturating_sub(1)];
        if segment.speed == 0.0 {
            return segment.real_s;
        }
        segment.real_s + (work_s - segment.work_s).max(0.0) / segment.speed
    }

    /// Stops the server when so much work is done, for a pace that does not draw its own stops.
    pub(crate) fn stop(&mut self, work_s: f64, length_s: f64) {
        let work_s = work_s.max(self.last().work_s);
        let last = self.last();
        self.end_real_s = last.real_s + (work_s - last.work_s) / last.speed;
        self.push(0.0, length_s);
        self.push(1.0, f64::INFINITY);
    }
}

fn exponential(mean_s: f64, rng: &mut Rng) -> f64 {
    -mean_s * (1.0 - rng.random::<f64>()).ln()
}

#[cfg(test)]
mod tests {
    use base::Seed;

    use super::*;

    fn clock(pace: Pace, seed: u64) -> Clock {
        Clock::new(pace, Seed(seed).rng("clock"))
    }

    #[test]
    fn stops_take_their_share_and_both_directions_agree() {
        for (seed, when) in [
            (1, StopTime::Fixed(0.7)),
            (2, StopTime::Exponential(0.7)),
            (3, StopTime::Exponential(0.7)),
        ] {
            let mut clock = clock(Pace::Stops { when, length_s: 0.3 }, seed);
            let share = clock.work_at(20_000.0) / 20_000.0;
            assert!((share - 0.7).abs() < 0.01, "{share}");
            for step in 1..1_000 {
                let work_s = f64::from(step) * 0.37;
                let real_s = clock.real_at(work_s);
                assert!((clock.work_at(real_s) - work_s).abs() < 1e-9, "{work_s}");
            }
        }
    }

    #[test]
    fn a_stop_by_count_delays_what_is_under_way_but_not_what_ends_with_it() {
        let even = Pace::Stops { when: StopTime::Requests(1), length_s: 0.5 };
        let mut clock = clock(even, 1);
        clock.stop(2.0, 0.5);
        assert_eq!([1.0, 2.0, 3.0].map(|work_s| clock.real_at(work_s)), [1.0, 2.0, 3.5]);
        assert_eq!([1.0, 2.25, 2.5, 3.0].map(|real_s| clock.work_at(real_s)), [1.0, 2.0, 2.0, 2.5]);
    }

    #[test]
    fn a_slow_start_ends_and_phases_alternate() {
        let mut start = clock(Pace::SlowStart { length_s: 0.6, factor: 3.0 }, 1);
        assert!((start.real_at(0.1) - 0.3).abs() < 1e-12);
        assert!((start.real_at(1.2) - 1.6).abs() < 1e-12);
        let mut phases = clock(Pace::Phases { length_s: 1.0, factor: 2.0 }, 1);
        let work = phases.work_at(1_000.0) / 1_000.0;
        assert!((work - 0.75).abs() < 0.001, "{work}");
    }

    #[test]
    fn the_moment_of_the_start_within_a_cycle_is_random() {
        let stopped = (0..2_000).filter(|seed| {
            let stops = Pace::Stops { when: StopTime::Fixed(0.75), length_s: 0.25 };
            clock(stops, *seed).work_at(0.001) == 0.0
        });
        let stopped = stopped.count();
        assert!((440..560).contains(&stopped), "{stopped}");
    }
}
