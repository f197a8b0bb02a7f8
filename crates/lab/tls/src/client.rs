//! The settings of a client, from the options of a load.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, version};
use spec::TlsOptions;

use crate::verify::{AnyCertificate, Verifier};

/// Sessions that can be resumed later; a server may give several for each connection.
const SESSIONS: usize = 1024;

/// Why a load cannot use TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file could not be read.
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// A file does not contain what it should.
    #[error("{}: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The system has no list of authorities.
    #[error(
        "this system trusts no certificate authority ({why}); install ca-certificates, or use --cacert FILE or --insecure"
    )]
    NoAuthorities {
        /// What was found instead.
        why: String,
    },
    /// Neither a name nor an address.
    #[error("'{0}' is not a name that a certificate can be for")]
    BadName(String),
    /// A certificate without its key, or a key without its certificate.
    #[error("a client certificate needs both --cert and --key")]
    Incomplete,
}

/// What all connections of a load share. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    /// The protocol that the server must choose, if it is not the one that a server without ALPN
    /// speaks.
    required: Option<&'static str>,
    name: ServerName<'static>,
}

impl Client {
    /// Reads the files of these options, and prepares connections to the server of this name.
    /// `protocols` are offered in this order (ALPN, RFC 7301).
    ///
    /// # Errors
    /// [`TlsError`]
    pub fn new(
        options: &TlsOptions,
        server_name: &str,
        protocols: &[&'static str],
    ) -> Result<Client, TlsError> {
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|_| TlsError::BadName(server_name.to_owned()))?;
        let provider = Arc::new(default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .map_err(|error| TlsError::NoAuthorities { why: error.to_string() })?
            .dangerous();
        let builder = match (options.insecure, &options.cacert) {
            (true, _) => {
                builder.with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            }
            (false, cacert) => {
                let (roots, own) = match cacert {
                    Some(path) => authorities_in(path)?,
                    None => (authorities_of_the_system()?, Vec::new()),
                };
                let verifier = Verifier::new(roots, own, provider)
                    .map_err(|why| TlsError::NoAuthorities { why })?;
                builder.with_custom_certificate_verifier(Arc::new(verifier))
            }
        };
        let mut config = match (&options.cert, &options.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let secret = PrivateKeyDer::from_pem_slice(&read(key)?)
                    .map_err(|error| invalid(key, &error))?;
                builder
                    .with_client_auth_cert(certificates(cert)?, secret)
                    .map_err(|error| invalid(cert, &error))?
            }
            _ => return Err(TlsError::Incomplete),
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        config.resumption = match options.resumption {
            true => Resumption::in_memory_sessions(SESSIONS),
            false => Resumption::disabled(),
        };
        let required = protocols.first().copied().filter(|first| *first != "http/1.1");
        Ok(Client { config: Arc::new(config), required, name })
    }

    /// The settings, for another implementation of connections.
    pub fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }

    /// The name that the server's certificate must have.
    pub fn server_name(&self) -> ServerName<'static> {
        self.name.clone()
    }

    /// Whether the server's choice of a protocol is one that can be spoken.
    pub(crate) fn accepts(&self, protocol: Option<&[u8]>) -> bool {
        self.required.is_none_or(|required| protocol == Some(required.as_bytes()))
    }

    /// Begins a connection.
    pub(crate) fn begin(&self) -> Result<UnbufferedClientConnection, rustls::Error> {
        UnbufferedClientConnection::new(self.config.clone(), self.name.clone())
    }
}

/// The authorities in a file, as roots and as they are.
fn authorities_in(path: &Path) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), TlsError> {
    let own = certificates(path)?;
    let mut roots = RootCertStore::empty();
    for certificate in &own {
        roots.add(certificate.clone()).map_err(|error| invalid(path, &error))?;
    }
    Ok((roots, own))
}

/// The authorities that this system trusts. Those that cannot be read are left out, as by other
/// programs.
fn authorities_of_the_system() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    if roots.add_parsable_certificates(found.certs).0 == 0 {
        let why = found.errors.first().map_or("none is installed".to_owned(), |e| e.to_string());
        return Err(TlsError::NoAuthorities { why });
    }
    Ok(roots)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|cause| TlsError::Unreadable { path: path.to_owned(), cause })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    match found.map_err(|error| invalid(path, &error))? {
        none if none.is_empty() => Err(invalid(path, &"it contains no certificate in PEM form")),
        some => Ok(some),
    }
}

fn invalid(path: &Path, why: &dyn std::fmt::Display) -> TlsError {
    TlsError::Invalid { path: path.to_owned(), why: why.to_string() }
}
