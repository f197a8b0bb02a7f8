//! Why a login failed, in words about tickets, keys and clocks instead of status codes.

use std::path::PathBuf;

/// An error of Kerberos.
#[derive(Debug, thiserror::Error)]
pub enum KerberosError {
    /// The library is not installed.
    #[error(
        "Kerberos needs the library libgssapi_krb5.so.2, which cannot be loaded ({0}); to install \
         it: apt install libgssapi-krb5-2"
    )]
    NotInstalled(String),
    /// A static program cannot load the library.
    #[error(
        "this tachograph is linked statically and cannot load Kerberos; use the wheel, the Debian \
         package or cargo install instead"
    )]
    Static,
    /// No ticket cache, or none with a ticket-granting ticket.
    #[error("there is no Kerberos ticket ({0}); run kinit, or use --keytab FILE")]
    NoTicket(String),
    /// The ticket is too old.
    #[error("the Kerberos ticket has expired; run kinit again, or use --keytab FILE")]
    Expired,
    /// The KDC has no such service.
    #[error(
        "the KDC does not know the service {0}; check --principal, which must be the principal in \
         the server's configuration"
    )]
    UnknownService(String),
    /// The clocks differ.
    #[error(
        "the clock of this machine and that of the server or the KDC differ by more than Kerberos \
         allows, usually 5 minutes; synchronise them"
    )]
    Skew,
    /// No KDC answers.
    #[error("no KDC can be reached ({0}); check the realm in krb5.conf and the network")]
    Unreachable(String),
    /// A keytab that cannot be used.
    #[error("the keytab {} cannot be used: {cause}", path.display())]
    Keytab {
        /// The file.
        path: PathBuf,
        /// The library's words.
        cause: String,
    },
    /// The server did not prove its identity, or messages cannot be protected.
    #[error("the server did not prove its identity")]
    NotMutual,
    /// Messages cannot be encrypted.
    #[error("the server's Kerberos does not encrypt messages; use --qop auth-int or auth")]
    NotConfidential,
    /// Anything else, in the library's words.
    #[error("Kerberos failed while {what}: {cause}")]
    Failed {
        /// What was being done.
        what: &'static str,
        /// The library's words.
        cause: String,
    },
}

/// What a function of the library returned.
#[derive(Debug)]
pub(crate) struct GssStatus {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    /// The library's words for both.
    pub(crate) text: String,
}

// Routine errors of RFC 2744, section 3.9.1.
const NO_CRED: u32 = 7 << 16;
const CREDENTIALS_EXPIRED: u32 = 11 << 16;
const CONTEXT_EXPIRED: u32 = 12 << 16;

/// Base of the error table `krb5`, where RFC 4120's error code n is `BASE + n`.
const BASE: i32 = -1_765_328_384;
const SERVICE_UNKNOWN: i32 = BASE + 7;
const TICKET_EXPIRED: i32 = BASE + 32;
/// A ticket that begins later, by the clock of whoever reads it.
const NOT_YET_VALID: i32 = BASE + 33;
const SKEW: i32 = BASE + 37;
// Errors of MIT's library that are not in the protocol.
const KDC_UNREACHABLE: i32 = BASE + 156;
const CACHE_NOT_FOUND: i32 = BASE + 195;

/// The error for a status of the library.
pub(crate) fn explain(what: &'static str, status: GssStatus, service: &str) -> KerberosError {
    let GssStatus { major, minor, text } = status;
    match (major & 0x00ff_0000, minor.cast_signed()) {
        (_, SKEW | NOT_YET_VALID) => KerberosError::Skew,
        (_, SERVICE_UNKNOWN) => KerberosError::UnknownService(service.to_owned()),
        (_, TICKET_EXPIRED) | (CREDENTIALS_EXPIRED | CONTEXT_EXPIRED, _) => KerberosError::Expired,
        (_, KDC_UNREACHABLE) => KerberosError::Unreachable(text),
        (NO_CRED, _) | (_, CACHE_NOT_FOUND) => KerberosError::NoTicket(text),
        _ => KerberosError::Failed { what, cause: text },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_sentence() {
        let sentence = |major: u32, minor: i32| {
            let status =
                GssStatus { major, minor: minor.cast_unsigned(), text: "words".to_owned() };
            explain("logging in", status, "hive/a@R").to_string()
        };
        let failure = 13 << 16;
        for skew in [SKEW, NOT_YET_VALID] {
            assert!(sentence(failure, skew).starts_with("the clock of this machine"));
        }
        assert!(sentence(failure, TICKET_EXPIRED).starts_with("the Kerberos ticket has expired"));
        assert!(sentence(CREDENTIALS_EXPIRED, 0).starts_with("the Kerberos ticket has expired"));
        assert!(sentence(failure, SERVICE_UNKNOWN).contains("the service hive/a@R; check"));
        assert!(sentence(failure, KDC_UNREACHABLE).starts_with("no KDC can be reached (words)"));
        assert!(sentence(NO_CRED, 0).starts_with("there is no Kerberos ticket (words)"));
        assert_eq!(sentence(failure, 1), "Kerberos failed while logging in: words");
    }

    #[test]
    fn codes_are_those_of_the_library() {
        // From MIT's <krb5.h>.
        assert_eq!(SERVICE_UNKNOWN, -1_765_328_377);
        assert_eq!(TICKET_EXPIRED, -1_765_328_352);
        assert_eq!(SKEW, -1_765_328_347);
        assert_eq!(KDC_UNREACHABLE, -1_765_328_228);
        assert_eq!(CACHE_NOT_FOUND, -1_765_328_189);
    }
}
