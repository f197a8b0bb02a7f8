//! Clocks that jump by seconds to years, in both directions, for any time, over restarts, with senders
//! that know the right time, share the clock, send what is old, or say nothing.

use engine::clock::{Clock, DISTRUST_US, Moment, PATIENCE_US, STEP_US};
use series::SECOND_US;

use super::journal::law;
use super::random::Random;

/// The right time at the beginning, in microseconds since the epoch.
const START_US: i64 = 1_767_225_600 * SECOND_US;

/// The longest time between two looks at the clock.
const EACH_MAX_US: i64 = 2_500 * SECOND_US;

/// How long requests are to be remembered.
const REMEMBER_US: i64 = 50_000 * SECOND_US;

/// A rule that is left out on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disbelief {
    /// Arrivals have the time that the clock shows.
    NoPatience,
    /// Expiry believes what arrivals believe.
    NoDistrust,
    /// The record is not asked.
    NoRecord,
    /// After a jump, the clock is never believed again.
    ForEver,
    /// Requests are forgotten by the time that expiry believes.
    KeysAtOnce,
    /// They are never forgotten.
    KeysForEver,
    /// Senders are not heard.
    Deaf,
    /// The times of arrival are taken for times that senders say.
    OwnVoice,
}

/// Which time senders say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Senders {
    Silent,
    /// The right one, but for a few.
    Right,
    /// What the clock shows.
    Same,
    /// One that was right so long ago, in microseconds.
    Late(i64),
}

impl Disbelief {
    pub(crate) const ALL: [Disbelief; 8] = [
        Disbelief::NoPatience,
        Disbelief::NoDistrust,
        Disbelief::NoRecord,
        Disbelief::ForEver,
        Disbelief::KeysAtOnce,
        Disbelief::KeysForEver,
        Disbelief::Deaf,
        Disbelief::OwnVoice,
    ];
}

/// Runs events.
///
/// # Errors
/// The law that was broken, after the events before it.
pub(crate) fn run(events: &[u64], without: Option<Disbelief>) -> Result<(), String> {
    let mut script = Vec::new();
    check(events, without, &mut script).map_err(|law| format!("{}\n{law}", script.join("\n")))
}

fn check(
    events: &[u64],
    without: Option<Disbelief>,
    script: &mut Vec<String>,
) -> Result<(), String> {
    let (mut passed_us, mut wrong_us) = (0, 0_i64);
    // Since when the clock has been as it is, and what expiry has seen of the right time.
    let mut since_us = 0;
    let mut recorded_us = START_US;
    let mut long_wrong = false;
    // What senders say, and since when.
    let (mut senders, mut said_since_us) = (Senders::Silent, 0);
    // Whether right senders have denied this clock for so long that silence is no agreement, and
    // whether any have.
    let (mut has_denied, mut was_denied) = (false, false);
    let first = Moment { passed_us, shown_us: START_US };
    let mut clock = Clock::new(first);
    let mut started_us = 0;
    clock.compare(first, &(recorded_us..=recorded_us));
    // When requests arrived at this process, and at which time.
    let mut requests: Vec<(i64, i64)> = Vec::new();
    for number in events {
        let mut is_new = true;
        let mut random = Random::new(*number);
        let longest_s = [5, 59, 70, 900, 4_000, 100_000][random.below(6) as usize];
        let pause_us = (1 + random.below(longest_s)) as i64 * SECOND_US;
        let end_us = passed_us + pause_us;
        // The daemon looks at its clock every few seconds.
        let each_us = (pause_us / 40).max(SECOND_US);
        while passed_us < end_us {
            passed_us = (passed_us + each_us).min(end_us);
            let right_us = START_US + passed_us;
            let at = Moment { passed_us, shown_us: right_us.saturating_add(wrong_us) };
            let now_us = match without {
                Some(Disbelief::NoPatience) => at.shown_us,
                _ => clock.now_us(at),
            };
            let expiry_us = match without {
                Some(Disbelief::NoDistrust) => Some(now_us),
                Some(Disbelief::ForEver) if wrong_us != 0 => None,
                _ => clock.expiry_us(at),
            };
            let forget_us = match without {
                Some(Disbelief::KeysAtOnce) => expiry_us.map(|us| us - REMEMBER_US),
                Some(Disbelief::KeysForEver) => None,
                _ => clock.forget_us(at, REMEMBER_US),
            };
            let said_us = match senders {
                Senders::Silent => None,
                Senders::Right => Some(right_us - 30 * SECOND_US),
                Senders::Same => Some(at.shown_us),
                Senders::Late(lag_us) => Some(right_us - lag_us),
            };
            for each in 0..said_us.map_or(0, |_| 5) {
                let is_other = senders == Senders::Right && each == 0;
                let other_us = at.shown_us - [0, START_US][random.below(2) as usize];
                let said_us = said_us.filter(|_| !is_other).unwrap_or(other_us);
                if without != Some(Disbelief::Deaf) {
                    clock.hear(at, said_us);
                }
            }
            if without == Some(Disbelief::OwnVoice) {
                (0..9).for_each(|_| clock.hear(at, now_us));
            }
            let lasted_us = passed_us - since_us;
            let was_wrong = wrong_us.abs() > STEP_US;
            long_wrong |= was_wrong && lasted_us + 2 * each_us >= PATIENCE_US;
            if !long_wrong && passed_us > started_us {
                let is_right = now_us.abs_diff(right_us) <= 2 * STEP_US.unsigned_abs();
                law(
                    is_right,
                    format_args!("a short jump moves no arrival: {now_us} at {right_us}"),
                )?;
            }
            if !was_wrong && lasted_us >= PATIENCE_US + 2 * each_us {
                let is_right = now_us.abs_diff(right_us) <= STEP_US.unsigned_abs();
                law(is_right, format_args!("a right clock is believed: {now_us} at {right_us}"))?;
                long_wrong = false;
            }
            // How long both have been as they are.
            let settled_us = passed_us - since_us.max(said_since_us);
            let is_trusted = settled_us >= 2 * DISTRUST_US + PATIENCE_US + 3 * EACH_MAX_US;
            let are_right = senders == Senders::Right && said_since_us <= since_us;
            has_denied |= are_right && lasted_us >= DISTRUST_US + PATIENCE_US + 3 * EACH_MAX_US;
            has_denied &= !matches!(senders, Senders::Same | Senders::Late(_));
            let is_denied = are_right || has_denied;
            // Small steps of the clock are followed at once.
            let old_us = at.shown_us - DISTRUST_US + 3 * STEP_US;
            was_denied |= said_us.is_some_and(|us| us < old_us);
            let is_trusted = is_trusted && !(senders == Senders::Silent && was_denied);
            if !was_wrong || lasted_us < DISTRUST_US || is_denied {
                let most_us = right_us + DISTRUST_US + 2 * STEP_US;
                let is_safe = expiry_us.is_none_or(|us| us <= most_us.max(recorded_us));
                law(is_safe, format_args!("nothing expires early: {expiry_us:?} at {right_us}"))?;
            }
            // Expiry is behind the clock by as much as most senders are.
            let behind_us = at.shown_us - said_us.unwrap_or(at.shown_us);
            let behind_us = if behind_us > DISTRUST_US { behind_us } else { 0 };
            if is_trusted {
                let until_us = at.shown_us - STEP_US..=at.shown_us + STEP_US;
                let from_us = until_us.start() - behind_us;
                let is_shown = expiry_us.is_some_and(|us| from_us <= us && us <= *until_us.end());
                law(is_shown, "a clock that stays where it is is believed after an hour")?;
            }
            // What expiry believes after a jump may be an hour ahead.
            let is_kept = |(at_us, arrival_us): &(i64, i64)| {
                let is_due = passed_us - at_us >= REMEMBER_US;
                is_due || forget_us.is_none_or(|us| us <= arrival_us + 2 * DISTRUST_US)
            };
            law(
                requests.iter().all(is_kept),
                format_args!("no request is forgotten early: {at:?}"),
            )?;
            if std::mem::take(&mut is_new) {
                requests.push((passed_us, now_us));
            }
            if is_trusted && settled_us >= REMEMBER_US + 2 * DISTRUST_US + 4 * EACH_MAX_US {
                let since_us = at.shown_us - behind_us - REMEMBER_US - STEP_US;
                let is_told = forget_us.is_some_and(|us| us >= since_us);
                law(is_told, "requests are forgotten in the end")?;
            }
            let is_believed = wrong_us > 0 && !(is_denied && wrong_us > DISTRUST_US);
            if was_wrong && lasted_us >= DISTRUST_US && is_believed {
                // An hour was enough time to set it right.
                return Ok(());
            }
            recorded_us = recorded_us.max(expiry_us.unwrap_or(recorded_us)).min(right_us);
        }
        let jump_s = [1, 9, 11, 3_599, 3_601, 86_400, 40_000_000, 315_000_000];
        let longest_s = jump_s[random.below(8) as usize];
        let jump_us = (random.below(longest_s) + 1) as i64 * SECOND_US;
        let before_us = wrong_us;
        match random.below(8) {
            6 | 7 => {
                senders = match random.below(4) {
                    0 => Senders::Silent,
                    1 => Senders::Right,
                    2 => Senders::Same,
                    _ => Senders::Late(jump_us),
                };
                said_since_us = passed_us;
                script.push(format!("{passed_us} senders: {senders:?}"));
                continue;
            }
            0 | 1 => wrong_us = if random.one_in(2) { jump_us } else { -jump_us },
            2 | 3 => wrong_us = 0,
            4 => {
                script.push(format!("{passed_us} a restart, and the record ends at {recorded_us}"));
                let at = Moment { passed_us, shown_us: START_US + passed_us + wrong_us };
                clock = Clock::new(at);
                match without {
                    Some(Disbelief::NoRecord) => clock.compare(at, &(at.shown_us..=at.shown_us)),
                    _ => clock.compare(at, &(recorded_us..=recorded_us)),
                }
                (started_us, since_us) = (passed_us, passed_us);
                (has_denied, was_denied) = (false, false);
                requests.clear();
                long_wrong |= wrong_us.abs() > STEP_US;
                continue;
            }
            _ => continue,
        }
        script.push(format!("{passed_us} the clock is {wrong_us} µs ahead"));
        // A small step continues a large one.
        if wrong_us.abs_diff(before_us) > STEP_US.unsigned_abs() {
            since_us = passed_us;
            (has_denied, was_denied) = (false, false);
        }
    }
    Ok(())
}
