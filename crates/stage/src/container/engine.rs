//! The few calls of the Docker Engine's HTTP API that a stack's container needs.
//!
//! They have been in every version of the API since 1.24, so they are asked
//! without naming one: engines refuse versions that are too old for them. A blocking exchange per call is all they
//! take, so there is no client library with an asynchronous runtime here.

use std::env;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use spec::Endpoint;

use crate::http::{self, HttpError, Sent};

/// How long a call may take that does not wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why the engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// `DOCKER_HOST` cannot be used.
    #[error(
        "DOCKER_HOST is '{0}', which cannot be used; write unix:///path/to/docker.sock or tcp://host:port"
    )]
    Host(String),
    /// Nobody answers.
    #[error("no container engine answers at {place}: {why}; {remedy}")]
    Absent {
        /// Where it was looked for.
        place: String,
        /// What happened there.
        why: String,
        /// What to do.
        remedy: &'static str,
    },
    /// It says no.
    #[error("the container engine refuses {what}: {why}")]
    Refused {
        /// What was asked: `to start a container`.
        what: String,
        /// Its answer.
        why: String,
        /// The answer's status.
        status: u16,
    },
    /// Its answer makes no sense.
    #[error("the container engine's answer cannot be read: {0}")]
    Answer(String),
}

/// An engine that can be asked.
#[derive(Clone, Debug)]
pub struct Engine {
    endpoint: Endpoint,
}

impl Engine {
    /// The engine that `DOCKER_HOST` names, or else the one at `/var/run/docker.sock`.
    ///
    /// # Errors
    /// [`EngineError::Host`]; nothing is asked yet.
    pub fn from_environment() -> Result<Engine, EngineError> {
        match env::var("DOCKER_HOST") {
            Ok(host) if !host.is_empty() => Engine::at(&host),
            _ => Engine::at("unix:///var/run/docker.sock"),
        }
    }

    /// The engine at `unix:///path` or `tcp://host:port`.
    ///
    /// # Errors
    /// [`EngineError::Host`] for anything else.
    pub fn at(host: &str) -> Result<Engine, EngineError> {
        let wrong = || EngineError::Host(host.to_owned());
        let endpoint = match host.split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => Endpoint::Unix(PathBuf::from(path)),
            Some(("tcp", address)) => {
                let (name, port) = address.rsplit_once(':').ok_or_else(wrong)?;
                let port = port.trim_end_matches('/').parse().map_err(|_| wrong())?;
                Endpoint::Tcp { host: name.to_owned(), port }
            }
            _ => return Err(wrong()),
        };
        Ok(Engine { endpoint })
    }

    /// Whether somebody accepts connections there.
    pub(crate) fn accepts(&self, timeout: Duration) -> bool {
        http::accepts(&self.endpoint, timeout).is_ok()
    }

    /// Whether an engine is there, and its version.
    ///
    /// # Errors
    /// [`EngineError::Absent`] with what to do about it.
    pub fn version(&self) -> Result<String, EngineError> {
        let version = self.call("to say its version", "GET", "/version", None)?;
        Ok(version["Version"].as_str().unwrap_or("unknown").to_owned())
    }

    /// Asks with a JSON body or none; the answer as JSON, null if there is none.
    pub(crate) fn call(
        &self,
        what: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, EngineError> {
        let text = body.map(Value::to_string).unwrap_or_default();
        let sent = Sent { method, path, content_type: "application/json", body: text.as_bytes() };
        let body = self.exchange(what, &sent, PATIENCE)?;
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).map_err(|error| EngineError::Answer(error.to_string()))
    }

    /// Asks with any body and takes the answer as it is.
    pub(crate) fn exchange(
        &self,
        what: &str,
        sent: &Sent<'_>,
        patience: Duration,
    ) -> Result<Vec<u8>, EngineError> {
        let answer =
            http::exchange(&self.endpoint, sent, patience).map_err(|error| self.absent(&error))?;
        if answer.status < 400 {
            return Ok(answer.body);
        }
        let told: Option<Value> = serde_json::from_slice(&answer.body).ok();
        let why = told
            .and_then(|told| Some(told["message"].as_str()?.to_owned()))
            .unwrap_or_else(|| format!("status {}", answer.status));
        Err(EngineError::Refused { what: what.to_owned(), why, status: answer.status })
    }

    fn absent(&self, error: &HttpError) -> EngineError {
        let remedy = match error {
            HttpError::Connect(error) if error.kind() == ErrorKind::PermissionDenied => {
                "join the group docker, or set DOCKER_HOST"
            }
            _ => {
                "start it (sudo systemctl start docker), install it (sudo apt install docker.io) or set DOCKER_HOST"
            }
        };
        let why = match error {
            HttpError::Connect(error) => in_words(error),
            error => error.to_string(),
        };
        let place = match &self.endpoint {
            Endpoint::Unix(path) => path.display().to_string(),
            Endpoint::Tcp { host, port } => format!("{host}:{port}"),
            other => format!("{other:?}"),
        };
        EngineError::Absent { place, why, remedy }
    }
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such socket".to_owned(),
        ErrorKind::ConnectionRefused => "nobody listens there".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_as_docker_reads_them() {
        for (host, endpoint) in [
            ("unix:///run/x.sock", Endpoint::Unix("/run/x.sock".into())),
            ("tcp://10.0.0.1:2375", Endpoint::Tcp { host: "10.0.0.1".to_owned(), port: 2375 }),
        ] {
            assert_eq!(Engine::at(host).unwrap().endpoint, endpoint);
        }
        for host in ["ssh://me@there", "unix://relative", "tcp://there", "/run/x.sock"] {
            assert_eq!(
                Engine::at(host).unwrap_err().to_string(),
                format!(
                    "DOCKER_HOST is '{host}', which cannot be used; write unix:///path/to/docker.sock or tcp://host:port"
                )
            );
        }
    }

    #[test]
    fn an_engine_that_is_not_there_is_told_with_its_remedy() {
        let engine = Engine::at("unix:///no/such.sock").unwrap();
        assert_eq!(
            engine.version().unwrap_err().to_string(),
            "no container engine answers at /no/such.sock: there is no such socket; start it (sudo systemctl start docker), install it (sudo apt install docker.io) or set DOCKER_HOST"
        );
    }
}
