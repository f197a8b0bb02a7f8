//! Kinds of failed requests, with stable names.

use netio::Failure;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The status is not the expected one.
    Status(u16),
    /// The body has the right length but different bytes.
    BodyDiffers,
    /// The body has a different length.
    LengthDiffers,
    /// The response was not complete in time.
    Timeout,
    /// The server closed the connection before the first byte of a response.
    ClosedBefore,
    /// The server closed the connection before the response was complete.
    ClosedWithin,
    /// The server closed the connection before the client had sent the end of its lines.
    ClosedEarly,
    /// The bytes are not HTTP/1.
    NotHttp,
    /// The bytes are a TLS alert.
    Tls,
    /// The head exceeds the reader's limits on length or lines.
    HeadTooLarge,
    /// The head's framing is contradictory.
    BadFraming,
    /// The chunked coding is invalid.
    BadChunk,
    /// There were bytes after the response.
    SurplusBytes,
    /// The server switched protocols without a request to do so.
    UnexpectedUpgrade,
    /// A value that later requests use is missing in the response, or cannot be sent.
    NoValue,
    /// A call by gRPC was not answered by a message and success.
    Grpc(GrpcFault),
    /// A failure reported by the kernel.
    Net(Failure),
}

impl Fault {
    /// A stable name, under which errors are counted.
    pub fn kind(self) -> String {
        match self {
            Fault::Status(status) => return format!("status {status}"),
            Fault::Net(failure) => return failure.kind(),
            Fault::Grpc(fault) => return fault.kind(),
            Fault::BodyDiffers => "body differs",
            Fault::LengthDiffers => "length differs",
            Fault::Timeout => "timeout",
            Fault::ClosedBefore => "closed before a response",
            Fault::ClosedWithin => "closed within a response",
            Fault::ClosedEarly => "closed before the last message",
            Fault::NotHttp => "not HTTP",
            Fault::Tls => "TLS instead of HTTP",
            Fault::HeadTooLarge => "head too large",
            Fault::BadFraming => "bad framing",
            Fault::BadChunk => "bad chunk",
            Fault::SurplusBytes => "bytes after the response",
            Fault::UnexpectedUpgrade => "unexpected upgrade",
            Fault::NoValue => "no value to keep",
        }
        .to_owned()
    }
}

/// What is wrong with the response to a call ("gRPC over HTTP2", Responses).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GrpcFault {
    /// The call ended with this status, which is not 0.
    Status(u32),
    /// There is no status, or it is not a number.
    NoStatus,
    /// The content is not that of gRPC.
    NotGrpc,
    /// There is a status of 0 and no message.
    NoMessage,
    /// There is more than one message.
    SeveralMessages,
    /// The message is compressed, although the client accepts none that are.
    Compressed,
    /// The message is shorter than its prefix says, or the prefix is cut off.
    CutOff,
}

/// Names of the statuses, in the order of their codes ("Status codes and their use in gRPC").
const STATUSES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

impl GrpcFault {
    fn kind(self) -> String {
        match self {
            GrpcFault::Status(code) => match STATUSES.get(code as usize) {
                Some(name) => return format!("{name} ({code})"),
                None => return format!("grpc-status {code}"),
            },
            GrpcFault::NoStatus => "no grpc-status",
            GrpcFault::NotGrpc => "not gRPC",
            GrpcFault::NoMessage => "no message",
            GrpcFault::SeveralMessages => "more than one message",
            GrpcFault::Compressed => "compressed message",
            GrpcFault::CutOff => "incomplete message",
        }
        .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_stable_phrases() {
        for (fault, kind) in [
            (Fault::Status(500), "status 500"),
            (Fault::BodyDiffers, "body differs"),
            (Fault::LengthDiffers, "length differs"),
            (Fault::Timeout, "timeout"),
            (Fault::ClosedBefore, "closed before a response"),
            (Fault::ClosedWithin, "closed within a response"),
            (Fault::ClosedEarly, "closed before the last message"),
            (Fault::NotHttp, "not HTTP"),
            (Fault::Tls, "TLS instead of HTTP"),
            (Fault::HeadTooLarge, "head too large"),
            (Fault::BadFraming, "bad framing"),
            (Fault::BadChunk, "bad chunk"),
            (Fault::SurplusBytes, "bytes after the response"),
            (Fault::UnexpectedUpgrade, "unexpected upgrade"),
            (Fault::NoValue, "no value to keep"),
            (Fault::Net(Failure::Refused), "refused"),
            (Fault::Net(Failure::ConnectTimeout), "connect timeout"),
        ] {
            assert_eq!(fault.kind(), kind);
        }
    }
}
