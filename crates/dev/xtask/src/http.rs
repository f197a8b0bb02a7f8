//! Requests to servers on loopback, one connection each.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body of a successful answer; otherwise its beginning as the error.
    pub(crate) fn success(self) -> Result<String, String> {
        match self.is_success() {
            true => Ok(self.body),
            false => Err(format!("status {}: {:.300}", self.status, self.body.trim())),
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'r> {
    pub(crate) method: &'r str,
    pub(crate) target: &'r str,
    pub(crate) headers: &'r [&'r str],
    pub(crate) body: &'r [u8],
}

impl Request<'_> {
    /// Sends it to a port, and reads the answer.
    pub(crate) fn send(&self, port: u16) -> Result<Answer, String> {
        let mut answer = Vec::new();
        self.begin(port, self.body.len())
            .and_then(|mut stream| stream.read_to_end(&mut answer))
            .map_err(|error| self.failed(&error.to_string()))?;
        parse(&String::from_utf8_lossy(&answer))
            .ok_or_else(|| self.failed("the connection was closed"))
    }

    /// Sends it with half of its body, and closes the connection.
    pub(crate) fn cut(&self, port: u16) -> Result<(), String> {
        let begun = self.begin(port, self.body.len() / 2);
        begun.map(drop).map_err(|error| self.failed(&error.to_string()))
    }

    /// Sends it up to this byte of its body. By HTTP/1.0, so that the answer ends with the connection
    /// (RFC 1945, 7.2.2).
    fn begin(&self, port: u16, until: usize) -> io::Result<TcpStream> {
        let Request { method, target, headers, body } = self;
        let mut head = format!("{method} {target} HTTP/1.0\r\nHost: localhost:{port}\r\n");
        headers.iter().for_each(|header| head.extend([*header, "\r\n"]));
        head += &format!("Content-Length: {}\r\n\r\n", body.len());
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&[head.as_bytes(), &body[..until]].concat())?;
        Ok(stream)
    }

    fn failed(&self, why: &str) -> String {
        format!("{} {:.80}: {why}", self.method, self.target)
    }
}

/// Sends a request without a body.
pub(crate) fn get(port: u16, target: &str) -> Result<Answer, String> {
    Request { method: "GET", target, headers: &[], body: b"" }.send(port)
}

/// A text as part of a query (RFC 3986, 2.1).
pub(crate) fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escape).collect()
}

fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_a_query_escaped() {
        let read = parse("HTTP/1.0 404 Not Found\r\nA: b\r\n\r\nnothing\n");
        assert_eq!(read, Some(Answer { status: 404, body: "nothing\n".to_owned() }));
        assert_eq!(read.map(Answer::success), Some(Err("status 404: nothing".to_owned())));
        assert_eq!(parse("HTTP/1.0 2"), None);
        assert_eq!(escaped("a+b c"), "a%2Bb%20c");
    }
}
