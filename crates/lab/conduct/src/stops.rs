//! Stops of the whole server that go on when a slice ends, and how long slices must be for them.
//!
//! Such a stop is waited for, so the next slice begins after a stop. Where that is the rule, slices must
//! hold several stops, or what they see depends on where a slice's lead-in ends: of a server that stops
//! for 0.7 s after every 89 requests, every slice of 0.75 s sent all its requests in its lead-in and
//! measured nothing but the stop. In simulations (`zoo`, slices.rs), slices as long as the mean time for
//! which no request ended around their ends were off by up to 65%, those of twice that length by 10%,
//! and those of three times that length by 4%.

use base::Nanos;

use crate::trial_sum::TrialSum;

/// Shortest slice, in mean times for which no request ended around the ends of slices.
pub(crate) const STOPS_MIN: f64 = 3.0;

/// Shorter means say nothing of the server: where a machine is busy, everything stops for some
/// milliseconds.
const STOP_MIN: Nanos = Nanos::from_millis(200);

/// Nor do means that requests explain. Of n connections that wait for requests of equal length at random
/// moments, one ends after a share of 2 ÷ (n + 1) of that length on average around any given moment, and
/// that of a connection that is alone after all of it.
const UNEXPLAINED_MIN: u64 = 4;

/// The stops around the ends of the slices of a trial, or of several.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stops {
    /// For how long no request ended around the ends of the slices, together, without those in which
    /// all connections only waited.
    stopped: Nanos,
    /// These slices, with their lead-ins, together.
    length: Nanos,
    slices: u64,
    /// How long none would have ended if the server never stopped, at most, together.
    explained: Nanos,
}

impl Stops {
    /// Those of a closed loop.
    pub(crate) fn of(trial_sum: &TrialSum, connections: u32) -> Stops {
        let seen = trial_sum.slices.iter().filter_map(|slice| Some((slice.stopped?, slice.length)));
        let median = trial_sum.median_service_time();
        seen.map(|(stopped, length)| Stops::around(stopped, length, median, connections)).sum()
    }

    /// That around the end of one slice, with the usual service time of its requests.
    fn around(stopped: Nanos, length: Nanos, usual: Nanos, connections: u32) -> Stops {
        let explained = Nanos(usual.0 * UNEXPLAINED_MIN / (u64::from(connections) + 1));
        Stops { stopped, length, slices: 1, explained }
    }

    fn mean(&self, of: Nanos) -> Nanos {
        Nanos(of.0 / self.slices.max(1))
    }

    /// The mean, if the server stopped.
    fn stopped(&self) -> Option<Nanos> {
        let (stopped, explained) = (self.mean(self.stopped), self.mean(self.explained));
        (stopped >= STOP_MIN.max(explained)).then_some(stopped)
    }

    /// How long slices should be at least, if the server stopped.
    pub(crate) fn slice_min(&self) -> Option<Nanos> {
        Some(Nanos::from_secs_f64(STOPS_MIN * self.stopped()?.as_secs_f64()))
    }

    /// The mean stop and the mean slice, if slices were too short.
    pub(crate) fn too_long(&self) -> Option<(Nanos, Nanos)> {
        let (stopped, slice) = (self.stopped()?, self.mean(self.length));
        (slice < self.slice_min()?).then_some((stopped, slice))
    }
}

impl std::iter::Sum for Stops {
    fn sum<I: Iterator<Item = Stops>>(all: I) -> Stops {
        all.fold(Stops::default(), |sum, one| Stops {
            stopped: sum.stopped + one.stopped,
            length: sum.length + one.length,
            slices: sum.slices + one.slices,
            explained: sum.explained + one.explained,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two slices of 900 ms, around whose ends a server stopped for so long.
    fn stops(stopped: u64, usual: u64, connections: u32) -> Stops {
        let ms = Nanos::from_millis;
        [0, 20]
            .map(|off| Stops::around(ms(stopped + off - 10), ms(900), ms(usual), connections))
            .into_iter()
            .sum()
    }

    #[test]
    fn slices_of_less_than_three_stops_are_too_short() {
        assert_eq!(stops(300, 4, 10).too_long(), None);
        let found = (Nanos::from_millis(301), Nanos::from_millis(900));
        assert_eq!(stops(301, 4, 10).too_long(), Some(found));
        assert_eq!(stops(301, 4, 10).slice_min(), Some(Nanos::from_millis(903)));
    }

    #[test]
    fn a_busy_machine_is_no_stop() {
        assert_eq!(stops(199, 4, 10).slice_min(), None);
    }

    #[test]
    fn requests_explain_a_wait_the_more_the_fewer_connections_there_are() {
        let found = [1, 2, 5, 10].map(|connections| stops(400, 700, connections).too_long());
        // The server of the file's head: its median request took as long as its stops.
        assert_eq!(found.map(|found| found.is_some()), [false, false, false, true]);
    }
}
