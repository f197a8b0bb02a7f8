//! Blocking HTTP over TCP or a Unix socket, for readiness checks and server-side counts. Never used
//! for load. Each exchange has its own connection and its own runtime for hyper.

use std::error::Error;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use spec::{Endpoint, Target, TlsOptions};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

/// Limit on the size of a body.
const BODY_BYTES_MAX: usize = 16 << 20;

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
    let not_http = || HttpError::NotHttp(target.to_string());
    let Target::Http { endpoint, authority, path, .. } = target else { return Err(not_http()) };
    let tls = target.server_name().map(unverified).transpose()?;
    let request = Request::get(path)
        .header(header::HOST, authority)
        .header(header::USER_AGENT, "tachograph")
        .header(header::ACCEPT, "*/*")
        .header(header::CONNECTION, "close")
        .body(Empty::new())
        .map_err(|_| not_http())?;
    let deadline = Instant::now() + timeout;
    let stream = connect(endpoint, deadline).map_err(HttpError::Connect)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(HttpError::Exchange)?.block_on(async {
        let answer = async {
            match stream {
                Stream::Tcp(stream) => {
                    ask_with(tls, tokio::net::TcpStream::from_std(stream), request).await
                }
                Stream::Unix(stream) => {
                    ask_with(tls, tokio::net::UnixStream::from_std(stream), request).await
                }
            }
        };
        let in_time = tokio::time::timeout_at(deadline.into(), answer).await;
        in_time.unwrap_or_else(|_| Err(HttpError::Exchange(io::ErrorKind::TimedOut.into())))
    })
}

/// Settings of TLS for a server of this name, whose certificate is not verified: nothing secret is
/// sent, and the user chose the server.
fn unverified(server_name: &str) -> Result<tls::Client, HttpError> {
    let options = TlsOptions { insecure: true, ..TlsOptions::default() };
    tls::Client::new(&options, server_name, &["http/1.1"])
        .map_err(|error| HttpError::Connect(io::Error::other(error)))
}

/// Sends the request, with TLS if there are settings for it, and reads the whole response.
async fn ask_with<S>(
    tls: Option<tls::Client>,
    stream: io::Result<S>,
    request: Request<Empty<Bytes>>,
) -> Result<Response, HttpError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stream = stream.map_err(HttpError::Exchange)?;
    match tls {
        None => ask(stream, request).await,
        Some(client) => {
            let connector = TlsConnector::from(client.config());
            let secured = connector.connect(client.server_name(), stream).await;
            ask(secured.map_err(HttpError::Connect)?, request).await
        }
    }
}

/// Sends the request and reads the whole response.
async fn ask<S>(stream: S, request: Request<Empty<Bytes>>) -> Result<Response, HttpError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stream = TokioIo::new(stream);
    let (mut sender, connection) =
        http1::Builder::new().handshake(stream).await.map_err(|error| why(&error))?;
    // The task ends with the runtime; its errors also reach the exchange.
    tokio::spawn(connection);
    let (head, body) =
        sender.send_request(request).await.map_err(|error| why(&error))?.into_parts();
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(|error| why(&*error))?;
    Ok(Response { status: head.status.as_u16(), body: body.to_bytes().to_vec() })
}

/// Why an exchange failed.
fn why(error: &(dyn Error + 'static)) -> HttpError {
    if error.is::<LengthLimitError>() {
        return HttpError::Malformed("the response is larger than 16 MiB".to_owned());
    }
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    let hyper = error.downcast_ref::<hyper::Error>();
    match (hyper, cause) {
        (Some(error), _) if error.is_parse() => {
            HttpError::Malformed(format!("the response is not HTTP: {error}"))
        }
        (_, Some(cause)) => HttpError::Exchange(io::Error::new(cause.kind(), cause.to_string())),
        _ => HttpError::Exchange(io::Error::other(error.to_string())),
    }
}

/// Connects and closes: whether something is listening.
pub(crate) fn accepts(endpoint: &Endpoint, timeout: Duration) -> io::Result<()> {
    connect(endpoint, Instant::now() + timeout).map(drop)
}

/// A non-blocking connection.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

fn connect(endpoint: &Endpoint, deadline: Instant) -> io::Result<Stream> {
    match endpoint {
        Endpoint::Tcp { host, port } => connect_tcp(host, *port, deadline),
        Endpoint::Unix(path) => connect_unix(&SocketAddr::from_pathname(path)?, deadline),
        Endpoint::Abstract(name) => connect_unix(&SocketAddr::from_abstract_name(name)?, deadline),
        Endpoint::Udp { .. } => {
            Err(io::Error::new(io::ErrorKind::Unsupported, "UDP has no connections"))
        }
        Endpoint::UnixDatagram(path)
        | Endpoint::UnixSeqpacket(path)
        | Endpoint::Socketpair(path) => exists_as_socket(path),
    }
}

fn exists_as_socket(path: &Path) -> io::Result<Stream> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!("{} is not a stream socket", path.display()),
    ))
}

fn connect_tcp(host: &str, port: u16, deadline: Instant) -> io::Result<Stream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address found for the name");
    for address in (host, port).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                stream.set_nonblocking(true)?;
                return Ok(Stream::Tcp(stream));
            }
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
    Ok(Stream::Unix(UnixStream::from(socket)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// The response that `get` makes of these bytes; the server closes the connection after them.
    fn answered(bytes: &'static [u8]) -> Result<Response, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            stream.write_all(bytes).unwrap();
        });
        let answer = get(&Target::parse(&url).unwrap(), Duration::from_secs(60));
        server.join().unwrap();
        answer.map_err(|error| error.to_string())
    }

    #[test]
    fn bodies_end_where_their_framing_says() {
        for (answer, body) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi and more", "hi"),
            ("HTTP/1.0 200 OK\r\n\r\nto the end", "to the end"),
            ("HTTP/1.1 204 None\r\n\r\n", ""),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "x"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n",
                "abc",
            ),
        ] {
            let found = answered(answer.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(found.body).unwrap(), body, "{answer}");
        }
    }

    #[test]
    fn nonsense_is_distinguished_from_silence() {
        let large = format!("HTTP/1.0 200 OK\r\n\r\n{}", "x".repeat(BODY_BYTES_MAX + 1));
        for (bytes, text) in [
            ("SSH-2.0-x\r\n", "the response is not HTTP: invalid HTTP version parsed"),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
                "the response is not HTTP: invalid content-length parsed",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
                "no complete answer: Invalid chunk size line: missing size digit",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi",
                "no complete answer: end of file before message length reached",
            ),
            ("HTTP/1.1 200", "no complete answer: connection closed before message completed"),
            (&*large.leak(), "the response is larger than 16 MiB"),
        ] {
            assert_eq!(answered(bytes.as_bytes()).unwrap_err(), text);
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
            tls: false,
            authority: "x".to_owned(),
            path: "/".to_owned(),
        };
        let error = get(&target, Duration::from_millis(30)).unwrap_err();
        assert_eq!(error.to_string(), "no complete answer: timed out");
        drop(listener);
        assert!(matches!(get(&target, Duration::from_secs(5)), Err(HttpError::Connect(_))));
    }
}
