//! Kerberos 5 for a client, by MIT's GSS-API library (RFC 2744).
//!
//! The library is loaded when it is first needed, so that the program runs without it, and is built
//! without its headers. This module knows neither SASL nor sockets: it makes and takes tokens.

mod error;
mod ffi;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use error::GssStatus;
pub use error::KerberosError;
use ffi::{Buffer, Credential, Functions, Name, RawContext};

/// Who logs in where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Login<'a> {
    /// The principal of the service: `hive/db.example.com@EXAMPLE.COM`.
    pub(crate) service: &'a str,
    /// The keytab with the client's key; without one, the user's ticket cache is used.
    pub(crate) keytab: Option<&'a Path>,
    /// The client's principal; by default that of the ticket cache, or the keytab's first.
    pub(crate) client: Option<&'a str>,
    /// Whether messages will be encrypted.
    pub(crate) confidential: bool,
}

/// A security context of the initiator.
#[derive(Debug)]
pub(crate) struct Context {
    functions: &'static Functions,
    service: String,
    target: Name,
    credential: Option<Credential>,
    context: RawContext,
    flags_wanted: u32,
    is_established: bool,
}

impl Context {
    /// Prepares a login: loads the library, and reads the ticket cache or the keytab.
    ///
    /// # Errors
    /// A missing library, ticket cache, keytab or ticket; a KDC that refuses or does not answer.
    pub(crate) fn new(login: Login<'_>) -> Result<Context, KerberosError> {
        let functions = ffi::functions()?;
        let service = login.service;
        let explain = |what, status| error::explain(what, status, service);
        let target = functions
            .import_principal(service)
            .map_err(|status| explain("reading the service's principal", status))?;
        let client = login.client.map(|client| functions.import_principal(client)).transpose();
        let client = client.map_err(|status| explain("reading the client's principal", status))?;
        let credential = match login.keytab {
            Some(keytab) => Some(from_keytab(functions, keytab, client.as_ref(), service)?),
            None => None,
        };
        let mut flags_wanted = ffi::MUTUAL | ffi::REPLAY | ffi::SEQUENCE | ffi::INTEGRITY;
        if login.confidential {
            flags_wanted |= ffi::CONFIDENTIALITY;
        }
        Ok(Context {
            functions,
            service: service.to_owned(),
            target,
            credential,
            context: RawContext::none(functions),
            flags_wanted,
            is_established: false,
        })
    }

    /// Takes the acceptor's token, empty at first, and returns the next token for the acceptor,
    /// which may be empty.
    ///
    /// # Errors
    /// What the library, the KDC or the acceptor refuses; an acceptor that does not prove its
    /// identity.
    pub(crate) fn step(&mut self, token: &[u8]) -> Result<Vec<u8>, KerberosError> {
        let step = self
            .functions
            .init(
                &mut self.context,
                self.credential.as_ref(),
                &self.target,
                self.flags_wanted,
                token,
            )
            .map_err(|status| error::explain("logging in", status, &self.service))?;
        if step.is_complete {
            let needed = ffi::MUTUAL | ffi::INTEGRITY;
            if step.flags & needed != needed {
                return Err(KerberosError::NotMutual);
            }
            if self.flags_wanted & !step.flags & ffi::CONFIDENTIALITY != 0 {
                return Err(KerberosError::NotConfidential);
            }
            self.is_established = true;
        }
        Ok(step.token.to_vec())
    }

    /// Whether both sides have proved their identity.
    pub(crate) fn is_established(&self) -> bool {
        self.is_established
    }

    /// Protects a message: against changes, and with `encrypt` against readers.
    ///
    /// # Errors
    /// A context that has expired, or that cannot encrypt.
    pub(crate) fn wrap(&mut self, message: &[u8], encrypt: bool) -> Result<Vec<u8>, KerberosError> {
        let wrapped = self.functions.wrap(&self.context, message, encrypt);
        let (token, encrypted) = wrapped.map_err(|status| self.explain("wrapping", status))?;
        if encrypt && !encrypted {
            return Err(KerberosError::NotConfidential);
        }
        Ok(token.to_vec())
    }

    /// Verifies a protected message and returns its content, and whether it was encrypted.
    ///
    /// # Errors
    /// A message that was changed, repeated or reordered.
    pub(crate) fn unwrap(&mut self, token: &[u8]) -> Result<(Vec<u8>, bool), KerberosError> {
        let unwrapped = self.functions.unwrap(&self.context, token);
        let (message, encrypted) =
            unwrapped.map_err(|status| self.explain("unwrapping", status))?;
        Ok((message.to_vec(), encrypted))
    }

    /// The size in bytes of the largest message whose protected form has at most `bytes_max`.
    ///
    /// # Errors
    /// A context that has expired.
    pub(crate) fn wrap_limit(&self, bytes_max: u32, encrypt: bool) -> Result<u32, KerberosError> {
        let limit = self.functions.wrap_limit(&self.context, bytes_max, encrypt);
        limit.map_err(|status| self.explain("asking for the size limit", status))
    }

    fn explain(&self, what: &'static str, status: GssStatus) -> KerberosError {
        error::explain(what, status, &self.service)
    }
}

/// A credential by the key in a file, kept in memory only.
fn from_keytab(
    functions: &'static Functions,
    keytab: &Path,
    client: Option<&Name>,
    service: &str,
) -> Result<Credential, KerberosError> {
    let unreadable = |cause: String| KerberosError::Keytab { path: keytab.to_owned(), cause };
    std::fs::File::open(keytab).map_err(|error| unreadable(error.to_string()))?;
    let path = CString::new(keytab.as_os_str().as_bytes())
        .map_err(|_| unreadable("its path has a zero byte".to_owned()))?;
    functions.acquire_from_keytab(&path, client).map_err(|status| {
        match error::explain("reading the keytab", status, service) {
            KerberosError::NoTicket(cause) | KerberosError::Failed { cause, .. } => {
                unreadable(cause)
            }
            other => other,
        }
    })
}

impl Buffer {
    fn to_vec(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}
