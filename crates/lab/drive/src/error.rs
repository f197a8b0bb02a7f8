//! Loads that cannot start.

use base::Nanos;
use netio::{Failure, Http2Failure, MAX_PATH_BYTES, TlsFailure};
use spec::{CallBodies, Endpoint, EngineChoice, Exchange, HttpVersion, Load, RequestKind, Target};

use crate::Fault;

/// The client could not work at all; wrong responses are counted instead.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// No connection could be made.
    #[error("{0}")]
    Unreachable(String),
    /// The load does not suit the target.
    #[error("{0}")]
    Unfit(String),
    /// The run was stopped before the first response.
    #[error("stopped before the first responses")]
    Stopped,
}

/// The target without its secrets, such as a token in its query.
fn shown(target: &Target) -> String {
    base::redact(&target.to_string())
}

/// The error for a target to which no connection could be made.
pub(crate) fn unreachable(target: &Target, failure: Failure, timeout: Nanos) -> DriveError {
    let unix = !matches!(target.endpoint(), Endpoint::Tcp { .. } | Endpoint::Udp { .. });
    let why = match failure {
        Failure::Refused if unix => "connection refused: the socket file exists, but no process \
            listens on it; start the server, or remove a stale file"
            .to_owned(),
        Failure::Refused => "connection refused: nothing is listening on that port; start the \
            server, or check the port"
            .to_owned(),
        Failure::NoSuchSocket => "no such socket; start the server, or check the path".to_owned(),
        Failure::ConnectTimeout if target.server_name().is_some() => format!(
            "no connection with TLS within {timeout}; check whether the port speaks TLS, the \
             address, and whether a firewall drops packets"
        ),
        Failure::ConnectTimeout => format!(
            "no connection within {timeout}; check the address, and whether a firewall drops \
             packets"
        ),
        Failure::Unreachable => "no route to the host; check the address".to_owned(),
        Failure::Denied => "permission denied; make the socket file and its folder writable for \
            this user"
            .to_owned(),
        Failure::AcceptQueueFull => "the listener's accept queue is full; the server is not \
            accepting connections, or its backlog is too small"
            .to_owned(),
        Failure::NoPortsLeft => "no local ports left; wait a minute for those in \
            TIME_WAIT"
            .to_owned(),
        Failure::TooManyFiles => "too many open files; raise the limit with 'ulimit -n'".to_owned(),
        Failure::WrongSocketType => "the file at that path is not a socket of this type".to_owned(),
        Failure::Tls(failure) => no_tls(target, failure),
        Failure::Http2(Http2Failure::NotHttp2) => {
            "it does not speak HTTP/2 on this port, which --http2 and --grpc need".to_owned()
        }
        other => other.kind(),
    };
    DriveError::Unreachable(format!("cannot connect to {}: {why}", shown(target)))
}

/// Why no keys could be agreed on, and what to do.
fn no_tls(target: &Target, failure: TlsFailure) -> String {
    let trusted = "pass it with --cacert, or use --insecure to accept any certificate";
    match failure {
        TlsFailure::Expired => {
            "its certificate has expired; renew it, or use --insecure to accept any \
            certificate"
                .to_owned()
        }
        TlsFailure::NotYetValid => {
            "its certificate is not valid yet; check the clocks of both machines, or use --insecure"
                .to_owned()
        }
        TlsFailure::OtherName => format!(
            "its certificate is not for '{}'; use a name that it is for, or --insecure to accept \
             any certificate",
            target.server_name().unwrap_or_default()
        ),
        TlsFailure::UnknownIssuer => {
            format!("its certificate is not signed by a trusted authority; {trusted}")
        }
        TlsFailure::BadCertificate => format!("its certificate cannot be verified; {trusted}"),
        TlsFailure::NothingInCommon => {
            "it accepts neither TLS 1.3 nor TLS 1.2 with a cipher that is still safe".to_owned()
        }
        TlsFailure::OtherProtocol => {
            "it does not speak HTTP/2 here, which --http2 and --grpc need".to_owned()
        }
        // RFC 8446, 6: handshake_failure, bad_certificate to unknown_ca, certificate_required.
        TlsFailure::Alert(alert @ (40 | 42..=48 | 116)) => format!(
            "it refuses this client (TLS alert {alert}); if it asks for a certificate, use --cert \
             and --key"
        ),
        // RFC 7301, 3.2: no_application_protocol.
        TlsFailure::Alert(120) => "it does not speak this version of HTTP here".to_owned(),
        TlsFailure::Alert(alert) => format!("it refuses the handshake (TLS alert {alert})"),
        TlsFailure::NotTls => {
            "it does not speak TLS on this port; write http:// instead of https://".to_owned()
        }
        TlsFailure::ClosedEarly => {
            "it closed the connection during the TLS handshake; check whether the port speaks TLS"
                .to_owned()
        }
        TlsFailure::Broken => "the TLS handshake failed; the server may be broken".to_owned(),
        TlsFailure::Unannounced => "it closed the connection without close_notify".to_owned(),
    }
}

/// The error for a target without a valid first response.
pub(crate) fn no_answer(target: &Target, fault: Fault, timeout: Nanos) -> DriveError {
    if let Fault::Net(failure) = fault
        && !matches!(failure, Failure::Reset | Failure::ClosedByPeer | Failure::MessageTooLong)
    {
        return unreachable(target, failure, timeout);
    }
    let why = match fault {
        Fault::Timeout => {
            format!(
                "it accepted the connection, but did not answer within {timeout}; check \
                whether the server is stuck or busy"
            )
        }
        Fault::ClosedBefore | Fault::Net(_) => {
            "it closed the connection without an answer; check whether it expects another \
             protocol"
                .to_owned()
        }
        Fault::ClosedWithin => "it closed the connection before its answer was complete".to_owned(),
        Fault::Tls => "the port speaks TLS; write https:// instead of http://".to_owned(),
        Fault::NotHttp => {
            "its answer is not HTTP/1; for raw bytes use tcp:// or unix: instead of http://"
                .to_owned()
        }
        Fault::HeadTooLarge => "its response head is longer than 64 KiB or has more than 128 \
            lines"
            .to_owned(),
        Fault::BadFraming => "its response has contradictory framing (Content-Length, \
            Transfer-Encoding)"
            .to_owned(),
        Fault::BadChunk => "its response has invalid chunked encoding".to_owned(),
        Fault::SurplusBytes => "it sent bytes after the end of its response".to_owned(),
        Fault::UnexpectedUpgrade => "it switched protocols without a request to do so".to_owned(),
        other => other.kind(),
    };
    let why = match fault {
        Fault::Net(Failure::MessageTooLong) => {
            "the message is too long for a datagram; use a smaller --size".to_owned()
        }
        _ => why,
    };
    DriveError::Unreachable(format!("no usable answer from {}: {why}", shown(target)))
}

/// The error for a response without what later requests need of it.
pub(crate) fn no_value(target: &Target, kind: &RequestKind, status: u16) -> DriveError {
    let kept: Vec<String> = kind.keep.iter().map(|kept| kept.source.to_string()).collect();
    DriveError::Unfit(format!(
        "the response of {} to '{}', with status {status}, lacks what is to be kept of it: {}; check \
         the request, and where its response has the value",
        shown(target),
        kind.name,
        kept.join(", ")
    ))
}

/// The error for calls that all fail, where one is needed to compare others with.
pub(crate) fn no_success(target: &Target) -> DriveError {
    DriveError::Unfit(format!(
        "all of the first calls to {} failed, so there is no response to compare others with; leave \
         out --check",
        shown(target)
    ))
}

/// The limit on requests in progress: each needs some hundred bytes.
const IN_PROGRESS_MAX: u32 = 1_000_000;

/// Refuses a load that does not suit the target.
pub(crate) fn check_fit(target: &Target, load: &Load) -> Result<(), DriveError> {
    let packets =
        matches!(target.endpoint(), Endpoint::UnixDatagram(_) | Endpoint::UnixSeqpacket(_));
    let why = match (&load.exchange, target) {
        _ if load.connections == 0 => "at least one connection is required",
        _ if load.streams > 1 && load.connections > IN_PROGRESS_MAX => {
            "at most 1,000,000 requests can be in progress at once; use fewer connections or streams"
        }
        _ if load.threads == 0 => "at least one thread is required",
        _ if load.timeout == Nanos::ZERO => "a timeout of zero would fail every request",
        _ if load.grpc.as_ref().is_some_and(|calls| calls.bodies == CallBodies::Json) => {
            "its messages are not encoded yet"
        }
        _ if load.grpc.is_some() && load.http != HttpVersion::Http2 => "gRPC needs HTTP/2",
        (Exchange::Http(_), Target::Raw(endpoint)) if !matches!(endpoint, Endpoint::Udp { .. }) => {
            "HTTP needs a target that begins with http://; for raw bytes choose --exchange oneshot, echo or bulk"
        }
        (
            Exchange::Oneshot | Exchange::Echo { .. } | Exchange::Bulk { .. } | Exchange::Lines(_),
            Target::Http { .. },
        ) => "a raw exchange needs a raw target: tcp://host:port or unix:/path",
        (Exchange::Lines(_), Target::Raw(Endpoint::UnixSeqpacket(_) | Endpoint::Socketpair(_))) => {
            "sockets of this kind do not support the exchange of lines"
        }
        (Exchange::Lines(_), _) if load.engine == EngineChoice::IoUring => {
            "the exchange of lines needs the I/O backend epoll"
        }
        (Exchange::Lines(_), _) if load.new_connection => {
            "the exchange of lines needs persistent connections"
        }
        (Exchange::Lines(lines), _) if lines.per_message == 0 || lines.series < load.threads => {
            "a message needs at least one line, and each thread a series"
        }
        (Exchange::Lines(_), _) => return Ok(()),
        (_, Target::Raw(Endpoint::Udp { .. })) => {
            "udp:// targets support only the exchange of lines, in an experiment file"
        }
        (Exchange::Echo { size }, _) if size.0 == 0 => "an echo needs a message of at least 1 byte",
        (Exchange::Bulk { chunk }, _) if chunk.0 == 0 => {
            "a bulk transfer needs a chunk of at least 1 byte"
        }
        (Exchange::Bulk { .. }, _) if load.new_connection => {
            "a bulk transfer needs persistent connections"
        }
        (Exchange::Oneshot | Exchange::Bulk { .. } | Exchange::Http(_), _) if packets => {
            "datagram and seqpacket sockets support only the echo exchange"
        }
        (Exchange::Oneshot, Target::Raw(Endpoint::Socketpair(_))) => {
            "a socketpair supports only the echo and bulk exchanges"
        }
        _ => return Ok(()),
    };
    Err(DriveError::Unfit(format!("{} cannot be loaded like this: {why}", shown(target))))
}

/// The error for more connections than the limit on open files allows.
pub(crate) fn too_many_files(connections: u64, most: u64) -> DriveError {
    DriveError::Unfit(format!(
        "{connections} connections need as many open files, but the limit is {most}; raise it \
         with 'ulimit -n'"
    ))
}

/// The error for a failure of the client itself.
pub(crate) fn own(error: &std::io::Error) -> DriveError {
    DriveError::Unfit(format!("the load engine failed: {error}"))
}

// The messages contain the limit as a number; netio defines it as a constant.
const _: () = assert!(MAX_PATH_BYTES == 107);
