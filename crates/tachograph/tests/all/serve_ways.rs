//! The ways into `tachograph serve` beside Graphite plaintext and Influx line protocol: each kind of
//! socket, and the totals in SQL.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use proofs::daemon::{Daemon, over_tcp, over_unix};

use crate::support::daemon::{figure, serve, totals};
use crate::support::{Place, eventually};

/// A daemon with these options, which listens on this many addresses beside HTTP.
fn start(place: &Place, options: &[&str], addresses: usize) -> Daemon {
    let args = ["--no-graphite", "--write-each", "50ms"];
    serve(place, &[&args[..], options].concat(), addresses + 1)
}

/// How many lines of a sender were refused for a reason.
fn refused(daemon: &Daemon, way: &str, sender: &str, reason: &str) -> Option<f64> {
    let labels = format!("way=\"{way}\",sender=\"{sender}\",reason=\"{reason}\"");
    figure(daemon, &format!("tachograph_refused_lines_total{{{labels}}}"))
}

#[test]
fn statsd_over_every_kind_of_socket_is_counted_once() {
    let place = Place::new();
    let (stream, datagram) = (place.path("s.sock"), place.path("s.dgram"));
    let unix = format!("unix:{}", stream.display());
    let unix_datagram = format!("unix-dgram:{}", datagram.display());
    let options = [
        &["--statsd", "tcp://127.0.0.1:0", "--statsd", "udp://127.0.0.1:0"][..],
        &["--statsd", &unix, "--statsd", &unix_datagram],
    ]
    .concat();
    let daemon = start(&place, &options, 4);
    let lines = "hits:1:2:3|c|#zone:b\nhits:4|c|@0.5|#zone:b|c:ci-83\nload:10|g\nload:-3|g\n";
    assert!(over_tcp(&daemon.at("tcp://", 1), lines.as_bytes()).unwrap());
    assert!(over_unix(&stream, lines.as_bytes()).unwrap());
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.send_to(lines.as_bytes(), daemon.at("udp://", 0)).unwrap();
    // A datagram needs no line end.
    let dgram = UnixDatagram::unbound().unwrap();
    dgram.send_to(lines.trim_end().as_bytes(), &datagram).unwrap();
    dgram.send_to(b"users:a|s\nusers:b|s\nusers:a|s\ntook:10:20|ms", &datagram).unwrap();
    let expected = "hits count {\"zone\":\"b\"} 56".to_owned();
    eventually("all datagrams are in the record", || totals(&place).contains(&expected));
    let bad = "_e{5,4}:title|text\n_sc|web|0\nhits:x|c|#zone:b\nhits:1|c|#zone:b|T1000000000\n";
    assert!(over_tcp(&daemon.at("tcp://", 1), bad.as_bytes()).unwrap());
    for (reason, count) in [("bad_number", 1.0), ("not_a_metric", 2.0), ("window_closed", 1.0)] {
        let found = refused(&daemon, "statsd_stream", "127.0.0.1", reason);
        assert_eq!(found, Some(count), "{reason}");
    }
    daemon.stop().unwrap();
    let totals = totals(&place);
    assert!(totals.contains(&expected), "{totals:?}");
    assert!(totals.contains(&"took n {} 2".to_owned()), "{totals:?}");
    assert!(!stream.exists() && !datagram.exists());
}

#[test]
fn a_statsd_window_and_a_gauge_continue_after_an_orderly_stop() {
    let place = Place::new();
    // One window, whatever the time of the day.
    let options = ["--statsd", "tcp://127.0.0.1:0", "--step", "3650d"];
    for _ in 0..3 {
        let daemon = start(&place, &options, 1);
        let lines = b"hits:1|c|@0.3\ntook:5|ms\nlevel:+2|g\n";
        assert!(over_tcp(&daemon.at("tcp://", 1), lines).unwrap());
        daemon.stop().unwrap();
    }
    let mut store = store::Sqlite::open_read_only(place.path("record.sqlite")).unwrap();
    let step = series::Step::from_secs(3650 * 86_400).unwrap();
    let mut found = Vec::new();
    for series in store::Store::find(&mut store, &store::Selector::default()).unwrap() {
        let slots =
            store::Store::slots(&mut store, step, &[series.id], i64::MIN, i64::MAX).unwrap();
        let [(_, slot)] = &slots[..] else { panic!("{slots:?}") };
        let covered = slot.covered_us == step.us();
        let last = slot.last().map(|(_, value)| value);
        found.push((series.identity.to_string(), slot.integral.as_f64(), covered, last));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let count = |name: &str| found.iter().find(|row| row.0 == name).unwrap();
    assert_eq!((count("hits:count").1, count("hits:count").2), (10.0, true));
    assert_eq!((count("took:n").1, count("took:n").2), (3.0, true));
    assert!(count("took:p99").2);
    assert_eq!(count("level").3, Some(6.0));
}

#[test]
fn pickles_of_python_in_every_protocol_are_in_the_record_and_code_is_refused() {
    let place = Place::new();
    let unix = place.path("p.sock");
    let at_unix = format!("unix:{}", unix.display());
    let daemon = start(&place, &["--pickle", "tcp://127.0.0.1:0", "--pickle", &at_unix], 2);
    // Points ten seconds apart, whose values cover ten seconds each.
    let script = "import os, pickle, socket, struct, sys, time\n\
        start = int(time.time()) // 10 * 10 - 3600\n\
        class Code:\n\
        \x20 def __reduce__(self): return (os.mkdir, ('code',))\n\
        def frame(data): return struct.pack('!L', len(data)) + data\n\
        host, port = sys.argv[1].split(':')\n\
        with socket.create_connection((host, int(port))) as stream:\n\
        \x20 for protocol in range(5):\n\
        \x20  points = [(f'p.{protocol}', (start + 10 * i, i)) for i in range(101)]\n\
        \x20  points.insert(50, (f'p.{protocol}', (start, None)))\n\
        \x20  stream.sendall(frame(pickle.dumps(points, protocol)))\n\
        \x20  stream.sendall(frame(pickle.dumps(Code(), protocol)))\n\
        \x20 stream.shutdown(socket.SHUT_WR)\n\
        \x20 assert stream.recv(1) == b''\n";
    let mut python = Command::new("python3");
    python.args(["-c", script, &daemon.at("tcp://", 1)]).current_dir(place.dir.path());
    let sent = python.output().unwrap();
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    assert!(!place.path("code").exists());
    // A frame that ends with the connection, and text on the wrong port.
    assert!(over_unix(&unix, b"\0\0\0\x09](").unwrap());
    let mut stream = TcpStream::connect(daemon.at("tcp://", 1)).unwrap();
    stream.write_all(b"a.b 1 1430701282\n").unwrap();
    assert!(stream.read(&mut [0]).is_err(), "the connection is reset");
    for (reason, sender, count) in [
        ("bad_number", "127.0.0.1", 5.0),
        ("pickle_code", "127.0.0.1", 5.0),
        ("frame_too_long", "127.0.0.1", 1.0),
        ("torn_frame", "unix", 1.0),
    ] {
        assert_eq!(refused(&daemon, "pickle_stream", sender, reason), Some(count), "{reason}");
    }
    let received = figure(&daemon, "tachograph_lines_total{way=\"pickle_stream\"}");
    assert_eq!(received, Some(517.0));
    daemon.stop().unwrap();
    // A value covers the time since the point before it: 10 s × (1 + 2 + … + 100).
    let expected: Vec<String> = (0..5).map(|p| format!("p.{p} value {{}} 50500")).collect();
    assert_eq!(totals(&place), expected);
}
