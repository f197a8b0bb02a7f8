//! Why an import failed.

use engine::EngineError;
use formats::FileError;
use store::StoreError;

fn other_mode(series: &store::Identity, exists_in_rrd_mode: bool) -> String {
    if exists_in_rrd_mode {
        format!("{series} was created with --rrd: add --rrd, or import under another name")
    } else {
        format!("{series} exists without RRDtool's state: omit --rrd, or import under another name")
    }
}

/// An import that ended before its stream. What was written stays, and the same import continues
/// from there.
#[derive(Debug, thiserror::Error)]
pub enum BackfillError {
    /// The stream cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine cannot go on for another reason, which only one with a journal has.
    #[error(transparent)]
    Engine(EngineError),
    /// A definition that RRDtool would refuse.
    #[error(transparent)]
    Definition(#[from] series::rrd::DefinitionError),
    /// A series exists with RRDtool's semantics and is to continue without, or the other way round.
    #[error("{}", other_mode(.series, *.exists_in_rrd_mode))]
    OtherMode {
        /// Its identity.
        series: Box<store::Identity>,
        /// Whether it was created with RRDtool's semantics.
        exists_in_rrd_mode: bool,
    },
    /// Intervals for a series in RRD mode.
    #[error("{series} has intervals, which rrdtool does not support: omit --rrd")]
    Interval {
        /// Its identity.
        series: Box<store::Identity>,
    },
    /// Refused lines cannot be stored.
    #[error("cannot write the refused lines ({0})")]
    KeepRefused(std::io::Error),
}

impl From<EngineError> for BackfillError {
    fn from(error: EngineError) -> BackfillError {
        match error {
            EngineError::Store(error) => BackfillError::Store(error),
            error => BackfillError::Engine(error),
        }
    }
}
