//! Flags of `container`.

use std::path::PathBuf;

use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Experiments use this command to start their containers; see experiments/docker.toml. The engine is
the one in DOCKER_HOST, or the one at /var/run/docker.sock.

Example:
  tachograph container --publish 8001:8000 --volume /tmp/shared -- python3 -m http.server 8000";

/// Flags of `container`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ContainerFlags {
    /// Image, fetched if necessary; "host" uses this system's programs, read-only
    #[arg(long, default_value = "host", value_name = "IMAGE")]
    pub(crate) image: String,
    /// Build the image from this Dockerfile, with its folder as context
    #[arg(long, value_name = "DOCKERFILE", conflicts_with = "image")]
    pub(crate) build: Option<PathBuf>,
    /// Network: bridge, host, none, or own=ADDRESS,GATEWAY for a separate bridge
    #[arg(long, default_value = "bridge", value_name = "NETWORK", value_parser = parse_network)]
    pub(crate) network: NetworkFlag,
    /// Forward a port of the host to the container; repeatable
    #[arg(long, value_name = "HOST:CONTAINER", value_parser = parse_ports)]
    pub(crate) publish: Vec<(u16, u16)>,
    /// Mount a folder at the same path; repeatable
    #[arg(long, value_name = "FOLDER")]
    pub(crate) volume: Vec<PathBuf>,
    /// Mount a folder read-only at the same path; repeatable
    #[arg(long, value_name = "FOLDER")]
    pub(crate) read_only: Vec<PathBuf>,
    /// Security option of the engine, such as seccomp=unconfined; repeatable
    #[arg(long, value_name = "OPTION")]
    pub(crate) security_opt: Vec<String>,
    /// Pass this environment variable to the container; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Vec<String>,
    /// Shell command that the engine runs in the container every second; status 0 means healthy
    #[arg(long, value_name = "COMMAND")]
    pub(crate) health: Option<String>,
    /// Create this file when the container is first healthy
    #[arg(long, value_name = "FILE")]
    pub(crate) healthy_file: Option<PathBuf>,
    /// Create this file when the container's processes have been moved to the stack
    #[arg(long, value_name = "FILE")]
    pub(crate) adopted_file: Option<PathBuf>,
    /// Command and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true, num_args = 1..)]
    pub(crate) command: Vec<String>,
}

/// The container's network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NetworkFlag {
    /// The engine's own bridge.
    Bridge,
    /// The host's.
    Host,
    /// None.
    None,
    /// A bridge with this address for the container and this gateway.
    Own(String, String),
}

fn parse_network(text: &str) -> Result<NetworkFlag, String> {
    match (text, text.strip_prefix("own=").and_then(|rest| rest.split_once(','))) {
        ("bridge", _) => Ok(NetworkFlag::Bridge),
        ("host", _) => Ok(NetworkFlag::Host),
        ("none", _) => Ok(NetworkFlag::None),
        (_, Some((address, gateway))) => {
            Ok(NetworkFlag::Own(address.to_owned(), gateway.to_owned()))
        }
        _ => Err("a network is bridge, host, none or own=ADDRESS,GATEWAY".to_owned()),
    }
}

fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    let wrong = || "ports are written HOST:CONTAINER, such as 8001:8000".to_owned();
    let (outer, inner) = text.split_once(':').ok_or_else(wrong)?;
    Ok((outer.parse().map_err(|_| wrong())?, inner.parse().map_err(|_| wrong())?))
}
