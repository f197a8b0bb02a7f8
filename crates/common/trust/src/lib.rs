//! Whom a client of TLS trusts, and who it is: rustls' settings from files in PEM form.

mod verify;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, version};

use crate::verify::{AnyCertificate, Verifier};

/// Why a client cannot use TLS.
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

/// Whom a client trusts, and who it is.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Whether any certificate is accepted.
    pub insecure: bool,
    /// The certificates to trust instead of those of the system's authorities.
    pub cacert: Option<PathBuf>,
    /// The client's own certificate, followed by those that lead to its authority.
    pub cert: Option<PathBuf>,
    /// The key of that certificate.
    pub key: Option<PathBuf>,
}

impl Trust {
    /// Reads the files: the settings of a client that offers no protocols (ALPN).
    ///
    /// # Errors
    /// [`TlsError`]
    pub fn config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .map_err(|error| TlsError::NoAuthorities { why: error.to_string() })?
            .dangerous();
        let builder = match (self.insecure, &self.cacert) {
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
        Ok(match (&self.cert, &self.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let secret = PrivateKeyDer::from_pem_slice(&read(key)?)
                    .map_err(|error| invalid(key, &error))?;
                builder
                    .with_client_auth_cert(certificates(cert)?, secret)
                    .map_err(|error| invalid(cert, &error))?
            }
            _ => return Err(TlsError::Incomplete),
        })
    }
}

/// The name of a server as its certificate must have it.
///
/// # Errors
/// [`TlsError::BadName`]
pub fn server_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned()).map_err(|_| TlsError::BadName(name.to_owned()))
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
