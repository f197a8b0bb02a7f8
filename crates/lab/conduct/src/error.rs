//! Why a run could not be carried out.

use drive::DriveError;
use stage::StageError;

/// Why a run could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Processes could not be managed.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The record could not be written.
    #[error("{0}")]
    Record(String),
    /// The client could not do its work, or the target does not answer.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The target answers with an error that was not expected, so there is nothing to measure.
    #[error(
        "the first answer had status {status}; if that is expected, add --expect-status {status}"
    )]
    ErrorPage {
        /// The status.
        status: u16,
    },
    /// What the machine offers could not be read.
    #[error("{0}")]
    Host(String),
}
