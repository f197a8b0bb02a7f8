//! What happened: counts over intervals, and what their totals are.

use base::Rng;
use rand::RngExt as _;

/// Seconds of a slot, and of an hour.
pub(super) const SLOT_S: i64 = 10;
pub(super) const HOUR_S: i64 = 3_600;

/// Number of series.
pub(super) const SERIES: usize = 2;

/// The longest interval, in seconds.
const LONGEST_S: i64 = 8;

/// Counts are below this.
const COUNT_LIMIT: i64 = 1_000;

/// What one sender counted in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// Its place among the messages of a history. A repetition has the same.
    pub(super) id: u32,
    pub(super) series: usize,
    /// The name by which stores may tell senders apart.
    pub(super) sender: usize,
    /// Seconds since 1970: the count is of the time from the start, up to the end.
    pub(super) start_s: i64,
    pub(super) end_s: i64,
    pub(super) count: i64,
    /// The sender's counter at the end, which was 0 when it began.
    pub(super) sum: i64,
    /// What the sender has counted by messages of the slot in which this one's interval ends, with it.
    pub(super) slot_sum: i64,
    /// Whether the sender begins here, or again after a silence.
    pub(super) begins: bool,
    /// Whether it corrects what another sender has said.
    pub(super) corrects: bool,
}

impl Message {
    /// The time of a point that stands for the whole interval: a second of it, its last one.
    pub(super) fn at_s(&self) -> i64 {
        self.end_s - 1
    }

    /// The rate per second.
    pub(super) fn rate(&self) -> f64 {
        self.count as f64 / (self.end_s - self.start_s) as f64
    }

    /// The part of the count that falls into this time, if it was spread evenly.
    fn within(&self, from_s: i64, to_s: i64) -> f64 {
        let shared_s = (self.end_s.min(to_s) - self.start_s.max(from_s)).max(0);
        self.count as f64 * shared_s as f64 / (self.end_s - self.start_s) as f64
    }
}

/// What the messages say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Something was counted in the interval.
    Count,
    /// A rate that held during the interval.
    Rate,
}

/// How a history is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Senders of each series.
    pub(super) senders: usize,
    /// Whether each has a name of its own.
    pub(super) is_named: bool,
    /// Whether an interval may lie in two slots.
    pub(super) crosses_slots: bool,
}

/// Draws the messages of these stretches of whole hours, in the order in which their intervals end.
pub(super) fn draw(stretches_s: &[(i64, i64)], shape: Shape, rng: &mut Rng) -> Vec<Message> {
    let mut messages = Vec::new();
    for series in 0..SERIES {
        for sender in 0..shape.senders {
            let (mut sum, mut slot_sum, mut slot) = (0, 0, 0);
            for &(from_s, to_s) in stretches_s {
                let mut start_s = from_s;
                while start_s < to_s {
                    let slot_end_s = start_s - start_s % SLOT_S + SLOT_S;
                    let limit_s = if shape.crosses_slots { to_s } else { slot_end_s };
                    let end_s = (start_s + rng.random_range(1..=LONGEST_S)).min(limit_s);
                    let count = rng.random_range(0..COUNT_LIMIT);
                    sum += count;
                    slot_sum = if slot == (end_s - 1) / SLOT_S { slot_sum + count } else { count };
                    slot = (end_s - 1) / SLOT_S;
                    messages.push(Message {
                        id: 0,
                        series,
                        sender: if shape.is_named { sender } else { 0 },
                        start_s,
                        end_s,
                        count,
                        sum,
                        slot_sum,
                        begins: start_s == from_s,
                        corrects: false,
                    });
                    start_s = end_s;
                }
            }
        }
    }
    messages.sort_by_key(|message| message.end_s);
    for (id, message) in (0..).zip(&mut messages) {
        message.id = id;
    }
    messages
}

/// The true total of a series in this time.
pub(super) fn total(messages: &[Message], series: usize, from_s: i64, to_s: i64) -> f64 {
    let of_series = messages.iter().filter(|message| message.series == series);
    of_series.map(|message| message.within(from_s, to_s)).sum()
}

#[cfg(test)]
mod tests {
    use base::Seed;

    use super::*;

    #[test]
    fn intervals_cover_the_hours_and_their_parts_add_up() {
        for crosses_slots in [false, true] {
            let shape = Shape { senders: 2, is_named: true, crosses_slots };
            let stretches_s = [(0, HOUR_S), (36_000, 36_000 + 2 * HOUR_S)];
            let messages = draw(&stretches_s, shape, &mut Seed(1).rng("history"));
            let counts: i64 = messages.iter().map(|message| message.count).sum();
            let of_all = |from_s, to_s| -> f64 {
                (0..SERIES).map(|series| total(&messages, series, from_s, to_s)).sum()
            };
            let slots = stretches_s.iter().flat_map(|(from_s, to_s)| (*from_s..*to_s).step_by(10));
            let in_slots: f64 = slots.map(|slot_s| of_all(slot_s, slot_s + SLOT_S)).sum();
            assert!((in_slots - counts as f64).abs() < 1e-6, "{in_slots} {counts}");
            assert_eq!(of_all(0, HOUR_S) + of_all(36_000, 36_000 + 2 * HOUR_S), counts as f64);
            let crosses = |m: &Message| m.start_s / SLOT_S != m.at_s() / SLOT_S;
            assert_eq!(messages.iter().any(crosses), crosses_slots);
            let of_one = |m: &&Message| (m.series, m.sender) == (0, 1);
            let last = messages.iter().rfind(of_one).map(|m| m.sum);
            assert_eq!(last, Some(messages.iter().filter(of_one).map(|m| m.count).sum()));
            let of_slot: Vec<_> = messages.iter().filter(|m| of_one(m) && m.at_s() < 10).collect();
            let sum: i64 = of_slot.iter().map(|m| m.count).sum();
            assert_eq!(of_slot.last().map(|m| m.slot_sum), Some(sum));
        }
    }
}
