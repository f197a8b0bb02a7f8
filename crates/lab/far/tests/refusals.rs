//! Each way in which ssh can refuse, by a real sshd.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod support;

use std::process::{Command, Stdio};

use far::reach::Cause;
use support::{network, nothing_left, options, reached, refused};
use throwaway::Network;

#[test]
fn a_key_that_is_not_listed_is_refused() {
    let Some(network) = network(&["far"]) else { return };
    network.key("unlisted", "").unwrap();
    let key = format!("IdentityFile {}/unlisted\nIdentityAgent none", network.folder().display());
    // IdentityFile adds up, so the listed key must not be offered either.
    std::fs::remove_file(network.folder().join("user")).unwrap();
    let (_, sentence) = refused("far", &options(&network, &key));
    assert_eq!(
        sentence,
        "cannot use far: it accepts none of your keys (root@10.77.0.11: Permission denied \
         (publickey)). Add your public key there (ssh-copy-id), or unlock it for ssh-agent (ssh-add); \
         tachograph never asks for a password. Test with: ssh far -o BatchMode=yes true"
    );
}

#[test]
fn a_host_that_is_not_known_is_never_accepted() {
    let Some(network) = network(&["far"]) else { return };
    // The user's own configuration may be careless.
    let lines = "UserKnownHostsFile /dev/null\nStrictHostKeyChecking no";
    let (_, sentence) = refused("far", &options(&network, lines));
    assert_eq!(
        sentence,
        "cannot use far: its host key is not in known_hosts (No ED25519 host key is known for \
         10.77.0.11 and you have requested strict checking). Log in once by hand and compare the \
         fingerprint: ssh far"
    );
}

#[test]
fn a_host_whose_key_has_changed_is_refused() {
    let Some(network) = network(&["far", "other"]) else { return };
    let known = network.folder().join("changed");
    let other = network.host_key("other").unwrap();
    std::fs::write(&known, format!("# a comment\n10.77.0.11 {other}")).unwrap();
    let lines = format!("UserKnownHostsFile {}", known.display());
    let (_, sentence) = refused("far", &options(&network, &lines));
    assert_eq!(
        sentence,
        format!(
            "cannot use far: its host key is not the one in {}:2. If the machine was reinstalled, \
             remove that line and log in once by hand to compare the new fingerprint (ssh far); \
             otherwise someone may be intercepting the connection",
            known.display()
        )
    );
}

/// An ssh-agent that ends with the test.
struct Agent {
    child: std::process::Child,
    socket: std::path::PathBuf,
}

impl Agent {
    fn start(network: &Network) -> Agent {
        let socket = network.folder().join("agent");
        let mut command = Command::new("ssh-agent");
        command.arg("-D").arg("-a").arg(&socket).stdout(Stdio::null());
        let agent = Agent { child: command.spawn().unwrap(), socket };
        assert!(support::within(std::time::Duration::from_secs(30), || agent.socket.exists()));
        agent
    }

    /// Adds a key with a passphrase, which a program provides.
    fn add(&self, key: &std::path::Path, passphrase: &str) {
        let asked = key.with_extension("askpass");
        std::fs::write(&asked, format!("#!/bin/sh\necho {passphrase}\n")).unwrap();
        std::fs::set_permissions(&asked, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        let mut command = Command::new("ssh-add");
        command.arg(key).env("SSH_AUTH_SOCK", &self.socket).env("SSH_ASKPASS", &asked);
        command.env("SSH_ASKPASS_REQUIRE", "force").stdin(Stdio::null());
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_key_with_a_passphrase_works_by_ssh_agent_and_is_never_asked_for() {
    let Some(network) = network(&["far"]) else { return };
    let key = network.key("locked", "sesame").unwrap();
    network.authorize("far", &key).unwrap();
    std::fs::remove_file(network.folder().join("user")).unwrap();
    let identity = format!("IdentityFile {}", key.display());
    let (cause, _) = refused("far", &options(&network, &format!("{identity}\nIdentityAgent none")));
    assert!(matches!(cause, Cause::KeyRefused { .. }), "{cause:?}");
    let agent = Agent::start(&network);
    agent.add(&key, "sesame");
    let lines = format!("{identity}\nIdentityAgent {}", agent.socket.display());
    drop(reached("far", &options(&network, &lines)));
    nothing_left(&network, "far");
}

#[test]
fn a_certificate_of_a_known_authority_works() {
    let Some(network) = network(&["far"]) else { return };
    let authority = network.key("authority", "").unwrap();
    let key = network.key("certified", "").unwrap();
    let mut sign = Command::new("ssh-keygen");
    sign.args(["-q", "-I", "test", "-n", "root", "-s"]).arg(&authority);
    assert!(sign.arg(key.with_extension("pub")).status().unwrap().success());
    let public = std::fs::read_to_string(authority.with_extension("pub")).unwrap();
    network
        .sh("far", &format!("echo 'cert-authority {public}' | tr -d '\\n' >/run/authorized"))
        .unwrap();
    let lines = format!("IdentityFile {}\nIdentityAgent none", key.display());
    drop(reached("far", &options(&network, &lines)));
}

#[test]
fn hosts_that_do_not_answer_are_told_apart() {
    let Some(network) = network(&["far"]) else { return };
    let patient = options(&network, "Host silent\n  HostName 10.77.0.11\n  Port 9\n");
    let mut quick = patient.clone();
    quick.connect_timeout = std::time::Duration::from_secs(1);
    let sentence = |host: &str| refused(host, &patient).1;
    assert_eq!(
        sentence("ssh://far:2222"),
        "cannot use ssh://far:2222: connection refused (ssh: connect to host 10.77.0.11 port 2222: \
         Connection refused). Start sshd there, or check the port"
    );
    let unknown = sentence("nowhere.invalid");
    assert!(
        unknown.starts_with(
            "cannot use nowhere.invalid: there is no host of that name (ssh: Could not resolve \
             hostname nowhere.invalid: "
        ),
        "{unknown}"
    );
    // A program that accepts connections and says nothing.
    let script = "import socket, sys\ns = socket.create_server(('0.0.0.0', 9))\nprint('up', flush=True)\n\
                  sys.stdin.read()";
    let mut listener = network.on("far", "python3");
    listener.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut listener = listener.spawn().unwrap();
    let mut line = String::new();
    let out = listener.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    assert_eq!(
        refused("silent", &quick).1,
        "cannot use silent: it does not answer (Connection timed out during banner exchange). Check \
         that it is up, and firewalls on the way"
    );
    drop(listener.stdin.take());
    listener.wait().unwrap();
    network.link("far", false).unwrap();
    // Before the kernel gives up the search for its address, which has another sentence.
    assert_eq!(
        refused("far", &quick).1,
        "cannot use far: it does not answer (ssh: connect to host 10.77.0.11 port 22: Connection \
         timed out). Check that it is up, and firewalls on the way"
    );
    let lines = "Host away\n  HostName 192.0.2.1\n";
    assert_eq!(
        refused("away", &options(&network, lines)).1,
        "cannot use away: there is no route to it (ssh: connect to host 192.0.2.1 port 22: Network \
         is unreachable). Check that it is up, and the network"
    );
}

#[test]
fn ssh_itself_may_be_the_cause() {
    let Some(network) = network(&["far"]) else { return };
    let (_, sentence) = refused("far", &options(&network, "Wonder yes"));
    assert!(sentence.starts_with("cannot use far: ssh does not accept its configuration ("));
    assert!(sentence.contains("line 1: Bad configuration option: wonder"), "{sentence}");
    let mut missing = options(&network, "");
    missing.ssh = vec!["/nowhere/ssh".to_owned()];
    assert_eq!(
        refused("far", &missing).1,
        "cannot find /nowhere/ssh: install OpenSSH's client (sudo apt install openssh-client)"
    );
}

#[test]
fn accounts_without_a_shell_are_named() {
    let Some(network) = network(&["far"]) else { return };
    network.sh("far", "sed -i 's|/bin/bash|/usr/sbin/nologin|' /run/passwd; cp /run/passwd /run/p; cat /run/p >/etc/passwd").unwrap();
    assert_eq!(
        refused("far", &options(&network, "")).1,
        "cannot use far: no POSIX shell (sh) ran there (This account is currently not available). \
         Test with: ssh far uname"
    );
}

#[test]
fn a_user_who_stops_is_not_kept_waiting() {
    let Some(network) = network(&["far"]) else { return };
    network.link("far", false).unwrap();
    let options = options(&network, "");
    options.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(refused("far", &options), (Cause::Stopped, "stopped before far was reached".into()));
}
