//! TLS for HTTP over TCP.
//!
//! A connection with TLS cannot be handed over to a successor: its keys are in this process. It is
//! closed in order after the request in progress, and clients connect again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use rustls::{RootCertStore, version};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::AccessError;
use crate::secrets::refuse_public;

/// How long a client may take to agree on the keys.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Certificates and keys. Cloning shares them.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    /// Whether clients need a certificate.
    pub(crate) checks_clients: bool,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("checks_clients", &self.checks_clients).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads PEM files: the certificate with its chain, its key, and the certificates of the
    /// authorities whose clients are accepted; without these, clients need no certificate.
    ///
    /// # Errors
    /// [`AccessError`]; among others for a key that other users can read.
    pub fn read(cert: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Tls, AccessError> {
        let chain = certificates(cert)?;
        refuse_public(&open(key)?, key)?;
        let secret = PrivateKeyDer::from_pem_slice(&bytes(key)?);
        let secret = secret.map_err(|error| invalid(key, &error))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .map_err(|error| invalid(cert, &error))?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(path)? {
                    roots.add(authority).map_err(|error| invalid(path, &error))?;
                }
                let provider = Arc::new(default_provider());
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| invalid(path, &error))?)
            }
        };
        let mut config =
            builder.with_single_cert(chain, secret).map_err(|error| invalid(cert, &error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Tls { acceptor, checks_clients: client_ca.is_some() })
    }

    /// Agrees on the keys with a client.
    ///
    /// # Errors
    /// Those of the client, and [`io::ErrorKind::TimedOut`].
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        match timeout(HANDSHAKE, self.acceptor.accept(stream)).await {
            Ok(accepted) => accepted,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

fn open(path: &Path) -> Result<File, AccessError> {
    File::open(path).map_err(|cause| AccessError::Unreadable { path: path.to_owned(), cause })
}

fn bytes(path: &Path) -> Result<Vec<u8>, AccessError> {
    fs::read(path).map_err(|cause| AccessError::Unreadable { path: path.to_owned(), cause })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, AccessError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes(path)?).collect();
    let found = found.map_err(|error| invalid(path, &error))?;
    match found.is_empty() {
        true => Err(invalid(path, &"it contains no certificate")),
        false => Ok(found),
    }
}

fn invalid(path: &Path, why: &dyn std::fmt::Display) -> AccessError {
    AccessError::Tls { path: PathBuf::from(path), why: why.to_string() }
}
