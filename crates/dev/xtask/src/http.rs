//! Requests to servers on loopback, one connection each.

use std::io::{self, Read, Write as _};
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
        let read = self.begin(port, self.body.len()).and_then(|mut stream| read(&mut stream));
        read.map_err(|error| self.failed(&error.to_string()))
    }

    /// Sends it with half of its body, and closes the connection.
    pub(crate) fn cut(&self, port: u16) -> Result<(), String> {
        let begun = self.begin(port, self.body.len() / 2);
        begun.map(drop).map_err(|error| self.failed(&error.to_string()))
    }

    /// Sends it up to this byte of its body. By HTTP/1.0, so that the connection ends with the answer
    /// (RFC 1945, 7.2.2), which not every server knows.
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

/// Reads an answer, up to its end or that of the connection.
fn read(stream: &mut impl Read) -> io::Result<Answer> {
    let (mut answer, mut part) = (Vec::new(), [0; 16 << 10]);
    loop {
        let length = stream.read(&mut part)?;
        answer.extend_from_slice(&part[..length]);
        let closed = || io::Error::other("the connection was closed");
        match parse(&String::from_utf8_lossy(&answer), length == 0) {
            Some(answer) => return Ok(answer),
            None if length == 0 => return Err(closed()),
            None => {}
        }
    }
}

/// An answer, if it is complete (RFC 9112, 6.3).
fn parse(answer: &str, is_closed: bool) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let field = |wanted: &str| {
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        Some(fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted))?.1)
    };
    let body = if field("Transfer-Encoding") == Some("chunked") {
        joined(body)?
    } else if let Some(length) = field("Content-Length") {
        body.get(..length.parse().ok()?)?.to_owned()
    } else {
        (is_closed || status == 204).then(|| body.to_owned())?
    };
    Some(Answer { status, body })
}

/// The chunks of a body, if the last one is there (RFC 9112, 7.1).
fn joined(mut chunks: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (size, rest) = chunks.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body += rest.get(..size)?;
        chunks = rest.get(size..)?.strip_prefix("\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_a_query_escaped() {
        let read = parse("HTTP/1.0 404 Not Found\r\nA: b\r\n\r\nnothing\n", true);
        assert_eq!(read, Some(Answer { status: 404, body: "nothing\n".to_owned() }));
        assert_eq!(read.map(Answer::success), Some(Err("status 404: nothing".to_owned())));
        assert_eq!(parse("HTTP/1.0 2", true), None);
        let body = |answer, is_closed| parse(answer, is_closed).map(|answer| answer.body);
        assert_eq!(body("HTTP/1.1 200 OK\r\n\r\nab", false), None);
        assert_eq!(body("HTTP/1.1 204 \r\n\r\n", false), Some(String::new()));
        let counted = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab";
        assert_eq!(body(counted, false), Some("ab".to_owned()));
        assert_eq!(body(&counted[..counted.len() - 1], true), None);
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        assert_eq!(body(chunked, false), Some("abc".to_owned()));
        assert_eq!(body(&chunked[..chunked.len() - 8], false), None);
        assert_eq!(escaped("a+b c"), "a%2Bb%20c");
    }
}
