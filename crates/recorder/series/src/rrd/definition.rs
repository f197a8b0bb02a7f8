//! The parameters of `rrdtool create`.

use serde::{Deserialize, Serialize};

use super::Archive;
use crate::{SECOND_US, Step};

/// RRDtool accepts no times in the ten years after 1970.
pub(super) const FIRST_US: i64 = 3_650 * 86_400 * SECOND_US;

/// Limit on the rows of an archive: a century of minutes fits, and one gap cannot fill the memory.
const ROWS_MAX: i64 = 100_000_000;

/// How readings become rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SourceKind {
    /// A rate, as read.
    Gauge,
    /// The difference of an unsigned integer that wraps at 32 or 64 bits.
    Counter,
    /// The difference of a signed integer.
    Derive,
    /// A count since the last reading.
    Absolute,
    /// The difference of a floating-point number that moves away from zero.
    Dcounter,
    /// The difference of a floating-point number.
    Dderive,
}

impl SourceKind {
    /// Every kind.
    pub const ALL: [SourceKind; 6] = [
        SourceKind::Gauge,
        SourceKind::Counter,
        SourceKind::Derive,
        SourceKind::Absolute,
        SourceKind::Dcounter,
        SourceKind::Dderive,
    ];

    /// RRDtool's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            SourceKind::Gauge => "GAUGE",
            SourceKind::Counter => "COUNTER",
            SourceKind::Derive => "DERIVE",
            SourceKind::Absolute => "ABSOLUTE",
            SourceKind::Dcounter => "DCOUNTER",
            SourceKind::Dderive => "DDERIVE",
        }
    }
}

/// A data source and its archives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// How readings become rates.
    pub kind: SourceKind,
    /// The step, whole seconds in RRDtool.
    pub step: Step,
    /// The longest interval that counts as known, in microseconds; whole seconds in RRDtool.
    pub heartbeat_us: i64,
    /// Minimum accepted rate.
    pub min: Option<f64>,
    /// Maximum accepted rate.
    pub max: Option<f64>,
    /// Its archives.
    pub archives: Vec<Archive>,
}

/// A definition that RRDtool would refuse too.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DefinitionError {
    /// No archive.
    #[error("an RRD needs at least one archive")]
    NoArchive,
    /// A heartbeat below a microsecond.
    #[error("the heartbeat of an RRD must be greater than zero, not {0} µs")]
    Heartbeat(i64),
    /// Contradictory bounds.
    #[error("the least value {0} of an RRD must lie below the greatest, {1}")]
    Bounds(f64, f64),
    /// An xff outside 0 to 1.
    #[error("the xff of archive {archive} must be at least 0 and less than 1, not {xff}")]
    Xff {
        /// The archive, from 1.
        archive: usize,
        /// Its xff.
        xff: f64,
    },
    /// An archive without slots or rows, or with too many.
    #[error(
        "archive {0} must have at least one step, from 1 to 100000000 rows, and span less than 1000 years"
    )]
    Size(usize),
    /// A start before 1980.
    #[error("an RRD must start after 1980")]
    Start,
}

impl Definition {
    /// Checks the definition.
    ///
    /// # Errors
    /// [`DefinitionError`] where RRDtool would refuse to create the file.
    pub fn checked(self) -> Result<Definition, DefinitionError> {
        const SPAN_MAX_US: i64 = 1_000 * 365 * 86_400 * SECOND_US;
        if self.archives.is_empty() {
            return Err(DefinitionError::NoArchive);
        }
        if self.heartbeat_us < 1 {
            return Err(DefinitionError::Heartbeat(self.heartbeat_us));
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min >= max
        {
            return Err(DefinitionError::Bounds(min, max));
        }
        for (i, archive) in self.archives.iter().enumerate() {
            if !(0.0..1.0).contains(&archive.xff) {
                return Err(DefinitionError::Xff { archive: i + 1, xff: archive.xff });
            }
            let span_us = self.step.us().checked_mul(archive.steps);
            let span_us = span_us.and_then(|us| us.checked_mul(archive.rows));
            let rows = 1..=ROWS_MAX;
            if archive.steps < 1
                || !rows.contains(&archive.rows)
                || span_us.is_none_or(|us| us > SPAN_MAX_US)
            {
                return Err(DefinitionError::Size(i + 1));
            }
        }
        Ok(self)
    }

    /// The length of a row of `archive`, in microseconds.
    pub(super) fn row_us(&self, archive: &Archive) -> i64 {
        self.step.us() * archive.steps
    }
}

#[cfg(test)]
mod tests {
    use super::super::Consolidation;
    use super::*;

    #[test]
    fn what_rrdtool_would_not_create_is_refused() {
        let archive =
            Archive { consolidation: Consolidation::Average, xff: 0.5, steps: 1, rows: 1 };
        let sound = Definition {
            kind: SourceKind::Gauge,
            step: Step::from_secs(10).unwrap(),
            heartbeat_us: 1,
            min: Some(0.0),
            max: None,
            archives: vec![archive],
        };
        assert!(sound.clone().checked().is_ok());
        let text = |definition: Definition| definition.checked().unwrap_err().to_string();
        assert_eq!(
            text(Definition { archives: vec![], ..sound.clone() }),
            "an RRD needs at least one archive"
        );
        assert_eq!(
            text(Definition { heartbeat_us: 0, ..sound.clone() }),
            "the heartbeat of an RRD must be greater than zero, not 0 µs"
        );
        assert_eq!(
            text(Definition { max: Some(0.0), ..sound.clone() }),
            "the least value 0 of an RRD must lie below the greatest, 0"
        );
        for xff in [1.0, -0.1, f64::NAN] {
            let archives = vec![archive, Archive { xff, ..archive }];
            assert_eq!(
                text(Definition { archives, ..sound.clone() }),
                format!("the xff of archive 2 must be at least 0 and less than 1, not {xff}")
            );
        }
        for (steps, rows) in
            [(0, 1), (1, 0), (-1, -1), (i64::MAX, 2), (1, i64::MAX), (1, 100_000_001)]
        {
            let archives = vec![Archive { steps, rows, ..archive }];
            assert_eq!(
                text(Definition { archives, ..sound.clone() }),
                "archive 1 must have at least one step, from 1 to 100000000 rows, and span less than 1000 years"
            );
        }
    }
}
