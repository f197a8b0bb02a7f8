//! Why an import could not go on.

use ingest::FileError;
use slots::StoreError;

fn other_mode(series: &slots::Identity, exists_in_rrd_mode: bool) -> String {
    if exists_in_rrd_mode {
        format!(
            "{series} was made to be kept as rrdtool would: import it with --rrd, or under another name"
        )
    } else {
        format!(
            "{series} exists, and only a new series can be kept as rrdtool would: leave --rrd out, or import it under another name"
        )
    }
}

/// An import that ended before its stream did. What was written stays, and the
/// same import goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum BackfillError {
    /// The stream cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A definition that RRDtool would not take.
    #[error(transparent)]
    Definition(#[from] series::rrd::DefinitionError),
    /// A series that exists has RRDtool's semantics, and is to go on without, or the other way round.
    #[error("{}", other_mode(.series, *.exists_in_rrd_mode))]
    OtherMode {
        /// What identifies it.
        series: Box<slots::Identity>,
        /// Whether it was made with RRDtool's semantics.
        exists_in_rrd_mode: bool,
    },
    /// Intervals, for a series that is to be kept as RRDtool would.
    #[error("{series} is given as intervals, which rrdtool does not know: leave --rrd out")]
    Interval {
        /// What identifies it.
        series: Box<slots::Identity>,
    },
    /// What was refused cannot be kept aside.
    #[error("the lines that were refused cannot be kept aside ({0})")]
    Aside(std::io::Error),
}
