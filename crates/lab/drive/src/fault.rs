//! What can be wrong with one request, in words that stay the same between versions.

use netio::Failure;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The status is not the one that was learned or expected.
    Status(u16),
    /// The body has the right length, but not the right bytes.
    BodyDiffers,
    /// The body has another length.
    LengthDiffers,
    /// The whole answer did not come in time.
    Timeout,
    /// The server closed before the first byte of an answer.
    ClosedBefore,
    /// The server closed before the answer was complete.
    ClosedWithin,
    /// The bytes are not HTTP/1.
    NotHttp,
    /// The bytes are a TLS alert.
    Tls,
    /// The head is longer, or has more lines, than the reader takes.
    HeadTooLarge,
    /// The head contradicts itself about where the body ends.
    BadFraming,
    /// The chunked coding is broken.
    BadChunk,
    /// More bytes came than the answer has.
    Unasked,
    /// The server switched protocols without being asked to.
    UnaskedUpgrade,
    /// The kernel reported it.
    Net(Failure),
}

impl Fault {
    /// The fault as a stable phrase, the key under which errors are counted.
    pub fn kind(self) -> String {
        match self {
            Fault::Status(status) => return format!("status {status}"),
            Fault::Net(failure) => return failure.kind(),
            Fault::BodyDiffers => "body differs",
            Fault::LengthDiffers => "length differs",
            Fault::Timeout => "timeout",
            Fault::ClosedBefore => "closed before a response",
            Fault::ClosedWithin => "closed within a response",
            Fault::NotHttp => "not HTTP",
            Fault::Tls => "TLS instead of HTTP",
            Fault::HeadTooLarge => "head too large",
            Fault::BadFraming => "bad framing",
            Fault::BadChunk => "bad chunk",
            Fault::Unasked => "bytes after the response",
            Fault::UnaskedUpgrade => "unexpected upgrade",
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
            (Fault::NotHttp, "not HTTP"),
            (Fault::Tls, "TLS instead of HTTP"),
            (Fault::HeadTooLarge, "head too large"),
            (Fault::BadFraming, "bad framing"),
            (Fault::BadChunk, "bad chunk"),
            (Fault::Unasked, "bytes after the response"),
            (Fault::UnaskedUpgrade, "unexpected upgrade"),
            (Fault::Net(Failure::Refused), "refused"),
            (Fault::Net(Failure::ConnectTimeout), "connect timeout"),
        ] {
            assert_eq!(fault.kind(), kind);
        }
    }
}
