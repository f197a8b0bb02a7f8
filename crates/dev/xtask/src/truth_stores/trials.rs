//! The trials: what happened, in which order the stores are told, and what happens to them meanwhile.

use base::Rng;
use rand::seq::SliceRandom as _;

use super::history::{HOUR_S, Message, Quantity, SERIES, SLOT_S, Shape, draw, total};
use super::stores::STORES;

/// What happens to the store while it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disturbance {
    None,
    /// One orderly restart, after half of the messages.
    Restart,
    /// SIGKILL at random moments within two seconds of each start.
    Kills,
    /// After a quarter of the messages, the disk is full for ten seconds.
    FullDisk,
    /// The power fails at random moments within five seconds of each other, after all that the first
    /// hundredth of the messages brought is on the disk.
    PowerCuts,
    /// Its clock jumps [`STEP_S`] ahead after a third of the messages, and back after two thirds.
    ClockSteps,
    /// One message in [`CUT_EVERY`] is begun first, and its connection closed in the middle.
    Cuts,
}

/// See [`Disturbance::ClockSteps`], in seconds.
pub(super) const STEP_S: i32 = 3_600;

/// See [`Disturbance::Cuts`].
pub(super) const CUT_EVERY: usize = 20;

/// A trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) id: &'static str,
    /// The heading of its column.
    pub(super) title: &'static str,
    /// What happens, as a sentence without its end.
    pub(super) what: &'static str,
    pub(super) quantity: Quantity,
    pub(super) disturbance: Disturbance,
    /// Whether each message is sent when its interval ends.
    pub(super) is_live: bool,
    script: fn(i64, &mut Rng) -> Script,
}

/// A drawn trial.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// What happened.
    pub(super) happened: Vec<Message>,
    /// What is sent, in this order.
    pub(super) sent: Vec<Message>,
    /// The times of which the totals are asked, in seconds since 1970.
    pub(super) asked_s: Vec<(i64, i64)>,
}

impl Trial {
    /// Of how many stores the trial is made at the same time.
    pub(super) fn at_once(&self) -> usize {
        match (self.id, self.is_live) {
            (PRICED, _) => 1,
            (_, true) => STORES.len(),
            _ => 4,
        }
    }

    /// Draws the trial. Its last hour ended within the hour before `now_s`; that of a live one begins
    /// soon.
    pub(super) fn draw(&self, now_s: i64, rng: &mut Rng) -> Script {
        let end_s = match self.is_live {
            true => now_s - now_s % SLOT_S + LIVE_IN_S + LIVE_S,
            false => now_s - now_s % HOUR_S,
        };
        (self.script)(end_s, rng)
    }
}

/// The trial of whose messages the price is told.
pub(super) const PRICED: &str = "counts";

/// How long a live trial takes, and after which time it begins.
const LIVE_S: i64 = 60;
const LIVE_IN_S: i64 = 40;

/// All trials, in the order of the page.
pub(super) static TRIALS: [Trial; 19] = [
    Trial {
        quantity: Quantity::Rate,
        script: published,
        ..trial(
            "published",
            "published",
            "50, 10, 30 and 30 trinkets per second, as they were published: 1,020 in three slots of ten seconds",
        )
    },
    Trial {
        quantity: Quantity::Rate,
        script: |end_s, rng| in_order(end_s, Shape { crosses_slots: true, ..PLAIN }, rng),
        ..trial("rates", "rates", "rates that change after 1 to 8 s, also within a slot")
    },
    trial(PRICED, "counts", "counts over 1 to 8 s, none of which lies in two slots"),
    Trial {
        is_live: true,
        script: |end_s, rng| {
            let time_s = (end_s - LIVE_S, end_s);
            let script = Script::in_order(&[time_s], PLAIN, rng);
            Script { asked_s: vec![time_s], ..script }
        },
        ..trial("live", "live", "counts of a minute, each sent when its interval ends")
    },
    Trial {
        script: |end_s, rng| in_order(end_s, Shape { crosses_slots: true, ..PLAIN }, rng),
        ..trial(
            "crossing",
            "across slots",
            "counts over 1 to 8 s, also of the end of one slot or hour and the beginning of the next",
        )
    },
    Trial {
        script: |end_s, rng| in_order(end_s, Shape { senders: 2, ..PLAIN }, rng),
        ..trial(
            "two-senders",
            "two senders",
            "two processes count the same thing, each with a name of its own",
        )
    },
    Trial {
        script: |end_s, rng| in_order(end_s, Shape { senders: 2, is_named: false, ..PLAIN }, rng),
        ..trial(
            "one-name",
            "one name",
            "two processes count the same thing under one name, as the workers of a pool do",
        )
    },
    Trial {
        script: |end_s, rng| {
            Script::with_order(end_s, rng, |sent, _| {
                *sent = sent.iter().flat_map(|message| [*message, *message]).collect();
            })
        },
        ..trial("twice", "twice", "every message is sent twice")
    },
    Trial {
        script: |end_s, rng| {
            Script::with_order(end_s, rng, |sent, rng| {
                let first = half(sent, end_s);
                let (first, second) = sent.split_at_mut(first);
                first.shuffle(rng);
                second.shuffle(rng);
            })
        },
        ..trial("shuffled", "shuffled", "the messages of each hour arrive in any order")
    },
    Trial {
        script: |end_s, rng| {
            Script::with_order(end_s, rng, |sent, _| {
                let first = half(sent, end_s);
                sent.rotate_left(first);
            })
        },
        ..trial("hour-late", "an hour late", "the first hour arrives after the second")
    },
    Trial {
        script: |end_s, rng| {
            let stretches_s = [(end_s - 25 * HOUR_S, end_s - 24 * HOUR_S), (end_s - HOUR_S, end_s)];
            let mut script = Script::in_order(&stretches_s, PLAIN, rng);
            let first = half(&script.sent, end_s);
            script.sent.rotate_left(first);
            script
        },
        ..trial("day-late", "a day late", "an hour of the day before arrives last")
    },
    Trial {
        script: |end_s, rng| in_order(end_s + 2 * HOUR_S, PLAIN, rng),
        ..trial(
            "ahead",
            "clock slow",
            "the clock of the store is up to two hours behind that of the sender: the messages are of the current hour and of the next one; to one that is fast, messages are late, as in the trials before",
        )
    },
    Trial {
        disturbance: Disturbance::ClockSteps,
        ..trial(
            "steps",
            "clock steps",
            "while the store runs, its clock jumps an hour ahead after a third of the messages, and back after two thirds; what counts from a start (`CLOCK_MONOTONIC`), the times of files and the kernel's timers stay as they are",
        )
    },
    Trial {
        script: corrected,
        ..trial(
            "corrected",
            "corrected",
            "afterwards, 75 more are found in a slot of the first hour, and 75 of a slot of the second are withdrawn",
        )
    },
    Trial {
        disturbance: Disturbance::Cuts,
        ..trial(
            "cut",
            "cut off",
            "of one message in 20, the connection is closed after half of its bytes, and it is sent again",
        )
    },
    Trial {
        disturbance: Disturbance::Restart,
        ..trial("restart", "restarted", "the store is restarted in an orderly way")
    },
    Trial {
        disturbance: Disturbance::Kills,
        ..trial(
            "kills",
            "killed",
            "the store is killed (SIGKILL) a second or two after each start; the sender repeats what was not acknowledged",
        )
    },
    Trial {
        disturbance: Disturbance::PowerCuts,
        ..trial(
            "power",
            "power cut",
            "every 5 s, the power fails between two messages: all processes end, and what the kernel has not yet written to the disk is gone; the disk itself keeps what it got. What the first hundredth of the messages brought was written, as if the store had been in use for longer",
        )
    },
    Trial {
        disturbance: Disturbance::FullDisk,
        ..trial(
            "full-disk",
            "full disk",
            "the store's disk is full for ten seconds; the sender repeats what was not acknowledged",
        )
    },
];

/// One sender whose intervals lie in one slot each.
const PLAIN: Shape = Shape { senders: 1, is_named: true, crosses_slots: false };

/// Counts of two hours, in order and undisturbed.
const fn trial(id: &'static str, title: &'static str, what: &'static str) -> Trial {
    Trial {
        id,
        title,
        what,
        quantity: Quantity::Count,
        disturbance: Disturbance::None,
        is_live: false,
        script: |end_s, rng| in_order(end_s, PLAIN, rng),
    }
}

/// The two hours before this time.
fn in_order(end_s: i64, shape: Shape, rng: &mut Rng) -> Script {
    Script::in_order(&[(end_s - 2 * HOUR_S, end_s)], shape, rng)
}

/// How many of these messages are of an hour before the last one.
fn half(messages: &[Message], end_s: i64) -> usize {
    messages.iter().filter(|message| message.end_s <= end_s - HOUR_S).count()
}

impl Script {
    /// Counts of these stretches, of each of whose hours the total is asked.
    fn in_order(stretches_s: &[(i64, i64)], shape: Shape, rng: &mut Rng) -> Script {
        let happened = draw(stretches_s, shape, rng);
        let hours_s =
            stretches_s.iter().flat_map(|(from_s, to_s)| (*from_s..*to_s).step_by(HOUR_S as usize));
        let asked_s = hours_s.map(|from_s| (from_s, from_s + HOUR_S)).collect();
        Script { sent: happened.clone(), happened, asked_s }
    }

    /// Counts of two hours, sent in another order.
    fn with_order(
        end_s: i64,
        rng: &mut Rng,
        order: impl FnOnce(&mut Vec<Message>, &mut Rng),
    ) -> Script {
        let mut script = in_order(end_s, PLAIN, rng);
        order(&mut script.sent, rng);
        script
    }
}

/// The published updates of the experiment `series-accuracy`, moved to the last hour: seconds since
/// the beginning of the first slot, and trinkets per second since the update before.
const PUBLISHED: [(i64, i64); 4] = [(12, 50), (18, 10), (23, 30), (31, 30)];

fn published(end_s: i64, _: &mut Rng) -> Script {
    let from_s = end_s - HOUR_S;
    let mut happened = Vec::new();
    let mut since_s = 0;
    let mut sum = 0;
    for (id, (until_s, rate)) in (0..).zip(PUBLISHED) {
        let count = rate * (until_s - since_s);
        sum += count;
        let (start_s, end_s) = (from_s + since_s, from_s + until_s);
        happened.push(Message {
            id,
            series: 0,
            sender: 0,
            start_s,
            end_s,
            count,
            sum,
            slot_sum: count,
            begins: since_s == 0,
            corrects: false,
        });
        since_s = until_s;
    }
    Script { sent: happened.clone(), happened, asked_s: vec![(from_s, from_s + 3 * SLOT_S)] }
}

fn corrected(end_s: i64, rng: &mut Rng) -> Script {
    let mut script = in_order(end_s, PLAIN, rng);
    for (count, from_s) in [(75, end_s - 2 * HOUR_S), (-75, end_s - HOUR_S)] {
        for series in 0..SERIES {
            let id = script.happened.len() as u32;
            let start_s = from_s + 100 * SLOT_S;
            let end_s = start_s + SLOT_S;
            // Another sender's counter begins at 0; the slot's sum is known to who corrects it.
            let slot_sum = total(&script.happened, series, start_s, end_s) as i64 + count;
            let correction = Message {
                id,
                series,
                sender: 1,
                start_s,
                end_s,
                count,
                sum: count,
                slot_sum,
                begins: true,
                corrects: true,
            };
            script.happened.push(correction);
            script.sent.push(correction);
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use base::Seed;

    use super::*;

    #[test]
    fn every_trial_sends_what_happened_and_asks_for_all_of_it() {
        let names: BTreeSet<&str> = TRIALS.iter().map(|trial| trial.id).collect();
        assert_eq!(names.len(), TRIALS.len());
        for trial in &TRIALS {
            let script = trial.draw(1_000_000_000, &mut Seed(1).rng(trial.id));
            let ids = |messages: &[Message]| -> BTreeSet<u32> {
                messages.iter().map(|message| message.id).collect()
            };
            assert_eq!(ids(&script.sent), ids(&script.happened), "{}", trial.id);
            assert_eq!(ids(&script.happened).len(), script.happened.len(), "{}", trial.id);
            let asked: f64 = (0..SERIES)
                .flat_map(|series| script.asked_s.iter().map(move |asked_s| (series, asked_s)))
                .map(|(series, (from_s, to_s))| total(&script.happened, series, *from_s, *to_s))
                .sum();
            let counts: i64 = script.happened.iter().map(|message| message.count).sum();
            let wanted = if trial.id == "published" { 1_020 } else { counts };
            assert!((asked - wanted as f64).abs() < 1e-6, "{}: {asked} {wanted}", trial.id);
        }
    }
}
