//! A connection to one server, over TCP or a Unix socket, with TLS or without.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::Poll;

use drive::Fault;
use drive::http::{Flow, ResponseReader};
use netio::{Address, Failure};
use record::Side;
use spec::{Endpoint, Target, TlsOptions};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::answer::Answer;
use crate::comparison::OwnNames;
use crate::error::ReplayError;

/// Limit on one read, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// Where a server is, and how to speak to it.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    place: Place,
    tls: Option<tls::Client>,
    /// The Host header.
    pub(crate) authority: String,
    pub(crate) own_names: OwnNames,
}

#[derive(Clone, Debug)]
enum Place {
    /// Addresses in the order in which to try them.
    Tcp(Vec<SocketAddr>),
    /// A path, or a NUL and an abstract name.
    Unix(PathBuf),
}

impl Server {
    /// A server at a target of HTTP. One that was started for this replay is `localhost` in requests,
    /// so that both servers are called alike.
    ///
    /// # Errors
    /// An address that cannot be used, or files for TLS that cannot.
    pub(crate) fn new(
        side: Side,
        target: &Target,
        options: &TlsOptions,
        is_started: bool,
    ) -> Result<Server, ReplayError> {
        let (Target::Http { endpoint, authority, .. }, Some(place)) =
            (target, place(side, target.endpoint())?)
        else {
            let why = "a replay needs a target of HTTP".to_owned();
            let cause = spec::TargetError { text: target.to_string(), why };
            return Err(ReplayError::Target { side, cause });
        };
        let tls = target.server_name().map(|name| tls::Client::new(options, name, &["http/1.1"]));
        let tls = tls.transpose().map_err(|cause| ReplayError::Tls { side, cause })?;
        let reached = match endpoint {
            Endpoint::Tcp { host, port } => format!("{host}:{port}"),
            _ => authority.clone(),
        };
        let authority = if is_started { "localhost".to_owned() } else { authority.clone() };
        Ok(Server { place, tls, own_names: OwnNames::of(&reached, &authority), authority })
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> Result<ServerConnection, Fault> {
        let stream: Box<dyn ByteStream> = match &self.place {
            Place::Tcp(addresses) => self.secured(tcp(addresses).await?).await?,
            Place::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(net)?;
                self.secured(stream).await?
            }
        };
        Ok(ServerConnection {
            stream,
            reader: ResponseReader::parsing_every_head(false),
            buffer: vec![0; BUFFER_BYTES].into(),
        })
    }

    async fn secured<S: ByteStream + 'static>(
        &self,
        stream: S,
    ) -> Result<Box<dyn ByteStream>, Fault> {
        let Some(client) = &self.tls else { return Ok(Box::new(stream)) };
        let connector = TlsConnector::from(client.config());
        let secured = connector.connect(client.server_name(), stream).await.map_err(net)?;
        Ok(Box::new(secured))
    }
}

fn place(side: Side, endpoint: &Endpoint) -> Result<Option<Place>, ReplayError> {
    Ok(match endpoint {
        Endpoint::Tcp { .. } => {
            let all = Address::resolve(endpoint)
                .map_err(|cause| ReplayError::Address { side, cause })?
                .into_iter();
            let tcp = |address| match address {
                Address::Tcp(address) => Some(address),
                _ => None,
            };
            Some(Place::Tcp(all.filter_map(tcp).collect()))
        }
        Endpoint::Unix(path) => Some(Place::Unix(path.clone())),
        Endpoint::Abstract(name) => {
            let name = [b"\0", name.as_slice()].concat();
            Some(Place::Unix(std::ffi::OsString::from_vec(name).into()))
        }
        _ => None,
    })
}

async fn tcp(addresses: &[SocketAddr]) -> Result<TcpStream, Fault> {
    let mut last = Failure::Unreachable;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(net)?;
                return Ok(stream);
            }
            Err(error) => last = error.into(),
        }
    }
    Err(Fault::Net(last))
}

fn net(error: io::Error) -> Fault {
    Fault::Net(tls::io_failure(error))
}

/// Bytes in both directions.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> ByteStream for S {}

/// An open connection.
pub(crate) struct ServerConnection {
    stream: Box<dyn ByteStream>,
    reader: ResponseReader,
    buffer: Box<[u8]>,
}

/// How an exchange ended.
pub(crate) struct ExchangeEnd {
    pub(crate) answer: Answer,
    /// Whether the connection can carry another request.
    pub(crate) keeps: bool,
}

impl ServerConnection {
    /// Whether an idle connection is still open and silent, as far as is known without waiting.
    pub(crate) async fn is_open(&mut self) -> bool {
        let mut byte = [0; 1];
        poll_fn(|context| {
            let mut byte = ReadBuf::new(&mut byte);
            let read = Pin::new(&mut *self.stream).poll_read(context, &mut byte);
            Poll::Ready(read.is_pending())
        })
        .await
    }

    /// Sends a request. An error means that the server had closed the connection before it took any
    /// byte.
    pub(crate) async fn begin(&mut self, request: &[u8]) -> Result<Result<(), Fault>, Fault> {
        match self.stream.write(request).await {
            Ok(taken) => {
                let rest = async {
                    self.stream.write_all(&request[taken..]).await?;
                    self.stream.flush().await
                };
                Ok(rest.await.map_err(net))
            }
            Err(error) => Err(net(error)),
        }
    }

    /// Reads the answer.
    pub(crate) async fn answer(&mut self, to_head: bool) -> Result<ExchangeEnd, Fault> {
        let mut answer = Answer::default();
        self.reader.begin_kind(0, to_head);
        loop {
            let flow = match self.stream.read(&mut self.buffer).await {
                Ok(0) => self.reader.end()?,
                Ok(count) => self.reader.push(&self.buffer[..count], &mut answer)?,
                Err(error) => return Err(net(error)),
            };
            if let Flow::Done { keep_alive } = flow {
                return Ok(ExchangeEnd { answer, keeps: keep_alive });
            }
        }
    }
}
