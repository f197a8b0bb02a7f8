//! Errors that end a run, and those that end a start.

use drive::DriveError;
use stage::StageError;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum ConductError {
    /// A stack failed.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The record could not be written.
    #[error("{0}")]
    Record(String),
    /// The client failed, or the target does not respond.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The target responds with an unexpected error status, so there is nothing to measure.
    #[error(
        "the first answer had status {status}; if that is expected, add --expect-status {status}"
    )]
    ErrorPage {
        /// The status.
        status: u16,
    },
    /// Another machine failed.
    #[error(transparent)]
    Far(#[from] far::FarError),
    /// Facts about the machine could not be read.
    #[error("{0}")]
    Host(String),
}

impl From<StartError> for ConductError {
    fn from(error: StartError) -> ConductError {
        match error {
            StartError::Stage(error) => ConductError::Stage(error),
            StartError::Drive(error) => ConductError::Drive(error),
            StartError::Far(error) => ConductError::Far(error),
            StartError::Unfit(why) => ConductError::Host(why),
        }
    }
}

/// Why a variant could not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Stage(#[from] StageError),
    #[error(transparent)]
    Drive(#[from] DriveError),
    #[error(transparent)]
    Far(#[from] far::FarError),
    #[error("{0}")]
    Unfit(String),
}

impl StartError {
    /// Whether an address was in use, so that another start with other ports may succeed.
    pub(crate) fn is_address_in_use(&self) -> bool {
        match self {
            StartError::Stage(error) => error.is_address_in_use(),
            StartError::Far(error) => error.is_address_in_use(),
            StartError::Drive(_) | StartError::Unfit(_) => false,
        }
    }
}
