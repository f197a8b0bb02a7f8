//! What rustls reports, in the words of `netio`.

use std::io;

use netio::{Failure, TlsFailure};
use rustls::{CertificateError, Error};

/// The failure of a connection that another implementation of TLS's I/O reports, with rustls' error
/// inside if it is one.
pub fn io_failure(error: io::Error) -> Failure {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match (inner, error.kind()) {
        (Some(inner), _) => Failure::Tls(failure(inner)),
        (None, io::ErrorKind::UnexpectedEof) => Failure::Tls(TlsFailure::Unannounced),
        (None, _) => Failure::from(error),
    }
}

/// The failure of a connection.
pub(crate) fn failure(error: &Error) -> TlsFailure {
    match error {
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::NoCertificatesPresented => TlsFailure::BadCertificate,
        Error::AlertReceived(alert) => TlsFailure::Alert(u8::from(*alert)),
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => TlsFailure::NothingInCommon,
        Error::InvalidMessage(_) => TlsFailure::NotTls,
        _ => TlsFailure::Broken,
    }
}

fn of_certificate(error: &CertificateError) -> TlsFailure {
    use CertificateError as Of;
    match error {
        Of::Expired | Of::ExpiredContext { .. } => TlsFailure::Expired,
        Of::NotValidYet | Of::NotValidYetContext { .. } => TlsFailure::NotYetValid,
        Of::NotValidForName | Of::NotValidForNameContext { .. } => TlsFailure::OtherName,
        Of::UnknownIssuer => TlsFailure::UnknownIssuer,
        _ => TlsFailure::BadCertificate,
    }
}
