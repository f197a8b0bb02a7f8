//! The state of one data source between updates.

use serde::{Deserialize, Serialize};

use super::archive::{ClosedSlots, OpenRow, or};
use super::definition::FIRST_US;
use super::{Definition, DefinitionError, Reading, Row, SourceKind};
use crate::SECOND_US;

/// RRDtool's state of a data source without its rows. Plain data, so it can be stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The last update, microseconds since the epoch.
    last_us: i64,
    /// Its reading.
    last: Reading,
    /// Σ(rate × s) of the open slot; NaN if nothing is known.
    #[serde(with = "super::text")]
    known: f64,
    /// Unknown microseconds of the open slot.
    unknown_us: i64,
    /// The open row of each archive.
    open: Vec<OpenRow>,
}

/// An update that RRDtool would refuse too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// At or before the last update.
    #[error("the update at {} s is not after the last one, at {} s", seconds(*.at_us), seconds(*.last_us))]
    NotAfter {
        /// The update's time.
        at_us: i64,
        /// The last update's.
        last_us: i64,
    },
    /// A reading that was parsed for a different kind of data source.
    #[error("the reading is not one of a {0}")]
    WrongKind(&'static str),
}

/// Microseconds as seconds, without trailing zeros.
fn seconds(us: i64) -> String {
    let text = format!("{}.{:06}", us.div_euclid(SECOND_US), us.rem_euclid(SECOND_US));
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The part of an update that closes several slots at once.
#[derive(Clone, Copy, Debug)]
struct ClosingUpdate {
    /// The number of the first slot since the epoch.
    first: i64,
    /// Number of slots.
    slots: i64,
    /// The length of this part.
    us: i64,
    /// How much of it is before the end of the last of these slots.
    before_us: i64,
    /// Rate × s over this part; NaN is unknown.
    amount: f64,
}

impl State {
    /// The state at creation: `start_us` counts as the last update, and the slot is unknown up to
    /// it.
    ///
    /// # Errors
    /// [`DefinitionError::Start`] before 1980. The definition is expected to be
    /// [checked](Definition::checked).
    pub fn new(definition: &Definition, start_us: i64) -> Result<State, DefinitionError> {
        if start_us < FIRST_US {
            return Err(DefinitionError::Start);
        }
        let step_us = definition.step.us();
        let slot = start_us / step_us;
        let open = definition.archives.iter().map(|a| OpenRow::at_start(slot, a)).collect();
        let unknown_us = start_us % step_us;
        Ok(State { last_us: start_us, last: Reading::Unknown, known: f64::NAN, unknown_us, open })
    }

    /// The state shown by `rrdtool dump`: the last update and its reading, Σ(rate × s) and the
    /// unknown microseconds of the open slot, and for each archive the accumulated value of its
    /// open row and its number of unknown slots.
    pub fn resumed(
        last_us: i64,
        last: Reading,
        known: f64,
        unknown_us: i64,
        open: impl IntoIterator<Item = (f64, i64)>,
    ) -> State {
        let open = open.into_iter().map(|(gathered, unknown)| OpenRow::resumed(gathered, unknown));
        State { last_us, last, known, unknown_us, open: open.collect() }
    }

    /// The time of the last update, microseconds since the epoch.
    pub fn last_us(&self) -> i64 {
        self.last_us
    }

    /// The last reading.
    pub fn last(&self) -> Reading {
        self.last
    }

    /// Applies a reading, and calls `sink` with the completed rows, archive by archive.
    ///
    /// # Errors
    /// [`UpdateError`]; then nothing has changed.
    pub fn update(
        &mut self,
        definition: &Definition,
        at_us: i64,
        reading: Reading,
        mut sink: impl FnMut(Row),
    ) -> Result<(), UpdateError> {
        if at_us <= self.last_us {
            return Err(UpdateError::NotAfter { at_us, last_us: self.last_us });
        }
        if !reading.fits(definition.kind) {
            return Err(UpdateError::WrongKind(definition.kind.name()));
        }
        let us = at_us - self.last_us;
        let amount = self.amount(definition, reading, us);
        let step_us = definition.step.us();
        let (first, current) = (self.last_us / step_us, at_us / step_us);
        if current == first {
            self.extend(amount, us);
        } else {
            let before_us = current * step_us - self.last_us;
            let whole = ClosingUpdate { first, slots: current - first, us, before_us, amount };
            let rest = self.close_open_slot(definition, whole, &mut sink);
            self.close(definition, rest, &mut sink);
        }
        (self.last_us, self.last) = (at_us, reading);
        Ok(())
    }

    /// Rate × s since the last update; NaN if unknown.
    fn amount(&self, definition: &Definition, reading: Reading, us: i64) -> f64 {
        if us > definition.heartbeat_us {
            return f64::NAN;
        }
        let seconds = in_seconds(us);
        let (amount, rate) = match (definition.kind, reading) {
            (_, Reading::Unknown) => return f64::NAN,
            (SourceKind::Gauge, Reading::Real(value)) => (value * seconds, value),
            (SourceKind::Absolute, Reading::Real(value)) => (value, value / seconds),
            (SourceKind::Dcounter, Reading::Real(value)) if was_reset(self.last, value) => {
                return f64::NAN;
            }
            (SourceKind::Counter, reading) => {
                let difference = wrapped(reading.minus(self.last));
                (difference, difference / seconds)
            }
            (_, reading) => {
                let difference = reading.minus(self.last);
                (difference, difference / seconds)
            }
        };
        let below = definition.min.is_some_and(|min| rate < min);
        let above = definition.max.is_some_and(|max| rate > max);
        if below || above { f64::NAN } else { amount }
    }

    /// Adds an update that closes no slot.
    fn extend(&mut self, amount: f64, us: i64) {
        if amount.is_nan() {
            self.unknown_us += us;
        } else {
            // Not 0 + amount, which would turn −0 into 0; RRDtool prints the sign.
            self.known = if self.known.is_nan() { amount } else { self.known + amount };
        }
    }

    /// For an update that closes two slots or more: adds its share to the open slot and closes it.
    fn close_open_slot(
        &mut self,
        definition: &Definition,
        whole: ClosingUpdate,
        sink: &mut impl FnMut(Row),
    ) -> ClosingUpdate {
        let open_us = whole.before_us % definition.step.us();
        if whole.slots < 2 || open_us == 0 {
            return whole;
        }
        let share = whole.amount * in_seconds(open_us) / in_seconds(whole.us);
        let open = ClosingUpdate {
            first: whole.first,
            slots: 1,
            us: open_us,
            before_us: open_us,
            amount: share,
        };
        self.close(definition, open, sink);
        ClosingUpdate {
            first: whole.first + 1,
            slots: whole.slots - 1,
            us: whole.us - open_us,
            before_us: whole.before_us - open_us,
            amount: whole.amount - share,
        }
    }

    /// Closes slots, and starts the next with what is beyond them.
    fn close(&mut self, definition: &Definition, part: ClosingUpdate, sink: &mut impl FnMut(Row)) {
        let step_us = definition.step.us();
        let rate = part.amount / in_seconds(part.us);
        let unknown_before_us = if part.amount.is_nan() { part.before_us } else { 0 };
        let known = if part.amount.is_nan() {
            self.known
        } else {
            or(self.known, 0.0) + rate * in_seconds(part.before_us)
        };
        let value = if part.us > definition.heartbeat_us || self.unknown_us > step_us / 2 {
            f64::NAN
        } else {
            known / in_seconds(part.slots * step_us - self.unknown_us - unknown_before_us)
        };

        let after_us = part.us - part.before_us;
        if part.amount.is_nan() {
            (self.known, self.unknown_us) = (f64::NAN, after_us);
        } else {
            (self.known, self.unknown_us) = (rate * in_seconds(after_us), 0);
        }
        self.write(definition, ClosedSlots { first: part.first, slots: part.slots, value }, sink);
    }

    /// Adds closed slots to every archive.
    fn write(&mut self, definition: &Definition, closed: ClosedSlots, sink: &mut impl FnMut(Row)) {
        let end = closed.first + closed.slots;
        for (archive, (open, kept)) in self.open.iter_mut().zip(&definition.archives).enumerate() {
            let Some(completed) = open.close(kept, closed) else { continue };
            let row_us = definition.row_us(kept);
            let last_us = end / kept.steps * row_us;
            for row in 0..completed.rows {
                let value = if row == 0 { completed.first } else { completed.further };
                let end_us = last_us - (completed.rows - 1 - row) * row_us;
                sink(Row { archive, end_us, value });
            }
        }
    }
}

/// Microseconds as seconds: exact for whole seconds.
fn in_seconds(us: i64) -> f64 {
    us as f64 / SECOND_US as f64
}

/// A counter's difference after RRDtool's handling of wraps. NaN stays NaN.
fn wrapped(difference: f64) -> f64 {
    const GAIN_32: f64 = 4_294_967_295.0;
    const GAIN_64: f64 = 18_446_744_069_414_584_320.0;
    let mut difference = difference;
    for gain in [GAIN_32, GAIN_64] {
        if difference < 0.0 {
            difference += gain;
        }
    }
    difference
}

/// Whether a DCOUNTER moved towards zero.
fn was_reset(last: Reading, value: f64) -> bool {
    match last {
        Reading::Real(was) => (value > 0.0 && was > value) || (value < 0.0 && value > was),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_out_of_order_names_both_times() {
        let error = UpdateError::NotAfter { at_us: 1_500_000, last_us: 2_000_000 };
        assert_eq!(error.to_string(), "the update at 1.5 s is not after the last one, at 2 s");
    }

    #[test]
    fn counters_wrap_as_rrdtool_has_it() {
        assert_eq!(wrapped(-4_294_967_290.0), 5.0);
        assert_eq!(wrapped(-18_446_744_073_709_551_610.0), 0.0);
        assert_eq!(wrapped(7.0), 7.0);
        assert!(wrapped(f64::NAN).is_nan());
    }
}
