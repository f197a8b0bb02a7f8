//! Why a replay could not begin, or ended early.

use record::Side;

/// Why a replay could not begin, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The log could not be read.
    #[error("cannot read {log}: {cause}")]
    Unreadable {
        /// Its name.
        log: String,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// A line is too long.
    #[error("line {line} of {log} has more than {max} bytes")]
    LongLine {
        /// The log.
        log: String,
        /// The line, from 1.
        line: u64,
        /// The limit.
        max: u64,
    },
    /// The log is wrong.
    #[error(transparent)]
    Log(#[from] spec::SpecError),
    /// A speed was asked for, and the log has no times.
    #[error("line {line} of {log} has no time; leave out --speed")]
    NoTime {
        /// The log.
        log: String,
        /// The line, from 1.
        line: u64,
    },
    /// A server could not be started, or ended.
    #[error("{}: {cause}", side.word())]
    Stage {
        /// Which one.
        side: Side,
        /// Why.
        #[source]
        cause: Box<stage::StageError>,
    },
    /// The same, on another machine.
    #[error("{}: {cause}", side.word())]
    Far {
        /// Which one.
        side: Side,
        /// Why.
        #[source]
        cause: far::FarError,
    },
    /// A server on another machine has ended.
    #[error("{}: {why}", side.word())]
    Ended {
        /// Which one.
        side: Side,
        /// What has ended, and how.
        why: String,
    },
    /// The other machine has no folder for its servers, or cannot be reached.
    #[error(transparent)]
    Machine(#[from] far::FarError),
    /// The run has no folder for its servers.
    #[error(transparent)]
    Folder(#[from] stage::StageError),
    /// A server has no address that can be used.
    #[error("{}: {cause}", side.word())]
    Address {
        /// Which one.
        side: Side,
        /// Why.
        #[source]
        cause: netio::AddressError,
    },
    /// The target is not one of HTTP.
    #[error("{}: {cause}", side.word())]
    Target {
        /// Which one.
        side: Side,
        /// Why.
        #[source]
        cause: spec::TargetError,
    },
    /// TLS cannot be used.
    #[error("{}: {cause}", side.word())]
    Tls {
        /// Which one.
        side: Side,
        /// Why.
        #[source]
        cause: tls::TlsError,
    },
    /// No connection could be made before the first request.
    #[error("{}: cannot connect to {target}: {why}", side.word())]
    Unreachable {
        /// Which one.
        side: Side,
        /// Its address.
        target: String,
        /// The name of the failure.
        why: String,
    },
    /// The system refused a thread or a runtime.
    #[error("cannot start a replay: {0}")]
    System(#[source] std::io::Error),
}
