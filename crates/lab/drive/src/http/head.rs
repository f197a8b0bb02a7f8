//! The head of a response, and the framing of its body.

use std::mem::MaybeUninit;

use crate::Fault;

/// Limit on the header lines of one response.
const HEADERS_MAX: usize = 128;

const CONNECTION: &str = "connection";
const CONTENT_LENGTH: &str = "content-length";
const TRANSFER_ENCODING: &str = "transfer-encoding";

/// The fields that determine the framing and whether the connection persists.
const FRAMING_FIELDS: [&str; 3] = [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING];

/// How the body's end is found (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is no body.
    Empty,
    /// This many bytes.
    Length(u64),
    /// Chunks, each with its own length.
    Chunked,
    /// Everything up to the end of the connection.
    UntilClose,
}

/// The information in a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResponseHead {
    pub(super) status: u16,
    pub(super) framing: Framing,
    /// Whether the connection can carry another request afterwards.
    pub(super) keep_alive: bool,
}

/// The length of the head at the beginning of `bytes`, including the empty line, if complete.
pub(super) fn head_end(bytes: &[u8]) -> Option<usize> {
    for at in memchr::memchr_iter(b'\n', bytes) {
        match &bytes[at + 1..] {
            [b'\n', ..] => return Some(at + 2),
            [b'\r', b'\n', ..] => return Some(at + 3),
            _ => {}
        }
    }
    None
}

/// Checks whether `bytes` can be the beginning of an HTTP/1.x response.
pub(super) fn check_beginning(bytes: &[u8]) -> Result<(), Fault> {
    const VERSION: &[u8] = b"HTTP/1.";
    let n = bytes.len().min(VERSION.len());
    if bytes[..n] == VERSION[..n] {
        Ok(())
    } else {
        match bytes {
            // A TLS alert record: content type 21, major version 3 (RFC 8446, section 5.1).
            [0x15] => Ok(()),
            [0x15, 0x03, ..] => Err(Fault::Tls),
            _ => Err(Fault::NotHttp),
        }
    }
}

/// Whether [`parse`] reads the value of this field.
pub(super) fn is_about_framing(name: &[u8]) -> bool {
    FRAMING_FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
}

/// Parses a complete head. `to_head` means that the request's method was HEAD.
pub(super) fn parse(bytes: &[u8], to_head: bool) -> Result<ResponseHead, Fault> {
    // Uninitialised: zeroing 128 lines would cost more than parsing the usual five.
    let mut lines = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    match parser.parse_response_with_uninit_headers(&mut response, bytes, &mut lines) {
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Fault::HeadTooLarge),
        Ok(httparse::Status::Partial) | Err(_) => return Err(Fault::NotHttp),
    }
    let (Some(status), Some(minor)) = (response.code, response.version) else {
        return Err(Fault::NotHttp);
    };
    if status < 100 {
        // The first digit is the class, which is at least 1 (RFC 9110, section 15).
        return Err(Fault::NotHttp);
    }
    let mut fields = Fields::default();
    for header in response.headers.iter() {
        fields.take(header.name, header.value)?;
    }
    let http_1_1 = minor >= 1;
    let framing = fields.framing(status, to_head, http_1_1)?;
    let wants_kept = if http_1_1 { !fields.close } else { fields.keep_alive && !fields.close };
    Ok(ResponseHead { status, framing, keep_alive: wants_kept && framing != Framing::UntilClose })
}

/// The header fields about framing.
#[derive(Default)]
struct Fields {
    length: Option<u64>,
    transfer_encoding: bool,
    /// Whether the last transfer coding is chunked.
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl Fields {
    fn take(&mut self, name: &str, value: &[u8]) -> Result<(), Fault> {
        if name.eq_ignore_ascii_case(CONNECTION) {
            for token in tokens(value) {
                self.close |= token.eq_ignore_ascii_case(b"close");
                self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if name.eq_ignore_ascii_case(CONTENT_LENGTH) {
            if self.length.is_some() {
                return Err(Fault::BadFraming);
            }
            self.length = Some(decimal(value).ok_or(Fault::BadFraming)?);
        } else if name.eq_ignore_ascii_case(TRANSFER_ENCODING) {
            self.transfer_encoding = true;
            for token in tokens(value) {
                if self.chunked {
                    // Nothing may follow the chunked coding (RFC 9112, section 6.1).
                    return Err(Fault::BadFraming);
                }
                self.chunked = token.eq_ignore_ascii_case(b"chunked");
            }
        }
        Ok(())
    }

    fn framing(&self, status: u16, to_head: bool, http_1_1: bool) -> Result<Framing, Fault> {
        if self.transfer_encoding && (self.length.is_some() || !http_1_1) {
            return Err(Fault::BadFraming);
        }
        Ok(match self.length {
            _ if to_head || status < 200 || status == 204 || status == 304 => Framing::Empty,
            _ if self.chunked => Framing::Chunked,
            Some(0) => Framing::Empty,
            Some(length) => Framing::Length(length),
            None => Framing::UntilClose,
        })
    }
}

/// The elements of a comma-separated list, without parameters.
fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|byte| *byte == b',')
        .map(|element| element.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii())
        .filter(|token| !token.is_empty())
}

/// Digits only: no sign, no spaces, no overflow.
fn decimal(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(lines: &str) -> Result<ResponseHead, Fault> {
        parse(format!("{}\r\n\r\n", lines.replace('\n', "\r\n")).as_bytes(), false)
    }

    #[test]
    fn the_end_is_an_empty_line() {
        let bytes = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nrest";
        assert_eq!(head_end(bytes), Some(25));
        for end in 0..25 {
            assert_eq!(head_end(&bytes[..end]), None, "{end}");
        }
        assert_eq!(head_end(b"HTTP/1.1 200 OK\n\nrest"), Some(17));
    }

    #[test]
    fn framing_follows_rfc_9112() {
        for (lines, framing, keep_alive) in [
            ("HTTP/1.1 200 OK\nContent-Length: 12", Framing::Length(12), true),
            ("HTTP/1.1 200 OK\ncontent-LENGTH:  0 ", Framing::Empty, true),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", Framing::Chunked, true),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: gzip, Chunked", Framing::Chunked, true),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: gzip", Framing::UntilClose, false),
            ("HTTP/1.1 200 OK", Framing::UntilClose, false),
            ("HTTP/1.1 204 No Content", Framing::Empty, true),
            ("HTTP/1.1 304 Not Modified\nContent-Length: 99", Framing::Empty, true),
            ("HTTP/1.1 100 Continue", Framing::Empty, true),
            ("HTTP/1.1 200 OK\nContent-Length: 1\nConnection: close", Framing::Length(1), false),
            ("HTTP/1.1 200 OK\nContent-Length: 1\nConnection: x, Close", Framing::Length(1), false),
            ("HTTP/1.0 200 OK\nContent-Length: 1", Framing::Length(1), false),
            (
                "HTTP/1.0 200 OK\nContent-Length: 1\nConnection: Keep-Alive",
                Framing::Length(1),
                true,
            ),
        ] {
            let head = head(lines).unwrap_or_else(|fault| panic!("{lines}: {fault:?}"));
            assert_eq!((head.framing, head.keep_alive), (framing, keep_alive), "{lines}");
        }
    }

    #[test]
    fn framing_that_contradicts_itself_is_a_fault() {
        for lines in [
            "HTTP/1.1 200 OK\nContent-Length: 1\nContent-Length: 2",
            "HTTP/1.1 200 OK\nContent-Length: 1\nContent-Length: 1",
            "HTTP/1.1 200 OK\nContent-Length: 1, 1",
            "HTTP/1.1 200 OK\nContent-Length: +1",
            "HTTP/1.1 200 OK\nContent-Length: -1",
            "HTTP/1.1 200 OK\nContent-Length: 0x1",
            "HTTP/1.1 200 OK\nContent-Length:",
            "HTTP/1.1 200 OK\nContent-Length: 18446744073709551616",
            "HTTP/1.1 200 OK\nContent-Length: 1\nTransfer-Encoding: chunked",
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked, gzip",
            "HTTP/1.0 200 OK\nTransfer-Encoding: chunked",
        ] {
            assert_eq!(head(lines), Err(Fault::BadFraming), "{lines}");
        }
    }

    #[test]
    fn an_answer_to_head_has_no_body_whatever_it_says() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n";
        assert_eq!(parse(bytes, true).unwrap().framing, Framing::Empty);
    }

    #[test]
    fn non_http_is_detected_at_its_first_bytes() {
        assert_eq!(check_beginning(b""), Ok(()));
        assert_eq!(check_beginning(b"HT"), Ok(()));
        assert_eq!(check_beginning(b"HTTP/1.1"), Ok(()));
        assert_eq!(check_beginning(b"HTTP/2"), Err(Fault::NotHttp));
        assert_eq!(check_beginning(b"SSH-2.0"), Err(Fault::NotHttp));
        assert_eq!(check_beginning(&[0x15, 0x03, 0x01]), Err(Fault::Tls));
        assert_eq!(check_beginning(&[0x15, 0x02]), Err(Fault::NotHttp));
    }
}
