//! Errors that end a run, and those that end a start.

use drive::DriveError;
use grpc::GrpcError;
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
    #[error(transparent)]
    ErrorPage(#[from] ErrorPage),
    /// Calls by gRPC cannot be made.
    #[error(transparent)]
    Grpc(#[from] GrpcError),
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
            StartError::Grpc(error) => ConductError::Grpc(error),
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
    #[error(transparent)]
    Grpc(#[from] GrpcError),
    #[error("{0}")]
    Unfit(String),
}

impl StartError {
    /// Whether an address was in use, so that another start with other ports may succeed.
    pub(crate) fn is_address_in_use(&self) -> bool {
        match self {
            StartError::Stage(error) => error.is_address_in_use(),
            StartError::Far(error) => error.is_address_in_use(),
            StartError::Drive(_) | StartError::Grpc(_) | StartError::Unfit(_) => false,
        }
    }
}

/// The first answer was an error page, and nothing said that this was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.words())]
pub struct ErrorPage {
    /// The kind of request that got it, if there are several.
    kind: Option<String>,
    status: u16,
}

impl ErrorPage {
    /// The first answer with a status of 400 or above that was not expected.
    pub(crate) fn of(load: &spec::Load, learned: &drive::LearnedResponse) -> Option<ErrorPage> {
        let refuses = |expect: &spec::Expect, status: Option<u16>| {
            status.filter(|status| *status >= 400 && expect.status.is_none())
        };
        if load.kinds.is_empty() {
            let status = refuses(&load.expect, learned.status)?;
            return Some(ErrorPage { kind: None, status });
        }
        // Of a single kind, it is what was learned of all.
        let learned = match learned.kinds.as_slice() {
            [] => std::slice::from_ref(learned),
            kinds => kinds,
        };
        load.kinds.iter().zip(learned).find_map(|(kind, learned)| {
            let status = refuses(&kind.expect, learned.status)?;
            Some(ErrorPage { kind: Some(kind.name.clone()), status })
        })
    }

    fn words(&self) -> String {
        let status = self.status;
        match &self.kind {
            None => format!(
                "the first answer had status {status}; if that is expected, add --expect-status \
                 {status}"
            ),
            Some(kind) => format!(
                "the first answer to '{kind}' had status {status}; if that is expected, add \
                 \"expect_status\": {status} to its line, or --expect-status {status} for all"
            ),
        }
    }
}
