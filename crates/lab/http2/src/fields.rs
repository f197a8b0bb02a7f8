//! What the headers of a response say, and which ones it must not have.

use netio::GrpcFields;

/// Headers that belong to a connection (RFC 9113, 8.2.2).
const OF_CONNECTIONS: [&[u8]; 5] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// What the headers of a response say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    /// 0 without a status: trailers.
    pub(crate) status: u16,
    pub(crate) length: Option<u64>,
    /// Whether it breaks a rule, so that there is no response on its stream (RFC 9113, 8.1.1).
    pub(crate) is_malformed: bool,
    /// What they say about a call.
    pub(crate) grpc: GrpcFields,
    /// Whether a header that describes the content has come, after which none of the protocol may.
    has_regular: bool,
}

impl ResponseHead {
    /// Reads the next header.
    pub(crate) fn add(&mut self, name: &[u8], value: &[u8]) {
        let is_sound = match name {
            b":status" => self.status(value),
            b"content-length" => self.length(value),
            _ => is_name(name) && !OF_CONNECTIONS.contains(&name),
        };
        match name {
            b"content-type" => self.grpc.is_grpc = is_grpc(value),
            b"grpc-status" => {
                self.grpc.status = number(value).and_then(|status| u32::try_from(status).ok());
            }
            _ => {}
        }
        self.has_regular |= !name.starts_with(b":");
        self.is_malformed |= !is_sound || !is_value(value);
    }

    fn status(&mut self, value: &[u8]) -> bool {
        let is_first = self.status == 0 && !self.has_regular;
        let status = number(value).filter(|status| (100..=999).contains(status));
        self.status = status.unwrap_or(0) as u16;
        is_first && value.len() == 3 && status.is_some()
    }

    /// There may be several equal ones (RFC 9110, 8.6).
    fn length(&mut self, value: &[u8]) -> bool {
        let before = self.length;
        self.length = number(value);
        self.length.is_some() && (before.is_none() || before == self.length)
    }
}

/// `application/grpc`, alone or followed by the encoding of messages or by parameters.
fn is_grpc(value: &[u8]) -> bool {
    let rest = value.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// A number of nothing but digits.
fn number(value: &[u8]) -> Option<u64> {
    let is_plain = value.iter().all(u8::is_ascii_digit);
    str::from_utf8(value).ok().filter(|_| is_plain)?.parse().ok()
}

/// Whether this is the name of a header, in lower case (RFC 9110, 5.6.2; RFC 9113, 8.2.1).
fn is_name(name: &[u8]) -> bool {
    let is_sound =
        |c: &u8| matches!(c, b'a'..=b'z' | b'0'..=b'9') || b"!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.iter().all(is_sound)
}

/// Whether this is the value of a header (RFC 9110, 5.5; RFC 9113, 8.2.1).
fn is_value(value: &[u8]) -> bool {
    let is_sound = |c: &u8| *c == b'\t' || !c.is_ascii_control();
    let is_blank = |c: Option<&u8>| matches!(c, Some(b' ' | b'\t'));
    value.iter().all(is_sound) && !is_blank(value.first()) && !is_blank(value.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of headers that are separated by semicolons, names and values by `=`.
    fn head(fields: &str) -> ResponseHead {
        let mut head = ResponseHead::default();
        for field in fields.split(';') {
            let (name, value) = field.split_once('=').unwrap();
            head.add(name.as_bytes(), value.as_bytes());
        }
        head
    }

    #[test]
    fn a_sound_head_and_sound_trailers() {
        let read = head(":status=200;content-length=12;x-a=b c;empty=;content-length=12");
        assert_eq!((read.status, read.length, read.is_malformed), (200, Some(12), false));
        let read = head("x-checksum=\u{ff}");
        assert_eq!((read.status, read.length, read.is_malformed), (0, None, false));
    }

    #[test]
    fn what_a_head_says_about_a_call() {
        for (fields, is_grpc, status) in [
            (":status=200;content-type=application/grpc", true, None),
            (":status=200;content-type=application/grpc+proto;grpc-status=5", true, Some(5)),
            (":status=200;content-type=application/grpc-web", false, None),
            (":status=200;content-type=text/html", false, None),
            ("grpc-status=0;grpc-message=", false, Some(0)),
            ("grpc-status=", false, None),
            ("grpc-status=-1", false, None),
            ("grpc-status=99999999999", false, None),
        ] {
            let head = head(fields);
            assert_eq!(head.grpc, GrpcFields { is_grpc, status }, "{fields}");
            assert!(!head.is_malformed, "{fields}");
        }
    }

    #[test]
    fn what_a_head_must_not_have() {
        for fields in [
            ":status=20",
            ":status=0200",
            ":status=+20",
            ":status=200;:status=200",
            "x-a=b;:status=200",
            ":status=200;:path=/",
            ":status=200;Server=x",
            ":status=200;ser ver=x",
            ":status=200;=x",
            ":status=200;a:b=x",
            ":status=200;x-a=b\r\nx-b: c",
            ":status=200;x-a= b",
            ":status=200;x-a=b\t",
            ":status=200;connection=close",
            ":status=200;transfer-encoding=chunked",
            ":status=200;content-length=+1",
            ":status=200;content-length=",
            ":status=200;content-length=1;content-length=2",
            ":status=200;content-length=99999999999999999999",
        ] {
            assert!(head(fields).is_malformed, "{fields}");
        }
    }
}
