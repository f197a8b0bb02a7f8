//! Errors: what happened, where, and what to do.

use std::io;
use std::time::Duration;

use crate::frame::FrameError;
use crate::kerberos::KerberosError;
use crate::qop::Qop;

/// An error with the server's address.
#[derive(Debug, thiserror::Error)]
#[error("HiveServer2 at {place}: {fault}")]
pub struct HiveError {
    /// `host:port`.
    pub place: String,
    /// What went wrong.
    pub fault: Fault,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The host has no address.
    #[error("the host cannot be found ({0}); check the URL")]
    Unknown(io::Error),
    /// No connection.
    #[error("cannot connect ({0}); check the URL, and that the server is running")]
    Connect(io::Error),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(io::Error),
    /// The settings of TLS are wrong.
    #[error(transparent)]
    Trust(#[from] trust::TlsError),
    /// TLS failed.
    #[error(
        "TLS failed: {0}; check --cacert, that the URL has the certificate's name, and that the server \
         speaks TLS (hive.server2.use.SSL)"
    )]
    Tls(String),
    /// The server closed the connection instead of speaking TLS.
    #[error("the server does not speak TLS here; leave out --tls, or check the port")]
    NoTls,
    /// An answer of HTTP that is none of the service.
    #[error(
        "HTTP status {status} for {path}; check --http-path, which is the server's \
         hive.server2.thrift.http.path"
    )]
    Http {
        /// The status.
        status: String,
        /// The path.
        path: String,
    },
    /// No answer in time.
    #[error(
        "no answer within {} s; raise --timeout, or check that --auth is the server's \
         (hive.server2.authentication)",
        .0.as_secs_f64()
    )]
    Silent(Duration),
    /// A frame or a message that is none, while logging in.
    #[error(
        "{0} while logging in; check that the port is that of the binary protocol, that --auth is \
         the server's (hive.server2.authentication), and whether it speaks TLS (--tls)"
    )]
    Login(FrameError),
    /// A frame that is none, after the login.
    #[error("{0}")]
    Frame(FrameError),
    /// The server said COMPLETE before the mechanism was.
    #[error(
        "the server ended the login early, before it had proved its identity; it may not be the \
         server that you mean"
    )]
    Early,
    /// The server goes on after the mechanism's last message.
    #[error("the server wants more after the last message of the login ({0})")]
    Late(&'static str),
    /// The server has no key for the principal.
    #[error(
        "the server cannot read our ticket for {principal} ({reason}); check --principal, which \
         must be the principal in the server's configuration"
    )]
    Key {
        /// The service's principal.
        principal: String,
        /// The server's words.
        reason: String,
    },
    /// The server refuses the login.
    #[error("the server refused the login: {0}")]
    Refused(String),
    /// The server does not offer the protection that is wanted.
    #[error("the server refuses --qop {wanted}: it offers {}", listed(.offered))]
    Qop {
        /// What is wanted.
        wanted: Qop,
        /// What the server offers.
        offered: Vec<Qop>,
    },
    /// The server's offer of protections has another form.
    #[error("the server's offer of security layers has {0} bytes instead of 4")]
    Offer(usize),
    /// A message that was not encrypted although it was agreed.
    #[error("the server sent a message without encryption, although auth-conf was agreed")]
    Bare,
    /// Kerberos failed.
    #[error(transparent)]
    Kerberos(#[from] KerberosError),
    /// A principal without the form of one.
    #[error("'{0}' is not a service's principal; use hive/_HOST@REALM")]
    Principal(String),
    /// A message of another protocol, or a broken one.
    #[error("the answer is not the expected Thrift message ({0})")]
    Thrift(String),
    /// An answer above the limit.
    #[error("the answer to {call} is longer than {limit} bytes")]
    Long {
        /// The call.
        call: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A server without columns of results.
    #[error("it speaks version {0} of the protocol; version 6 (Hive 0.13) or newer is needed")]
    Old(i32),
    /// A call that failed.
    #[error("{call} failed: {message}")]
    Call {
        /// The call.
        call: &'static str,
        /// The server's words.
        message: String,
    },
    /// A statement that failed.
    #[error("{message}\n  in: {statement}")]
    Statement {
        /// The server's words.
        message: String,
        /// The statement, shortened.
        statement: String,
    },
    /// A statement that takes too long.
    #[error("a statement took longer than {} s and was cancelled; raise --statement-timeout\n  in: {statement}", limit.as_secs_f64())]
    Slow {
        /// The limit.
        limit: Duration,
        /// The statement, shortened.
        statement: String,
    },
    /// More rows than are kept.
    #[error("the result has more than {0} rows; choose a shorter range or a longer step")]
    Rows(usize),
}

/// How much of a statement an error shows, in characters.
const STATEMENT_CHARS: usize = 200;

impl Fault {
    /// A statement that failed.
    pub(crate) fn statement(message: String, statement: &str) -> Fault {
        Fault::Statement { message, statement: shortened(statement, STATEMENT_CHARS) }
    }

    /// A statement that took longer than `limit`.
    pub(crate) fn slow(limit: Duration, statement: &str) -> Fault {
        Fault::Slow { limit, statement: shortened(statement, STATEMENT_CHARS) }
    }
}

fn listed(offered: &[Qop]) -> String {
    match offered {
        [] => "nothing that tachograph supports".to_owned(),
        [only] => format!("only {only}; use --qop {only}"),
        several => {
            let names: Vec<String> = several.iter().map(Qop::to_string).collect();
            format!("{}; use one of these", names.join(" and "))
        }
    }
}

/// The longest message of a server that is shown, in characters.
const MESSAGE_CHARS: usize = 600;

/// A server's message without its stack trace: the first line, shortened.
pub(crate) fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason");
    shortened(line, MESSAGE_CHARS)
}

/// At most `chars` characters of a text.
fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
