//! Readiness checks.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use spec::{Endpoint, ReadyCheck, Target};

use crate::http;
use crate::vars::Variables;

/// Timeout of a connect; the kernel decides at once unless the queue is full.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Timeout of an HTTP response. A slow first response is requested again, when the application has
/// warmed up.
const HTTP_TIMEOUT: Duration = Duration::from_secs(2);

/// Limit on the path of a Unix socket: `sun_path` has 108 bytes, the last one zero (unix(7)).
pub(crate) const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A readiness check with its variables expanded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Check {
    /// Something accepts connections.
    Accepts(Endpoint),
    /// Something responds over HTTP.
    Answers(Target),
    /// A file exists.
    Exists(PathBuf),
}

impl Check {
    /// Parses a check from the experiment; the error says what is wrong with it.
    pub(crate) fn parse(ready: &ReadyCheck, vars: &Variables) -> Result<Check, String> {
        match ready {
            ReadyCheck::Port(text) => tcp(&vars.expand(text)).map(Check::Accepts),
            ReadyCheck::Socket(text) => {
                let path = vars.expand(text);
                let path = path.strip_prefix("unix:").unwrap_or(&path);
                Ok(Check::Accepts(match path.strip_prefix('@') {
                    Some(name) => Endpoint::Abstract(name.as_bytes().to_vec()),
                    None => Endpoint::Unix(PathBuf::from(path)),
                }))
            }
            ReadyCheck::Http(text) => match Target::parse(&vars.expand(text)) {
                Ok(target @ Target::Http { .. }) => Ok(Check::Answers(target)),
                Ok(target) => Err(format!("'{target}' is not an HTTP target")),
                Err(error) => Err(error.to_string()),
            },
            ReadyCheck::File(text) | ReadyCheck::Adopted(text) => {
                Ok(Check::Exists(PathBuf::from(vars.expand(text))))
            }
        }
    }

    /// Checks once; the error says what was found instead.
    pub(crate) fn probe(&self) -> Result<(), String> {
        match self {
            Check::Accepts(endpoint) => {
                http::accepts(endpoint, CONNECT_TIMEOUT).map_err(|error| plain(&error))
            }
            Check::Answers(target) => match http::get(target, HTTP_TIMEOUT) {
                Ok(response) if response.status < 500 => Ok(()),
                Ok(response) => Err(format!("it answered with status {}", response.status)),
                Err(http::HttpError::Connect(error)) => Err(plain(&error)),
                Err(error) => Err(error.to_string()),
            },
            Check::Exists(path) => match path.exists() {
                true => Ok(()),
                false => Err("it does not exist".to_owned()),
            },
        }
    }

    /// The endpoint, for a check that connects.
    pub(crate) fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            Check::Accepts(endpoint) => Some(endpoint),
            Check::Answers(target) => Some(target.endpoint()),
            Check::Exists(_) => None,
        }
    }
}

impl fmt::Display for Check {
    /// The text that follows "waiting for".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Check::Accepts(endpoint) => write!(f, "{} to accept connections", place(endpoint)),
            Check::Answers(target) => write!(f, "an answer from {target}"),
            Check::Exists(path) => write!(f, "the file {}", path.display()),
        }
    }
}

/// Describes an endpoint.
pub(crate) fn place(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Tcp { host, port } if host.contains(':') => format!("port {port} of [{host}]"),
        Endpoint::Tcp { host, port } => format!("port {port} of {host}"),
        Endpoint::Udp { .. } => format!("udp://{endpoint}"),
        Endpoint::Abstract(name) => format!("the socket @{}", String::from_utf8_lossy(name)),
        Endpoint::Unix(path)
        | Endpoint::UnixDatagram(path)
        | Endpoint::UnixSeqpacket(path)
        | Endpoint::Socketpair(path) => format!("the socket {}", path.display()),
    }
}

fn tcp(text: &str) -> Result<Endpoint, String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host.trim_start_matches('[').trim_end_matches(']'), port),
        None => ("127.0.0.1", text),
    };
    match port.parse() {
        Ok(port) if port > 0 && !host.is_empty() => {
            Ok(Endpoint::Tcp { host: host.to_owned(), port })
        }
        _ => Err(format!("'{text}' is neither a port nor host:port")),
    }
}

/// A connect error without its errno.
fn plain(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused => "nothing is listening there".to_owned(),
        ErrorKind::NotFound => "there is no such socket".to_owned(),
        ErrorKind::TimedOut => "connecting took too long".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(ready: ReadyCheck) -> Result<String, String> {
        let mut vars = Variables::default();
        vars.set("PORT", "8000");
        vars.set("SOCKET", "/tmp/x.sock");
        Check::parse(&ready, &vars).map(|check| check.to_string())
    }

    #[test]
    fn checks_are_parsed_and_described() {
        let text = str::to_owned;
        for (ready, words) in [
            (ReadyCheck::Port(text("$PORT")), Ok("port 8000 of 127.0.0.1 to accept connections")),
            (
                ReadyCheck::Port(text("localhost:1")),
                Ok("port 1 of localhost to accept connections"),
            ),
            (ReadyCheck::Port(text("[::1]:$PORT")), Ok("port 8000 of [::1] to accept connections")),
            (
                ReadyCheck::Socket(text("$SOCKET")),
                Ok("the socket /tmp/x.sock to accept connections"),
            ),
            (ReadyCheck::Socket(text("unix:@a")), Ok("the socket @a to accept connections")),
            (ReadyCheck::File(text("/x/$PORT")), Ok("the file /x/8000")),
            (ReadyCheck::Adopted(text("/x/$PORT")), Ok("the file /x/8000")),
            (
                ReadyCheck::Http(text("http://127.0.0.1:$PORT/a")),
                Ok("an answer from http://127.0.0.1:8000/a"),
            ),
            (ReadyCheck::Port(text("$SPORT")), Err("'$SPORT' is neither a port nor host:port")),
            (ReadyCheck::Port(text("0")), Err("'0' is neither a port nor host:port")),
            (
                ReadyCheck::Http(text("tcp://127.0.0.1:1")),
                Err("'tcp://127.0.0.1:1' is not an HTTP target"),
            ),
        ] {
            let found = parse(ready.clone());
            assert_eq!(found.as_deref().map_err(String::as_str), words, "{ready:?}");
        }
    }

    #[test]
    fn a_probe_says_what_it_saw() {
        let missing = Check::Accepts(Endpoint::Unix(PathBuf::from("/nowhere/x.sock")));
        assert_eq!(missing.probe().unwrap_err(), "there is no such socket");
        assert_eq!(
            Check::Exists(PathBuf::from("/nowhere")).probe().unwrap_err(),
            "it does not exist"
        );
        assert_eq!(Check::Exists(PathBuf::from("/proc/self")).probe(), Ok(()));
    }
}
