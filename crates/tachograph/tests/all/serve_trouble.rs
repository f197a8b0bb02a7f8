//! `tachograph serve` on full and read-only disks, with bad successors, with sockets of systemd, and
//! two daemons on one database.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use proofs::daemon::{Daemon, over_tcp, points};
use rustix::process::Signal;

use crate::support::daemon::{figure, serve};
use crate::support::{Place, TACHOGRAPH, ask, eventually, lines, status};

fn write(at: &str, name: &str, second: u64) -> String {
    ask(at, "POST /write?precision=s", "", lines(name, second))
}

/// A daemon whose folder `disk` is a small disk of its own; it becomes what `mount -o remount` takes
/// when a line is written to the pipe `disk.to`.
fn on_small_disk(place: &Place, size: &str, args: &str) -> Daemon {
    std::fs::create_dir(place.path("disk")).unwrap();
    let script = r#"
        mount -t tmpfs -o size="$1" none disk || exit 77
        mkfifo disk.to
        (while read how < disk.to && [ "$how" != end ]; do
            mount -o remount,"$how" none disk; echo > disk.done
        done) > out 2> err &
        shift
        exec "$@"
    "#;
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    command.args([size, TACHOGRAPH, "serve", "--http", "127.0.0.1:0"]);
    command.args(args.split(' '));
    let mut command = place.prepare(command);
    command.env("TACHOGRAPH_RECORD", "disk/record.sqlite");
    if args.contains("--journal disk") {
        command.env("TACHOGRAPH_RECORD", "record.sqlite");
    }
    Daemon::start(command, 2).unwrap()
}

fn remount(place: &Place, how: &str) {
    let done = place.path("disk.done");
    let _ = std::fs::remove_file(&done);
    std::fs::write(place.path("disk.to"), format!("{how}\n")).unwrap();
    eventually("the disk has changed", || done.exists());
}

/// Ends the shell that changes the disk.
struct Shell<'p>(&'p Place);

impl Drop for Shell<'_> {
    fn drop(&mut self) {
        // Without a reader it has ended.
        let pipe = File::options().write(true).custom_flags(NONBLOCK).open(self.0.path("disk.to"));
        let _ = pipe.and_then(|mut pipe| pipe.write_all(b"end\n"));
    }
}

/// O_NONBLOCK.
const NONBLOCK: i32 = 0o4000;

#[test]
fn what_a_journal_on_a_full_disk_does_not_take_is_not_acknowledged() {
    let place = Place::new();
    let args = "--journal disk/j --graphite 127.0.0.1:0 --write-each 1h";
    let daemon = on_small_disk(&place, "300k", args);
    let _shell = Shell(&place);
    let at = daemon.at("tcp://", 0);
    let mut acknowledged = 0;
    let refused = loop {
        let answer = write(&at, "full", acknowledged);
        if status(&answer) != 204 {
            break answer;
        }
        acknowledged += 1;
        assert!(acknowledged < 3_000, "the disk does not fill up");
    };
    assert_eq!(status(&refused), 503, "{refused}");
    assert!(refused.to_lowercase().contains("\r\nretry-after: "), "{refused}");
    assert!(refused.contains("No space left on device"), "{refused}");
    // A stream has no answer but its end, which is no orderly one.
    let mut stream = TcpStream::connect(daemon.at("tcp://", 1)).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let text: String = (0..500).map(|i| format!("lost.to.the.sender {i} {now}\n")).collect();
    stream.write_all(text.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(stream.read_to_end(&mut Vec::new()).is_err(), "the connection is reset");
    // The daemon tries again twice a second, with less than a message, which may still fit.
    eventually("the disk is told to be full", || {
        assert_eq!(status(&write(&at, "full", acknowledged)), 503);
        let health = ask(&at, "GET /health", "", "");
        status(&health) == 503 && health.contains("No space left on device")
    });
    remount(&place, "size=100m");
    // Senders who look at it first would otherwise never come back.
    eventually("the journal has room", || status(&ask(&at, "GET /health", "", "")) == 200);
    assert_eq!(status(&write(&at, "full", acknowledged)), 204);
    acknowledged += 1;
    daemon.stop().unwrap();
    let record = place.path("record.sqlite");
    let found = points(record.to_str().unwrap(), &["full", "lost.to.the.sender"]).unwrap();
    assert_eq!(found, [50 * acknowledged as i64, 0]);
}

#[test]
fn datagrams_that_a_journal_on_a_full_disk_does_not_take_are_counted() {
    let place = Place::new();
    let args = "--journal disk/j --graphite udp://127.0.0.1:0 --write-each 1h";
    let daemon = on_small_disk(&place, "300k", args);
    let _shell = Shell(&place);
    let at = daemon.at("tcp://", 0);
    eventually("the disk is full", || status(&write(&at, "full", 0)) == 503);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let text: String = (0..500).map(|i| format!("lost.to.the.sender {i} {now}\n")).collect();
    socket.send_to(text.as_bytes(), daemon.at("udp://", 0)).unwrap();
    let lines = "tachograph_lines_total{way=\"graphite_datagram\"}";
    eventually("the datagram has arrived", || figure(&daemon, lines) == Some(500.0));
    let refused = "tachograph_refused_lines_total{way=\"graphite_datagram\",\
                   sender=\"127.0.0.1\",reason=\"journal\"}";
    assert_eq!(figure(&daemon, refused), Some(500.0));
    daemon.stop().unwrap();
}

#[test]
fn systemd_is_told_that_the_daemon_works_and_so_does_a_successor() {
    let place = Place::new();
    let socket = UnixDatagram::bind(place.path("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", r#"WATCHDOG_PID=$$ exec "$@""#, "sh", TACHOGRAPH, "serve"]);
    command.args(["--http", "127.0.0.1:0", "--no-graphite"]);
    let mut command = place.prepare(command);
    command.env("NOTIFY_SOCKET", place.path("notify")).env("WATCHDOG_USEC", "200000");
    let mut daemon = Daemon::start(command, 1).unwrap();
    let told = |wanted: &str| {
        let mut text = [0; 4_096];
        loop {
            let length = socket.recv(&mut text).unwrap();
            let text = String::from_utf8_lossy(&text[..length]).into_owned();
            if text.contains(wanted) {
                return text;
            }
        }
    };
    told("READY=1");
    told("WATCHDOG=1");
    told("WATCHDOG=1");
    daemon.replace().unwrap();
    // The predecessor has ended: by now systemd knows another process.
    socket.set_nonblocking(true).unwrap();
    assert!(told("MAINPID=").contains(&format!("MAINPID={}", daemon.id())));
    socket.set_nonblocking(false).unwrap();
    told("WATCHDOG=1");
    told("WATCHDOG=1");
    daemon.stop().unwrap();
}

#[test]
fn a_read_only_disk_is_refused_at_the_start() {
    let place = Place::new();
    std::fs::create_dir(place.path("disk")).unwrap();
    let script = r#"
        mount -t tmpfs -o ro none disk || exit 77
        "$1" serve --http 127.0.0.1:0 --no-graphite --record r.sqlite --journal disk/j; echo "$?"
        "$1" serve --http 127.0.0.1:0 --no-graphite --record disk/r.sqlite --journal j; echo "$?"
    "#;
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", TACHOGRAPH]);
    command.current_dir(place.dir.path());
    let ended = place.finish(command);
    ended.status(0).prints("2\n2\n");
    ended.says(
        "error: cannot open the journal disk/j (Read-only file system (os error 30)): check the \
         permissions and the disk, or choose another folder\n",
    );
    ended.says("disk/r.sqlite");
}

#[test]
fn a_record_on_a_full_disk_is_reported_and_catches_up_when_there_is_room() {
    let place = Place::new();
    let args = "--journal j --graphite 127.0.0.1:0 --write-each 10ms";
    let daemon = on_small_disk(&place, "900k", args);
    let _shell = Shell(&place);
    let at = daemon.at("tcp://", 0);
    let mut acknowledged = 0;
    while status(&ask(&at, "GET /health", "", "")) == 200 {
        assert_eq!(status(&write(&at, "full", acknowledged)), 204);
        acknowledged += 1;
        assert!(acknowledged < 3_000, "the disk does not fill up");
    }
    let health = ask(&at, "GET /health", "", "");
    assert_eq!(status(&health), 503);
    assert!(health.contains("no space left for the record"), "{health}");
    // Known series are still received.
    for _ in 0..5 {
        assert_eq!(status(&write(&at, "full", acknowledged)), 204);
        acknowledged += 1;
    }
    remount(&place, "size=200m");
    eventually("the record is written", || status(&ask(&at, "GET /health", "", "")) == 200);
    assert_eq!(status(&write(&at, "full", acknowledged)), 204);
    acknowledged += 1;
    let copied = place.path("copy.sqlite");
    let record =
        format!("/proc/{}/root{}", daemon.id(), place.path("disk/record.sqlite").display());
    let all = 50 * acknowledged as i64;
    // The disk is gone with the daemon.
    eventually("all points are in the record", || {
        let text = std::fs::read(&record).unwrap();
        let log = std::fs::read(format!("{record}-wal")).unwrap();
        std::fs::write(&copied, text).unwrap();
        std::fs::write(format!("{}-wal", copied.display()), log).unwrap();
        let _ = std::fs::remove_file(format!("{}-shm", copied.display()));
        points(copied.to_str().unwrap(), &["full"]).is_ok_and(|found| found == [all])
    });
    daemon.stop().unwrap();
}

#[test]
fn senders_are_told_to_come_back_when_the_journal_has_reached_its_limit() {
    let place = Place::new();
    let mut command = place.command(&["serve", "--http", "127.0.0.1:0", "--no-graphite"]);
    command.args(["--journal-max", "20KiB", "--write-each", "1h"]);
    let daemon = Daemon::start(command, 1).unwrap();
    let at = daemon.at("tcp://", 0);
    let mut acknowledged = 0;
    let refused = loop {
        let answer = write(&at, "limit", acknowledged);
        if status(&answer) != 204 {
            break answer;
        }
        acknowledged += 1;
        assert!(acknowledged < 100, "the limit is not kept");
    };
    assert_eq!(status(&refused), 503);
    assert!(refused.to_lowercase().contains("\r\nretry-after: 5\r\n"), "{refused}");
    assert!(
        refused.contains("the journal is full until more is written to the record: try"),
        "{refused}"
    );
    daemon.stop().unwrap();
    let record = place.path("record.sqlite");
    let found = points(record.to_str().unwrap(), &["limit"]).unwrap();
    assert_eq!(found, [50 * acknowledged as i64]);
}

#[test]
fn a_journal_that_cannot_be_made_and_limits_of_zero_are_refused_with_a_sentence() {
    let place = Place::new();
    place.write("file", "");
    let ended = place.run(&[
        "serve",
        "--http",
        "127.0.0.1:0",
        "--no-graphite",
        "--no-statsd",
        "--journal",
        "file/j",
    ]);
    let said = "error: cannot open the journal file/j (Not a directory (os error 20)): check the \
                permissions and the disk, or choose another folder\n";
    assert_eq!((ended.status, ended.err.as_str()), (Some(2), said));
    for (option, zero, usual) in [
        ("--write-each", "0s", "1s"),
        ("--journal-max", "0B", "1GiB"),
        ("--head-memory", "0B", "64MiB"),
        ("--max-connections", "0", "1000"),
    ] {
        let ended = place.run(&["serve", option, zero]);
        let said = format!("error: {option} must not be 0: write {option} {usual}\n");
        assert_eq!((ended.status, ended.err), (Some(2), said));
    }
}

/// A daemon that was started from a copy of the program, which can be exchanged.
fn exchangeable(place: &Place, graphite: &[&str]) -> Daemon {
    let program = place.copied_program();
    let mut command = Command::new(&program);
    command.args(["serve", "--http", "127.0.0.1:0"]).args(graphite);
    Daemon::start(place.prepare(command), graphite.len()).unwrap()
}

fn exchange(place: &Place, script: &str) {
    let new = place.write("new", script);
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(new, place.path("tachograph")).unwrap();
}

#[test]
fn a_successor_that_hangs_is_killed_and_the_running_one_goes_on() {
    let place = Place::new();
    let daemon = exchangeable(&place, &["--no-graphite"]);
    exchange(&place, "#!/bin/sh\necho $$ > id\nexec sleep 1000\n");
    daemon.signal(Signal::USR2).unwrap();
    assert_eq!(
        daemon.note().unwrap(),
        "not replaced: the new process did not get ready: it did not answer within 30 s; this \
         process goes on"
    );
    let id = std::fs::read_to_string(place.path("id")).unwrap();
    assert!(!Path::new("/proc").join(id.trim()).exists(), "it was killed");
    assert_eq!(status(&write(&daemon.at("tcp://", 0), "on", 1)), 204);
    daemon.stop().unwrap();
}

/// Gets ready, and then reads only the first byte of what it is to take over.
const STALLS: &str = "#!/bin/sh\necho $$ > id\nprintf R >&0\nhead -c 1 > first\nexec sleep 1000\n";

/// Connections with lines of which a half has arrived, more than a socket's buffer holds.
fn half_lines(daemon: &Daemon) -> Vec<TcpStream> {
    let half = |number: u32| {
        let mut stream = TcpStream::connect(daemon.at("tcp://", 1)).unwrap();
        write!(stream, "half.{number}{}", " ".repeat(45_000)).unwrap();
        stream
    };
    (0..20).map(half).collect()
}

/// Whether the successor that stalls was ended.
fn has_ended(place: &Place) -> bool {
    let id = std::fs::read_to_string(place.path("id")).unwrap();
    !Path::new("/proc").join(id.trim()).exists()
}

#[test]
fn a_successor_that_stalls_in_the_handover_is_given_up_and_the_running_one_goes_on() {
    let place = Place::new();
    let daemon = exchangeable(&place, &["--graphite", "127.0.0.1:0"]);
    let streams = half_lines(&daemon);
    exchange(&place, STALLS);
    daemon.signal(Signal::USR2).unwrap();
    assert_eq!(
        daemon.note().unwrap(),
        "not replaced: the new process could not take over: it did not answer within 10 s; this \
         process goes on"
    );
    assert!(has_ended(&place), "it was killed");
    for mut stream in streams {
        writeln!(stream, "1 -1").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the line is acknowledged");
    }
    daemon.stop().unwrap();
    let record = place.path("record.sqlite");
    let names: Vec<String> = (0..20).map(|number| format!("half.{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(points(record.to_str().unwrap(), &names).unwrap(), [1; 20]);
}

#[test]
fn sigterm_works_while_a_successor_stalls() {
    let place = Place::new();
    let daemon = exchangeable(&place, &["--graphite", "127.0.0.1:0"]);
    let _streams = half_lines(&daemon);
    let read = "tachograph_connections{way=\"graphite_stream\"} 20\n";
    let metrics = || ask(&daemon.at("tcp://", 0), "GET /metrics", "", "");
    eventually("all are open", || metrics().contains(read));
    exchange(&place, STALLS);
    daemon.signal(Signal::USR2).unwrap();
    let first = place.path("first");
    eventually("the handover has begun", || {
        std::fs::read(&first).is_ok_and(|byte| byte.len() == 1)
    });
    let asked = Instant::now();
    daemon.stop().unwrap();
    assert!(
        asked.elapsed() < Duration::from_secs(9),
        "it waited for the limit: {:?}",
        asked.elapsed()
    );
    assert!(has_ended(&place), "it was killed");
}

#[test]
fn a_successor_that_dies_with_everything_is_reported_so_that_systemd_starts_another() {
    let place = Place::new();
    let daemon = exchangeable(&place, &["--no-graphite"]);
    // It takes over, and ends instead of serving.
    let dies = "#!/bin/sh\nprintf RO >&0\nhead -c 1 >got\n\
                until tail -c 1 got | grep -q Y; do head -c 1 >>got; done\nexit 3\n";
    exchange(&place, dies);
    daemon.signal(Signal::USR2).unwrap();
    let (status, said) = daemon.ended().unwrap();
    assert_eq!(status, Some(2), "{said}");
    let ends = "took over, but it ended with exit status: 3 before it served; what was acknowledged is \
                in the journal: start the daemon again";
    assert!(said.trim_end().ends_with(ends), "{said}");
}

#[test]
fn a_successor_that_finds_a_newer_record_leaves_it_to_the_running_one() {
    let place = Place::new();
    let daemon = exchangeable(&place, &["--no-graphite"]);
    let set = |sql: &str| {
        let script = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], timeout=60)\n\
                      db.execute(sys.argv[2]); db.commit()";
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(place.path("record.sqlite")).arg(sql);
        assert!(command.status().unwrap().success());
    };
    set("UPDATE slots_schema SET version = version + 100");
    daemon.signal(Signal::USR2).unwrap();
    let why = daemon.note().unwrap();
    assert!(why.starts_with("error: ") && why.contains("newer"), "{why}");
    assert_eq!(
        daemon.note().unwrap(),
        "not replaced: the new process did not get ready: it ended with exit status: 2; this \
         process goes on"
    );
    set("UPDATE slots_schema SET version = version - 100");
    assert_eq!(status(&write(&daemon.at("tcp://", 0), "on", 1)), 204);
    daemon.stop().unwrap();
}

/// Opens sockets as systemd does, and becomes the program.
const ACTIVATE: &str = r#"
import fcntl, os, socket, sys
names, path = sys.argv[1], sys.argv[2]
def bound(kind, address, family=socket.AF_INET):
    s = socket.socket(family, kind)
    s.bind(address)
    if kind == socket.SOCK_STREAM:
        s.listen()
    return s
sockets = [bound(socket.SOCK_STREAM, ('127.0.0.1', 0)), bound(socket.SOCK_DGRAM, ('127.0.0.1', 0)),
           bound(socket.SOCK_STREAM, path, socket.AF_UNIX)]
high = [fcntl.fcntl(s.fileno(), fcntl.F_DUPFD, 100) for s in sockets]
for place, fd in enumerate(high):
    os.dup2(fd, 3 + place, inheritable=True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='3', LISTEN_FDNAMES=names)
os.execvp(sys.argv[3], sys.argv[3:])
"#;

fn activated(place: &Place, names: &str, args: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", ACTIVATE, names]).arg(place.path("s.sock")).args([TACHOGRAPH, "serve"]);
    command.args(args);
    place.prepare(command)
}

#[test]
fn sockets_of_systemd_are_used_by_name_and_by_address_and_survive_a_restart() {
    let place = Place::new();
    let unix = format!("unix:{}", place.path("s.sock").display());
    // The third has the name of its unit, as without FileDescriptorName=.
    let command = activated(&place, "http:graphite:x.socket", &["--http", &unix]);
    let mut daemon = Daemon::start(command, 3).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 10 * 10;
    for second in 0..3 {
        assert_eq!(status(&ask(&daemon.at("tcp://", 0), "GET /health", "", "")), 200);
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let line = format!("activated {second} {}", now + second);
        udp.send_to(line.as_bytes(), daemon.at("udp://", 0)).unwrap();
        let mut stream = std::os::unix::net::UnixStream::connect(place.path("s.sock")).unwrap();
        write!(stream, "GET /ping HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(status(&answer), 204);
        daemon.replace().unwrap();
    }
    daemon.stop().unwrap();
    assert!(place.path("s.sock").exists(), "the file belongs to systemd");
    let record = place.path("record.sqlite");
    assert_eq!(points(record.to_str().unwrap(), &["activated"]).unwrap(), [3]);
}

#[test]
fn a_socket_of_systemd_that_fits_nothing_is_refused() {
    let place = Place::new();
    let ended = place.finish(activated(&place, "http:graphite:x.socket", &["--no-graphite"]));
    let said = format!(
        "error: cannot use the socket 'x.socket' that systemd has opened: unix:{} is not in the \
         options: set FileDescriptorName= to the name of an option, as http, graphite, pickle or statsd, \
         or add the address\n",
        place.path("s.sock").display()
    );
    assert_eq!((ended.status, ended.err), (Some(2), said));
    std::fs::remove_file(place.path("s.sock")).unwrap();
    let ended = place.finish(activated(&place, "http:http:http", &[]));
    assert_eq!(ended.status, Some(2));
    assert!(ended.err.contains(" cannot be used for HTTP"), "{}", ended.err);
}

#[test]
fn maintain_drops_what_has_expired_and_packs_what_is_old() {
    let place = Place::new();
    let ended = place.run(&["maintain"]);
    assert_eq!(ended.status, Some(2));
    assert!(ended.err.contains("no record at "), "{}", ended.err);
    // Twelve hours of one series, until a day ago, and later.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 10 * 10;
    let text: String = (0..4_320).map(|i| format!("m {i} {}\n", now - 50_000 + 10 * i)).collect();
    place.write("m.txt", &text);
    place.run(&["import", "m.txt", "-f", "graphite"]).status(0);
    let record = place.path("record.sqlite").display().to_string();
    let before = points(&record, &["m"]).unwrap();
    let ended = place.run(&["maintain"]);
    ended.status(0).prints(&format!("{record}: dropped 0 expired partitions, packed "));
    assert_eq!(points(&record, &["m"]).unwrap(), before);
}

#[test]
fn a_clock_that_is_years_ahead_of_the_record_expires_nothing_at_once() {
    let place = Place::new();
    let args = ["serve", "--http", "127.0.0.1:0", "--no-graphite", "--no-statsd"];
    let daemon = Daemon::start(place.command(&args), 1).unwrap();
    // The record ends in 2021; for it, today's clock is one that jumped ahead.
    let old = |i: u64| format!("m value={i} {}\n", 1_609_459_200 + 10 * i);
    let text: String = (0..200).map(old).collect();
    let at = daemon.at("tcp://", 0);
    assert_eq!(status(&ask(&at, "POST /write?precision=s", "", &text)), 204);
    daemon.stop().unwrap();
    let record = place.path("record.sqlite").display().to_string();
    assert_eq!(points(&record, &["m"]).unwrap(), [200]);
    let copy = place.path("copy.sqlite").display().to_string();
    std::fs::copy(&record, &copy).unwrap();
    let ended = place.run(&["maintain", "--record", &copy]);
    ended.status(0);
    assert!(
        ended.out.contains("so only data that had expired by 2021-01-01T00:00:00Z was dropped"),
        "{}",
        ended.out
    );
    assert_eq!(points(&copy, &["m"]).unwrap(), [200]);
    let daemon = Daemon::start(place.command(&args), 1).unwrap();
    let at = daemon.at("tcp://", 0);
    let figure = |name: &str| {
        let text = ask(&at, "GET /metrics", "", "");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        line.unwrap_or(0)
    };
    assert_eq!(status(&write(&at, "new", 0)), 204);
    let step = store::Retention::usual()[0].step;
    eventually("the upkeep has been done", || {
        let mut store = store::open_read_only(&record).unwrap();
        store.digests(step, 0, 0).unwrap().horizon_us > i64::MIN
    });
    assert_eq!(figure("tachograph_partitions_expired_total"), 0);
    daemon.stop().unwrap();
    assert_eq!(points(&record, &["m", "new"]).unwrap(), [200, 50]);
}

#[test]
fn an_expiry_that_a_clock_has_moved_to_the_future_is_moved_back() {
    let place = Place::new();
    let args = ["serve", "--http", "127.0.0.1:0", "--no-graphite", "--no-statsd"];
    let daemon = Daemon::start(place.command(&args), 1).unwrap();
    assert_eq!(status(&write(&daemon.at("tcp://", 0), "m", 0)), 204);
    daemon.stop().unwrap();
    let record = place.path("record.sqlite").display().to_string();
    // 1,500 days ahead for more than an hour.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let ahead_us = (now as i64 + 1_500 * 86_400) * 1_000_000;
    store::open(&record).unwrap().maintain(ahead_us).unwrap();
    assert_eq!(points(&record, &["m"]).unwrap(), [0]);
    let daemon = Daemon::start(place.command(&args), 1).unwrap();
    assert_eq!(status(&write(&daemon.at("tcp://", 0), "new", 0)), 204);
    daemon.stop().unwrap();
    assert_eq!(points(&record, &["new"]).unwrap(), [50]);
}

#[test]
fn records_that_the_journal_lacks_are_named_at_the_start() {
    let place = Place::new();
    let journal = place.path("journal");
    let args = ["--no-statsd", "--no-pickle", "--no-graphite", "--write-each", "1h", "--journal"];
    let args = [&args[..], &[journal.to_str().unwrap()]].concat();
    for name in ["lost", "kept"] {
        let daemon = serve(&place, &args, 1);
        assert_eq!(status(&write(&daemon.at("tcp://", 0), name, 0)), 204);
        // By SIGKILL.
        drop(daemon);
    }
    let files = std::fs::read_dir(&journal).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|file| file.extension() == Some("journal".as_ref())).collect();
    files.sort();
    assert_eq!(files.len(), 2, "{files:?}");
    // As if the disk had lost the end of what the first process wrote.
    let first = File::options().write(true).open(&files[0]).unwrap();
    first.set_len(first.metadata().unwrap().len() - 1).unwrap();
    let daemon = serve(&place, &args, 1);
    let note = daemon.note().unwrap();
    // Beside the lines, the journal has records of its own.
    assert!(note.contains("the journal lacks its records "), "{note}");
    daemon.stop().unwrap();
    let record = place.path("record.sqlite");
    assert_eq!(points(record.to_str().unwrap(), &["lost", "kept"]).unwrap(), [0, 50]);
}

#[test]
fn an_open_window_does_not_keep_the_journal_full() {
    let place = Place::new();
    let limits = ["--journal-max", "200KiB", "--write-each", "20ms", "--step", "1h"];
    let args = [&["--no-graphite", "--statsd", "127.0.0.1:0"][..], &limits].concat();
    let mut daemon = serve(&place, &args, 2);
    let count = |daemon: &Daemon| {
        assert!(over_tcp(&daemon.at("tcp://", 1), b"one:1|c\n").unwrap());
    };
    let mut second = 0;
    let mut counted = 0;
    for _ in 0..3 {
        for _ in 0..5 {
            count(&daemon);
            counted += 1;
            // Twice as much as the journal takes, within one window of an hour.
            for _ in 0..40 {
                let at = daemon.at("tcp://", 0);
                eventually("the journal has room", || status(&write(&at, "m", second)) == 204);
                second += 1;
            }
        }
        // By SIGKILL.
        drop(daemon);
        daemon = serve(&place, &args, 2);
    }
    daemon.stop().unwrap();
    let record = place.path("record.sqlite");
    let mut store = store::open(record.to_str().unwrap()).unwrap();
    let (mut total, mut points) = (0.0, 0);
    for series in store.find(&store::Selector::default()).unwrap() {
        let rows = store.slots(series.spec.step, &[series.id], i64::MIN, i64::MAX).unwrap();
        match series.identity.measurement.as_str() {
            "one" => total += rows.iter().map(|(_, row)| row.integral.as_f64()).sum::<f64>(),
            _ => points += rows.iter().map(|(_, row)| row.n).sum::<i64>(),
        }
    }
    assert_eq!((total, points), (f64::from(counted), 50 * second as i64));
}
