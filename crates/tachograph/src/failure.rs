//! Errors that end the program, in one sentence with what to do.

use std::fmt::Display;
use std::process::ExitCode;

/// An error message for people. It ends the program with status 2.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// A failure with this message.
    pub(crate) fn new(sentence: impl Display) -> Failure {
        Failure(sentence.to_string())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

/// How a command that could do its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Measured, and all is well.
    Well,
    /// Measured, but a verdict failed: errors, ledger or threshold.
    VerdictFailed,
    /// Too little was measured for a verdict.
    Incomplete,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        match status {
            Status::Well => ExitCode::SUCCESS,
            Status::VerdictFailed => ExitCode::from(1),
            Status::Incomplete => ExitCode::from(2),
        }
    }
}

/// What every command returns.
pub(crate) type Outcome = Result<Status, Failure>;

macro_rules! from_errors {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                Failure::new(error)
            }
        })*
    };
}

from_errors!(
    far::reach::HostError,
    far::reach::OptionsError,
    far::reach::ReachError,
    grpc::GrpcError,
    spec::SpecError,
    spec::TargetError,
    stage::StageError,
    drive::DriveError,
    recordfile::RecordError,
    conduct::ConductError,
    replay::ReplayError,
    replay::PointerError,
    store::StoreError,
    formats::FileError,
    formats::Malformed,
    import::BackfillError,
    serve::ServeError,
    export::ExportError,
    accuracy::AccuracyError,
    hive::HiveError,
    hive::TableError,
    std::io::Error,
);
