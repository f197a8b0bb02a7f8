//! A session: statements, and the rows that they return.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use trust::Trust;

use crate::address::Address;
use crate::error::{Fault, HiveError};
use crate::frame::FrameError;
use crate::handshake::log_in;
use crate::http::{HttpLogin, HttpSocket};
use crate::kerberos::{Context, KerberosError, Login};
use crate::mechanism::{Client, Gssapi, PlainMechanism};
use crate::qop::Qop;
use crate::service::{HiveService, SessionHandle, StatementHandle, StatementState};
use crate::socket::{Socket, Transport, connect, protect};
use crate::stream::{HiveStream, Packing};
use crate::value::Value;

/// Rows that are fetched at once.
const FETCH_ROWS: i64 = 10_000;
/// Limit on the rows of a result.
pub const ROWS_MAX: usize = 1_000_000;
/// First and longest pause between two looks at a statement.
const LOOK_MIN: Duration = Duration::from_millis(5);
const LOOK_MAX: Duration = Duration::from_millis(250);
/// The user where the server does not ask for one, as in Hive's own clients.
const ANONYMOUS: &str = "anonymous";

/// How to log in.
#[derive(Clone, Debug)]
pub enum Auth {
    /// HiveServer2's NONE: SASL with a user's name that is not checked.
    None {
        /// The user.
        user: Option<String>,
    },
    /// HiveServer2's NOSASL: no login and no frames.
    NoSasl {
        /// The user.
        user: Option<String>,
    },
    /// SASL PLAIN, for HiveServer2's LDAP, PAM and CUSTOM.
    Plain {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// SASL GSSAPI with Kerberos 5.
    Kerberos {
        /// The service's principal; `_HOST` is the host of the address.
        principal: String,
        /// The keytab with the client's key; without one, the ticket cache is used.
        keytab: Option<PathBuf>,
        /// The client's principal; by default that of the ticket cache, or the keytab's first.
        user: Option<String>,
        /// The protection of the messages.
        qop: Qop,
    },
}

/// Limits in time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For the connection, and for each answer.
    pub answer: Duration,
    /// For a statement.
    pub statement: Duration,
}

/// An open session.
pub struct Session {
    service: HiveService<Box<dyn Socket>>,
    place: String,
    limits: Limits,
    handle: SessionHandle,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Session {
    /// Connects, logs in and opens a session.
    ///
    /// # Errors
    /// [`HiveError`] with the reason.
    pub fn open(
        address: &Address,
        transport: &Transport,
        auth: &Auth,
        limits: Limits,
    ) -> Result<Session, HiveError> {
        let place = address.to_string();
        Session::try_open(address, transport, auth, limits)
            .map_err(|fault| HiveError { place, fault: in_time(fault, limits) })
    }

    fn try_open(
        address: &Address,
        transport: &Transport,
        auth: &Auth,
        limits: Limits,
    ) -> Result<Session, Fault> {
        let tls = transport.tls.as_ref().map(Trust::config).transpose()?.map(Arc::new);
        let (stream, packing) = match &transport.http_path {
            Some(path) => {
                let login = http_login(address, auth)?;
                let socket = HttpSocket::connect(address, tls, path, login, limits.answer)?;
                (Box::new(socket) as Box<dyn Socket>, Packing::Bare)
            }
            None => log_in_by_frames(address, tls, auth, limits)?,
        };
        let user = match auth {
            Auth::None { user } | Auth::NoSasl { user } => {
                Some(user.as_deref().unwrap_or(ANONYMOUS))
            }
            Auth::Plain { user, .. } => Some(user.as_str()),
            Auth::Kerberos { .. } => None,
        };
        let mut service = HiveService::new(HiveStream::new(stream, packing));
        let handle = service.open_session(user)?;
        Ok(Session { service, place: address.to_string(), limits, handle })
    }

    /// Runs a statement and returns its rows, if it has any.
    ///
    /// # Errors
    /// [`HiveError`], with the server's words if it refuses the statement.
    pub fn execute(&mut self, statement: &str) -> Result<Vec<Vec<Value>>, HiveError> {
        self.try_execute(statement).map_err(|fault| self.error(fault))
    }

    /// The name of the server's product, such as "Apache Hive" or "Spark SQL".
    ///
    /// # Errors
    /// [`HiveError`].
    pub fn product(&mut self) -> Result<String, HiveError> {
        self.service.product(&self.handle).map_err(|fault| self.error(fault))
    }

    /// Closes the session.
    ///
    /// # Errors
    /// [`HiveError`]; the server closes a session whose connection has ended.
    pub fn close(mut self) -> Result<(), HiveError> {
        self.service.close_session(&self.handle).map_err(|fault| self.error(fault))
    }

    fn error(&self, fault: Fault) -> HiveError {
        HiveError { place: self.place.clone(), fault: in_time(fault, self.limits) }
    }

    fn try_execute(&mut self, statement: &str) -> Result<Vec<Vec<Value>>, Fault> {
        let started = self.service.execute(&self.handle, statement)?;
        self.wait(&started, statement)?;
        let rows = if started.has_rows { self.fetch(&started)? } else { Vec::new() };
        self.service.close(&started)?;
        Ok(rows)
    }

    /// Waits until a statement has ended.
    fn wait(&mut self, started: &StatementHandle, statement: &str) -> Result<(), Fault> {
        let deadline = Instant::now() + self.limits.statement;
        let mut pause = LOOK_MIN;
        loop {
            match self.service.state(started)? {
                StatementState::Finished => return Ok(()),
                StatementState::Running => {}
                StatementState::Failed(message) => {
                    return Err(Fault::statement(message, statement));
                }
            }
            if Instant::now() >= deadline {
                self.service.cancel(started)?;
                return Err(Fault::slow(self.limits.statement, statement));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LOOK_MAX);
        }
    }

    /// All rows. `hasMoreRows` is false in every answer of some versions, so the last answer is the
    /// first one without rows.
    fn fetch(&mut self, started: &StatementHandle) -> Result<Vec<Vec<Value>>, Fault> {
        let mut rows = Vec::new();
        loop {
            let more = self.service.fetch(started, FETCH_ROWS)?;
            if more.is_empty() {
                return Ok(rows);
            }
            rows.extend(more);
            if rows.len() > ROWS_MAX {
                return Err(Fault::Rows(ROWS_MAX));
            }
        }
    }
}

/// A connection by the binary protocol, after the login, and how its bytes are packed.
fn log_in_by_frames(
    address: &Address,
    tls: Option<Arc<ClientConfig>>,
    auth: &Auth,
    limits: Limits,
) -> Result<(Box<dyn Socket>, Packing), Fault> {
    let stream = connect(address, limits.answer)?;
    let mut stream: Box<dyn Socket> = match tls {
        None => Box::new(stream),
        Some(config) => Box::new(protect(stream, address, config)?),
    };
    let packing = match client(address, auth)? {
        None => Packing::Bare,
        Some(client) => {
            let layer = log_in(&mut stream, client);
            let layer = layer.map_err(|fault| reason(fault, address, auth))?;
            layer.map_or(Packing::Frames, Packing::Protected)
        }
    };
    Ok((stream, packing))
}

/// The login in requests over HTTP. Without a login, Hive's own clients send their usual user too.
fn http_login(address: &Address, auth: &Auth) -> Result<HttpLogin, Fault> {
    Ok(match auth {
        Auth::NoSasl { .. } => HttpLogin::None,
        Auth::None { user } => HttpLogin::Basic {
            user: user.clone().unwrap_or_else(|| ANONYMOUS.to_owned()),
            password: ANONYMOUS.to_owned(),
        },
        Auth::Plain { user, password } => {
            HttpLogin::Basic { user: user.clone(), password: password.clone() }
        }
        Auth::Kerberos { principal, keytab, user, .. } => HttpLogin::Negotiate {
            service: service(principal, &address.host)?,
            keytab: keytab.clone(),
            user: user.clone(),
        },
    })
}

/// The client of the mechanism; none without SASL.
fn client(address: &Address, auth: &Auth) -> Result<Option<Box<dyn Client>>, Fault> {
    Ok(Some(match auth {
        Auth::NoSasl { .. } => return Ok(None),
        // The server asks for a password and ignores it.
        Auth::None { user } => {
            let user = user.clone().unwrap_or_else(|| ANONYMOUS.to_owned());
            Box::new(PlainMechanism { user, password: ANONYMOUS.to_owned(), is_sent: false })
        }
        Auth::Plain { user, password } => Box::new(PlainMechanism {
            user: user.clone(),
            password: password.clone(),
            is_sent: false,
        }),
        Auth::Kerberos { principal, keytab, user, qop } => {
            let service = service(principal, &address.host)?;
            let context = Context::new(Login {
                service: &service,
                keytab: keytab.as_deref(),
                client: user.as_deref(),
                confidential: *qop == Qop::Conf,
            })?;
            Box::new(Gssapi::new(context, *qop))
        }
    }))
}

/// The service's principal, with the host for `_HOST`.
fn service(principal: &str, host: &str) -> Result<String, Fault> {
    let wrong = || Fault::Principal(principal.to_owned());
    let (service, rest) = principal.split_once('/').ok_or_else(wrong)?;
    let (instance, realm) = match rest.split_once('@') {
        Some((instance, realm)) => (instance, Some(realm)),
        None => (rest, None),
    };
    if service.is_empty() || instance.is_empty() || realm == Some("") {
        return Err(wrong());
    }
    let instance = if instance == "_HOST" { host.to_lowercase() } else { instance.to_owned() };
    Ok(match realm {
        Some(realm) => format!("{service}/{instance}@{realm}"),
        None => format!("{service}/{instance}"),
    })
}

/// The reason in a refused login by Kerberos: the acceptor's words are those of its library, MIT's
/// or Java's.
fn reason(fault: Fault, address: &Address, auth: &Auth) -> Fault {
    let (Fault::Refused(text), Auth::Kerberos { principal, .. }) = (&fault, auth) else {
        return fault;
    };
    let says = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
    if says(&["Clock skew too great", "not yet valid"]) {
        return KerberosError::Skew.into();
    }
    if says(&["Ticket expired"]) {
        return KerberosError::Expired.into();
    }
    let keys =
        ["not found in keytab", "Cannot find key", "Checksum failed", "Wrong principal", "No key"];
    match service(principal, &address.host) {
        Ok(principal) if says(&keys) => Fault::Key { principal, reason: text.clone() },
        _ => fault,
    }
}

/// A read that ran into its limit is a server that does not answer.
fn in_time(fault: Fault, limits: Limits) -> Fault {
    let is_late = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
    };
    match fault {
        Fault::Io(error)
        | Fault::Login(FrameError::Io(error))
        | Fault::Frame(FrameError::Io(error))
            if is_late(&error) =>
        {
            Fault::Silent(limits.answer)
        }
        Fault::Frame(FrameError::Io(error)) => Fault::Io(error),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_the_address_stands_for_host() {
        let service = |principal: &str| service(principal, "DB.Example");
        assert_eq!(service("hive/_HOST@R").unwrap(), "hive/db.example@R");
        assert_eq!(service("hive/other").unwrap(), "hive/other");
        for wrong in ["hive", "hive/", "/db@R", "hive/db@", "hive@R"] {
            let error = service(wrong).unwrap_err().to_string();
            assert!(error.ends_with("is not a service's principal; use hive/_HOST@REALM"));
        }
    }
}
