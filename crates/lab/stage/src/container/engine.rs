//! The connection to the container engine, with our error messages.
//!
//! Calls go through `bollard`; each future is driven to completion here, one after another. One
//! container needs no concurrency.

use std::env;
use std::error::Error as _;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use bollard::errors::Error as ClientError;
use bollard::query_parameters::RemoveContainerOptionsBuilder;
use bollard::{API_DEFAULT_VERSION, Docker};
use tokio::runtime::{Builder, Runtime};

/// Timeout of a call that waits for nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Default address if `DOCKER_HOST` is not set.
const DEFAULT: &str = "unix:///var/run/docker.sock";

/// Why the engine did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// `DOCKER_HOST` cannot be used.
    #[error(
        "DOCKER_HOST '{0}' is not supported; write unix:///path/to/docker.sock or tcp://host:port"
    )]
    Host(String),
    /// Nothing is listening.
    #[error("no container engine answers at {place}: {why}; {remedy}")]
    Absent {
        /// The address.
        place: String,
        /// The error there.
        why: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The engine refused.
    #[error("the container engine refuses {what}: {why}")]
    Refused {
        /// What was asked: `to start a container`.
        what: &'static str,
        /// Its response.
        why: String,
        /// The response's status.
        status: u16,
    },
    /// The response was incomplete or invalid.
    #[error("the container engine was asked {what}, but its answer is invalid: {why}")]
    Answer {
        /// What was asked.
        what: &'static str,
        /// What is wrong with the response.
        why: String,
    },
    /// The build context of an image cannot be read.
    #[error("cannot build an image from '{path}': {why}")]
    Context {
        /// The Dockerfile or its folder.
        path: String,
        /// The error.
        why: String,
    },
}

/// A reachable engine.
#[derive(Debug)]
pub struct ContainerEngine {
    runtime: Runtime,
    client: Docker,
    place: String,
}

impl ContainerEngine {
    /// The engine at `DOCKER_HOST`, or else at `/var/run/docker.sock`.
    ///
    /// # Errors
    /// [`EngineError::Host`], or [`EngineError::Absent`] if there is no such socket or nothing
    /// responds there within `patience`.
    pub fn from_environment(patience: Duration) -> Result<ContainerEngine, EngineError> {
        match env::var("DOCKER_HOST") {
            Ok(host) if !host.is_empty() => ContainerEngine::at(&host, patience),
            _ => ContainerEngine::at(DEFAULT, patience),
        }
    }

    /// The engine at `unix:///path` or `tcp://host:port`.
    ///
    /// # Errors
    /// Those of [`ContainerEngine::from_environment`].
    pub fn at(host: &str, patience: Duration) -> Result<ContainerEngine, EngineError> {
        let wrong = || EngineError::Host(host.to_owned());
        let seconds = PATIENCE.as_secs();
        let place = match host.split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => path,
            Some(("tcp", address)) => {
                let (_, port) = address.rsplit_once(':').ok_or_else(wrong)?;
                port.trim_end_matches('/').parse::<u16>().map_err(|_| wrong())?;
                address
            }
            _ => return Err(wrong()),
        }
        .to_owned();
        let client = if host.starts_with("unix") {
            Docker::connect_with_unix(host, seconds, API_DEFAULT_VERSION)
        } else {
            Docker::connect_with_http(host, seconds, API_DEFAULT_VERSION)
        };
        let absent = |why: String| absent(&place, why, None);
        let client = client.map_err(|error| match error {
            ClientError::SocketNotFoundError(_) => absent("there is no such socket".to_owned()),
            error => absent(error.to_string()),
        })?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| absent(format!("cannot wait for its answers: {error}")))?;
        // Engines refuse an API version that is newer than their own.
        let client = runtime
            .block_on(async { tokio::time::timeout(patience, client.negotiate_version()).await })
            .map_err(|_| absent(format!("no answer within {} s", patience.as_secs_f64())))?
            .map_err(|error| in_our_words(&place, "which version it is", error))?;
        Ok(ContainerEngine { runtime, client, place })
    }

    /// The client, for calls passed to [`ContainerEngine::wait`].
    pub(super) fn client(&self) -> &Docker {
        &self.client
    }

    /// The engine's version.
    ///
    /// # Errors
    /// If it does not respond.
    pub fn version(&self) -> Result<String, EngineError> {
        let version = self.wait("which version it is", self.client.version())?;
        Ok(version.version.unwrap_or_else(|| "unknown".to_owned()))
    }

    /// Runs a call to completion; `what` describes it in errors: `to start a container`.
    pub(super) fn wait<T>(
        &self,
        what: &'static str,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, EngineError> {
        self.block_on(call).map_err(|error| in_our_words(&self.place, what, error))
    }

    /// Runs several calls to completion.
    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

fn in_our_words(place: &str, what: &'static str, error: ClientError) -> EngineError {
    match error {
        ClientError::DockerResponseServerError { status_code: status, message: why } => {
            EngineError::Refused { what, why, status }
        }
        ClientError::DockerStreamError { error: why } => {
            EngineError::Refused { what, why, status: 200 }
        }
        ClientError::HyperLegacyError { err } if err.is_connect() => {
            let mut cause = err.source();
            while let Some(inner) = cause.and_then(|cause| cause.source()) {
                cause = Some(inner);
            }
            let io = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
            absent(place, io.map_or_else(|| err.to_string(), in_words), io.map(io::Error::kind))
        }
        ClientError::RequestTimeoutError => {
            EngineError::Answer { what, why: format!("none within {} s", PATIENCE.as_secs()) }
        }
        error => EngineError::Answer { what, why: error.to_string() },
    }
}

fn absent(place: &str, why: String, kind: Option<ErrorKind>) -> EngineError {
    let remedy = match kind {
        Some(ErrorKind::PermissionDenied) => "join the group docker, or set DOCKER_HOST",
        _ => {
            "start it (sudo systemctl start docker), install it (sudo apt install docker.io) or set DOCKER_HOST"
        }
    };
    EngineError::Absent { place: place.to_owned(), why, remedy }
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such socket".to_owned(),
        ErrorKind::ConnectionRefused => "nothing is listening there".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// The error for an unusable build context.
pub(super) fn context_error(path: &Path, error: &io::Error) -> EngineError {
    let why = match error.kind() {
        ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => error.to_string(),
    };
    EngineError::Context { path: path.display().to_string(), why }
}

/// Kills and removes a container with its anonymous volumes.
pub(super) fn remove_container(engine: &ContainerEngine, id: &str) -> Result<(), EngineError> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    engine.wait("to remove a container", engine.client().remove_container(id, Some(options)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    const SHORT: Duration = Duration::from_millis(200);

    #[test]
    fn a_host_that_docker_could_not_read_is_refused() {
        for host in ["ssh://me@there", "unix://relative", "tcp://there", "/run/x.sock"] {
            assert_eq!(
                ContainerEngine::at(host, SHORT).unwrap_err().to_string(),
                format!(
                    "DOCKER_HOST '{host}' is not supported; write unix:///path/to/docker.sock or \
                     tcp://host:port"
                )
            );
        }
    }

    #[test]
    fn a_missing_engine_is_reported_with_its_remedy() {
        let remedy = "start it (sudo systemctl start docker), install it (sudo apt install docker.io) or set DOCKER_HOST";
        let dir = tempfile::tempdir().unwrap();
        let dead = dir.path().join("dead.sock");
        drop(UnixListener::bind(&dead).unwrap());
        let silent = dir.path().join("silent.sock");
        let _listener = UnixListener::bind(&silent).unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for (host, why) in [
            ("unix:///no/such.sock".to_owned(), "there is no such socket"),
            (format!("unix://{}", dead.display()), "nothing is listening there"),
            (format!("unix://{}", silent.display()), "no answer within 0.2 s"),
            (format!("tcp://{closed}"), "nothing is listening there"),
        ] {
            let place = host.split_once("://").unwrap().1;
            assert_eq!(
                ContainerEngine::at(&host, SHORT).unwrap_err().to_string(),
                format!("no container engine answers at {place}: {why}; {remedy}")
            );
        }
    }
}
