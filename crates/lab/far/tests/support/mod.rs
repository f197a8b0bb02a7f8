//! A network of machines with sshd, and stand-ins for tachograph's binary.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use far::reach::{Cause, Channel, Host, Options, Program, connect};
use throwaway::{Network, NoNetwork};

/// The part of tachograph that `reach` knows: it tells its version and its hash, and runs as an
/// agent, which here sends back what it receives.
pub(crate) const STAND_IN: &str = r#"#!/bin/sh
case "$1" in
--version) echo "tachograph 0" ;;
self-hash) sha256sum <"$0" | cut -d" " -f1 ;;
agent) exec cat ;;
esac
"#;

/// A network; `None`, with a note, where there can be none.
pub(crate) fn network(names: &[&str]) -> Option<Network> {
    match Network::start(names) {
        Ok(network) => Some(network),
        Err(NoNetwork::NotRoot) => {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("a test").to_owned();
            #[allow(clippy::print_stderr, reason = "whoever runs the tests should know")]
            {
                eprintln!("NOT RUN, {name}: {}", NoNetwork::NotRoot);
            }
            if let Some(file) = std::env::var_os("TACHOGRAPH_TEST_NOT_RUN") {
                let mut file =
                    std::fs::File::options().append(true).create(true).open(file).unwrap();
                writeln!(file, "{name}: {}", NoNetwork::NotRoot).unwrap();
            }
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A program, in the network's folder.
pub(crate) fn program(network: &Network, content: impl AsRef<[u8]>) -> Program {
    let path = network.folder().join(format!("program-{}", content.as_ref().len()));
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    Program::read(&path).unwrap()
}

/// Options with the stand-in, and these lines before the generated ssh configuration.
pub(crate) fn options(network: &Network, lines: &str) -> Options {
    let ssh = network.ssh(lines).unwrap();
    Options {
        ssh: ssh.split(' ').map(str::to_owned).collect(),
        connect_timeout: Duration::from_secs(8),
        patience: Duration::from_secs(60),
        programs: vec![program(network, STAND_IN)],
        version: "0.1.0".to_owned(),
        folder: None,
        words: vec!["agent".to_owned()],
        stop: Arc::default(),
    }
}

pub(crate) fn reached(host: &str, options: &Options) -> Channel {
    let host: Host = host.parse().unwrap();
    connect(&host, options).unwrap_or_else(|error| panic!("{error}"))
}

/// The cause and the sentence of a refusal.
pub(crate) fn refused(host: &str, options: &Options) -> (Cause, String) {
    let host: Host = host.parse().unwrap();
    match connect(&host, options) {
        Ok(channel) => panic!("it was reached: {:?}", channel.facts),
        Err(error) => {
            // Hints have the configured command, which is longer here than a sentence of a test.
            let said = error.to_string().replace(&(shell_words::join(&options.ssh) + " "), "ssh ");
            (error.cause.clone(), said)
        }
    }
}

/// Where a machine keeps binaries.
pub(crate) fn kept(network: &Network, machine: &str) -> PathBuf {
    network.home(machine).join(".cache/tachograph/far")
}

/// The names in the folder of binaries.
pub(crate) fn names(network: &Network, machine: &str) -> Vec<String> {
    let entries = std::fs::read_dir(kept(network, machine)).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Whether a condition becomes true within a limit.
pub(crate) fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Fails unless nothing is left running on a machine, and no torn copy, within ten seconds; more
/// where the machine that runs the test is busy.
#[track_caller]
pub(crate) fn nothing_left(network: &Network, machine: &str) {
    let empty = || {
        network.left_at(machine).is_empty()
            && !names(network, machine).iter().any(|name| name.starts_with("incoming-"))
    };
    assert!(
        within(Duration::from_secs(30), empty),
        "left: {:?} {:?}",
        network.left_at(machine),
        names(network, machine)
    );
}
