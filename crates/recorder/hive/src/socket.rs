//! A connection to the server, with TLS or without.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use rustls::{CertificateError, ClientConfig, ClientConnection, Error, StreamOwned};
use trust::Trust;

use crate::address::Address;
use crate::error::Fault;

/// How bytes reach the server.
#[derive(Clone, Debug, Default)]
pub struct Transport {
    /// The certificates to trust; without them there is no TLS (`hive.server2.use.SSL`).
    pub tls: Option<Trust>,
    /// The path of requests over HTTP, without its slash (`hive.server2.thrift.http.path`); without
    /// one, the binary protocol is spoken.
    pub http_path: Option<String>,
}

/// A connection.
pub(crate) trait Socket: Read + Write {}

impl<S: Read + Write> Socket for S {}

/// A connection with limits on each read and write.
pub(crate) fn connect(address: &Address, limit: Duration) -> Result<TcpStream, Fault> {
    let found = (address.host.as_str(), address.port).to_socket_addrs().map_err(Fault::Unknown)?;
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for place in found {
        match TcpStream::connect_timeout(&place, limit) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(Fault::Io)?;
                stream.set_read_timeout(Some(limit)).map_err(Fault::Io)?;
                stream.set_write_timeout(Some(limit)).map_err(Fault::Io)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(Fault::Connect(last))
}

/// The same stream with TLS, whose keys are agreed on.
pub(crate) fn protect(
    stream: TcpStream,
    address: &Address,
    config: Arc<ClientConfig>,
) -> Result<StreamOwned<ClientConnection, TcpStream>, Fault> {
    let name = trust::server_name(&address.host)?;
    let client = ClientConnection::new(config, name).map_err(|error| Fault::Tls(words(&error)))?;
    let mut protected = StreamOwned::new(client, stream);
    while protected.conn.is_handshaking() {
        protected.conn.complete_io(&mut protected.sock).map_err(handshake_fault)?;
    }
    Ok(protected)
}

/// What is wrong with a handshake, if it is more than a failed connection.
pub(crate) fn handshake_fault(error: io::Error) -> Fault {
    match error.downcast::<Error>() {
        Ok(error) => Fault::Tls(words(&error)),
        // A server that speaks something else ends the connection, or waits for more.
        Err(error) => match error.kind() {
            ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::WouldBlock
            | ErrorKind::TimedOut => Fault::NoTls,
            _ => Fault::Io(error),
        },
    }
}

/// What is wrong with a handshake, for people.
fn words(error: &Error) -> String {
    use CertificateError as Of;
    let Error::InvalidCertificate(of) = error else { return error.to_string() };
    match of {
        // webpki says of one that signs itself that it is an authority's.
        Of::UnknownIssuer | Of::Other(_) => "the certificate's issuer is not trusted here".into(),
        Of::NotValidForName | Of::NotValidForNameContext { .. } => {
            "the certificate is for other names".into()
        }
        Of::Expired | Of::ExpiredContext { .. } => "the certificate has expired".into(),
        _ => error.to_string(),
    }
}
