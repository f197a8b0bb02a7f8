//! When each request of a log is due, at a multiple of the log's own speed.

use base::{Nanos, Timestamp};

/// Requests of one second that wait until their number is known; more of them are due at its end.
const TOGETHER_MAX: usize = 10_000;

const SECOND: u64 = 1_000_000_000;

/// Turns times of a log into times since its first request. Logs with whole seconds have many requests
/// with one time: they are spread evenly over that second.
#[derive(Debug)]
pub(crate) struct Schedule<T> {
    speed: f64,
    has_whole_seconds: bool,
    first: Option<Timestamp>,
    /// The time of the requests that wait.
    time: Option<Timestamp>,
    waiting: Vec<T>,
    /// When the latest one is due: logs are not always in the order of their times.
    latest: Nanos,
}

/// A request, and when it is due after the first one.
pub(crate) struct DueRequest<T> {
    pub(crate) due: Nanos,
    pub(crate) request: T,
}

impl<T> Schedule<T> {
    /// A schedule at so many times the log's speed, which is above zero.
    pub(crate) fn new(speed: f64, has_whole_seconds: bool) -> Schedule<T> {
        let (first, time, latest) = (None, None, Nanos::ZERO);
        Schedule { speed, has_whole_seconds, first, time, waiting: Vec::new(), latest }
    }

    /// Takes the next request; returns those whose time is known now.
    pub(crate) fn push(&mut self, time: Timestamp, request: T) -> Vec<DueRequest<T>> {
        let is_another = self.time != Some(time) || !self.has_whole_seconds;
        let ready = match is_another || self.waiting.len() >= TOGETHER_MAX {
            true => self.finish(),
            false => Vec::new(),
        };
        self.time = Some(time);
        self.waiting.push(request);
        ready
    }

    /// Returns the requests that wait.
    pub(crate) fn finish(&mut self) -> Vec<DueRequest<T>> {
        let Some(time) = self.time else { return Vec::new() };
        let first = *self.first.get_or_insert(time);
        let since = time.as_nanosecond().saturating_sub(first.as_nanosecond()).max(0);
        let count = self.waiting.len() as u64;
        let spread = if self.has_whole_seconds { SECOND } else { 0 };
        let waiting = std::mem::take(&mut self.waiting);
        let due = |(index, request): (u64, T)| {
            let at = since as f64 + (spread * index / count.max(1)) as f64;
            let due = Nanos::from_secs_f64(at / self.speed / 1e9).max(self.latest);
            self.latest = due;
            DueRequest { due, request }
        };
        (0..).zip(waiting).map(due).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When requests with these times, in milliseconds, are due.
    fn due(speed: f64, whole: bool, times: &[i64]) -> Vec<u64> {
        let mut schedule = Schedule::new(speed, whole);
        let mut all = Vec::new();
        for time in times {
            all.extend(schedule.push(Timestamp::from_millisecond(*time).unwrap(), ()));
        }
        all.extend(schedule.finish());
        all.iter().map(|due| due.due.0 / 1_000_000).collect()
    }

    #[test]
    fn requests_of_a_second_are_spread_over_it() {
        let seconds = [9_000, 9_000, 9_000, 9_000, 10_000, 12_000, 12_000];
        assert_eq!(due(1.0, true, &seconds), [0, 250, 500, 750, 1000, 3000, 3500]);
        assert_eq!(due(2.0, true, &seconds), [0, 125, 250, 375, 500, 1500, 1750]);
        assert_eq!(due(0.5, true, &seconds), [0, 500, 1000, 1500, 2000, 6000, 7000]);
    }

    #[test]
    fn exact_times_are_kept_and_earlier_ones_follow_at_once() {
        assert_eq!(due(1.0, false, &[500, 500, 750, 600, 800]), [0, 0, 250, 250, 300]);
        assert_eq!(due(1.0, true, &[5_000, 3_000, 6_000]), [0, 0, 1000]);
        assert_eq!(due(1.0, true, &[]), [0; 0]);
    }

    #[test]
    fn a_second_with_too_many_requests_ends_in_time() {
        let times = vec![1_000; 2 * TOGETHER_MAX];
        let due = due(1.0, true, &times);
        assert_eq!((due.len(), due[TOGETHER_MAX - 1]), (2 * TOGETHER_MAX, 999));
        assert!(due.is_sorted() && due[2 * TOGETHER_MAX - 1] == 999);
    }
}
