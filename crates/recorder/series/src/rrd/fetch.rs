//! A data source with its rows in memory, read as `rrdtool fetch` does.

use std::collections::VecDeque;

use super::definition::FIRST_US;
use super::{
    Archive, Consolidation, Definition, DefinitionError, Reading, Row, State, UpdateError,
};
use crate::SECOND_US;

/// Limit on the rows of a fetch.
const FETCHED_MAX: i64 = 10_000_000;

/// The content of an RRD file with one data source.
#[derive(Clone, Debug)]
pub struct Rrd {
    definition: Definition,
    state: State,
    /// The rows of each archive, latest last.
    rows: Vec<VecDeque<f64>>,
}

/// Result of a fetch.
#[derive(Clone, Debug)]
pub struct FetchResult {
    /// The length of each row, in microseconds.
    pub row_us: i64,
    /// The end of each row, microseconds since the epoch, with its value; NaN is unknown.
    pub rows: Vec<(i64, f64)>,
}

/// A fetch that RRDtool would refuse too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// A start before 1980.
    #[error("the first row to fetch must be after 1980")]
    Start,
    /// An end before the start.
    #[error("a fetch must not end before it starts")]
    Order,
    /// No archive of that consolidation.
    #[error("no archive holds {0}; rows of one step serve every consolidation")]
    NoArchive(&'static str),
    /// More rows than one fetch may have.
    #[error("a fetch may have 10000000 rows, not {0}; ask for a shorter time")]
    TooMany(i64),
}

impl Rrd {
    /// An RRD as `rrdtool create --start` makes it.
    ///
    /// # Errors
    /// [`DefinitionError`].
    pub fn new(definition: Definition, start_us: i64) -> Result<Rrd, DefinitionError> {
        let definition = definition.checked()?;
        let state = State::new(&definition, start_us)?;
        let rows = definition.archives.iter().map(|_| VecDeque::new()).collect();
        Ok(Rrd { definition, state, rows })
    }

    /// An RRD from stored data: its state, and rows in order of completion, of which each archive
    /// keeps its latest.
    pub fn restore(
        definition: Definition,
        state: State,
        rows: impl IntoIterator<Item = Row>,
    ) -> Rrd {
        let kept = definition.archives.iter().map(|_| VecDeque::new()).collect();
        let mut rrd = Rrd { definition, state: state.clone(), rows: kept };
        rrd.advance(state, rows);
        rrd
    }

    /// Takes over the state after further updates, and the rows completed by them.
    pub fn advance(&mut self, state: State, rows: impl IntoIterator<Item = Row>) {
        for row in rows {
            keep(&self.definition.archives, &mut self.rows, row);
        }
        self.state = state;
    }

    /// RRDtool's state without the rows.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Its definition.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The time of the last update, microseconds since the epoch.
    pub fn last_us(&self) -> i64 {
        self.state.last_us()
    }

    /// The last reading.
    pub fn last(&self) -> Reading {
        self.state.last()
    }

    /// Applies a reading.
    ///
    /// # Errors
    /// [`UpdateError`]; then nothing has changed.
    pub fn update(&mut self, at_us: i64, reading: Reading) -> Result<(), UpdateError> {
        let (archives, rows) = (&self.definition.archives, &mut self.rows);
        self.state.update(&self.definition, at_us, reading, |row| keep(archives, rows, row))
    }

    /// Reads rows as `rrdtool fetch --start --end --resolution` does.
    ///
    /// Among the archives that reach back to the start, or else the one that covers most of the
    /// range, uses the one whose row length is nearest to `resolution_us`. The range is widened to
    /// its rows, and by one row if it ends at the end of a row.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn fetch(
        &self,
        consolidation: Consolidation,
        start_us: i64,
        end_us: i64,
        resolution_us: i64,
    ) -> Result<FetchResult, FetchError> {
        if start_us < FIRST_US {
            return Err(FetchError::Start);
        }
        if end_us < start_us {
            return Err(FetchError::Order);
        }
        let chosen = self
            .choose(consolidation, start_us, end_us, resolution_us)
            .ok_or(FetchError::NoArchive(consolidation.name()))?;
        let row_us = self.definition.row_us(&self.definition.archives[chosen]);
        let last_us = self.last_us() / row_us * row_us;
        let start_us = start_us / row_us * row_us;
        let end_us = (end_us / row_us * row_us).saturating_add(row_us);
        let count = (end_us - start_us) / row_us;
        if count > FETCHED_MAX {
            return Err(FetchError::TooMany(count));
        }
        let rows = (1..=count)
            .map(|i| start_us + i * row_us)
            .map(|end_us| (end_us, self.value(chosen, (last_us - end_us) / row_us)))
            .collect();
        Ok(FetchResult { row_us, rows })
    }

    /// The value of the row `back` rows before the latest; NaN beyond what is kept.
    fn value(&self, archive: usize, back: i64) -> f64 {
        let rows = &self.rows[archive];
        let index = usize::try_from(rows.len() as i64 - 1 - back);
        index.ok().and_then(|i| rows.get(i)).copied().unwrap_or(f64::NAN)
    }

    fn choose(
        &self,
        consolidation: Consolidation,
        start_us: i64,
        end_us: i64,
        resolution_us: i64,
    ) -> Option<usize> {
        let mut full: Option<(i64, usize)> = None;
        let mut part: Option<(i64, i64, usize)> = None;
        for (i, archive) in self.definition.archives.iter().enumerate() {
            if archive.consolidation != consolidation && archive.steps != 1 {
                continue;
            }
            let off_us = (resolution_us - self.definition.row_us(archive)).abs();
            let begins_us = self.begins_us(archive);
            if begins_us <= start_us {
                if full.is_none_or(|(best_us, _)| off_us < best_us) {
                    full = Some((off_us, i));
                }
                continue;
            }
            let held_us = (end_us - start_us) - (begins_us - start_us);
            let better = part.is_none_or(|(best_held_us, best_us, _)| {
                held_us > best_held_us || (held_us == best_held_us && off_us < best_us)
            });
            if better {
                part = Some((held_us, off_us, i));
            }
        }
        full.map(|(_, i)| i).or(part.map(|(_, _, i)| i))
    }

    /// The start of the time that an archive can contain.
    fn begins_us(&self, archive: &Archive) -> i64 {
        let row_us = self.definition.row_us(archive);
        self.last_us() / row_us * row_us - row_us * archive.rows
    }
}

/// Adds a row to its archive, if that exists.
fn keep(archives: &[Archive], rows: &mut [VecDeque<f64>], row: Row) {
    let Some((archive, kept)) = archives.get(row.archive).zip(rows.get_mut(row.archive)) else {
        return;
    };
    kept.push_back(row.value);
    if kept.len() as i64 > archive.rows {
        kept.pop_front();
    }
}

impl FetchResult {
    /// The rows as `rrdtool fetch` prints them: the end in seconds, and the value.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.rows
            .iter()
            .map(|(end_us, value)| format!("{:>10}: {}", end_us / SECOND_US, format_value(*value)))
    }
}

/// A value in the form `1.5000000000e+00`, in which RRDtool prints; `nan` is unknown.
pub fn format_value(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let text = format!("{value:.10e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) =
                exponent.strip_prefix('-').map_or(('+', exponent), |below| ('-', below));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_printed_as_rrdtool_prints_them() {
        for (value, text) in [
            (0.0, "0.0000000000e+00"),
            (-1.5, "-1.5000000000e+00"),
            (1e100, "1.0000000000e+100"),
            (12.5e-7, "1.2500000000e-06"),
            (f64::NAN, "nan"),
            (-f64::NAN, "nan"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(format_value(value), text);
        }
    }

    #[test]
    fn a_fetch_that_cannot_be_served_says_why() {
        assert_eq!(
            FetchError::NoArchive("MIN").to_string(),
            "no archive holds MIN; rows of one step serve every consolidation"
        );
        assert_eq!(FetchError::Order.to_string(), "a fetch must not end before it starts");
        assert_eq!(
            FetchError::TooMany(10_000_001).to_string(),
            "a fetch may have 10000000 rows, not 10000001; ask for a shorter time"
        );
        assert_eq!(FetchError::Start.to_string(), "the first row to fetch must be after 1980");
    }
}
