//! Calls by gRPC, as requests of HTTP/2 ("gRPC over HTTP2", `PROTOCOL-HTTP2.md` of gRPC).

use base::Nanos;
use serde::{Deserialize, Serialize};

use crate::error::SpecError;
use crate::requests::HttpRequest;

/// What is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// The method, as `package.Service/Method`, which replaces the path of the target; `None` if the
    /// kinds of request have their own.
    pub method: Option<String>,
    /// What the bodies of the requests are.
    pub bodies: CallBodies,
}

/// What the bodies of calls are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallBodies {
    /// Messages as JSON, which are encoded once the server has described them.
    Json,
    /// Messages as they are sent, with their prefix.
    Encoded,
}

/// A method as `package.Service/Method`, from that or from `package.Service.Method`.
///
/// # Errors
/// If it is neither.
pub fn method_name(text: &str) -> Result<String, SpecError> {
    let parts = text.split_once('/').or_else(|| text.rsplit_once('.'));
    let is_name = |name: &str| {
        let is_word = |word: &str| {
            !word.is_empty()
                && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && !word.starts_with(|c: char| c.is_ascii_digit())
        };
        name.split('.').all(is_word)
    };
    match parts {
        Some((service, method)) if is_name(service) && is_name(method) && !method.contains('.') => {
            Ok(format!("{service}/{method}"))
        }
        _ => Err(SpecError::new(format!("'{text}' is not a method of gRPC"))
            .help("write package.Service/Method, such as helloworld.Greeter/SayHello")),
    }
}

impl HttpRequest {
    /// The request of a call: other headers of the same names are replaced. The server learns how long
    /// the client waits.
    pub fn call(headers: Vec<(String, String)>, body: Vec<u8>, timeout: Nanos) -> HttpRequest {
        let own = [
            ("te", "trailers".to_owned()),
            ("content-type", "application/grpc".to_owned()),
            ("grpc-timeout", timeout_value(timeout)),
        ];
        let is_given =
            |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let mut all: Vec<(String, String)> = own
            .into_iter()
            .filter(|(name, _)| !is_given(name))
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        all.extend(headers);
        HttpRequest { method: "POST".to_owned(), headers: all, body }
    }
}

/// A message with its prefix: not compressed, and its length.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(message);
    out
}

/// Digits of a timeout.
const TIMEOUT_MAX: u64 = 99_999_999;

/// The value of `grpc-timeout`, rounded up if its unit needs that.
fn timeout_value(timeout: Nanos) -> String {
    let units = [
        ('H', 3_600_000_000_000),
        ('M', 60_000_000_000),
        ('S', 1_000_000_000),
        ('m', 1_000_000),
        ('u', 1_000),
        ('n', 1),
    ];
    let in_units = |(name, length): &(char, u64)| (timeout.0.div_ceil(*length), *name, *length);
    let fits = |(value, _, length): &(u64, char, u64)| {
        *value <= TIMEOUT_MAX && timeout.0.is_multiple_of(*length)
    };
    let exact = units.iter().map(in_units).find(fits);
    let finest = || units.iter().rev().map(in_units).find(|(value, ..)| *value <= TIMEOUT_MAX);
    let (value, unit, _) = exact.or_else(finest).unwrap_or((TIMEOUT_MAX, 'H', 0));
    format!("{value}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_written_in_two_ways() {
        for (text, wanted) in [
            ("helloworld.Greeter/SayHello", Some("helloworld.Greeter/SayHello")),
            ("helloworld.Greeter.SayHello", Some("helloworld.Greeter/SayHello")),
            ("Greeter/Say_2", Some("Greeter/Say_2")),
            ("SayHello", None),
            ("a..B/C", None),
            ("a.B/C/D", None),
            ("a.B/", None),
            ("/a.B/C", None),
            ("a.B/C.D", None),
            ("a.1B/C", None),
            ("a.B/C D", None),
        ] {
            assert_eq!(method_name(text).ok().as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn timeouts_have_at_most_eight_digits() {
        let value = |text: &str| timeout_value(Nanos::parse(text).unwrap());
        assert_eq!(
            ["10s", "1500ms", "60s", "1h", "7us"].map(value),
            ["10S", "1500m", "1M", "1H", "7u"]
        );
        assert_eq!(timeout_value(Nanos(123_456_789_012)), "123457m");
        assert_eq!(timeout_value(Nanos(99_999_999)), "99999999n");
        assert_eq!(timeout_value(Nanos(u64::MAX)), "5124096H");
    }

    #[test]
    fn own_headers_replace_those_of_the_protocol() {
        let headers = vec![("Grpc-Timeout".to_owned(), "1S".to_owned())];
        let request = HttpRequest::call(headers, framed(b"abc"), Nanos::from_secs(10));
        let names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["te", "content-type", "Grpc-Timeout"]);
        assert_eq!(request.body, b"\0\0\0\0\x03abc");
    }
}
