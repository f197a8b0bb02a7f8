//! Failures reported by the kernel, with stable names.

use rustix::io::Errno;

/// Why a connection could not be made, or ended other than by an orderly close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// Nothing is listening there.
    Refused,
    /// The peer, or something in between, reset the connection.
    Reset,
    /// The peer had closed before anything was sent on the connection.
    ClosedByPeer,
    /// There is no socket file at the path.
    NoSuchSocket,
    /// A Unix listener's accept queue is full.
    AcceptQueueFull,
    /// All local ports to this address are in use, mostly by connections in TIME_WAIT.
    NoPortsLeft,
    /// The process has reached its limit on open files.
    TooManyFiles,
    /// No route leads there.
    Unreachable,
    /// The kernel gave up the handshake.
    ConnectTimeout,
    /// The file's permissions forbid it.
    Denied,
    /// The message does not fit into one datagram.
    MessageTooLong,
    /// The file at the path is not a socket of the requested type.
    WrongSocketType,
    /// The engine cannot do this.
    Unsupported,
    /// TLS could not be agreed on, or broke.
    Tls(TlsFailure),
    /// A stream or a connection of HTTP/2 ended in another way than by a response.
    Http2(Http2Failure),
    /// Any other errno.
    Other(i32),
}

/// Why TLS could not be agreed on, or broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsFailure {
    /// The server's certificate has expired.
    Expired,
    /// The server's certificate is not valid yet.
    NotYetValid,
    /// The server's certificate is for other names.
    OtherName,
    /// The server's certificate is not signed by a trusted authority.
    UnknownIssuer,
    /// The server's certificate cannot be used, for another reason.
    BadCertificate,
    /// There is no version, cipher or protocol that both sides accept.
    NothingInCommon,
    /// The server did not choose the protocol that has to be spoken.
    OtherProtocol,
    /// The server refused, with this alert (RFC 8446, 6).
    Alert(u8),
    /// The server's bytes are not TLS.
    NotTls,
    /// The server closed the connection before the keys were agreed on.
    ClosedEarly,
    /// The server broke the protocol, or bytes were changed on their way.
    Broken,
    /// The server ended the connection without announcing it, so more may have been meant to follow
    /// (RFC 8446, 6.1).
    Unannounced,
}

/// How a stream or a connection of HTTP/2 ended without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Http2Failure {
    /// The server reset the stream, with this error (RFC 9113, 7).
    Reset(u32),
    /// The server announced the end of the connection, and did not process the stream.
    GoneAway,
    /// The server broke the protocol.
    Broken,
    /// The body was shorter or longer than its Content-Length.
    WrongLength,
    /// The server's first bytes are not HTTP/2.
    NotHttp2,
}

/// Names of the errors, in the order of their codes (RFC 9113, 7).
const HTTP2_ERRORS: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

impl Http2Failure {
    /// A stable name, under which errors are counted.
    fn kind(self) -> String {
        match self {
            Http2Failure::Reset(code) => match HTTP2_ERRORS.get(code as usize) {
                Some(name) => return format!("stream reset ({name})"),
                None => return format!("stream reset (error {code})"),
            },
            Http2Failure::GoneAway => "not processed before GOAWAY",
            Http2Failure::Broken => "HTTP/2 broken",
            Http2Failure::WrongLength => "bad framing",
            Http2Failure::NotHttp2 => "not HTTP/2",
        }
        .to_owned()
    }
}

impl TlsFailure {
    /// A stable name, under which errors are counted.
    fn kind(self) -> String {
        match self {
            TlsFailure::Expired => "certificate expired",
            TlsFailure::NotYetValid => "certificate not valid yet",
            TlsFailure::OtherName => "certificate for other names",
            TlsFailure::UnknownIssuer => "certificate of an unknown issuer",
            TlsFailure::BadCertificate => "bad certificate",
            TlsFailure::NothingInCommon => "no common TLS version or cipher",
            TlsFailure::OtherProtocol => "no HTTP/2 by ALPN",
            TlsFailure::Alert(number) => return format!("TLS alert {number}"),
            TlsFailure::NotTls => "not TLS",
            TlsFailure::ClosedEarly => "closed during the TLS handshake",
            TlsFailure::Broken => "TLS broken",
            TlsFailure::Unannounced => "closed without close_notify",
        }
        .to_owned()
    }
}

impl Failure {
    /// The failure of a send after which the connection is useless; `partly` says whether the kernel
    /// had taken a part of the message.
    pub(crate) fn of_send(errno: Errno, partly: bool) -> Failure {
        match Failure::from(errno) {
            Failure::ClosedByPeer | Failure::Reset if partly => Failure::Reset,
            Failure::Reset => Failure::ClosedByPeer,
            failure => failure,
        }
    }

    /// A stable name, under which errors are counted.
    pub fn kind(self) -> String {
        match self {
            Failure::Refused => "refused".to_owned(),
            Failure::Reset => "reset".to_owned(),
            Failure::ClosedByPeer => "closed before sending".to_owned(),
            Failure::NoSuchSocket => "no such socket".to_owned(),
            Failure::AcceptQueueFull => "accept queue full".to_owned(),
            Failure::NoPortsLeft => "no ports left".to_owned(),
            Failure::TooManyFiles => "too many open files".to_owned(),
            Failure::Unreachable => "unreachable".to_owned(),
            Failure::ConnectTimeout => "connect timeout".to_owned(),
            Failure::Denied => "permission denied".to_owned(),
            Failure::MessageTooLong => "message too long".to_owned(),
            Failure::WrongSocketType => "wrong socket type".to_owned(),
            Failure::Unsupported => "not supported by the I/O backend".to_owned(),
            Failure::Tls(failure) => failure.kind(),
            Failure::Http2(failure) => failure.kind(),
            Failure::Other(number) => std::io::Error::from_raw_os_error(number).to_string(),
        }
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Failure {
        match errno {
            Errno::CONNREFUSED => Failure::Refused,
            // A reset that came between a send and the shutdown leaves the socket unconnected.
            Errno::CONNRESET | Errno::CONNABORTED | Errno::NOTCONN => Failure::Reset,
            Errno::PIPE => Failure::ClosedByPeer,
            Errno::NOENT => Failure::NoSuchSocket,
            Errno::AGAIN => Failure::AcceptQueueFull,
            Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Failure::NoPortsLeft,
            Errno::MFILE | Errno::NFILE => Failure::TooManyFiles,
            Errno::HOSTUNREACH | Errno::NETUNREACH => Failure::Unreachable,
            Errno::TIMEDOUT => Failure::ConnectTimeout,
            Errno::ACCESS | Errno::PERM => Failure::Denied,
            Errno::MSGSIZE => Failure::MessageTooLong,
            Errno::PROTOTYPE | Errno::NOTSOCK => Failure::WrongSocketType,
            other => Failure::Other(other.raw_os_error()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Errno::from_io_error(&error).map_or(Failure::Other(0), Failure::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_stable_phrases() {
        for (errno, kind) in [
            (Errno::CONNREFUSED, "refused"),
            (Errno::CONNRESET, "reset"),
            (Errno::NOTCONN, "reset"),
            (Errno::PIPE, "closed before sending"),
            (Errno::NOENT, "no such socket"),
            (Errno::AGAIN, "accept queue full"),
            (Errno::ADDRNOTAVAIL, "no ports left"),
            (Errno::MFILE, "too many open files"),
            (Errno::HOSTUNREACH, "unreachable"),
            (Errno::TIMEDOUT, "connect timeout"),
            (Errno::ACCESS, "permission denied"),
            (Errno::MSGSIZE, "message too long"),
            (Errno::PROTOTYPE, "wrong socket type"),
        ] {
            assert_eq!(Failure::from(errno).kind(), kind);
        }
    }
}
