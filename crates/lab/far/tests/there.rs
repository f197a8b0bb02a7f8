//! What is found at the far end, and what is put there.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod support;

use std::io::{Read as _, Write as _};
use std::time::Duration;

use far::reach::{Cause, Channel, Options, Program};
use support::{
    STAND_IN, kept, names, network, nothing_left, options, program, reached, refused, within,
};
use throwaway::Network;

/// Sends a word to the stand-in, and fails unless it comes back and the channel ends in order.
#[track_caller]
fn speaks(mut channel: Channel) {
    channel.writer.write_all(b"word\n").unwrap();
    drop(channel.writer);
    let mut back = String::new();
    channel.reader.read_to_string(&mut back).unwrap();
    assert_eq!(back, "word\n");
    let status = channel.ssh.wait(Duration::from_secs(60)).unwrap();
    assert!(status.success(), "{status}: {}", channel.ssh.said());
}

#[test]
fn the_program_is_copied_once_and_found_afterwards() {
    let Some(network) = network(&["far"]) else { return };
    let options = options(&network, "");
    let first = reached("far", &options);
    let size = STAND_IN.len() as u64;
    assert_eq!(first.facts.copied_bytes, size);
    assert_eq!(first.facts.machine, std::env::consts::ARCH);
    assert!(first.facts.near_address.starts_with("10.77.0.1:"), "{:?}", first.facts);
    assert_eq!(first.facts.far_address, "10.77.0.11:22");
    let folder = format!("0.1.0-{}", options.programs[0].sha256);
    assert_eq!(first.facts.program, format!("/root/.cache/tachograph/far/{folder}/tachograph"));
    speaks(first);
    assert_eq!(names(&network, "far"), [folder]);
    let second = reached("far", &options);
    assert_eq!(second.facts.copied_bytes, 0);
    speaks(second);
    nothing_left(&network, "far");
}

#[test]
fn two_copies_at_once_do_not_disturb_each_other() {
    let Some(network) = network(&["far"]) else { return };
    let options = options(&network, "");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| speaks(reached("far", &options)));
        }
    });
    assert_eq!(names(&network, "far").len(), 1);
}

#[test]
fn an_installed_program_is_used_if_its_hash_is_the_same() {
    let Some(network) = network(&["far"]) else { return };
    let options = options(&network, "");
    let bin = network.home("far").join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(network.home("far").join(".bashrc"), "PATH=/root/bin:$PATH\n").unwrap();
    std::fs::copy(&options.programs[0].path, bin.join("tachograph")).unwrap();
    let found = reached("far", &options);
    assert_eq!(
        (found.facts.copied_bytes, found.facts.program.as_str()),
        (0, "/root/bin/tachograph")
    );
    speaks(found);
    // Another version there is left alone, and not used.
    std::fs::write(bin.join("tachograph"), "#!/bin/sh\necho tachograph 9\n").unwrap();
    let copied = reached("far", &options);
    assert_eq!(copied.facts.copied_bytes, STAND_IN.len() as u64);
    speaks(copied);
    assert!(bin.join("tachograph").exists());
}

#[test]
fn what_login_shells_print_is_skipped() {
    let Some(network) = network(&["far"]) else { return };
    let noise = "echo Welcome!\necho tachograph-reachable\necho 'a warning' >&2\n\
                 seq 1 20000\nprintf 'no end of line'\n";
    std::fs::write(network.home("far").join(".bashrc"), noise).unwrap();
    speaks(reached("far", &options(&network, "")));
    std::fs::write(network.home("far").join(".bashrc"), "yes").unwrap();
    assert_eq!(
        refused("far", &options(&network, "")).1,
        "cannot use far: no POSIX shell (sh) ran there (it printed more than 1 MiB). Test with: ssh \
         far uname"
    );
    nothing_left(&network, "far");
}

#[test]
fn other_login_shells_run_the_script_too() {
    let Some(network) = network(&["far"]) else { return };
    for shell in ["/bin/dash", "/usr/bin/fish", "/bin/tcsh", "/usr/bin/zsh", "/bin/busybox"] {
        if !std::path::Path::new(shell).exists() {
            eprintln!("{shell} is not installed");
            continue;
        }
        let shell = if shell == "/bin/busybox" { "/tmp/ash" } else { shell };
        let script = format!(
            "ln -sf /bin/busybox /tmp/ash; rm -rf .cache; \
             sed 's|^root:.*|root:x:0:0:root:/root:{shell}|' /etc/passwd >/run/p; cat /run/p >/etc/passwd"
        );
        network.sh("far", &script).unwrap();
        speaks(reached("far", &options(&network, "")));
    }
}

#[test]
fn busybox_has_everything_that_the_script_needs() {
    let Some(network) = network(&["far"]) else { return };
    network.sh("far", "mkdir /tmp/bb && /bin/busybox --install -s /tmp/bb").unwrap();
    std::fs::write(network.home("far").join(".bashrc"), "PATH=/tmp/bb\n").unwrap();
    let usual = options(&network, "");
    let torn = program(&network, "#!/bin/sh\nexit 7\n");
    let (cause, _) = refused("far", &with(usual.clone(), torn));
    assert!(matches!(cause, Cause::DoesNotRun { .. }), "{cause:?}");
    for bytes in [STAND_IN.len() as u64, 0] {
        let channel = reached("far", &usual);
        assert_eq!(channel.facts.copied_bytes, bytes);
        speaks(channel);
    }
    mounted(&network, "far", "size=1m");
    let too_large = with(usual, large(&network, 3 << 20));
    assert!(matches!(refused("far", &too_large).0, Cause::Full { .. }));
    nothing_left(&network, "far");
}

#[test]
fn a_jump_host_leads_to_the_host_behind_it() {
    let Some(network) = network(&["jump", "far"]) else { return };
    let channel = reached("far", &options(&network, "Host far\n  ProxyJump jump\n"));
    let jump = format!("{}:", network.address("jump"));
    assert!(channel.facts.near_address.starts_with(&jump), "{:?}", channel.facts);
    speaks(channel);
    network.sh("jump", ": >/run/authorized").unwrap();
    let (_, sentence) = refused("far", &options(&network, "Host far\n  ProxyJump jump\n"));
    assert!(
        sentence.contains("it accepts none of your keys (root@10.77.0.11: Permission denied"),
        "{sentence}"
    );
    nothing_left(&network, "jump");
}

/// Mounts something on the folder of binaries.
fn mounted(network: &Network, machine: &str, options: &str) {
    let folder = "/root/.cache/tachograph/far";
    let script = format!("mkdir -p {folder} && mount -t tmpfs -o {options} tmpfs {folder}");
    network.sh(machine, &script).unwrap();
}

/// A stand-in of this many bytes.
fn large(network: &Network, bytes: usize) -> Program {
    let mut content = STAND_IN.as_bytes().to_vec();
    content.extend_from_slice(b"exit\n#");
    content.resize(bytes, b'x');
    program(network, content)
}

fn with(options: Options, program: Program) -> Options {
    Options { programs: vec![program], ..options }
}

#[test]
fn folders_that_cannot_be_used_are_named() {
    let Some(network) = network(&["full", "readonly", "noexec", "file"]) else { return };
    let folder = "/root/.cache/tachograph/far";
    mounted(&network, "full", "size=1m");
    let too_large = with(options(&network, ""), large(&network, 3 << 20));
    assert_eq!(
        refused("full", &too_large).1,
        format!(
            "cannot use full: the disk of {folder} is full: 1.00 MiB free, 3.00 MiB needed. Free some \
             space there, or TACHOGRAPH_FAR_FOLDER names another folder"
        )
    );
    assert_eq!(network.sh("full", &format!("ls -A {folder}")).unwrap(), "");
    // The remedy works.
    speaks(reached("full", &Options { folder: Some("/tmp/a folder".to_owned()), ..too_large }));

    mounted(&network, "readonly", "ro");
    let usual = options(&network, "");
    assert_eq!(
        refused("readonly", &usual).1,
        format!(
            "cannot use readonly: there is no place for the program in {folder} (failed to create \
             file via template ‘{folder}/incoming-XXXXXX’: Read-only file system). Correct that, or \
             TACHOGRAPH_FAR_FOLDER names another folder"
        )
        .replace(['‘', '’'], "'")
    );
    mounted(&network, "noexec", "noexec");
    assert_eq!(
        refused("noexec", &usual).1,
        format!(
            "cannot use noexec: programs in {folder} may not be executed (mounted noexec). \
             TACHOGRAPH_FAR_FOLDER names another folder"
        )
    );
    assert_eq!(network.sh("noexec", &format!("ls -A {folder}")).unwrap(), "");
    std::fs::write(network.home("file").join(".cache"), "").unwrap();
    let (cause, _) = refused("file", &usual);
    let Cause::Folder { why, .. } = cause else { panic!("{cause:?}") };
    assert!(why.contains("/root/.cache") && why.contains("Not a directory"), "{why}");
}

#[test]
fn programs_that_do_not_run_there_are_told_apart() {
    let Some(network) = network(&["far"]) else { return };
    let usual = options(&network, "");
    let mut elf = std::fs::read("/bin/true").unwrap();
    // A loader that is not there, as glibc's is on Alpine Linux.
    let loader = elf.windows(4).position(|part| part == b"/lib").unwrap();
    elf[loader + 1] = b'X';
    let (cause, sentence) = refused("far", &with(usual.clone(), program(&network, &elf)));
    assert!(matches!(cause, Cause::OtherLibraries { .. }), "{cause:?}");
    assert!(
        sentence.ends_with("Set TACHOGRAPH_FAR_BINARY to the static build (docs/install.md)"),
        "{sentence}"
    );
    // An old glibc's message.
    let said = "/x/tachograph: /lib/libc.so.6: version `GLIBC_2.99' not found";
    let old = format!("#!/bin/sh\necho \"{}\" >&2\nexit 1\n", said.replace('`', "\\`"));
    assert_eq!(
        refused("far", &with(usual.clone(), program(&network, old))).0,
        Cause::OtherLibraries { said: said.to_owned() }
    );
    // Another machine's ELF header, though it is offered for this one.
    let mut other = std::fs::read("/bin/true").unwrap();
    other[18] ^= 0x80;
    let other = program(&network, other);
    let machine = std::env::consts::ARCH.to_owned();
    assert_eq!(
        refused("far", &with(usual.clone(), other.clone())).0,
        Cause::OtherMachine { machine: machine.clone() }
    );
    // A program that is known to be for another machine is not even copied.
    let foreign = Program { machine: Some("s390x"), ..other };
    assert_eq!(
        refused("far", &with(usual.clone(), foreign)).1,
        format!(
            "cannot use far: it is a {machine} machine, and there is no program for it here. Set \
             TACHOGRAPH_FAR_BINARY to a static build for {machine} (docs/install.md)"
        )
    );
    let silent = program(&network, "#!/bin/sh\nexit 7\n");
    assert_eq!(
        refused("far", &with(usual, silent)).1,
        "cannot use far: tachograph does not run there: status 7 (it printed nothing)"
    );
    assert_eq!(names(&network, "far"), [""; 0]);
    nothing_left(&network, "far");
}

#[test]
fn without_sha256sum_the_program_checks_itself() {
    let Some(network) = network(&["far"]) else { return };
    network.sh("far", "mount --bind /dev/null $(command -v sha256sum)").unwrap();
    let hash = options(&network, "").programs[0].sha256.clone();
    let wrong = program(&network, "#!/bin/sh\necho 0123\n");
    assert_eq!(refused("far", &with(options(&network, ""), wrong)).0, Cause::OtherHash);
    let itself = "#!/bin/sh\ncase $1 in self-hash) cat /root/hash ;; agent) exec cat ;; esac\n";
    let itself = program(&network, itself);
    std::fs::write(network.home("far").join("hash"), &itself.sha256).unwrap();
    assert_ne!(hash, itself.sha256);
    speaks(reached("far", &with(options(&network, ""), itself)));
}

#[test]
fn a_program_that_changes_on_its_way_is_not_used() {
    let Some(network) = network(&["far"]) else { return };
    let usual = options(&network, "");
    let mut content = std::fs::read(&usual.programs[0].path).unwrap();
    *content.last_mut().unwrap() = b' ';
    std::fs::write(&usual.programs[0].path, content).unwrap();
    assert_eq!(refused("far", &usual).0, Cause::OtherHash);
    assert_eq!(names(&network, "far"), [""; 0]);
}

#[test]
fn versions_that_were_not_used_for_a_month_are_removed() {
    let Some(network) = network(&["far"]) else { return };
    let script = "cd; mkdir -p .cache/tachograph/far && cd .cache/tachograph/far && \
                  mkdir 0.0.1-old 0.0.2-recent keep && touch -d '-40 days' 0.0.1-old/used && \
                  touch -d '-20 days' 0.0.2-recent/used && touch -d '-3 days' incoming-torn && \
                  touch incoming-now ../kept";
    network.sh("far", script).unwrap();
    speaks(reached("far", &options(&network, "")));
    let left = names(&network, "far");
    assert_eq!(left.len(), 4, "{left:?}");
    for name in ["0.0.2-recent", "keep", "incoming-now"] {
        assert!(left.iter().any(|known| known == name), "{left:?}");
    }
}

#[test]
fn a_copy_that_is_cut_leaves_nothing_and_the_next_one_works() {
    let Some(network) = network(&["far"]) else { return };
    // It waits for the rest of a copy that never comes.
    let large = large(&network, 64 << 20);
    let slow = with(options(&network, ""), large.clone());
    let ssh = slow.ssh.clone();
    // ssh is stopped while it copies, so that the copy is in the middle.
    let cutter = network.folder().join("cutter");
    let script = format!(
        "#!/bin/sh\n{} \"$@\" &\nexec 2>/dev/null\nuntil [ -s {}/incoming-* ]; do sleep 0.01; done\n\
         kill -9 $!\n",
        ssh.join(" "),
        kept(&network, "far").display()
    );
    // The copy must come from our standard input although ssh is in the background.
    let script =
        script.replace("\"$@\" &", "\"$@\" <&3 &").replace("#!/bin/sh\n", "#!/bin/sh\nexec 3<&0\n");
    std::fs::write(&cutter, script).unwrap();
    std::fs::set_permissions(&cutter, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let cut = Options { ssh: vec![cutter.display().to_string()], ..slow.clone() };
    let (cause, _) = refused("far", &cut);
    let expected =
        matches!(cause, Cause::CopyInterrupted | Cause::Closed { .. } | Cause::NoShell { .. });
    assert!(expected, "{cause:?}");
    nothing_left(&network, "far");
    speaks(reached("far", &slow));
    nothing_left(&network, "far");
}

#[test]
fn the_far_end_ends_when_ssh_is_killed() {
    let Some(network) = network(&["far"]) else { return };
    let mut channel = reached("far", &options(&network, ""));
    assert!(within(Duration::from_secs(60), || network.left_at("far").len() == 1));
    let killed = std::process::Command::new("kill")
        .args(["-9", &channel.ssh.pid().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    nothing_left(&network, "far");
    assert!(matches!(channel.ssh.why_ended().cause, Cause::Closed { .. }));
}

#[test]
fn a_link_that_goes_down_is_noticed_at_both_ends() {
    let Some(network) = network(&["far", "copying"]) else { return };
    let mut channel = reached("far", &options(&network, ""));
    network.link("far", false).unwrap();
    let mut rest = Vec::new();
    channel.reader.read_to_end(&mut rest).unwrap();
    assert_eq!(
        channel.ssh.why_ended().to_string(),
        "cannot use far: it does not answer (Timeout, server 10.77.0.11 not responding). Check that \
         it is up, and firewalls on the way"
    );
    // A copy that no longer grows: ssh stands still, and its connection with it.
    let large = with(options(&network, ""), large(&network, 64 << 20));
    std::thread::scope(|scope| {
        let copy = scope.spawn(|| refused("copying", &large));
        let torn = || names(&network, "copying").iter().any(|name| name.starts_with("incoming-"));
        assert!(within(Duration::from_secs(60), torn));
        network.link("copying", false).unwrap();
        let (cause, _) = copy.join().unwrap();
        assert!(matches!(cause, Cause::TimedOut { .. }), "{cause:?}");
    });
    nothing_left(&network, "copying");
}
