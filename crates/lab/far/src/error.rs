//! Why something could not be done on another machine.

use drive::DriveError;
use serde::{Deserialize, Serialize};

/// An error of a far machine.
#[derive(Debug, thiserror::Error)]
pub enum FarError {
    /// The connection has ended; what the machine did is lost.
    #[error("the connection to {machine} was lost: {why}")]
    Lost {
        /// The machine.
        machine: String,
        /// The cause.
        why: String,
    },
    /// The agent is of another build.
    #[error(
        "{machine} runs tachograph {there}, and this machine {here}; both ends must be the same \
         build"
    )]
    Mismatch {
        /// The machine.
        machine: String,
        /// Its version.
        there: String,
        /// Ours.
        here: String,
    },
    /// An address was in use, so that another start with other ports may succeed.
    #[error("on {machine}: {why}")]
    AddressInUse {
        /// The machine.
        machine: String,
        /// The error there.
        why: String,
    },
    /// Another measurement uses the machine's CPUs.
    #[error("on {machine}: {why}")]
    Busy {
        /// The machine.
        machine: String,
        /// The measurement.
        why: String,
    },
    /// The machine could not do what it was asked.
    #[error("on {machine}: {why}")]
    Failed {
        /// The machine.
        machine: String,
        /// The error there.
        why: String,
    },
    /// A client there could not work.
    #[error(transparent)]
    Drive(#[from] DriveError),
}

impl FarError {
    /// Whether an address was in use, so that another start with other ports may succeed.
    pub fn is_address_in_use(&self) -> bool {
        matches!(self, FarError::AddressInUse { .. })
    }

    /// The same error, from the machine.
    pub(crate) fn of(machine: &str, refusal: AgentError) -> FarError {
        let (machine, why) = (machine.to_owned(), refusal.text);
        match refusal.kind {
            Kind::AddressInUse => FarError::AddressInUse { machine, why },
            Kind::Busy => FarError::Busy { machine, why },
            Kind::Other => FarError::Failed { machine, why },
            Kind::Unreachable => DriveError::Unreachable(format!("from {machine}: {why}")).into(),
            Kind::Unfit => DriveError::Unfit(format!("on {machine}: {why}")).into(),
            Kind::Stopped => DriveError::Stopped.into(),
        }
    }
}

/// An error as the agent sends it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AgentError {
    kind: Kind,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    AddressInUse,
    Busy,
    Unreachable,
    Unfit,
    Stopped,
    Other,
}

impl AgentError {
    pub(crate) fn other(text: impl ToString) -> AgentError {
        AgentError { kind: Kind::Other, text: text.to_string() }
    }
}

impl From<stage::StageError> for AgentError {
    fn from(error: stage::StageError) -> AgentError {
        let kind = match &error {
            error if error.is_address_in_use() => Kind::AddressInUse,
            stage::StageError::Busy { .. } => Kind::Busy,
            error if error.is_interruption() => Kind::Stopped,
            _ => Kind::Other,
        };
        AgentError { kind, text: error.to_string() }
    }
}

impl From<DriveError> for AgentError {
    fn from(error: DriveError) -> AgentError {
        let kind = match &error {
            DriveError::Unreachable(_) => Kind::Unreachable,
            DriveError::Unfit(_) => Kind::Unfit,
            DriveError::Stopped => Kind::Stopped,
        };
        AgentError { kind, text: error.to_string() }
    }
}
