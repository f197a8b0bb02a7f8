//! Sentences for what keeps the load from starting at all.

use base::Nanos;
use netio::{Failure, MAX_PATH_BYTES};
use spec::{Endpoint, Exchange, Load, Target};

use crate::{DriveError, Fault};

/// The error for a target to which no connection could be made.
pub(crate) fn unreachable(target: &Target, failure: Failure, timeout: Nanos) -> DriveError {
    let unix = !matches!(target.endpoint(), Endpoint::Tcp { .. });
    let why = match failure {
        Failure::Refused if unix => "connection refused: a socket file is there, but no process listens on it; start the server, or remove the file if it is a leftover".to_owned(),
        Failure::Refused => "connection refused: nothing listens on that port; is the server running, and is the port right?".to_owned(),
        Failure::NoSuchSocket => "there is no such socket; is the server running, and is the path right?".to_owned(),
        Failure::ConnectTimeout => format!(
            "no connection within {timeout}; is the address right, and does a firewall drop packets?"
        ),
        Failure::Unreachable => "no route leads there; is the address right?".to_owned(),
        Failure::Denied => "permission denied; the socket file and its folder must allow this user to write".to_owned(),
        Failure::AcceptQueueFull => "the listener's accept queue is full; the server is not accepting, or its backlog is too small".to_owned(),
        Failure::NoPortsLeft => "no local ports are left; wait a minute for those in TIME_WAIT".to_owned(),
        Failure::TooManyFiles => "too many open files; raise the limit with 'ulimit -n'".to_owned(),
        Failure::WrongSocketType => "what is at that path is not a socket of the kind that this target names".to_owned(),
        other => other.kind(),
    };
    DriveError::Unreachable(format!("cannot connect to {target}: {why}"))
}

/// The error for a target whose first answer was none.
pub(crate) fn no_answer(target: &Target, fault: Fault, timeout: Nanos) -> DriveError {
    if let Fault::Net(failure) = fault
        && !matches!(failure, Failure::Reset | Failure::ClosedByPeer | Failure::MessageTooLong)
    {
        return unreachable(target, failure, timeout);
    }
    let why = match fault {
        Fault::Timeout => {
            format!("it took the connection, but did not answer within {timeout}; is it stuck, or busy with others?")
        }
        Fault::ClosedBefore | Fault::Net(_) => {
            "it closed the connection without an answer; does it expect another protocol?".to_owned()
        }
        Fault::ClosedWithin => "it closed the connection before its answer was complete".to_owned(),
        Fault::Tls => "it speaks TLS on that port, and only plain HTTP can be loaded; use the server's plain port".to_owned(),
        Fault::NotHttp => "its answer is not HTTP/1; for raw bytes use tcp:// or unix: instead of http://".to_owned(),
        Fault::HeadTooLarge => "the head of its answer is longer than 64 KiB or has more than 128 lines".to_owned(),
        Fault::BadFraming => "its answer contradicts itself about where its body ends (Content-Length, Transfer-Encoding)".to_owned(),
        Fault::BadChunk => "its answer breaks the chunked coding".to_owned(),
        Fault::Unasked => "it sent more bytes than its answer has".to_owned(),
        Fault::UnaskedUpgrade => "it switched protocols without being asked to".to_owned(),
        other => other.kind(),
    };
    let why = match fault {
        Fault::Net(Failure::MessageTooLong) => {
            "one message is longer than a datagram may be; use a smaller --size".to_owned()
        }
        _ => why,
    };
    DriveError::Unreachable(format!("no usable answer from {target}: {why}"))
}

/// Refuses a load that makes no sense for the target.
pub(crate) fn check_fit(target: &Target, load: &Load) -> Result<(), DriveError> {
    let packets =
        matches!(target.endpoint(), Endpoint::UnixDatagram(_) | Endpoint::UnixSeqpacket(_));
    let why = match (&load.exchange, target) {
        _ if load.connections == 0 => "at least one connection is needed",
        _ if load.threads == 0 => "at least one thread is needed",
        _ if load.timeout == Nanos::ZERO => "a timeout of zero would fail every request",
        (Exchange::Http(_), Target::Raw(_)) => {
            "HTTP needs a target that begins with http://; for raw bytes choose --exchange oneshot, echo or bulk"
        }
        (
            Exchange::Oneshot | Exchange::Echo { .. } | Exchange::Bulk { .. },
            Target::Http { .. },
        ) => "a raw exchange needs a raw target: tcp://host:port or unix:/path",
        (Exchange::Echo { size }, _) if size.0 == 0 => "an echo needs a message of at least 1 byte",
        (Exchange::Bulk { chunk }, _) if chunk.0 == 0 => {
            "a bulk transfer needs a chunk of at least 1 byte"
        }
        (Exchange::Bulk { .. }, _) if load.new_connection => {
            "a bulk transfer runs on kept connections"
        }
        (Exchange::Oneshot | Exchange::Bulk { .. } | Exchange::Http(_), _) if packets => {
            "datagram and seqpacket sockets carry the echo exchange only"
        }
        (Exchange::Oneshot, Target::Raw(Endpoint::Socketpair(_))) => {
            "a socketpair is kept open: it carries the echo and bulk exchanges only"
        }
        _ => return Ok(()),
    };
    Err(DriveError::Unfit(format!("{target} cannot be loaded like this: {why}")))
}

/// The error for more connections than the process may have open files.
pub(crate) fn too_many_files(connections: u64, most: u64) -> DriveError {
    DriveError::Unfit(format!(
        "{connections} connections need as many open files, and this process may open {most}; raise the limit with 'ulimit -n'"
    ))
}

/// The error when the client's own machinery fails.
pub(crate) fn own(error: &std::io::Error) -> DriveError {
    DriveError::Unfit(format!("the load engine could not work: {error}"))
}

// The texts name the limit as a number where netio names it as a constant.
const _: () = assert!(MAX_PATH_BYTES == 107);
