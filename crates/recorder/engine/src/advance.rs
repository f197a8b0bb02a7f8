//! A series in RRD mode, while a piece of a stream is applied.

use std::collections::VecDeque;

use series::rrd::{Definition, Reading, Row, SourceKind, State};
use series::{Point, Refusal, SECOND_US};
use store::RrdChange;

/// How long before the first update `rrdtool create` starts an RRD.
const BEFORE_US: i64 = 10 * SECOND_US;

/// RRDtool's state, with completed rows that are not written yet.
#[derive(Clone, Debug)]
pub(crate) struct Advance {
    definition: Definition,
    /// `None` before the first update.
    state: Option<State>,
    /// The rows of each archive, at most as many as it keeps.
    rows: Vec<VecDeque<Row>>,
    changed: bool,
}

impl Advance {
    pub(crate) fn new(definition: Definition, state: Option<State>) -> Advance {
        let rows = definition.archives.iter().map(|_| VecDeque::new()).collect();
        Advance { definition, state, rows, changed: false }
    }

    /// Whether RRDtool would accept an update at that time; the first one creates the state.
    pub(crate) fn admit(&mut self, at_us: i64, start_us: Option<i64>) -> Result<(), Refusal> {
        if self.state.is_none() {
            let start_us = start_us.unwrap_or(at_us.saturating_sub(BEFORE_US));
            if at_us <= start_us {
                return Err(Refusal::NotAfter);
            }
            let state = State::new(&self.definition, start_us).map_err(|_| Refusal::Past)?;
            self.state = Some(state);
        }
        let last_us = self.state.as_ref().map_or(i64::MIN, State::last_us);
        if at_us > last_us { Ok(()) } else { Err(Refusal::NotAfter) }
    }

    /// Applies an admitted point.
    pub(crate) fn push(&mut self, point: Point) -> Result<(), Refusal> {
        let Some(state) = &mut self.state else { return Err(Refusal::NotAfter) };
        let reading = reading(self.definition.kind, point.reading);
        let (rows, archives) = (&mut self.rows, &self.definition.archives);
        let keep = |row: Row| {
            let Some((kept, archive)) = rows.get_mut(row.archive).zip(archives.get(row.archive))
            else {
                return;
            };
            kept.push_back(row);
            if kept.len() as i64 > archive.rows {
                kept.pop_front();
            }
        };
        state
            .update(&self.definition, point.at_us, reading, keep)
            .map_err(|_| Refusal::NotAfter)?;
        self.changed = true;
        Ok(())
    }

    /// The change to write, if any.
    pub(crate) fn change(&self, series: i64) -> Option<RrdChange> {
        let state = self.state.clone().filter(|_| self.changed)?;
        let rows = self.rows.iter().flatten().copied().collect();
        Some(RrdChange { series, state, rows })
    }

    /// Clears what has been handed over for writing.
    pub(crate) fn settle(&mut self) {
        self.rows.iter_mut().for_each(VecDeque::clear);
        self.changed = false;
    }
}

/// A reading as RRDtool has it.
fn reading(kind: SourceKind, reading: series::Reading) -> Reading {
    match reading {
        series::Reading::Unknown => Reading::Unknown,
        series::Reading::Level(value) => Reading::Real(value),
        series::Reading::Unsigned(value) if kind == SourceKind::Absolute => {
            Reading::Real(value as f64)
        }
        series::Reading::Unsigned(value) => {
            Reading::Integer { negative: false, magnitude: u128::from(value) }
        }
        series::Reading::Signed(value) => {
            Reading::Integer { negative: value < 0, magnitude: u128::from(value.unsigned_abs()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use series::rrd::{Archive, Consolidation};

    #[test]
    fn a_long_silence_fills_no_memory() {
        let archive =
            |steps, rows| Archive { consolidation: Consolidation::Average, xff: 0.5, steps, rows };
        let definition = Definition {
            kind: SourceKind::Gauge,
            step: series::Step::from_secs(10).unwrap(),
            heartbeat_us: 20 * SECOND_US,
            min: None,
            max: None,
            archives: vec![archive(1, 100), archive(6, 7)],
        };
        let mut advance = Advance::new(definition, None);
        let point = |day: i64| Point {
            at_us: (20_000 + day) * 86_400 * SECOND_US,
            reading: series::Reading::Level(1.0),
        };
        for day in 0..500 {
            advance.admit(point(day).at_us, None).unwrap();
            advance.push(point(day)).unwrap();
        }
        assert_eq!(advance.admit(point(499).at_us, None), Err(Refusal::NotAfter));
        let change = advance.change(7).unwrap();
        assert_eq!(change.rows.len(), 107);
        assert_eq!(change.rows[99].end_us, point(499).at_us);
        advance.settle();
        assert_eq!(advance.change(7), None);
    }

    #[test]
    fn rrdtool_knows_no_time_before_1980() {
        let definition = Definition {
            kind: SourceKind::Gauge,
            step: series::Step::from_secs(10).unwrap(),
            heartbeat_us: 1,
            min: None,
            max: None,
            archives: Vec::new(),
        };
        let mut advance = Advance::new(definition, None);
        assert_eq!(advance.admit(5 * SECOND_US, None), Err(Refusal::Past));
        assert_eq!(advance.admit(5 * SECOND_US, Some(7 * SECOND_US)), Err(Refusal::NotAfter));
    }
}
