//! Which time to believe, when the machine's clock may be wrong.
//!
//! A clock that jumps by years for one message would give all later values of StatsD to another
//! year, and one that is wrong at the start would expire a whole record. So the clock is compared
//! with the time that has passed since the process began, with what expiry has believed before in
//! the record, and with the times that senders say. What is recorded does not count, because a wrong
//! clock may have written it:
//!
//! - **Arrivals** follow a small step of the clock at once, and a larger one after [`PATIENCE_US`].
//!   Whether points are of the future is judged by what the clock shows meanwhile, if that is later:
//!   it may have been set right.
//! - **Expiry**, which destroys data, follows a clock that is more than an hour ahead of what is
//!   known only after an hour in which it stayed there. Until then it sees the time that would have
//!   passed without the jump. If most messages of that hour are more than an hour older than the
//!   clock, it goes no further than to their median, which a few senders with wrong clocks do not
//!   move, until most messages of an hour agree with the clock. Senders of old data only delay expiry.
//!   A clock that is set back is believed at once,
//!   because it expires nothing.
//! - **Requests** are forgotten by the time that expiry believes. A clock that went ahead, as that of a
//!   machine which begins in 1970, makes requests old that arrived a moment before. So they are
//!   forgotten by the time from before, until as much time has passed as they are to be remembered
//!   for.

use std::hash::{DefaultHasher, Hasher as _};
use std::ops::RangeInclusive;

use series::SECOND_US;

/// A difference between the clock and the time that has passed that is followed at once.
pub const STEP_US: i64 = 10 * SECOND_US;

/// How long a larger difference must last before arrivals follow it.
pub const PATIENCE_US: i64 = 60 * SECOND_US;

/// How far the clock may be ahead of what is known before expiry does not believe it, and for how
/// long it does not.
pub const DISTRUST_US: i64 = 3_600 * SECOND_US;

/// A reading of two clocks, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time that has passed since any instant, also while the machine was suspended.
    pub passed_us: i64,
    /// What the clock shows, since the epoch.
    pub shown_us: i64,
}

impl Moment {
    fn offset_us(self) -> i64 {
        self.shown_us.saturating_sub(self.passed_us)
    }
}

/// When something arrived, in microseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalTimes {
    /// The time that was believed.
    pub at_us: i64,
    /// What the clock showed, if that was later: a clock that was just set right is not believed yet,
    /// but points are not of the future by it.
    pub latest_us: i64,
}

impl ArrivalTimes {
    /// At a time that the clock showed too.
    pub const fn at(at_us: i64) -> ArrivalTimes {
        ArrivalTimes { at_us, latest_us: at_us }
    }
}

/// Times that are kept of those that senders have said.
const SAID_MAX: usize = 64;

/// A clock that is ahead of what expiry believes, for at most an hour.
#[derive(Clone, Debug)]
struct Lead {
    since_us: i64,
    /// Some of the times that senders have said since, as offsets.
    said: Vec<i64>,
    heard: u64,
}

impl Lead {
    fn new(since_us: i64) -> Lead {
        Lead { since_us, said: Vec::new(), heard: 0 }
    }

    /// Keeps each time with the same chance (Vitter: Random sampling with a reservoir, 1985,
    /// algorithm R).
    fn hear(&mut self, said_us: i64) {
        self.heard += 1;
        let mut hash = DefaultHasher::new();
        hash.write_u64(self.heard);
        if self.said.len() < SAID_MAX {
            self.said.push(said_us);
        } else if let Some(kept_us) = self.said.get_mut((hash.finish() % self.heard) as usize) {
            *kept_us = said_us;
        }
    }

    /// The median of what was said, as an offset; `None` if that was nothing.
    fn median_us(&mut self) -> Option<i64> {
        self.said.sort_unstable();
        self.said.get(self.said.len() / 2).copied()
    }
}

/// What is believed of the time. Offsets are those of the clock to the time that has passed.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The offset that arrivals believe.
    offset_us: i64,
    /// Another offset, and since when the clock has it.
    other: Option<(i64, i64)>,
    /// The offset that expiry believes; `None` while the record knows no time.
    safe_us: Option<i64>,
    /// While the clock is ahead of it.
    lead: Option<Lead>,
    /// The lowest offset that was believed before the clock went ahead, and when it last did.
    before: Option<(i64, i64)>,
}

impl Clock {
    /// Begins at a moment. Until the clock [is compared](Clock::compare) with the record, nothing
    /// expires before [`DISTRUST_US`] have passed.
    pub fn new(at: Moment) -> Clock {
        Clock { offset_us: at.offset_us(), other: None, safe_us: None, lead: None, before: None }
    }

    /// Compares the clock with the latest time that expiry [has believed](store::KnownTimes) in the
    /// record, in microseconds since the epoch. The time since then may have been an outage, or the
    /// clock may be wrong.
    pub fn compare(&mut self, at: Moment, expired_us: &RangeInclusive<i64>) {
        let is_near = at.shown_us <= expired_us.end().saturating_add(DISTRUST_US);
        let safe_us = if is_near { *expired_us.end() } else { *expired_us.start() };
        self.safe_us = Some(safe_us.saturating_sub(at.passed_us).min(self.offset_us));
    }

    /// The time at which something arrives, in microseconds since the epoch.
    pub fn now_us(&mut self, at: Moment) -> i64 {
        let is_near = |a: i64, b: i64| a.abs_diff(b) <= STEP_US.unsigned_abs();
        let shown_us = at.offset_us();
        if is_near(shown_us, self.offset_us) {
            (self.offset_us, self.other) = (shown_us, None);
        } else {
            let since_us = match self.other {
                Some((other_us, since_us)) if is_near(other_us, shown_us) => since_us,
                _ => at.passed_us,
            };
            self.other = Some((shown_us, since_us));
            // It does not stay ahead as it was.
            self.lead = None;
            if at.passed_us.saturating_sub(since_us) >= PATIENCE_US {
                self.went_ahead(self.offset_us, shown_us, at);
                (self.offset_us, self.other) = (shown_us, None);
            }
        }
        at.passed_us.saturating_add(self.offset_us)
    }

    /// The arrival of something now.
    pub fn arrived(&mut self, at: Moment) -> ArrivalTimes {
        let at_us = self.now_us(at);
        ArrivalTimes { at_us, latest_us: at_us.max(at.shown_us) }
    }

    /// A sender says which time it is, in microseconds since the epoch: the latest of a message that
    /// is not that of its arrival.
    pub fn hear(&mut self, at: Moment, said_us: i64) {
        self.now_us(at);
        if let Some(lead) = &mut self.lead {
            lead.hear(said_us.saturating_sub(at.passed_us));
        }
    }

    /// The time at which it is to be judged what has expired, in microseconds since the epoch;
    /// `None` while that is unknown.
    pub fn expiry_us(&mut self, at: Moment) -> Option<i64> {
        let now_us = self.now_us(at);
        let offset_us = self.offset_us;
        let ahead_us = self.safe_us.map(|safe_us| offset_us.saturating_sub(safe_us));
        let is_far = ahead_us.is_none_or(|ahead_us| ahead_us > DISTRUST_US);
        let (mut believed_us, mut next) = (offset_us, None);
        if ahead_us.is_none_or(|ahead_us| ahead_us > 0) {
            let lead = self.lead.get_or_insert_with(|| Lead::new(at.passed_us));
            if at.passed_us.saturating_sub(lead.since_us) < DISTRUST_US {
                let safe_us = at.passed_us.saturating_add(self.safe_us?);
                return Some(if is_far { safe_us } else { now_us });
            }
            let is_old = |us: &i64| is_far && *us < offset_us.saturating_sub(DISTRUST_US);
            if let Some(median_us) = lead.median_us().filter(is_old) {
                believed_us = self.safe_us.map_or(median_us, |safe_us| safe_us.max(median_us));
                // If they fall silent, they have not changed their mind.
                next = Some(Lead { said: vec![median_us], ..Lead::new(at.passed_us) });
            }
        }
        self.went_ahead(self.safe_us.unwrap_or(i64::MIN), believed_us, at);
        (self.safe_us, self.lead) = (Some(believed_us), next);
        Some(at.passed_us.saturating_add(believed_us))
    }

    /// How far the clock is ahead of the time at which it is judged what has expired, in
    /// microseconds; 0 while that is unknown.
    pub fn ahead_us(&mut self, at: Moment) -> i64 {
        self.expiry_us(at).map_or(0, |us| at.shown_us.saturating_sub(us).max(0))
    }

    /// Another offset is believed than before.
    fn went_ahead(&mut self, from_us: i64, to_us: i64, at: Moment) {
        if to_us.saturating_sub(from_us) > DISTRUST_US {
            let lowest_us = self.before.map_or(from_us, |(lowest_us, _)| lowest_us.min(from_us));
            self.before = Some((lowest_us, at.passed_us));
        }
    }

    /// The time before which requests are forgotten that are to be remembered for so long, in
    /// microseconds since the epoch; `None` while that is unknown.
    pub fn forget_us(&mut self, at: Moment, remember_us: i64) -> Option<i64> {
        let believed_us = self.expiry_us(at)?;
        let lowest_us = match self.before {
            Some((lowest_us, since_us)) if at.passed_us.saturating_sub(since_us) < remember_us => {
                at.passed_us.saturating_add(lowest_us).min(believed_us)
            }
            _ => believed_us,
        };
        Some(lowest_us.saturating_sub(remember_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_US: i64 = 1_767_225_600 * SECOND_US;
    const DAY_US: i64 = 86_400 * SECOND_US;

    /// A moment so many seconds after the start, with the clock so far ahead.
    fn at(seconds: i64, ahead_us: i64) -> Moment {
        let passed_us = seconds * SECOND_US;
        Moment { passed_us, shown_us: START_US + passed_us + ahead_us }
    }

    fn right(seconds: i64) -> i64 {
        START_US + seconds * SECOND_US
    }

    #[test]
    fn a_clock_that_is_years_ahead_for_one_message_moves_no_arrival() {
        for jump_us in [365 * DAY_US, -365 * DAY_US, -3_600 * SECOND_US, 11 * SECOND_US] {
            let mut clock = Clock::new(at(0, 0));
            assert_eq!(clock.now_us(at(5, 0)), right(5));
            assert_eq!(clock.now_us(at(6, jump_us)), right(6));
            assert_eq!(clock.now_us(at(65, jump_us)), right(65));
            assert_eq!(clock.now_us(at(66, 0)), right(66));
            // Another jump does not continue the first one.
            assert_eq!(clock.now_us(at(100, jump_us)), right(100));
            let latest_us = right(159).max(right(159) + jump_us);
            let arrived = ArrivalTimes { at_us: right(159), latest_us };
            assert_eq!(clock.arrived(at(159, jump_us)), arrived);
            assert_eq!(clock.now_us(at(160, jump_us)), right(160) + jump_us, "it stays there");
        }
    }

    #[test]
    fn small_steps_are_followed_at_once() {
        let mut clock = Clock::new(at(0, 0));
        for (seconds, ahead_us) in [(1, 10 * SECOND_US), (2, 0), (3, -10 * SECOND_US), (4, -7)] {
            assert_eq!(clock.now_us(at(seconds, ahead_us)), right(seconds) + ahead_us);
        }
    }

    #[test]
    fn a_clock_that_is_wrong_at_the_start_expires_nothing_for_an_hour() {
        for ahead_us in [2 * DAY_US, 1_500 * DAY_US] {
            let mut clock = Clock::new(at(0, ahead_us));
            // The record was written until a minute ago.
            clock.compare(at(0, ahead_us), &(right(-60)..=right(-60)));
            assert_eq!(clock.expiry_us(at(7, ahead_us)), Some(right(-53)));
            assert_eq!(clock.expiry_us(at(3_600, ahead_us)), Some(right(3_540)));
            assert_eq!(clock.expiry_us(at(3_700, ahead_us)), Some(right(3_700) + ahead_us));
        }
        // Set right in time, it is believed.
        let mut clock = Clock::new(at(0, 2 * DAY_US));
        clock.compare(at(0, 2 * DAY_US), &(right(-60)..=right(-60)));
        assert_eq!(clock.expiry_us(at(1, 2 * DAY_US)), Some(right(-59)));
        assert_eq!(clock.now_us(at(4, 0)), right(4) + 2 * DAY_US, "it may be a jump back");
        assert_eq!(clock.expiry_us(at(90, 0)), Some(right(90)));
        assert_eq!(clock.expiry_us(at(9_000, 0)), Some(right(9_000)));
    }

    #[test]
    fn a_clock_that_jumps_ahead_expires_nothing_for_an_hour() {
        let mut clock = Clock::new(at(0, 0));
        clock.compare(at(0, 0), &(right(600)..=right(600)));
        assert_eq!(clock.expiry_us(at(0, 0)), Some(right(0)), "a record is not ahead of the clock");
        let ahead_us = 10 * 365 * DAY_US;
        for minute in 1..61 {
            let seconds = minute * 60;
            assert_eq!(clock.expiry_us(at(seconds, ahead_us)), Some(right(seconds)), "{minute}");
        }
        assert_eq!(clock.expiry_us(at(3_800, 0)), Some(right(3_800)), "it was set right");
        assert_eq!(clock.expiry_us(at(4_000, ahead_us)), Some(right(4_000)));
        // Half an hour, as after a pause of the machine, is no jump.
        let mut clock = Clock::new(at(0, 0));
        clock.compare(at(0, 0), &(right(-1_800)..=right(-1_800)));
        assert_eq!(clock.expiry_us(at(0, 0)), Some(right(0)));
    }

    #[test]
    fn a_clock_that_went_ahead_forgets_no_more_than_the_time_that_passes() {
        let remember_us = DAY_US;
        let mut clock = Clock::new(at(0, 0));
        clock.compare(at(0, 0), &(right(600)..=right(600)));
        let forgets = |clock: &mut Clock, seconds, ahead_us| {
            // The daemon looks at its clock more often.
            clock.forget_us(at(seconds - 3_700, ahead_us), remember_us);
            clock.forget_us(at(seconds - 3_605, ahead_us), remember_us);
            clock.forget_us(at(seconds, ahead_us), remember_us)
        };
        assert_eq!(forgets(&mut clock, 4_000, 0), Some(right(4_000) - DAY_US));
        let ahead_us = 1_000 * DAY_US;
        assert_eq!(forgets(&mut clock, 8_000, ahead_us), Some(right(8_000) - DAY_US));
        // A day has not passed since it is believed.
        assert_eq!(forgets(&mut clock, 90_000, ahead_us), Some(right(90_000) - DAY_US));
        assert_eq!(forgets(&mut clock, 95_000, ahead_us), Some(right(95_000) + 999 * DAY_US));
        // It is not believed for an hour.
        clock.now_us(at(100_000, 2 * ahead_us));
        let forgotten = clock.forget_us(at(100_062, 2 * ahead_us), remember_us);
        assert_eq!(forgotten, Some(right(100_062) - DAY_US), "and not by the clock from before");
        // One that begins far behind makes its requests old once it is set right.
        let mut clock = Clock::new(at(0, -ahead_us));
        clock.compare(at(0, -ahead_us), &(right(-60)..=right(-60)));
        assert_eq!(clock.forget_us(at(1, -ahead_us), DAY_US), Some(right(1) - ahead_us - DAY_US));
        let set = forgets(&mut clock, 4_000, 0);
        assert_eq!(set, Some(right(4_000) - ahead_us - DAY_US));
        assert_eq!(forgets(&mut clock, 100_000, 0), Some(right(100_000) - DAY_US));
    }

    /// What expiry believes an hour later, while messages arrive whose senders say these times each
    /// minute, in seconds before the right one.
    fn an_hour_later(clock: &mut Clock, from: i64, ahead_us: i64, lags: &[i64]) -> Option<i64> {
        for seconds in (from..from + 3_700).step_by(60) {
            clock.expiry_us(at(seconds, ahead_us));
            for lag in lags {
                clock.hear(at(seconds, ahead_us), right(seconds - lag));
            }
        }
        let later = from + 3_700;
        clock.expiry_us(at(later, ahead_us)).map(|us| (us - right(later)) / SECOND_US)
    }

    #[test]
    fn a_clock_that_most_senders_deny_expires_nothing_more() {
        let (year, day) = (365 * 86_400, 86_400);
        let year_us = year * SECOND_US;
        let known = |ahead_us| {
            let mut clock = Clock::new(at(0, ahead_us));
            clock.compare(at(0, ahead_us), &(right(-60)..=right(-60)));
            clock
        };
        let expired = |lags: &[i64]| an_hour_later(&mut known(year_us), 0, year_us, lags).unwrap();
        assert_eq!(expired(&[]), year, "no sender gives a time");
        assert_eq!(expired(&[0, 1, 7]), -1);
        assert_eq!(expired(&[-year, 0, 1]), 0, "one has the same clock");
        assert_eq!(expired(&[-year, -year, 0]), year, "most have it");
        assert_eq!(expired(&[100 * day]), -60, "who sends old data moves nothing back");
        let mut clock = known(year_us);
        for hour in 0..50 {
            let after = an_hour_later(&mut clock, hour * 3_700, year_us, &[5]);
            assert_eq!(after, Some(-5), "{hour} hours");
        }
        assert_eq!(clock.ahead_us(at(185_001, year_us)), year_us + 5 * SECOND_US);
        let silent = an_hour_later(&mut clock.clone(), 185_001, year_us, &[]);
        assert_eq!(silent, Some(-5), "silence is no agreement");
        let mut agreed = clock.clone();
        an_hour_later(&mut agreed, 185_001, year_us, &[-year]);
        assert_eq!(an_hour_later(&mut agreed, 188_801, year_us, &[-year]), Some(year));
        assert_eq!(an_hour_later(&mut clock, 185_100, 0, &[5]), Some(0), "it is set right");
        assert_eq!(clock.ahead_us(at(188_801, 0)), 0);
        // After two days without a daemon, a sender of what is a day old delays expiry by a day.
        let mut clock = Clock::new(at(0, 0));
        clock.compare(at(0, 0), &(right(-2 * day)..=right(-2 * day)));
        assert_eq!(an_hour_later(&mut clock, 0, 0, &[day]), Some(-day));
        assert_eq!(an_hour_later(&mut clock, 4_000, 0, &[day]), Some(-day));
        assert_eq!(an_hour_later(&mut clock, 8_000, 0, &[3_000]), Some(0), "less than an hour");
    }

    #[test]
    fn of_senders_in_turn_all_are_heard() {
        for senders in 2..10 {
            let mut lead = Lead::new(0);
            (0..10_000).for_each(|message| lead.hear(message % senders));
            let count = |sender| lead.said.iter().filter(|said| **said == sender).count() as i64;
            assert_eq!(lead.said.len(), SAID_MAX);
            for sender in 0..senders {
                let share = SAID_MAX as i64 / senders;
                assert!((share / 4..=2 * share).contains(&count(sender)), "{sender} of {senders}");
            }
        }
    }

    #[test]
    fn an_empty_record_believes_what_senders_say() {
        let mut clock = Clock::new(at(0, DAY_US));
        assert_eq!(an_hour_later(&mut clock, 0, DAY_US, &[5]), Some(-5));
        let mut clock = Clock::new(at(0, 0));
        assert_eq!(an_hour_later(&mut clock, 0, 0, &[5]), Some(0));
    }

    #[test]
    fn without_a_time_in_the_record_nothing_expires_for_an_hour() {
        let mut clock = Clock::new(at(0, 0));
        assert_eq!(clock.expiry_us(at(1, 0)), None);
        assert_eq!(clock.expiry_us(at(3_600, 0)), None);
        assert_eq!(clock.expiry_us(at(3_601, 0)), Some(right(3_601)));
    }
}
