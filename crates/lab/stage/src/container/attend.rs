//! The life of one container, from creation to removal.

use std::collections::{BTreeSet, HashMap};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error as ClientError;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, EndpointIpamConfig, EndpointSettings,
    HealthConfig, HealthStatusEnum, HostConfig, Ipam, IpamConfig, Mount, MountType,
    NetworkCreateRequest, NetworkingConfig, PortBinding, ResourcesUlimits,
};
use bollard::query_parameters::{
    CreateContainerOptions, InspectContainerOptions, LogsOptionsBuilder, StartContainerOptions,
    StopContainerOptionsBuilder, WaitContainerOptions,
};
use futures_util::StreamExt;
use host::Process;
use rustix::process::{Pid, Resource, Rlimit, getrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::cgroup;
use crate::container::RUN_LABEL;
use crate::container::engine::{ContainerEngine, EngineError, remove_container};
use crate::container::image::{self, Image, folders};
use crate::guard::Members;
use crate::layout::RUN_DIR_VARIABLE;
use crate::processes;

/// How often to check for a stop request and for the container's health.
const LOOK: Duration = Duration::from_millis(100);

/// Timeout of a call to the engine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Seconds that a container has to stop before the engine kills it.
const STOP_PATIENCE_S: i32 = 3;

/// Interval of a health check that the experiment specifies, in nanoseconds.
const HEALTH_INTERVAL_NS: i64 = 1_000_000_000;

/// Variables that a container always gets, if set: for counting its requests, for naming its
/// functions, and for identifying its run in a sweep.
const PASSED: [&str; 6] = [
    "PYTHONPATH",
    "TACHOGRAPH_COUNTERS",
    "PYTHONPERFSUPPORT",
    RUN_DIR_VARIABLE,
    "TACHOGRAPH_RUN",
    "TACHOGRAPH_STACK",
];

/// How to reach a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// Only through shared files.
    None,
    /// Like a process of the host.
    Host,
    /// On the engine's default bridge, with forwarded ports of 127.0.0.1: (host's, container's).
    Published(Vec<(u16, u16)>),
    /// On its own bridge, at this address, with this gateway and forwarded ports.
    Bridge {
        /// The container's address.
        address: String,
        /// The host's address on the bridge.
        gateway: String,
        /// Forwarded ports of the gateway's address: (host's, container's).
        ports: Vec<(u16, u16)>,
    },
}

/// What to run in a container, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerOptions {
    /// The image.
    pub image: Image,
    /// The command, as arguments.
    pub command: Vec<String>,
    /// Names of our environment variables to pass on.
    pub env: Vec<String>,
    /// Folders shared with the host at the same path, writable.
    pub volumes: Vec<PathBuf>,
    /// Folders shared at the same path, read-only.
    pub read_only: Vec<PathBuf>,
    /// Security options, as the engine's command line takes them: `seccomp=unconfined`.
    pub security_opt: Vec<String>,
    /// How to reach it.
    pub network: Network,
    /// Shell command that the engine runs in the container every second; 0 means healthy. Without
    /// one, the image's health check applies.
    pub health: Option<String>,
    /// A file to create when the container is healthy for the first time.
    pub healthy_file: Option<PathBuf>,
    /// A file to create when its processes have been moved to the stack.
    pub adopted_file: Option<PathBuf>,
}

/// Why a container failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// The engine is missing or refuses.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// It ended by itself.
    #[error("the container exited with status {status}. End of its output:\n{log}")]
    Ended {
        /// Its exit status.
        status: i64,
        /// The end of its log.
        log: String,
    },
    /// There is no health check.
    #[error(
        "the container has no health check; add one (health = \"…\"), use an image with a \
         HEALTHCHECK, or wait for an address"
    )]
    NoHealthCheck,
    /// Its CPU time cannot be measured.
    #[error(
        "the container's processes are not on this machine, so their cost cannot be measured; use \
         a local engine in the same PID namespace"
    )]
    Elsewhere,
    /// Its processes cannot be added to the stack's list.
    #[error("the container's processes cannot be listed: {0}")]
    List(#[source] std::io::Error),
    /// A file that signals its state cannot be created.
    #[error("the file that says that the container is {0} cannot be written: {1}")]
    Signal(&'static str, #[source] std::io::Error),
}

/// Runs a container until `stop` is set or it ends, and removes it.
///
/// # Errors
/// If the engine refuses, or the container ends by itself.
pub fn attend(options: &ContainerOptions, stop: &AtomicBool) -> Result<(), ContainerError> {
    let engine = ContainerEngine::from_environment(PATIENCE)?;
    let image = image::ensure(&engine, &options.image)?;
    super::sweep::note_use();
    let network = BridgeNetwork::new(&engine, &options.network)?;
    let id = create(&engine, options, image, network.as_ref())?;
    let container = CreatedContainer { engine: &engine, id };
    container.start()?;
    container.adopt_processes(&options.network, options.adopted_file.as_deref())?;
    container.wait(options.healthy_file.as_deref(), stop)
}

/// A bridge network for one container, removed on drop.
struct BridgeNetwork<'e> {
    engine: &'e ContainerEngine,
    id: String,
}

impl<'e> BridgeNetwork<'e> {
    fn new(
        engine: &'e ContainerEngine,
        network: &Network,
    ) -> Result<Option<BridgeNetwork<'e>>, EngineError> {
        let Network::Bridge { address, gateway, .. } = network else { return Ok(None) };
        let prefix = address.rsplit_once('.').map_or(address.as_str(), |(prefix, _)| prefix);
        let addresses = IpamConfig {
            subnet: Some(format!("{prefix}.0/24")),
            gateway: Some(gateway.clone()),
            ..IpamConfig::default()
        };
        let request = NetworkCreateRequest {
            name: format!("tachograph-{}", env::var("TACHOGRAPH_STACK").unwrap_or_default()),
            driver: Some("bridge".to_owned()),
            labels: Some(labels()),
            ipam: Some(Ipam { config: Some(vec![addresses]), ..Ipam::default() }),
            ..NetworkCreateRequest::default()
        };
        let made = engine.wait("to make a network", engine.client().create_network(request))?;
        Ok(Some(BridgeNetwork { engine, id: made.id }))
    }
}

impl Drop for BridgeNetwork<'_> {
    fn drop(&mut self) {
        // If this fails, the next run removes it by its label.
        let removed = self.engine.client().remove_network(&self.id);
        let _ = self.engine.wait("to remove a network", removed);
    }
}

/// A container that is removed on drop.
struct CreatedContainer<'e> {
    engine: &'e ContainerEngine,
    id: String,
}

impl CreatedContainer<'_> {
    fn start(&self) -> Result<(), EngineError> {
        let started = self.engine.client().start_container(&self.id, None::<StartContainerOptions>);
        self.engine.wait("to start a container", started)
    }

    fn inspect(&self) -> Result<ContainerInspectResponse, EngineError> {
        let state =
            self.engine.client().inspect_container(&self.id, None::<InspectContainerOptions>);
        self.engine.wait("to look at a container", state)
    }

    /// Moves the processes that the engine has started for the container to the stack's control
    /// group and CPUs, and adds them to the stack's list; then creates `adopted_file`.
    fn adopt_processes(
        &self,
        network: &Network,
        adopted_file: Option<&Path>,
    ) -> Result<(), ContainerError> {
        let state = self.inspect()?.state;
        let first = state.and_then(|state| i32::try_from(state.pid?).ok()).unwrap_or(0);
        if first == 0 {
            // It has ended already; the caller waiting for its end reports how.
            return Ok(());
        }
        if !belongs_to(first, &self.id) {
            return Err(ContainerError::Elsewhere);
        }
        let ports = match network {
            Network::Published(ports) | Network::Bridge { ports, .. } => ports.as_slice(),
            Network::None | Network::Host => &[],
        };
        let heads: BTreeSet<i32> =
            ports.iter().flat_map(|(port, _)| proxies(*port)).chain([first]).collect();
        let mut home = BTreeSet::new();
        // A process forked before its parent was moved is found in the next round.
        loop {
            let processes = processes::all();
            let born = heads.iter().flat_map(|head| processes::descendants(&processes, *head));
            let all: BTreeSet<i32> = born.map(|one| one.pid).chain(heads.clone()).collect();
            let new: Vec<i32> = all.difference(&home).copied().collect();
            if new.is_empty() {
                break;
            }
            for pid in new {
                // Only root may move the processes of an engine that runs as root; otherwise they
                // are counted through the list.
                let _ = cgroup::adopt(pid);
                pin(pid);
                home.insert(pid);
            }
        }
        if let Some(dir) = env::var_os("DIR") {
            let members = Members::of(Path::new(&dir));
            for process in heads.into_iter().filter_map(Process::find) {
                members.add_process(&process).map_err(ContainerError::List)?;
            }
        }
        if let Some(file) = adopted_file {
            let said = |error| ContainerError::Signal("a part of the stack", error);
            fs::write(file, "").map_err(said)?;
        }
        Ok(())
    }

    /// Waits for the container to end or for a stop request.
    fn wait(&self, healthy_file: Option<&Path>, stop: &AtomicBool) -> Result<(), ContainerError> {
        let options = None::<WaitContainerOptions>;
        let mut ended = Box::pin(self.engine.client().wait_container(&self.id, options));
        let mut awaited = healthy_file;
        let answer = loop {
            let next = async { tokio::time::timeout(LOOK, ended.next()).await };
            match self.engine.block_on(next) {
                _ if stop.load(Ordering::Relaxed) => return Ok(()),
                Ok(answer) => break answer,
                Err(_) => {}
            }
            if let Some(file) = awaited
                && self.is_healthy()?
            {
                fs::write(file, "").map_err(|error| ContainerError::Signal("healthy", error))?;
                awaited = None;
            }
        };
        let status = match answer {
            Some(Ok(response)) => response.status_code,
            // The client reports a status other than 0 as an error.
            Some(Err(ClientError::DockerContainerWaitError { code, .. })) => code,
            Some(error) => {
                self.engine.wait("to wait for a container", async { error })?.status_code
            }
            None => -1,
        };
        Err(ContainerError::Ended { status, log: self.log() })
    }

    fn is_healthy(&self) -> Result<bool, ContainerError> {
        let health = self.inspect()?.state.and_then(|state| state.health);
        match health.and_then(|health| health.status) {
            Some(HealthStatusEnum::HEALTHY) => Ok(true),
            Some(HealthStatusEnum::STARTING | HealthStatusEnum::UNHEALTHY) => Ok(false),
            Some(HealthStatusEnum::EMPTY | HealthStatusEnum::NONE) | None => {
                Err(ContainerError::NoHealthCheck)
            }
        }
    }

    /// The end of its log.
    fn log(&self) -> String {
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).tail("12").build();
        let lines = self.engine.client().logs(&self.id, Some(options));
        let lines = lines.filter_map(async |line| line.ok().map(LogOutput::into_bytes));
        let lines = async { tokio::time::timeout(PATIENCE, lines.collect::<Vec<_>>()).await };
        let lines = self.engine.block_on(lines).unwrap_or_default().concat();
        String::from_utf8_lossy(&lines).trim_end().to_owned()
    }
}

impl Drop for CreatedContainer<'_> {
    fn drop(&mut self) {
        let options = StopContainerOptionsBuilder::new().t(STOP_PATIENCE_S).build();
        let stopped = self.engine.client().stop_container(&self.id, Some(options));
        // A container that has already ended cannot be stopped. If removal fails, the next run
        // removes it by its label.
        let _ = self.engine.wait("to stop a container", stopped);
        let _ = remove_container(self.engine, &self.id);
    }
}

fn create(
    engine: &ContainerEngine,
    options: &ContainerOptions,
    image: String,
    network: Option<&BridgeNetwork<'_>>,
) -> Result<String, EngineError> {
    let body = description(options, image, network.map(|network| network.id.as_str()));
    let made = engine.client().create_container(None::<CreateContainerOptions>, body);
    Ok(engine.wait("to make a container", made)?.id)
}

/// The request that creates the container.
fn description(
    options: &ContainerOptions,
    image: String,
    network: Option<&str>,
) -> ContainerCreateBody {
    let is_host = options.image == Image::Host;
    let mut read_only = if is_host { image::mounts() } else { folders("PYTHONPATH").collect() };
    read_only.extend(options.read_only.iter().cloned());
    let mounts = read_only.iter().map(|folder| mount(folder, true));
    let mounts = mounts.chain(options.volumes.iter().map(|folder| mount(folder, false)));
    // Another image has its own programs in its own folders.
    let path = is_host.then_some("PATH");
    let names = PASSED.into_iter().chain(path).chain(options.env.iter().map(String::as_str));
    let env = names.filter_map(|name| Some(format!("{name}={}", env::var(name).ok()?))).collect();
    let (mode, ports, host_ip) = match &options.network {
        Network::None => ("none", [].as_slice(), ""),
        Network::Host => ("host", [].as_slice(), ""),
        Network::Published(ports) => ("bridge", ports.as_slice(), "127.0.0.1"),
        Network::Bridge { gateway, ports, .. } => {
            (network.unwrap_or("bridge"), ports.as_slice(), gateway.as_str())
        }
    };
    let published = ports.iter().map(|(outer, inner)| {
        let binding =
            PortBinding { host_ip: Some(host_ip.to_owned()), host_port: Some(outer.to_string()) };
        (format!("{inner}/tcp"), Some(vec![binding]))
    });
    let endpoint = match (&options.network, network) {
        (Network::Bridge { address, .. }, Some(network)) => {
            let ipam = EndpointIpamConfig {
                ipv4_address: Some(address.clone()),
                ..EndpointIpamConfig::default()
            };
            let settings =
                EndpointSettings { ipam_config: Some(ipam), ..EndpointSettings::default() };
            Some(HashMap::from([(network.to_owned(), settings)]))
        }
        _ => None,
    };
    let health = options.health.as_ref().map(|command| HealthConfig {
        test: Some(vec!["CMD-SHELL".to_owned(), command.clone()]),
        interval: Some(HEALTH_INTERVAL_NS),
        ..HealthConfig::default()
    });
    ContainerCreateBody {
        image: Some(image),
        cmd: Some(options.command.clone()),
        env: Some(env),
        labels: Some(labels()),
        healthcheck: health,
        exposed_ports: Some(ports.iter().map(|(_, inner)| format!("{inner}/tcp")).collect()),
        networking_config: endpoint
            .map(|endpoints| NetworkingConfig { endpoints_config: Some(endpoints) }),
        host_config: Some(HostConfig {
            mounts: Some(mounts.collect()),
            network_mode: Some(mode.to_owned()),
            port_bindings: Some(published.collect()),
            cpuset_cpus: Some(own_cpus()),
            init: Some(false),
            security_opt: Some(options.security_opt.clone()).filter(|given| !given.is_empty()),
            ulimits: Some(own_limits()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

/// Our own limits on open files and processes, so that a stack has the same limits inside a
/// container as outside. Podman's default is a million of each, which fails where the machine
/// allows less.
fn own_limits() -> Vec<ResourcesUlimits> {
    // The engine's API writes -1 for unlimited.
    let number = |n: Option<u64>| n.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
    // There cannot be more processes than process ids, and Podman's service allows no higher limit.
    let numbers = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    let numbers: i64 = numbers.trim().parse().unwrap_or(i64::MAX);
    [("nofile", Resource::Nofile, i64::MAX), ("nproc", Resource::Nproc, numbers)]
        .map(|(name, resource, most)| {
            let Rlimit { current, maximum } = getrlimit(resource);
            let limit = |n: Option<u64>| Some(number(n).min(most));
            let (soft, hard) = (limit(current), limit(maximum));
            ResourcesUlimits { name: Some(name.to_owned()), soft, hard }
        })
        .to_vec()
}

/// A folder of the host at the same path. The engine refuses it if it is not there; as one of `binds`,
/// it would be created, and so would the folder of a run that is killed and cleared away while the
/// engine still makes its container.
fn mount(folder: &Path, read_only: bool) -> Mount {
    let path = Some(folder.display().to_string());
    Mount {
        target: path.clone(),
        source: path,
        typ: Some(MountType::BIND),
        read_only: Some(read_only),
        ..Mount::default()
    }
}

fn labels() -> HashMap<String, String> {
    HashMap::from([(RUN_LABEL.to_owned(), env::var(RUN_DIR_VARIABLE).unwrap_or_default())])
}

/// The CPUs of this process, in the engine's format.
fn own_cpus() -> String {
    let Ok(set) = sched_getaffinity(None) else { return String::new() };
    let cpus: Vec<String> =
        (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu.to_string()).collect();
    cpus.join(",")
}

/// Whether a process belongs to a container, by the container's id in the names of its control
/// groups or by its environment. The pids of an engine on another machine or in another PID
/// namespace mean something else here.
fn belongs_to(pid: i32, id: &str) -> bool {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let stack = env::var("TACHOGRAPH_STACK").ok();
    groups.contains(id)
        || stack.is_some_and(|stack| {
            processes::environment_has(pid, "TACHOGRAPH_STACK", &|value| value == stack)
        })
}

/// The processes that forward a host port: `docker-proxy … -host-port 8000 …`.
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
    processes::all().into_iter().map(|process| process.pid).filter(is_ours).collect()
}

/// Pins every thread of a process to our CPUs.
fn pin(pid: i32) {
    let Ok(cpus) = sched_getaffinity(None) else { return };
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return };
    for thread in threads.flatten() {
        let id = thread.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        // A thread that has ended meanwhile needs no pinning.
        let _ = id.map(|id| sched_setaffinity(Some(id), &cpus));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(network: Network) -> ContainerOptions {
        ContainerOptions {
            image: Image::Named("python:3".to_owned()),
            command: vec!["app".to_owned()],
            env: Vec::new(),
            volumes: vec!["/shared".into()],
            read_only: vec!["/files".into()],
            security_opt: vec!["seccomp=unconfined".to_owned()],
            network,
            health: Some("test -e /ready".to_owned()),
            healthy_file: None,
            adopted_file: None,
        }
    }

    #[test]
    fn a_container_is_described_as_the_engine_wants_it() {
        let image = || "python:3".to_owned();
        let body = description(&options(Network::Published(vec![(8001, 8000)])), image(), None);
        let body = serde_json::to_value(body).unwrap();
        let host = &body["HostConfig"];
        assert!(host["Binds"].is_null(), "the engine would create folders that are not there");
        for (folder, read_only) in [("/files", true), ("/shared", false)] {
            let mount = serde_json::json!({
                "Type": "bind", "Source": folder, "Target": folder, "ReadOnly": read_only,
            });
            assert!(host["Mounts"].as_array().unwrap().contains(&mount), "{host}");
        }
        assert_eq!(host["NetworkMode"], "bridge");
        assert_eq!(host["SecurityOpt"], serde_json::json!(["seccomp=unconfined"]));
        assert_eq!(
            host["PortBindings"],
            serde_json::json!({ "8000/tcp": [{ "HostIp": "127.0.0.1", "HostPort": "8001" }] })
        );
        assert_eq!(body["ExposedPorts"], serde_json::json!({ "8000/tcp": {} }));
        assert_eq!(body["Image"], "python:3");
        assert_eq!(body["Healthcheck"]["Test"], serde_json::json!(["CMD-SHELL", "test -e /ready"]));
        for (limit, name) in host["Ulimits"].as_array().unwrap().iter().zip(["nofile", "nproc"]) {
            assert_eq!(limit["Name"], name);
            assert!(limit["Soft"].as_i64().is_some_and(|soft| soft != 0), "{limit}");
        }
        // The host's PATH is meaningless in another image.
        assert!(
            !body["Env"]
                .as_array()
                .unwrap()
                .iter()
                .any(|one| { one.as_str().is_some_and(|text| text.starts_with("PATH=")) })
        );
        let bridge = Network::Bridge {
            address: "10.0.0.2".to_owned(),
            gateway: "10.0.0.1".to_owned(),
            ports: Vec::new(),
        };
        let body = description(&options(bridge), image(), Some("net"));
        assert_eq!(body.host_config.unwrap().network_mode.unwrap(), "net");
        let endpoints = body.networking_config.unwrap().endpoints_config.unwrap();
        let address = endpoints["net"].ipam_config.as_ref().unwrap().ipv4_address.as_deref();
        assert_eq!(address, Some("10.0.0.2"));
        let body = description(&options(Network::Host), image(), None);
        assert_eq!(body.host_config.unwrap().network_mode.unwrap(), "host");
    }
}
