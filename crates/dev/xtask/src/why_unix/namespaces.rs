//! Network namespaces for the measurement, and what is run in them.
//!
//! A namespace belongs to a process: the server's, and one that only holds the far end of the pair of
//! virtual devices. Both end when this process does, because their standard input ends.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::functions::Profile;
use super::trip::{CLIENT, SERVER, Trips};
use super::way::Way;
use crate::process::{KilledOnDrop, comes_true, output};

/// Addresses of the server, on the loopback device and on the virtual one.
const LOOPBACK: &str = "127.0.0.1";
const NEAR: &str = "10.111.7.1";
const FAR: &str = "10.111.7.2";

/// Names of the two virtual devices.
const DEVICES: [&str; 2] = ["tgnear", "tgfar"];

/// The rule that makes the kernel track connections.
const RULE: [&str; 7] =
    ["INPUT", "-m", "conntrack", "--ctstate", "NEW,ESTABLISHED", "-j", "ACCEPT"];

pub(super) struct Namespaces {
    server: KilledOnDrop,
    far: KilledOnDrop,
    folder: TempDir,
    program: PathBuf,
    cpu: usize,
    /// Programs that are missing, and what is not measured without them.
    pub(super) missing: Vec<(&'static str, &'static str)>,
}

impl Namespaces {
    pub(super) fn begin() -> Result<Namespaces, String> {
        let mut missing = Vec::new();
        for (program, package, without) in [
            ("perf", "linux-perf", "the functions of the kernel"),
            ("iptables", "iptables", "connection tracking"),
            ("ethtool", "ethtool", "checksums"),
        ] {
            if run(Command::new(program).arg("--version")).is_err() {
                missing.push((package, without));
            }
        }
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let cpus = rustix::thread::sched_getaffinity(None).map_err(|error| error.to_string())?;
        let cpu = (0..1024).rfind(|cpu| cpus.is_set(*cpu)).unwrap_or_default();
        let of_namespace = |command: &mut Command| {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map(KilledOnDrop).map_err(|error| {
                format!(
                    "cannot run unshare ({error}): network namespaces are needed, call it as root"
                )
            })
        };
        let mut server = Command::new("unshare");
        server.args(["--net", "--", "taskset", "--cpu-list", &cpu.to_string()]);
        server.arg(&program).arg("why-unix-server").arg(folder.path());
        let mut server = of_namespace(&mut server)?;
        let mut ready = String::new();
        let said = server.0.stdout.take().map(|out| BufReader::new(out).read_line(&mut ready));
        if !matches!(said, Some(Ok(count)) if count > 0) {
            return Err(
                "the server did not start: network namespaces are needed, call it as root".into()
            );
        }
        let mut far = Command::new("unshare");
        far.args(["--net", "--", "cat"]);
        let far = of_namespace(&mut far)?;
        let namespaces = Namespaces { server, far, folder, program, cpu, missing };
        namespaces.connect()?;
        Ok(namespaces)
    }

    /// Brings the devices up.
    fn connect(&self) -> Result<(), String> {
        let [near, far] = DEVICES;
        let far_pid = self.far.0.id().to_string();
        let in_near = |words: &[&str]| run(self.near("ip").args(words));
        let in_far = |words: &[&str]| run(self.far("ip").args(words));
        in_near(&["link", "set", "lo", "up"])?;
        in_near(&["link", "add", near, "mtu", "65535", "type", "veth", "peer", "name", far])?;
        // The process may not have entered its namespace yet; then the device would stay here.
        self.wait_for_far()?;
        in_near(&["link", "set", far, "netns", &far_pid])?;
        in_near(&["address", "add", &format!("{NEAR}/24"), "dev", near])?;
        in_far(&["address", "add", &format!("{FAR}/24"), "dev", far])?;
        in_near(&["link", "set", near, "up"])?;
        in_far(&["link", "set", far, "mtu", "65535", "up"])
    }

    fn wait_for_far(&self) -> Result<(), String> {
        let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net"));
        let own = namespace("self").map_err(|error| error.to_string())?;
        let far = self.far.0.id().to_string();
        let is_other = || namespace(&far).is_ok_and(|far| far != own);
        match comes_true(Duration::from_secs(5), Duration::from_millis(5), is_other) {
            true => Ok(()),
            false => Err("the second network namespace did not appear".to_owned()),
        }
    }

    /// Whether what a way needs is there.
    pub(super) fn admits(&self, way: Way) -> bool {
        let lacks = |package: &str| self.missing.iter().any(|(missing, _)| *missing == package);
        !(way.is_tracked() && lacks("iptables") || way.is_over_veth() && lacks("ethtool"))
    }

    /// Measures a way for some milliseconds.
    pub(super) fn measure(&self, way: Way, size: usize, millis: u64) -> Result<Trips, String> {
        self.prepared(way, || {
            let client = self.client(way, size, millis);
            let printed = output(self.enter(way, "taskset").args(client))?;
            let mut numbers = printed.split_whitespace().map(str::parse);
            match (numbers.next(), numbers.next()) {
                (Some(Ok(count)), Some(Ok(nanos))) => Ok(Trips { count, nanos }),
                _ => Err(format!("the client printed {printed:?}")),
            }
        })
    }

    /// What the kernel does meanwhile; `None` without `perf`.
    pub(super) fn profile(
        &self,
        way: Way,
        size: usize,
        millis: u64,
    ) -> Result<Option<Profile>, String> {
        if self.missing.iter().any(|(missing, _)| *missing == "linux-perf") {
            return Ok(None);
        }
        let data = self.folder.path().join("perf.data");
        self.prepared(way, || {
            let mut record = self.enter(way, "perf");
            record.args(["record", "--quiet", "--event", "cpu-clock", "--freq", "4999", "--cpu"]);
            record.arg(self.cpu.to_string()).arg("--output").arg(&data).args(["--", "taskset"]);
            output(record.args(self.client(way, size, millis))).map(|_| ())
        })?;
        let mut report = Command::new("perf");
        report.args(["report", "--stdio", "--quiet", "--fields", "sample,sym", "--comms"]);
        report.arg(format!("{CLIENT},{SERVER}")).arg("--input").arg(&data);
        Ok(Some(Profile::read(&output(&mut report)?)))
    }

    /// Does something with connection tracking and checksums as a way has them.
    fn prepared<T>(&self, way: Way, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        if way.is_over_veth() {
            let sums = if way == Way::TcpVethSummed { "off" } else { "on" };
            let [near, far] = DEVICES;
            // Segments as large as the loopback device's, so that only checksums differ.
            let set = ["tx", sums, "tso", "off", "gso", "off", "gro", "off"];
            run(self.near("ethtool").args(["--offload", near]).args(set))?;
            run(self.far("ethtool").args(["--offload", far]).args(set))?;
        }
        if !way.is_tracked() {
            return work();
        }
        run(self.near("iptables").arg("--append").args(RULE))?;
        let done = work();
        run(self.near("iptables").arg("--delete").args(RULE))?;
        done
    }

    /// The client's command line after `taskset`.
    fn client(&self, way: Way, size: usize, millis: u64) -> Vec<String> {
        let host = if way.is_over_veth() { NEAR } else { LOOPBACK };
        let mut words = vec!["--cpu-list".to_owned(), self.cpu.to_string()];
        words.push(self.program.display().to_string());
        words.extend(["why-unix-client", way.word()].map(str::to_owned));
        words.push(self.folder.path().display().to_string());
        words.extend([host.to_owned(), size.to_string(), millis.to_string()]);
        words
    }

    /// A command in the namespace of a way's client.
    fn enter(&self, way: Way, program: &str) -> Command {
        if way.is_over_veth() { self.far(program) } else { self.near(program) }
    }

    fn near(&self, program: &str) -> Command {
        entering(self.server.0.id(), program)
    }

    fn far(&self, program: &str) -> Command {
        entering(self.far.0.id(), program)
    }
}

fn entering(pid: u32, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", &pid.to_string(), "--net", "--", program]);
    command
}

fn run(command: &mut Command) -> Result<(), String> {
    output(command).map(|_| ())
}
