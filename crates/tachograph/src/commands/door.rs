//! The way to a table through HiveServer2, from the flags.

use std::time::Duration;

use base::Nanos;
use hive::{Address, Auth, Limits, Session, Transport};
use trust::Trust;

use crate::failure::Failure;
use crate::flags::hive::{DoorFlags, Login, PASSWORD, Protection};

/// Opens a session.
pub(crate) fn open(url: &Address, flags: &DoorFlags) -> Result<Session, Failure> {
    let limits = Limits {
        answer: limit("--timeout", flags.timeout)?,
        statement: limit("--statement-timeout", flags.statement_timeout)?,
    };
    let trust =
        Trust { insecure: flags.insecure, cacert: flags.cacert.clone(), ..Trust::default() };
    let transport =
        Transport { tls: flags.tls.then_some(trust), http_path: flags.http_path.clone() };
    if flags.http_path.is_some() && flags.qop != Protection::Auth {
        return Err(Failure::new("--qop protects frames, and over HTTP there are none: use --tls"));
    }
    Ok(Session::open(url, &transport, &auth(url, flags)?, limits)?)
}

fn limit(option: &str, limit: Nanos) -> Result<Duration, Failure> {
    match limit {
        Nanos(0) => Err(Failure::new(format!("{option} must not be 0"))),
        limit => Ok(Duration::from_nanos(limit.0)),
    }
}

fn auth(url: &Address, flags: &DoorFlags) -> Result<Auth, Failure> {
    let login = match (flags.auth, &flags.principal) {
        (Some(login), _) => login,
        (None, Some(_)) => Login::Kerberos,
        (None, None) => Login::None,
    };
    if login != Login::Kerberos && flags.qop != Protection::Auth {
        return Err(Failure::new("--qop is for Kerberos: add --principal hive/_HOST@REALM"));
    }
    let user = url.user.clone();
    Ok(match (login, &flags.principal) {
        (Login::Kerberos, Some(principal)) => Auth::Kerberos {
            principal: principal.clone(),
            keytab: flags.keytab.clone(),
            user,
            qop: flags.qop.into(),
        },
        (Login::Kerberos, None) => {
            return Err(Failure::new(
                "--auth kerberos needs the server's principal: add --principal hive/_HOST@REALM",
            ));
        }
        (_, Some(_)) => {
            return Err(Failure::new(
                "--principal is for Kerberos: use --auth kerberos, or omit --principal",
            ));
        }
        (Login::None, None) => Auth::None { user },
        (Login::Nosasl, None) => Auth::NoSasl { user },
        (Login::Plain, None) => {
            let user = user.ok_or_else(|| {
                Failure::new(
                    "--auth plain needs a user: write the URL as hive://user@host/database",
                )
            })?;
            Auth::Plain { user, password: password(flags)? }
        }
    })
}

/// The password, from a file or the environment, where other users cannot see it.
fn password(flags: &DoorFlags) -> Result<String, Failure> {
    let Some(path) = &flags.password_file else {
        return std::env::var(PASSWORD).map_err(|_| {
            Failure::new(format!(
                "--auth plain needs a password: add --password-file FILE, or set {PASSWORD}"
            ))
        });
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
