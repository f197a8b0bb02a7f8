//! A dump as RRDtool's own state, from which its arithmetic continues.

use series::SECOND_US;
use series::rrd::{Archive, Definition, Reading, Row, State};

use super::Rrd;
use crate::FileError;
use crate::files::xml::damaged;

/// A data source in RRDtool's own terms.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumedSource {
    /// Its definition.
    pub definition: Definition,
    /// Its state. A dump gives eleven digits.
    pub state: State,
    /// Its rows, archive by archive, oldest first; NaN is unknown.
    pub rows: Vec<Row>,
}

impl Rrd {
    /// A source in RRDtool's own terms; `None` for COMPUTE, which has no readings.
    ///
    /// # Errors
    /// [`FileError::NotADump`] for a definition or last reading that RRDtool cannot have written.
    pub fn resume(&self, source: usize) -> Result<Option<ResumedSource>, FileError> {
        let known = &self.sources[source];
        let Some(kind) = known.kind else { return Ok(None) };
        let width = self.sources.len();
        let archives = self.archives.iter().map(|archive| Archive {
            consolidation: archive.consolidation,
            xff: archive.xff,
            steps: archive.steps,
            rows: (archive.values.len() / width) as i64,
        });
        let definition = Definition {
            kind,
            step: self.step,
            heartbeat_us: known.heartbeat_us,
            min: known.min,
            max: known.max,
            archives: archives.collect(),
        };
        let definition = definition.checked().map_err(|error| damaged(error.to_string()))?;
        let last = Reading::parse(kind, &known.last).map_err(|error| damaged(error.to_string()))?;
        let open =
            self.archives.iter().map(|a| a.open.get(source).copied().unwrap_or((f64::NAN, 0)));
        let unknown_us = known.unknown_s.saturating_mul(SECOND_US);
        let state = State::resumed(self.last_update_us, last, known.open, unknown_us, open);
        let mut rows = Vec::new();
        for (archive, file) in self.archives.iter().enumerate() {
            let row_us = file.steps * self.step.us();
            let last_us = self.last_update_us - self.last_update_us.rem_euclid(row_us);
            let count = (file.values.len() / width) as i64;
            let values = file.values.iter().skip(source).step_by(width);
            let ends = (0..count).map(|i| last_us - (count - 1 - i) * row_us);
            rows.extend(ends.zip(values).map(|(end_us, value)| Row {
                archive,
                end_us,
                value: *value,
            }));
        }
        Ok(Some(ResumedSource { definition, state, rows }))
    }
}
