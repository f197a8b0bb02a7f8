//! One container, from its making to its removal.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};

use crate::cgroup;
use crate::container::engine::{Engine, EngineError};
use crate::container::{RUN_LABEL, image};
use crate::http::Sent;
use crate::sweep::RUN_DIR_VARIABLE;

/// How often the attendant looks whether it is asked to stop.
const LOOK: Duration = Duration::from_millis(100);

/// How long a container may take to stop before the engine kills it, in seconds.
const STOP_PATIENCE_S: u32 = 3;

/// How long a container may live at most.
const LIFE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Variables that a container always gets, if they are set: what counts its requests, and
/// what tells a sweep whose it is.
const PASSED: [&str; 6] = [
    "PATH",
    "PYTHONPATH",
    "TACHOGRAPH_COUNTERS",
    RUN_DIR_VARIABLE,
    "TACHOGRAPH_RUN",
    "TACHOGRAPH_STACK",
];

/// How a container is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// By nothing but the files that it shares.
    None,
    /// As if it were a process of the host.
    Host,
    /// On the engine's own bridge, with ports of 127.0.0.1 forwarded: (host's, container's).
    Published(Vec<(u16, u16)>),
    /// On a bridge of its own at this address, with the gateway's address; ports as before.
    Bridge {
        /// The container's address.
        address: String,
        /// The host's address on the bridge.
        gateway: String,
        /// Forwarded ports: (host's, container's), on every address of the host.
        ports: Vec<(u16, u16)>,
    },
}

/// What is to run in a container, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerOptions {
    /// An image that the engine has, or `host` for the system's own programs.
    pub image: String,
    /// The command, as words.
    pub command: Vec<String>,
    /// Names of variables of our own environment that it gets.
    pub env: Vec<String>,
    /// Folders that it shares with the host, at the same path; writable.
    pub volumes: Vec<PathBuf>,
    /// Folders that it may read, at the same path.
    pub read_only: Vec<PathBuf>,
    /// How it is reached.
    pub network: Network,
}

/// Why a container could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// The engine is not there or refuses.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// It ended by itself.
    #[error("the container ended by itself with status {status}. The end of what it wrote:\n{log}")]
    Ended {
        /// Its exit status.
        status: i64,
        /// Its last words.
        log: String,
    },
}

/// Makes a container, looks after it until `stop` is set or it ends, and removes it.
///
/// # Errors
/// If the engine refuses, or the container ends by itself.
pub fn attend(options: &ContainerOptions, stop: &AtomicBool) -> Result<(), ContainerError> {
    let engine = Engine::from_environment()?;
    engine.version()?;
    if options.image == "host" {
        image::ensure(&engine)?;
    }
    let network = Attached::new(&engine, &options.network)?;
    let id = create(&engine, options, network.as_ref())?;
    let container = Made { engine: &engine, id };
    container.start()?;
    container.bring_home(&options.network);
    container.wait(stop)
}

/// A network of its own, removed with it.
struct Attached<'e> {
    engine: &'e Engine,
    id: String,
}

impl<'e> Attached<'e> {
    fn new(engine: &'e Engine, network: &Network) -> Result<Option<Attached<'e>>, EngineError> {
        let Network::Bridge { address, gateway, .. } = network else { return Ok(None) };
        let prefix = address.rsplit_once('.').map_or(address.as_str(), |(prefix, _)| prefix);
        let name = format!("tachograph-{}", env::var("TACHOGRAPH_STACK").unwrap_or_default());
        let body = json!({
            "Name": name, "Driver": "bridge", "CheckDuplicate": true, "Labels": labels(),
            "IPAM": { "Config": [{ "Subnet": format!("{prefix}.0/24"), "Gateway": gateway }] },
        });
        let made = engine.call("to make a network", "POST", "/networks/create", Some(&body))?;
        Ok(Some(Attached { engine, id: text(&made, "Id")? }))
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        // What cannot be removed now has our label, and the next run removes it.
        let path = format!("/networks/{}", self.id);
        let _ = self.engine.call("to remove a network", "DELETE", &path, None);
    }
}

/// A container that is removed when this is dropped.
struct Made<'e> {
    engine: &'e Engine,
    id: String,
}

impl Made<'_> {
    fn start(&self) -> Result<(), EngineError> {
        let path = format!("/containers/{}/start", self.id);
        self.engine.call("to start a container", "POST", &path, None).map(drop)
    }

    /// Moves what the engine has started for the stack to where the stack's own processes are.
    fn bring_home(&self, network: &Network) {
        let path = format!("/containers/{}/json", self.id);
        let state = self.engine.call("to look at a container", "GET", &path, None);
        let first =
            state.ok().and_then(|state| i32::try_from(state["State"]["Pid"].as_i64()?).ok());
        let ports = match network {
            Network::Published(ports) | Network::Bridge { ports, .. } => ports.as_slice(),
            Network::None | Network::Host => &[],
        };
        let mut pids: BTreeSet<i32> = first.filter(|pid| *pid > 0).into_iter().collect();
        pids.extend(ports.iter().flat_map(|(port, _)| proxies(*port)));
        for pid in pids {
            if let Err(error) = cgroup::adopt(pid) {
                // An engine of another user, or on another machine: its cost cannot be seen from here.
                let _ = std::io::Write::write_fmt(
                    &mut std::io::stderr(),
                    format_args!(
                        "process {pid} of the engine cannot be counted with the stack: {error}\n"
                    ),
                );
            }
            pin(pid);
        }
    }

    /// Waits for the end of the container, or for somebody to ask for it.
    fn wait(&self, stop: &AtomicBool) -> Result<(), ContainerError> {
        let (sender, ended) = mpsc::channel();
        let (engine, path) = (self.engine.clone(), format!("/containers/{}/wait", self.id));
        thread::spawn(move || {
            let sent =
                Sent { method: "POST", path: &path, content_type: "application/json", body: b"" };
            let answer = engine.exchange("to wait for a container", &sent, LIFE_MAX);
            // Nobody listens any more if we were asked to stop meanwhile.
            let _ = sender.send(answer);
        });
        let answer = loop {
            match ended.recv_timeout(LOOK) {
                Ok(answer) => break answer?,
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break Vec::new(),
            }
        };
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let told: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let status = told["StatusCode"].as_i64().unwrap_or(-1);
        Err(ContainerError::Ended { status, log: self.log() })
    }

    fn log(&self) -> String {
        let path = format!("/containers/{}/logs?stdout=1&stderr=1&tail=12", self.id);
        let sent = Sent { method: "GET", path: &path, content_type: "text/plain", body: b"" };
        let bytes = self.engine.exchange("for a container's log", &sent, Duration::from_secs(5));
        plain_log(&bytes.unwrap_or_default())
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        let path = format!("/containers/{}/stop?t={STOP_PATIENCE_S}", self.id);
        // One that has ended by itself cannot be stopped; what cannot be removed now has our
        // label, and the next run removes it.
        let _ = self.engine.call("to stop a container", "POST", &path, None);
        let _ = remove(self.engine, &self.id);
    }
}

/// Ends and removes a container with its anonymous volumes.
pub(super) fn remove(engine: &Engine, id: &str) -> Result<(), EngineError> {
    let path = format!("/containers/{id}?force=1&v=1");
    engine.call("to remove a container", "DELETE", &path, None).map(drop)
}

fn create(
    engine: &Engine,
    options: &ContainerOptions,
    network: Option<&Attached<'_>>,
) -> Result<String, EngineError> {
    let body = description(options, network.map(|network| network.id.as_str()));
    let made = engine.call("to make a container", "POST", "/containers/create", Some(&body))?;
    text(&made, "Id")
}

/// The body of `POST /containers/create`.
fn description(options: &ContainerOptions, network: Option<&str>) -> Value {
    let mut binds: Vec<String> = Vec::new();
    if options.image == "host" {
        binds.extend(image::mounts().iter().map(|folder| bind(folder, "ro")));
    }
    binds.extend(options.read_only.iter().map(|folder| bind(folder, "ro")));
    binds.extend(options.volumes.iter().map(|folder| bind(folder, "rw")));
    let names = PASSED.iter().copied().chain(options.env.iter().map(String::as_str));
    let env: Vec<String> =
        names.filter_map(|name| Some(format!("{name}={}", env::var(name).ok()?))).collect();
    let (mode, ports, host_ip) = match &options.network {
        Network::None => ("none", [].as_slice(), ""),
        Network::Host => ("host", [].as_slice(), ""),
        Network::Published(ports) => ("bridge", ports.as_slice(), "127.0.0.1"),
        Network::Bridge { ports, .. } => (network.unwrap_or("bridge"), ports.as_slice(), "0.0.0.0"),
    };
    let exposed: serde_json::Map<String, Value> =
        ports.iter().map(|(_, inner)| (format!("{inner}/tcp"), json!({}))).collect();
    let published: serde_json::Map<String, Value> = ports
        .iter()
        .map(|(outer, inner)| {
            (format!("{inner}/tcp"), json!([{ "HostIp": host_ip, "HostPort": outer.to_string() }]))
        })
        .collect();
    let mut body = json!({
        "Image": if options.image == "host" { image::NAME } else { &options.image },
        "Cmd": options.command,
        "Env": env,
        "Labels": labels(),
        "ExposedPorts": exposed,
        "HostConfig": {
            "Binds": binds, "NetworkMode": mode, "PortBindings": published,
            "CpusetCpus": own_cpus(), "Init": false, "Ulimits": own_limits(),
        },
    });
    if let (Network::Bridge { address, .. }, Some(network)) = (&options.network, network) {
        body["NetworkingConfig"] = json!({
            "EndpointsConfig": { network: { "IPAMConfig": { "IPv4Address": address } } },
        });
    }
    body
}

/// Our own limit of open files, so that a stack has the same one in a container as outside. Podman
/// would else ask for a million, which fails where the machine allows less.
fn own_limits() -> Value {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // -1 is how the engine's API writes that there is none.
    let number = |n: Option<u64>| n.map_or(json!(-1), Value::from);
    json!([{ "Name": "nofile", "Soft": number(current), "Hard": number(maximum) }])
}

fn bind(folder: &Path, access: &str) -> String {
    let folder = folder.display();
    format!("{folder}:{folder}:{access}")
}

fn labels() -> Value {
    json!({ RUN_LABEL: env::var(RUN_DIR_VARIABLE).unwrap_or_default() })
}

fn text(answer: &Value, key: &str) -> Result<String, EngineError> {
    let text = answer[key].as_str().map(str::to_owned);
    text.ok_or_else(|| EngineError::Answer(format!("it has no {key}")))
}

/// The CPUs that this process may use, as the engine likes to read them.
fn own_cpus() -> String {
    let Ok(set) = sched_getaffinity(None) else { return String::new() };
    let cpus: Vec<String> =
        (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu.to_string()).collect();
    cpus.join(",")
}

/// The processes that forward a port of the host: `docker-proxy … -host-port 8000 …`.
fn proxies(port: u16) -> Vec<i32> {
    let wanted = port.to_string();
    let is_ours = |pid: &i32| {
        let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
        let words: Vec<String> = line
            .split(|byte| *byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        words.first().is_some_and(|program| program.ends_with("docker-proxy"))
            && words.windows(2).any(|pair| pair[0] == "-host-port" && pair[1] == wanted)
    };
    crate::procfs::all().into_iter().map(|process| process.pid).filter(is_ours).collect()
}

/// Lets every thread of a process run on our CPUs only.
fn pin(pid: i32) {
    let Ok(cpus) = sched_getaffinity(None) else { return };
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return };
    for thread in threads.flatten() {
        let id = thread.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        // A thread that has ended meanwhile needs no place.
        let _ = id.map(|id| sched_setaffinity(Some(id), &cpus));
    }
}

/// The text of a log in the engine's frames: a stream's number, three zeros, the length as four
/// bytes, big-endian, then as many bytes; a log without frames is taken as it is.
fn plain_log(mut bytes: &[u8]) -> String {
    let mut text = Vec::new();
    while let [stream @ 0..=2, 0, 0, 0, a, b, c, d, rest @ ..] = bytes {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let (frame, after) = rest.split_at(length.min(rest.len()));
        let _ = stream;
        text.extend_from_slice(frame);
        bytes = after;
    }
    text.extend_from_slice(bytes);
    String::from_utf8_lossy(&text).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(network: Network) -> ContainerOptions {
        ContainerOptions {
            image: "python:3".to_owned(),
            command: vec!["app".to_owned()],
            env: Vec::new(),
            volumes: vec!["/shared".into()],
            read_only: vec!["/files".into()],
            network,
        }
    }

    #[test]
    fn a_container_is_described_as_the_engine_wants_it() {
        let body = description(&options(Network::Published(vec![(8001, 8000)])), None);
        assert_eq!(body["HostConfig"]["Binds"], json!(["/files:/files:ro", "/shared:/shared:rw"]));
        assert_eq!(body["HostConfig"]["NetworkMode"], "bridge");
        assert_eq!(
            body["HostConfig"]["PortBindings"],
            json!({ "8000/tcp": [{ "HostIp": "127.0.0.1", "HostPort": "8001" }] })
        );
        assert_eq!(body["ExposedPorts"], json!({ "8000/tcp": {} }));
        assert_eq!(body["Image"], "python:3");
        let files = &body["HostConfig"]["Ulimits"][0];
        assert_eq!(files["Name"], "nofile");
        assert!(files["Soft"].as_i64().is_some_and(|soft| soft != 0), "{files}");
        let bridge = Network::Bridge {
            address: "10.0.0.2".to_owned(),
            gateway: "10.0.0.1".to_owned(),
            ports: Vec::new(),
        };
        let body = description(&options(bridge), Some("net"));
        assert_eq!(body["HostConfig"]["NetworkMode"], "net");
        assert_eq!(
            body["NetworkingConfig"]["EndpointsConfig"]["net"]["IPAMConfig"]["IPv4Address"],
            "10.0.0.2"
        );
        assert_eq!(description(&options(Network::Host), None)["HostConfig"]["NetworkMode"], "host");
    }

    #[test]
    fn a_log_is_taken_out_of_its_frames() {
        let framed = b"\x01\0\0\0\0\0\0\x03ab\n\x02\0\0\0\0\0\0\x02cd";
        assert_eq!(plain_log(framed), "ab\ncd");
        assert_eq!(plain_log(b"as it is\n"), "as it is");
        assert_eq!(plain_log(b"\x01\0\0\0\0\0\0\x09cut"), "cut");
    }
}
