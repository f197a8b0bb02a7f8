//! Blocking HTTP over TCP or a Unix socket, for readiness checks and server-side counts. Never used
//! for load.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use spec::{Endpoint, Target};

/// Limit on the size of a response, head and body together.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Limit on the number of headers.
const HEADERS_MAX: usize = 128;

/// A server's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The body, with its transfer coding removed.
    pub body: Vec<u8>,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// Nothing is listening there, or the name is unknown.
    #[error("no connection: {0}")]
    Connect(#[source] io::Error),
    /// The connection broke or timed out.
    #[error("no complete answer: {0}")]
    Exchange(#[source] io::Error),
    /// The response is not HTTP, or larger than 16 MiB.
    #[error("{0}")]
    Malformed(String),
    /// The target is not an HTTP target.
    #[error(
        "'{0}' is not an HTTP target; write http://host:port/path or http://unix:/path/to.sock:/path"
    )]
    NotHttp(String),
}

/// Requests a target on a new connection; `timeout` limits the whole exchange.
pub fn get(target: &Target, timeout: Duration) -> Result<Response, HttpError> {
    let Target::Http { endpoint, authority, path } = target else {
        return Err(HttpError::NotHttp(target.to_string()));
    };
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: tachograph\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    ask(endpoint, &[request.as_bytes()], timeout)
}

fn ask(endpoint: &Endpoint, request: &[&[u8]], timeout: Duration) -> Result<Response, HttpError> {
    let deadline = Instant::now() + timeout;
    let mut stream = connect(endpoint, deadline).map_err(HttpError::Connect)?;
    for bytes in request {
        stream
            .limit(deadline)
            .and_then(|()| stream.write_all(bytes))
            .map_err(HttpError::Exchange)?;
    }
    read_answer(&mut stream, deadline)
}

/// Connects and closes: whether something is listening.
pub(crate) fn accepts(endpoint: &Endpoint, timeout: Duration) -> io::Result<()> {
    connect(endpoint, Instant::now() + timeout).map(drop)
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Limits the next operation to the time left.
    fn limit(&self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match self {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(Some(left))?;
                stream.set_write_timeout(Some(left))
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(left))?;
                stream.set_write_timeout(Some(left))
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        };
        // The kernel reports a socket timeout as "would block".
        result.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }
}

fn connect(endpoint: &Endpoint, deadline: Instant) -> io::Result<Stream> {
    match endpoint {
        Endpoint::Tcp { host, port } => connect_tcp(host, *port, deadline).map(Stream::Tcp),
        Endpoint::Unix(path) => connect_unix(&SocketAddr::from_pathname(path)?, deadline),
        Endpoint::Abstract(name) => connect_unix(&SocketAddr::from_abstract_name(name)?, deadline),
        Endpoint::UnixDatagram(path)
        | Endpoint::UnixSeqpacket(path)
        | Endpoint::Socketpair(path) => exists_as_socket(path),
    }
    .and_then(|stream| stream.limit(deadline).map(|()| stream))
}

fn exists_as_socket(path: &Path) -> io::Result<Stream> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!("{} is not a stream socket", path.display()),
    ))
}

fn connect_tcp(host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address found for the name");
    for address in (host, port).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A Unix socket with a full accept queue refuses a non-blocking connect at once, and a blocking
/// one would wait for ever, so the connect is retried until the deadline.
fn connect_unix(address: &SocketAddr, deadline: Instant) -> io::Result<Stream> {
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
    };
    let address = match (address.as_pathname(), address.as_abstract_name()) {
        (Some(path), _) => SocketAddrUnix::new(path)?,
        (_, Some(name)) => SocketAddrUnix::new_abstract_name(name)?,
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    loop {
        match connect(&socket, &address) {
            Ok(()) => break,
            Err(rustix::io::Errno::AGAIN) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error.into()),
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(Stream::Unix(stream))
}

fn read_answer(stream: &mut Stream, deadline: Instant) -> Result<Response, HttpError> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 << 10];
    loop {
        stream.limit(deadline).map_err(HttpError::Exchange)?;
        let count = match stream.read(&mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(HttpError::Exchange(error)),
        };
        bytes.extend_from_slice(&chunk[..count]);
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(HttpError::Malformed("the response is larger than 16 MiB".to_owned()));
        }
        if let Some(response) = parse(&bytes, count == 0)? {
            return Ok(response);
        }
        if count == 0 {
            return Err(HttpError::Exchange(io::ErrorKind::UnexpectedEof.into()));
        }
    }
}

/// Parses a response from the bytes so far; `None` if it is incomplete. `ended` means that the
/// server has closed the connection.
fn parse(bytes: &[u8], ended: bool) -> Result<Option<Response>, HttpError> {
    let mut rest = bytes;
    loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut headers);
        let length = match head.parse(rest) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => {
                return Err(HttpError::Malformed(format!("the response is not HTTP: {error}")));
            }
        };
        let status = head.code.unwrap_or_default();
        let body = &rest[length..];
        if (100..200).contains(&status) && status != 101 {
            rest = body;
            continue;
        }
        return Ok(
            read_body(status, head.headers, body, ended)?.map(|body| Response { status, body })
        );
    }
}

fn read_body(
    status: u16,
    headers: &[httparse::Header<'_>],
    body: &[u8],
    ended: bool,
) -> Result<Option<Vec<u8>>, HttpError> {
    let header = |name: &str| {
        headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name))
            .map(|header| String::from_utf8_lossy(header.value).trim().to_owned())
    };
    if matches!(status, 204 | 304) {
        return Ok(Some(Vec::new()));
    }
    if header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return unchunk(body);
    }
    if let Some(length) = header("content-length") {
        let length: usize = length.parse().map_err(|_| {
            HttpError::Malformed(format!("the response's Content-Length is '{length}'"))
        })?;
        return Ok(body.get(..length).map(<[u8]>::to_vec));
    }
    Ok(ended.then(|| body.to_vec()))
}

/// Removes the chunked coding (RFC 9112, section 7.1); `None` if the last chunk is missing.
fn unchunk(mut rest: &[u8]) -> Result<Option<Vec<u8>>, HttpError> {
    let mut body = Vec::new();
    loop {
        let (start, size) = match httparse::parse_chunk_size(rest) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => {
                return Err(HttpError::Malformed("the response has malformed chunks".to_owned()));
            }
        };
        if size == 0 {
            return Ok(Some(body));
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let end = start.saturating_add(size);
        let (Some(chunk), Some(after)) = (rest.get(start..end), rest.get(end.saturating_add(2)..))
        else {
            return Ok(None);
        };
        body.extend_from_slice(chunk);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn whole(text: &str) -> Option<Response> {
        parse(text.as_bytes(), true).unwrap()
    }

    #[test]
    fn bodies_end_where_their_framing_says() {
        for (answer, body) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi and more", Some("hi")),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi", None),
            ("HTTP/1.0 200 OK\r\n\r\nto the end", Some("to the end")),
            ("HTTP/1.1 204 None\r\n\r\n", Some("")),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
                Some("x"),
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n",
                Some("abc"),
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", None),
            ("HTTP/1.1 200", None),
        ] {
            let found = whole(answer).map(|response| String::from_utf8(response.body).unwrap());
            assert_eq!(found.as_deref(), body, "{answer}");
        }
        assert_eq!(parse(b"HTTP/1.0 200 OK\r\n\r\nnot yet closed", false).unwrap(), None);
    }

    #[test]
    fn nonsense_is_told_apart_from_silence() {
        for (bytes, text) in [
            ("SSH-2.0-x\r\n", "the response is not HTTP: invalid HTTP version"),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
                "the response's Content-Length is 'many'",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
                "the response has malformed chunks",
            ),
        ] {
            assert_eq!(parse(bytes.as_bytes(), false).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn a_server_that_never_answers_uses_up_the_time_and_no_more() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::Http {
            endpoint: Endpoint::Tcp {
                host: "127.0.0.1".to_owned(),
                port: listener.local_addr().unwrap().port(),
            },
            authority: "x".to_owned(),
            path: "/".to_owned(),
        };
        let error = get(&target, Duration::from_millis(30)).unwrap_err();
        assert_eq!(error.to_string(), "no complete answer: timed out");
        drop(listener);
        assert!(matches!(get(&target, Duration::from_secs(5)), Err(HttpError::Connect(_))));
    }
}
