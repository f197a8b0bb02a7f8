//! Messages of Thrift as requests over HTTP (`hive.server2.transport.mode` = http): what is written until
//! a flush is the body of a POST, and what is read afterwards the body of its response.

use std::io::{self, Cursor, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderValue, SET_COOKIE};
use hyper::{Request, Response, StatusCode, body::Incoming};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;

use crate::address::Address;
use crate::error::{Fault, first_line};
use crate::kerberos::{Context, Login};
use crate::socket::{connect, handshake_fault};
use crate::stream::ANSWER_MAX;

/// How each request logs in.
pub(crate) enum HttpLogin {
    /// Not at all.
    None,
    /// A user with a password (RFC 7617).
    Basic { user: String, password: String },
    /// Kerberos: one token for each request, unless the server gives out a cookie (RFC 4559).
    Negotiate { service: String, keytab: Option<std::path::PathBuf>, user: Option<String> },
}

impl HttpLogin {
    /// The value of the header `Authorization`.
    fn header(&self) -> Result<Option<String>, Fault> {
        Ok(match self {
            HttpLogin::None => None,
            HttpLogin::Basic { user, password } => {
                Some(format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))))
            }
            HttpLogin::Negotiate { service, keytab, user } => {
                let login = Login {
                    service,
                    keytab: keytab.as_deref(),
                    client: user.as_deref(),
                    confidential: false,
                };
                let token = Context::new(login)?.step(&[])?;
                Some(format!("Negotiate {}", BASE64_STANDARD.encode(token)))
            }
        })
    }
}

/// A connection whose messages are requests and responses.
pub(crate) struct HttpSocket {
    runtime: Runtime,
    sender: Option<SendRequest<Full<Bytes>>>,
    address: Address,
    tls: Option<Arc<ClientConfig>>,
    path: String,
    login: HttpLogin,
    limit: Duration,
    /// What the server gave out instead of another login (`hive.server2.auth`).
    cookie: Option<HeaderValue>,
    outgoing: Vec<u8>,
    incoming: Cursor<Bytes>,
}

impl HttpSocket {
    /// Connects. `limit` is for the connection and for each response.
    pub(crate) fn connect(
        address: &Address,
        tls: Option<Arc<ClientConfig>>,
        path: &str,
        login: HttpLogin,
        limit: Duration,
    ) -> Result<HttpSocket, Fault> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Fault::Io)?;
        let mut socket = HttpSocket {
            runtime,
            sender: None,
            address: address.clone(),
            tls,
            path: format!("/{}", path.trim_start_matches('/')),
            login,
            limit,
            cookie: None,
            outgoing: Vec::new(),
            incoming: Cursor::default(),
        };
        socket.sender = Some(socket.open()?);
        Ok(socket)
    }

    /// A new connection.
    fn open(&self) -> Result<SendRequest<Full<Bytes>>, Fault> {
        let stream: TcpStream = connect(&self.address, self.limit)?;
        stream.set_nonblocking(true).map_err(Fault::Io)?;
        let tls = match &self.tls {
            None => None,
            Some(config) => {
                let name = trust::server_name(&self.address.host)?;
                Some((TlsConnector::from(config.clone()), name))
            }
        };
        let opening = async {
            let stream = tokio::net::TcpStream::from_std(stream).map_err(Fault::Io)?;
            match tls {
                None => spoken(TokioIo::new(stream)).await,
                Some((connector, name)) => {
                    let protected = connector.connect(name, stream).await;
                    spoken(TokioIo::new(protected.map_err(handshake_fault)?)).await
                }
            }
        };
        let limited = async { tokio::time::timeout(self.limit, opening).await };
        self.runtime.block_on(limited).unwrap_or_else(|_| Err(late()))
    }

    /// Sends what was written, and receives the response.
    fn exchange(&mut self) -> Result<(), Fault> {
        let body = Bytes::from(std::mem::take(&mut self.outgoing));
        match self.ask(body.clone()) {
            // The server has forgotten its cookie.
            Err(Fault::Refused(_)) if self.cookie.take().is_some() => self.ask(body),
            answered => answered,
        }
    }

    fn ask(&mut self, body: Bytes) -> Result<(), Fault> {
        let mut request = Request::post(&self.path)
            .header(HOST, format!("{}:{}", self.address.host, self.address.port))
            .header(CONTENT_TYPE, "application/x-thrift");
        if let Some(cookie) = &self.cookie {
            request = request.header(COOKIE, cookie);
        } else if let Some(login) = self.login.header()? {
            request = request.header(AUTHORIZATION, login);
        }
        let request = request.body(Full::new(body)).map_err(|error| other(&error))?;
        // The server may have closed a connection on which nothing was asked for a while.
        let mut sender = match self.sender.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => self.open()?,
        };
        let asking = async {
            let response = sender.send_request(request).await.map_err(|error| other(&error))?;
            let status = response.status();
            let cookie = response.headers().get_all(SET_COOKIE).iter().find_map(cookie_of);
            Ok::<_, Fault>((status, cookie, received(response).await?))
        };
        let limited = async { tokio::time::timeout(self.limit, asking).await };
        let answered = self.runtime.block_on(limited).unwrap_or_else(|_| Err(late()));
        let (status, cookie, body) = answered?;
        self.sender = Some(sender);
        self.cookie = cookie.or(self.cookie.take());
        if status != StatusCode::OK {
            let words = first_line(&String::from_utf8_lossy(&body));
            return Err(match status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    Fault::Refused(format!("{status}: {words}"))
                }
                _ => Fault::Http { status: status.to_string(), path: self.path.clone() },
            });
        }
        self.incoming = Cursor::new(body);
        Ok(())
    }
}

/// A connection that speaks HTTP, as long as the runtime lives.
async fn spoken<S>(stream: TokioIo<S>) -> Result<SendRequest<Full<Bytes>>, Fault>
where
    TokioIo<S>: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(stream).await.map_err(|error| other(&error))?;
    // Its errors are those of the requests.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

async fn received(response: Response<Incoming>) -> Result<Bytes, Fault> {
    let limit = usize::try_from(ANSWER_MAX).unwrap_or(usize::MAX);
    let body = Limited::new(response.into_body(), limit).collect().await;
    body.map(|body| body.to_bytes()).map_err(|error| other(error.as_ref()))
}

/// Name and value of the cookie that stands for the login.
fn cookie_of(header: &HeaderValue) -> Option<HeaderValue> {
    let pair = header.to_str().ok()?.split(';').next()?.trim();
    HeaderValue::from_str(pair).ok().filter(|_| pair.starts_with("hive.server2.auth="))
}

fn late() -> Fault {
    Fault::Io(io::ErrorKind::TimedOut.into())
}

/// A failure in the words of its cause.
fn other(error: &(dyn std::error::Error + 'static)) -> Fault {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    Fault::Io(io::Error::other(cause.to_string()))
}

impl Read for HttpSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.incoming.read(into)
    }
}

impl Write for HttpSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Its errors are a [`Fault`] in an `io::Error`.
    fn flush(&mut self) -> io::Result<()> {
        self.exchange().map_err(io::Error::other)
    }
}
