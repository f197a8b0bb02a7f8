//! A temporary network: a near machine, and far machines with a real sshd each.
//!
//! A far machine is a network, mount and process namespace with a home, /tmp and /run of its own and
//! the files of this machine otherwise. All are connected by a bridge in the near machine's network
//! namespace. Keys and configurations are generated; passwords are off everywhere.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Holds the near machine's network, and removes the folder when the far machines have ended.
const NEAR: &str = r#"
ip link set lo up
ip link add br0 type bridge
ip address add 10.77.0.1/24 dev br0
ip link set br0 up
echo ready
cat >/dev/null
for try in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf "$1" 2>/dev/null && exit
    sleep 0.2
done
"#;

/// The first process of a far machine; everything there ends with it. It is ready once sshd listens.
const FAR: &str = r#"
set -e
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir /run/sshd
cp "$1"/sshd_config "$1"/host_key "$1"/authorized /run/
cp "$1"/passwd /run/passwd
mount --bind "$1"/home /root
mount --bind /run/passwd /etc/passwd
exec 3>"$1"/log
mount --bind "$1"/tmp /tmp
ip link set lo up
cd /root
"$2" -D -e -f /run/sshd_config 2>&3 </dev/null &
exec 3>&-
n=0
until grep -q ":0016 00000000:0000 0A" /proc/net/tcp; do n=$((n + 1)); [ $n -lt 1000 ]; sleep 0.02; done
echo ready
read -r _ || true
"#;

/// sshd for keys only.
const SSHD_CONFIG: &str = "\
Port 22
HostKey /run/host_key
PidFile none
AuthorizedKeysFile /run/authorized
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
UseDNS no
MaxStartups 100
";

/// A link that a process delays.
const RELAY: &str = include_str!("delay.py");

/// A delayed link to a machine.
#[derive(Clone, Debug)]
pub struct DelayedLink {
    /// The machine's address on it.
    pub address: String,
    /// What delays it.
    pub way: &'static str,
}

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub enum NoNetwork {
    /// sshd is not installed.
    #[error("sshd is not installed: apt-get install openssh-server")]
    Missing,
    /// Only root may create namespaces with machines in them.
    #[error("machines in namespaces need root")]
    NotRoot,
    /// It could not be set up.
    #[error("a throw-away network could not be set up: {0}")]
    Failed(String),
}

/// A running network.
#[derive(Debug)]
pub struct Network {
    folder: PathBuf,
    near: Child,
    machines: Vec<Machine>,
    relays: Vec<Child>,
    configs: AtomicU32,
}

/// A far machine.
#[derive(Debug)]
struct Machine {
    name: String,
    holder: Child,
    /// Its first process.
    pid: u32,
}

impl Network {
    /// Starts far machines of these names, which the ssh configuration has as aliases.
    ///
    /// # Errors
    /// [`NoNetwork`].
    pub fn start(names: &[&str]) -> Result<Network, NoNetwork> {
        let sshd = sshd().ok_or(NoNetwork::Missing)?;
        if !crate::is_root() {
            return Err(NoNetwork::NotRoot);
        }
        let folder =
            tempfile::Builder::new().prefix("tachograph-net-").tempdir().map_err(failed)?;
        let mut near = Command::new("unshare");
        near.args(["--net", "--", "sh", "-c", NEAR, "near"]).arg(folder.path());
        let near = start(near)?;
        // From now on the near machine's shell removes it.
        let folder = folder.keep();
        let mut network =
            Network { folder, near, machines: vec![], relays: vec![], configs: AtomicU32::new(0) };
        for key in ["user", "stranger"] {
            network.key(key, "")?;
        }
        for (i, name) in names.iter().enumerate() {
            network.add(name, i, &sshd)?;
        }
        Ok(network)
    }

    fn add(&mut self, name: &str, i: usize, sshd: &Path) -> Result<(), NoNetwork> {
        let folder = self.folder.join(name);
        for part in ["home", "tmp"] {
            std::fs::create_dir_all(folder.join(part)).map_err(failed)?;
        }
        keygen(&folder.join("host_key"), "")?;
        let write =
            |file: &str, text: &str| std::fs::write(folder.join(file), text).map_err(failed);
        write("sshd_config", SSHD_CONFIG)?;
        let user = std::fs::read_to_string(self.folder.join("user.pub")).map_err(failed)?;
        write("authorized", &user)?;
        let passwd = std::fs::read_to_string("/etc/passwd").map_err(failed)?;
        let others: Vec<&str> = passwd.lines().filter(|line| !line.starts_with("root:")).collect();
        write("passwd", &format!("root:x:0:0:root:/root:/bin/bash\n{}\n", others.join("\n")))?;

        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "--pid", "--fork", "--kill-child"]);
        command.args(["--propagation", "private", "--", "sh", "-c", FAR, "far"]);
        command.arg(&folder).arg(sshd);
        let holder = start(command)?;
        let children = format!("/proc/{0}/task/{0}/children", holder.id());
        let children = std::fs::read_to_string(children).map_err(failed)?;
        let pid = children.trim().parse().map_err(failed)?;
        self.machines.push(Machine { name: name.to_owned(), holder, pid });
        let pid = pid.to_string();
        let in_near = |words: &str| run(self.near("ip").args(words.split(' ')));
        in_near(&format!("link add {} type veth peer name eth0 netns {pid}", link(i)))?;
        in_near(&format!("link set {} master br0 up", link(i)))?;
        let address = format!("{}/24", address(i));
        run(self.on(name, "ip").args(["address", "add", &address, "dev", "eth0"]))?;
        run(self.on(name, "ip").args(["link", "set", "eth0", "up"]))?;
        run(self.on(name, "ip").args(["route", "add", "default", "via", "10.77.0.1"]))
    }

    /// Creates a key pair of this name with a passphrase, and returns the private key's path.
    ///
    /// # Errors
    /// [`NoNetwork::Failed`].
    pub fn key(&self, name: &str, passphrase: &str) -> Result<PathBuf, NoNetwork> {
        let path = self.folder.join(name);
        keygen(&path, passphrase)?;
        Ok(path)
    }

    /// Adds a key, of [`Network::key`], to those that a machine accepts.
    ///
    /// # Errors
    /// [`NoNetwork::Failed`].
    pub fn authorize(&self, machine: &str, key: &Path) -> Result<(), NoNetwork> {
        let script = "cat >>/run/authorized";
        let public = std::fs::File::open(key.with_extension("pub")).map_err(failed)?;
        run_with(self.on(machine, "sh").args(["-c", script]), Stdio::from(public))
    }

    /// The ssh command for these machines, with lines of ssh_config(5) that precede, and thereby
    /// override, the generated ones. It runs in the near machine's network, and uses the key `user`.
    ///
    /// # Errors
    /// [`NoNetwork::Failed`].
    pub fn ssh(&self, lines: &str) -> Result<String, NoNetwork> {
        let folder = self.folder.display();
        let mut config = format!("{lines}\n");
        for (i, machine) in self.machines.iter().enumerate() {
            config += &format!("Host {}\n  HostName {}\n", machine.name, address(i));
        }
        config += &format!(
            "Host *\n  User root\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n"
        );
        let mut known = String::new();
        for (i, machine) in self.machines.iter().enumerate() {
            known += &format!("{} {}", address(i), self.host_key(&machine.name)?);
        }
        std::fs::write(self.folder.join("known_hosts"), known).map_err(failed)?;
        let number = self.configs.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("ssh_config-{number}"));
        std::fs::write(&path, config).map_err(failed)?;
        Ok(format!("nsenter --target {} --net -- ssh -F {}", self.near.id(), path.display()))
    }

    /// A machine's public host key.
    ///
    /// # Errors
    /// [`NoNetwork::Failed`].
    pub fn host_key(&self, machine: &str) -> Result<String, NoNetwork> {
        std::fs::read_to_string(self.folder.join(machine).join("host_key.pub")).map_err(failed)
    }

    /// The network's temporary folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A machine's home.
    pub fn home(&self, machine: &str) -> PathBuf {
        self.folder.join(machine).join("home")
    }

    /// A machine's address.
    ///
    /// # Panics
    /// If the network has no machine of this name.
    pub fn address(&self, machine: &str) -> String {
        address(self.place(machine))
    }

    /// A command in the near machine's network.
    pub fn near(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.near.id().to_string(), "--net", "--", program]);
        command
    }

    /// A command on a far machine, as root in its home.
    ///
    /// # Panics
    /// If the network has no machine of this name.
    pub fn on(&self, machine: &str, program: &str) -> Command {
        let pid = self.machines[self.place(machine)].pid.to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &pid, "--net", "--mount", "--pid", "--wd=/root"]);
        command.args(["--", program]).env("HOME", "/root");
        command
    }

    /// Runs a script of sh on a far machine; returns what it printed.
    ///
    /// # Errors
    /// [`NoNetwork::Failed`] with what it printed to standard error, if its status is not 0.
    pub fn sh(&self, machine: &str, script: &str) -> Result<String, NoNetwork> {
        output(self.on(machine, "sh").args(["-c", script]))
    }

    /// Takes a machine's link up or down.
    ///
    /// # Errors
    /// [`NoNetwork::Failed`].
    pub fn link(&self, machine: &str, up: bool) -> Result<(), NoNetwork> {
        let state = if up { "up" } else { "down" };
        run(self.near("ip").args(["link", "set", &link(self.place(machine)), state]))
    }

    /// Delays what a machine sends and receives, half on each way: by netem, or, where the kernel
    /// does not have it, on a second link that a process delays.
    ///
    /// # Errors
    /// [`NoNetwork::Failed`].
    pub fn delay(&mut self, machine: &str, delay: Duration) -> Result<DelayedLink, NoNetwork> {
        let half = format!("{}us", delay.as_micros() / 2);
        let words = |device: &str| {
            format!("qdisc replace dev {device} root netem delay {half} limit 100000")
        };
        let place = self.place(machine);
        match run(self.near("tc").args(words(&link(place)).split(' '))) {
            Ok(()) => {}
            Err(NoNetwork::Failed(why)) if why.contains("qdisc kind is unknown") => {
                return self.relay(place, delay);
            }
            Err(error) => return Err(error),
        }
        run(self.on(machine, "tc").args(words("eth0").split(' ')))?;
        Ok(DelayedLink { address: address(place), way: "netem" })
    }

    fn relay(&mut self, place: usize, delay: Duration) -> Result<DelayedLink, NoNetwork> {
        let address = format!("10.78.{place}.2");
        let mut command = self.near("python3");
        command.args(["-c", RELAY, &format!("near{place}"), &format!("delayed{place}")]);
        command.args([&format!("10.78.{place}.1"), &address]);
        command.arg(self.machines[place].pid.to_string());
        command.arg((delay.as_secs_f64() / 2.0).to_string());
        let relay = start(command)?;
        self.relays.push(relay);
        Ok(DelayedLink { address, way: "a relay, because this kernel has no netem" })
    }

    /// The command lines of a machine's processes, except its first one and sshd's.
    pub fn left_at(&self, machine: &str) -> Vec<String> {
        let first = self.machines[self.place(machine)].pid;
        let space = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let Some(its) = space(first) else { return Vec::new() };
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| *pid != first && space(*pid).as_ref() == Some(&its))
            .filter_map(|pid| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                let is_sshd = line.starts_with("sshd") || line.contains("/sshd -D");
                (!line.is_empty() && !is_sshd).then_some(line)
            })
            .collect()
    }

    /// What a machine's sshd logged.
    pub fn log(&self, machine: &str) -> String {
        std::fs::read_to_string(self.folder.join(machine).join("log")).unwrap_or_default()
    }

    fn place(&self, machine: &str) -> usize {
        let place = self.machines.iter().position(|known| known.name == machine);
        place.unwrap_or_else(|| panic!("there is no machine {machine}"))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for relay in &mut self.relays {
            drop(relay.stdin.take());
            let _ = relay.wait();
        }
        for machine in &mut self.machines {
            drop(machine.holder.stdin.take());
            let _ = machine.holder.wait();
        }
        drop(self.near.stdin.take());
        let _ = self.near.wait();
    }
}

/// Starts the first process of a machine, and waits until it is ready.
fn start(mut command: Command) -> Result<Child, NoNetwork> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // In a separate group, so that Ctrl-C does not reach it.
    let mut child = command.process_group(0).spawn().map_err(failed)?;
    let said = child.stdout.take().map(read_line).unwrap_or_default();
    if said.trim() == "ready" {
        return Ok(child);
    }
    let _ = child.kill();
    let done = child.wait_with_output().map_err(failed)?;
    Err(NoNetwork::Failed(String::from_utf8_lossy(&done.stderr).trim().to_owned()))
}

fn read_line(out: ChildStdout) -> String {
    let mut line = String::new();
    // An error reads as an end, which is reported.
    let _ = BufReader::new(out).read_line(&mut line);
    line
}

fn sshd() -> Option<PathBuf> {
    // sshd refuses to start by a relative path.
    ["/usr/sbin/sshd", "/usr/bin/sshd"].map(PathBuf::from).into_iter().find(|path| path.exists())
}

fn keygen(path: &Path, passphrase: &str) -> Result<(), NoNetwork> {
    let mut command = Command::new("ssh-keygen");
    run(command.args(["-q", "-t", "ed25519", "-C", "test", "-N", passphrase, "-f"]).arg(path))
}

fn address(i: usize) -> String {
    format!("10.77.0.{}", 11 + i)
}

fn link(i: usize) -> String {
    format!("far{i}")
}

fn run(command: &mut Command) -> Result<(), NoNetwork> {
    run_with(command, Stdio::null())
}

fn run_with(command: &mut Command, input: Stdio) -> Result<(), NoNetwork> {
    let shown = format!("{command:?}").replace('"', "");
    let done = command.stdin(input).output().map_err(failed)?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(NoNetwork::Failed(format!("{shown}: {}: {}", done.status, said.trim())))
}

fn output(command: &mut Command) -> Result<String, NoNetwork> {
    let done = command.stdin(Stdio::null()).output().map_err(failed)?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(NoNetwork::Failed(format!("{}: {}", done.status, said.trim())))
}

fn failed(error: impl std::error::Error) -> NoNetwork {
    NoNetwork::Failed(error.to_string())
}
