//! The files of the recorder: who may read them, and links of other users in their place.

use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use proofs::daemon::Daemon;

use crate::support::{Place, not_run, run_by};

/// The permissions of a file.
fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn links_of_other_users_in_a_shared_folder_are_not_followed() {
    if !rustix::process::geteuid().is_root() {
        return not_run("only root can give files to another user");
    }
    let place = Place::new();
    let shared = place.path("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o1777)).unwrap();
    std::fs::create_dir(place.path("target")).unwrap();
    let foreign = |name: &str| {
        let link = shared.join(name);
        symlink(place.path("target").join(name), &link).unwrap();
        lchown(&link, Some(65_534), Some(65_534)).unwrap();
        link.to_str().unwrap().to_owned()
    };
    let (record, journal, folder) = (foreign("record"), foreign("journal"), foreign("folder"));
    let read = foreign("read");
    std::fs::create_dir(place.path("target/folder")).unwrap();
    place.write("target/read", "");
    let socket = format!("unix:{folder}/http.sock");
    let http = ["serve", "--no-graphite", "--http", "127.0.0.1:0"];
    let points = place.write("points.txt", "a 1 1700000000\n");
    for (args, link) in [
        ([&http[..], &["--record", &record]].concat(), &record),
        ([&http[..], &["--journal", &journal]].concat(), &journal),
        (vec!["serve", "--no-graphite", "--http", &socket], &folder),
        (
            vec!["import", "--record", &record, "--format", "graphite", points.to_str().unwrap()],
            &record,
        ),
        (vec!["list", "--record", &read], &read),
    ] {
        let said = format!(
            "error: {link} is a symbolic link of another user (uid 65534), in a folder where \
             everyone can create files: remove it, or choose a path in a folder of your own\n"
        );
        let ended = place.run(&args);
        assert_eq!((ended.status, ended.err), (Some(2), said), "{args:?}");
    }
    let refused = foreign("points.refused");
    std::fs::write(shared.join("points"), "no point\n").unwrap();
    let file = shared.join("points");
    let ended = place.run(&["import", "--format", "graphite", file.to_str().unwrap()]);
    assert_eq!(ended.status, Some(2), "{ended:?}");
    ended.says(&format!("{refused} is a symbolic link of another user (uid 65534)"));
    let found = |folder: PathBuf| std::fs::read_dir(folder).unwrap().count();
    assert_eq!([found(place.path("target")), found(place.path("target/folder"))], [2, 0]);
}

#[test]
fn record_journal_and_sockets_are_private_whatever_the_umask() {
    let place = Place::new();
    let socket = place.path("http.sock");
    let unix = format!("unix:{}", socket.display());
    let datagrams = place.path("graphite.sock");
    let graphite = format!("unix-dgram:{}", datagrams.display());
    let start = |further: &[&str]| {
        let args = ["serve", "--http", &unix, "--graphite", &graphite];
        let command = place.command(&[&args[..], further].concat());
        let command = run_by("sh", &["-c", "umask 0; exec \"$0\" \"$@\""], &command);
        Daemon::start(command, 2).unwrap()
    };
    let daemon = start(&[]);
    assert_eq!([mode(&socket), mode(&datagrams)], [0o600; 2]);
    for name in ["record.sqlite", "record.sqlite-wal", "record.sqlite-shm"] {
        assert_eq!(mode(&place.path(name)), 0o600, "{name}");
    }
    let journal = place.path("record.sqlite.journal");
    assert_eq!(mode(&journal), 0o700);
    for entry in std::fs::read_dir(&journal).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    daemon.stop().unwrap();
    let daemon = start(&["--socket-mode", "660"]);
    assert_eq!([mode(&socket), mode(&datagrams)], [0o660; 2]);
    daemon.stop().unwrap();
    // What its owner has opened stays open.
    std::fs::set_permissions(place.path("record.sqlite"), PermissionsExt::from_mode(0o644))
        .unwrap();
    let daemon = start(&[]);
    assert_eq!(mode(&place.path("record.sqlite-wal")), 0o644);
    daemon.stop().unwrap();
    for open in [0o777, 0o770] {
        std::fs::set_permissions(&journal, PermissionsExt::from_mode(open)).unwrap();
        let ended = place.run(&["serve", "--http", &unix, "--no-graphite"]);
        let said = format!(
            "error: other users can change the folder {0} of the journal: chmod go-w {0}, or \
             choose another --journal\n",
            journal.display()
        );
        assert_eq!((ended.status, ended.err), (Some(2), said), "{open:o}");
    }
}

#[test]
fn an_import_creates_a_private_record_whatever_the_umask() {
    let place = Place::new();
    let points = place.write("points.txt", "a 1 1700000000\n");
    let command = place.command(&["import", "--format", "graphite", points.to_str().unwrap()]);
    let command = run_by("sh", &["-c", "umask 0; exec \"$0\" \"$@\""], &command);
    place.finish(command).status(0);
    assert_eq!(mode(&place.path("record.sqlite")), 0o600);
}
