//! `tachograph serve`: listeners, health, figures about itself, and the stop by a signal.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::time::Duration;

use proofs::daemon::{Daemon, over_tcp, over_unix};

use crate::support::daemon::{figure, get, serve};
use crate::support::{Place, an_hour_ago, ask, eventually, gzip, slots, status};

/// Sends lines over TCP, until the daemon has ended the connection: then they are on disk.
fn send(daemon: &Daemon, lines: &str) {
    assert!(over_tcp(&daemon.at("tcp://", 1), lines.as_bytes()).unwrap());
}

/// Lines of one point per second for each of these seconds.
fn points(name: &str, from: u64, seconds: std::ops::Range<u64>) -> String {
    seconds.map(|second| format!("{name} {second} {}\n", from + second)).collect()
}

/// Number of points of a measurement in the record.
fn points_of(place: &Place, measurement: &str) -> i64 {
    let record = place.path("record.sqlite");
    slots(record.to_str().unwrap(), measurement).iter().map(|slot| slot.n).sum()
}

#[test]
fn the_daemon_answers_on_tcp_and_unix_sockets_until_sigterm() {
    let place = Place::new();
    let socket = place.path("http.sock");
    // A socket that a killed daemon left behind is no obstacle.
    drop(UnixListener::bind(&socket).unwrap());
    let unix = format!("unix:{}", socket.display());
    let daemon = serve(&place, &["--no-graphite", "--http", &unix], 2);
    let health = get(&daemon, "/health");
    assert!(health.starts_with("HTTP/1.1 200 ") && health.ends_with("\r\n\r\nok\n"), "{health}");
    let target = spec::Target::parse(&format!("http://{unix}:/metrics")).unwrap();
    let metrics = stage::http::get(&target, Duration::from_secs(60)).unwrap().body;
    let metrics = String::from_utf8(metrics).unwrap();
    assert!(metrics.contains("tachograph_http_requests_total 1\n"), "{metrics}");
    assert!(get(&daemon, "/nothing").starts_with("HTTP/1.1 404 "));
    daemon.stop().unwrap();
    assert!(!socket.exists());
}

#[test]
fn an_address_in_use_or_open_to_others_is_refused_with_a_sentence() {
    let place = Place::new();
    let daemon = serve(&place, &["--no-graphite"], 1);
    let second = place.run(&["serve", "--no-graphite", "--http", &daemon.at("tcp://", 0)]);
    let said = format!(
        "error: cannot listen on tcp://{} (Address already in use (os error 98)): stop the other \
         program, or choose another address\n",
        daemon.at("tcp://", 0)
    );
    assert_eq!((second.status, second.err), (Some(2), said));
    let open = place.run(&["serve", "--http", "0.0.0.0:8086"]);
    let said = "error: tcp://0.0.0.0:8086 can be reached from other machines: add --token-file or \
                --tls-client-ca, so that only clients with a token or a certificate can read and \
                write, or listen on 127.0.0.1, [::1] or a Unix socket\n";
    assert_eq!((open.status, open.err.as_str()), (Some(2), said));
    let args = ["serve", "--http", "127.0.0.1:0", "--graphite", "udp://0.0.0.0:0"];
    let open = place.run(&args);
    let said = "error: udp://0.0.0.0:0 can be reached from other machines, and the protocol has no \
                authentication: add --allow with the addresses of the senders, for example --allow \
                192.0.2.0/24, or listen on 127.0.0.1, [::1] or a Unix socket\n";
    assert_eq!((open.status, open.err.as_str()), (Some(2), said));
    daemon.stop().unwrap();
}

#[test]
fn graphite_lines_over_every_kind_of_socket_are_in_the_record_after_sigterm() {
    let place = Place::new();
    let (stream, datagram) = (place.path("g.sock"), place.path("g.dgram"));
    let unix = format!("unix:{}", stream.display());
    let unix_datagram = format!("unix-dgram:{}", datagram.display());
    let daemon = serve(
        &place,
        &[
            &["--graphite", "tcp://127.0.0.1:0", "--graphite", "udp://127.0.0.1:0"][..],
            &["--graphite", &unix, "--graphite", &unix_datagram],
        ]
        .concat(),
        5,
    );
    let from = an_hour_ago();
    send(&daemon, &points("tcp", from, 0..1_000));
    assert!(over_unix(&stream, points("unix", from, 0..1_000).as_bytes()).unwrap());
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let dgram = UnixDatagram::unbound().unwrap();
    for second in 0..100 {
        let line = |name| points(name, from, second..second + 1);
        // The last line of a datagram needs no end.
        udp.send_to(line("udp").trim_end().as_bytes(), daemon.at("udp://", 0)).unwrap();
        dgram.send_to(line("dgram").as_bytes(), &datagram).unwrap();
    }
    // SIGTERM arrives before some datagrams were read.
    daemon.stop().unwrap();
    let found = ["tcp", "unix", "udp", "dgram"].map(|name| points_of(&place, name));
    assert_eq!(found, [1_000, 1_000, 100, 100]);
}

#[test]
fn what_was_acknowledged_survives_kill_9_and_counts_once() {
    let place = Place::new();
    let from = an_hour_ago();
    let mut sent = 0;
    // In some rounds the batch is in the record before the kill, in others it is not.
    for (round, write_each) in ["1ms", "1h", "1h", "1ms", "1h", "20ms"].into_iter().enumerate() {
        let args = ["--graphite", "tcp://127.0.0.1:0", "--write-each", write_each];
        let daemon = serve(&place, &args, 2);
        for part in 0..5 {
            let second = (round * 5 + part) as u64 * 50;
            send(&daemon, &points("killed", from, second..second + 50));
            sent += 50;
        }
        drop(daemon);
    }
    let daemon = serve(&place, &["--graphite", "tcp://127.0.0.1:0"], 2);
    daemon.stop().unwrap();
    assert_eq!(points_of(&place, "killed"), sent);
}

#[test]
fn sql_sees_what_arrived_while_the_daemon_runs() {
    let place = Place::new();
    let args = ["--graphite", "tcp://127.0.0.1:0", "--write-each", "100ms"];
    let daemon = serve(&place, &args, 2);
    let mut stream = TcpStream::connect(daemon.at("tcp://", 1)).unwrap();
    let from = an_hour_ago();
    stream.write_all(points("seen", from, 0..10).as_bytes()).unwrap();
    eventually("ten points in the record", || points_of(&place, "seen") == 10);
    eventually("nothing is unwritten", || {
        figure(&daemon, "tachograph_oldest_unwritten_seconds") == Some(0.0)
    });
    assert_eq!(figure(&daemon, "tachograph_updates_total"), Some(10.0));
    assert_eq!(figure(&daemon, "tachograph_journal_max_bytes"), Some(f64::from(1 << 30)));
    assert_eq!(figure(&daemon, "tachograph_head_max_bytes"), Some(f64::from(64 << 20)));
    assert!(figure(&daemon, "tachograph_journal_bytes") > Some(0.0));
    assert_eq!(figure(&daemon, "tachograph_connections{way=\"graphite_stream\"}"), Some(1.0));
    drop(stream);
    daemon.stop().unwrap();
}

#[test]
fn refused_lines_are_counted_by_sender_and_reason_and_spoil_no_others() {
    let place = Place::new();
    let args = [
        "--graphite",
        "tcp://127.0.0.1:0",
        "--max-series",
        "2",
        "--max-connections",
        "8",
        "--max-connections-per-sender",
        "8",
    ];
    let daemon = serve(&place, &args, 2);
    let from = an_hour_ago();
    let long = "x".repeat(200_000);
    let lines = format!(
        "{}no number {from}\n{long} 1 {from}\nb 1 {from}\nc 1 {from}\nb 1 {}",
        points("a", from, 0..3),
        from + 1
    );
    send(&daemon, &lines);
    for reason in ["bad_number", "line_too_long", "too_many_series", "torn_line"] {
        let name = format!(
            "tachograph_refused_lines_total{{way=\"graphite_stream\",sender=\"127.0.0.1\",\
             reason=\"{reason}\"}}"
        );
        assert_eq!(figure(&daemon, &name), Some(1.0), "{reason}");
    }
    let first: Vec<TcpStream> =
        (0..8).map(|_| TcpStream::connect(daemon.at("tcp://", 1)).unwrap()).collect();
    eventually("the connections are open", || {
        figure(&daemon, "tachograph_connections{way=\"graphite_stream\"}") == Some(8.0)
    });
    let mut one_more = TcpStream::connect(daemon.at("tcp://", 1)).unwrap();
    assert!(one_more.read_to_end(&mut Vec::new()).is_err(), "it is reset");
    drop(first);
    daemon.stop().unwrap();
    assert_eq!((points_of(&place, "a"), points_of(&place, "b")), (3, 1));
}

#[test]
fn a_journal_with_another_record_is_refused() {
    let place = Place::new();
    let journal = place.path("j");
    let args = ["--graphite", "tcp://127.0.0.1:0", "--journal", journal.to_str().unwrap()];
    let daemon = serve(&place, &args, 2);
    send(&daemon, &points("a", an_hour_ago(), 0..10));
    daemon.stop().unwrap();
    std::fs::remove_file(place.path("record.sqlite")).unwrap();
    let refused =
        place.run(&["serve", "--http", "127.0.0.1:0", args[0], args[1], args[2], args[3]]);
    let said = format!(
        "error: the journal {0} continues data that {1} does not have: choose the record that it \
         belongs to, or another --journal; if that record was deleted on purpose, delete the \
         folder {0} as well\n",
        journal.display(),
        place.path("record.sqlite").display()
    );
    assert_eq!((refused.status, refused.err), (Some(2), said));
    // As the message advises.
    std::fs::remove_dir_all(&journal).unwrap();
    let daemon = serve(&place, &args, 2);
    send(&daemon, &points("a", an_hour_ago(), 0..10));
    daemon.stop().unwrap();
    assert_eq!(points_of(&place, "a"), 10);
}

/// The status and the body of a request that writes these lines.
fn write(daemon: &Daemon, path: &str, headers: &str, body: &[u8]) -> (u32, String) {
    let answer = ask(&daemon.at("tcp://", 0), &format!("POST {path}"), headers, body);
    (status(&answer), answer.split_once("\r\n\r\n").unwrap_or_default().1.to_owned())
}

#[test]
fn influx_lines_are_acknowledged_when_they_are_in_the_journal() {
    let place = Place::new();
    let from = an_hour_ago();
    let daemon = serve(&place, &["--no-graphite", "--write-each", "1h"], 1);
    assert!(get(&daemon, "/ping").starts_with("HTTP/1.1 204 "));
    let lines = |seconds: std::ops::Range<u64>| -> String {
        seconds.map(|second| format!("cpu,host=a used={second} {}\n", from + second)).collect()
    };
    let path = "/write?db=any&precision=s";
    assert_eq!(write(&daemon, path, "", lines(0..100).as_bytes()), (204, String::new()));
    let packed = gzip(lines(100..150).as_bytes());
    let path = "/api/v2/write?org=o&bucket=b&precision=s";
    assert_eq!(write(&daemon, path, "Content-Encoding: gzip\r\n", &packed).0, 204);
    let mixed = format!("{}cpu,host=a used=x {from}\n", lines(150..152));
    let said = format!(
        "partial write: line 3 ('cpu,host=a used=x {from}'): the value is not a number in this \
         format; refused lines: 1, the others were written"
    );
    let (status, answer) = write(&daemon, path, "", mixed.as_bytes());
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((status, answer["error"].as_str()), (400, Some(said.as_str())));
    assert_eq!(write(&daemon, "/write?precision=h", "", b"a b=1").0, 400);
    assert_eq!(write(&daemon, "/write", "", &vec![b'x'; 9 << 20]).0, 413);
    assert_eq!(write(&daemon, "/query?q=CREATE+DATABASE+x", "", b"").0, 200);
    // kill -9: everything that was answered with 204 or named in a 400 is kept.
    drop(daemon);
    let daemon = serve(&place, &["--no-graphite"], 1);
    assert_eq!(figure(&daemon, "tachograph_journal_replayed_total"), Some(3.0));
    daemon.stop().unwrap();
    assert_eq!(points_of(&place, "cpu"), 152);
}

#[test]
fn databases_of_influx_do_not_merge() {
    let place = Place::new();
    let from = an_hour_ago();
    let daemon = serve(&place, &["--no-graphite"], 1);
    let line = format!("cpu,host=a used=1 {from}\n");
    for path in [
        "/write?precision=s",
        "/write?precision=s&db=foo",
        "/write?precision=s&db=bar",
        "/write?precision=s&db=bar&rp=week",
        "/api/v2/write?precision=s&org=o&bucket=foo",
        "/api/v2/write?precision=s&org=p&bucket=foo",
    ] {
        assert_eq!(write(&daemon, path, "", line.as_bytes()), (204, String::new()), "{path}");
    }
    // The tag is that of the request, and no line takes another one.
    let other = format!("cpu,host=a,_db=bar used=2 {from}\n");
    let (status, answer) = write(&daemon, "/write?precision=s&db=foo", "", other.as_bytes());
    assert_eq!(status, 400);
    assert!(answer.contains(&format!("line 1 ('{}')", other.trim_end())), "{answer}");
    let (status, answer) = write(&daemon, "/write?db=a%0Ab", "", line.as_bytes());
    assert_eq!(status, 400);
    assert!(answer.contains("the name of the database or bucket cannot be used"), "{answer}");
    daemon.stop().unwrap();
    assert_eq!(place.rows("series WHERE measurement = 'cpu'"), 6);
    for (selected, count) in [
        ("cpu:used{_db=foo}", 1),
        ("cpu:used{_db=bar}", 2),
        ("cpu:used{_db=bar,_rp=week}", 1),
        ("cpu:used{_org=o,_bucket=foo}", 1),
        ("cpu:used{_bucket=foo}", 2),
        ("cpu:used{host=a}", 6),
    ] {
        let ended = place.run(&["series", selected]);
        assert_eq!(ended.status(0).out.matches("cpu:used").count(), count, "{selected}");
    }
}

#[test]
fn a_second_database_is_refused_where_one_is_configured() {
    let place = Place::new();
    let daemon = serve(&place, &["--no-graphite", "--database", "foo"], 1);
    let said = "database not found: \"bar\"; this daemon takes foo: add --database bar to its \
                options";
    for (path, wanted, why) in [
        ("/write?db=foo", 204, ""),
        ("/api/v2/write?org=o&bucket=foo", 204, ""),
        ("/write?db=bar", 404, said),
        ("/api/v2/write?org=o&bucket=bar", 404, said),
        ("/write", 400, "database is required: add db or bucket"),
    ] {
        let (status, answer) = write(&daemon, path, "", b"cpu used=1\n");
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
        assert_eq!((status, answer["error"].as_str().unwrap_or_default()), (wanted, why), "{path}");
    }
    let asked = "/query?q=CREATE+DATABASE+bar;CREATE+DATABASE+foo;SHOW+DATABASES";
    let answer: serde_json::Value =
        serde_json::from_str(&write(&daemon, asked, "", b"").1).unwrap();
    assert_eq!(answer["results"][0]["error"], said);
    assert_eq!(answer["results"][1], serde_json::json!({ "statement_id": 1 }));
    assert_eq!(answer["results"][2]["series"][0]["values"], serde_json::json!([["foo"]]));
    daemon.stop().unwrap();
}

#[test]
fn systemd_is_told_when_the_daemon_is_ready() {
    let place = Place::new();
    let path = place.path("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    let mut command = place.command(&["serve", "--http", "127.0.0.1:0", "--no-graphite"]);
    command.env("NOTIFY_SOCKET", &path);
    let daemon = Daemon::start(command, 1).unwrap();
    let id = daemon.id();
    systemd.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let mut told = [0; 200];
    let length = systemd.recv(&mut told).unwrap();
    assert_eq!(
        std::str::from_utf8(&told[..length]).unwrap(),
        format!("READY=1\nMAINPID={id}\nSTATUS=serving\n")
    );
    daemon.stop().unwrap();
}
