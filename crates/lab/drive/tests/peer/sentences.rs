//! The messages for loads that cannot start.

use crate::helper::*;
use base::{Bytes, Nanos};
use drive::Session;
use fixture::{Faults, Service};
use spec::{Endpoint, Exchange, Load, Target};

fn open(target: &Target, load: &Load) -> String {
    Session::open(target, load, &options()).err().unwrap().to_string()
}

fn target(text: &str) -> Target {
    Target::parse(text).unwrap()
}

#[test]
fn nothing_listens_there() {
    // Bound but not listening: connections to the port are refused during the test.
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    drop(held);
    assert_eq!(
        open(&target(&format!("http://127.0.0.1:{port}/")), &http_load(1)),
        format!(
            "cannot connect to http://127.0.0.1:{port}/: connection refused: nothing is listening \
             on that port; start the server, or check the port"
        )
    );
}

#[test]
fn sockets_that_are_missing_abandoned_or_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let at = Target::Http {
        endpoint: Endpoint::Unix(path.clone()),
        tls: false,
        authority: "localhost".into(),
        path: "/".into(),
    };
    assert_eq!(
        open(&at, &http_load(1)),
        format!("cannot connect to {at}: no such socket; start the server, or check the path")
    );
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert_eq!(
        open(&at, &http_load(1)),
        format!(
            "cannot connect to {at}: connection refused: the socket file exists, but no process \
             listens on it; start the server, or remove a stale file"
        )
    );
    std::fs::remove_file(&path).unwrap();
    let _datagram = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    assert_eq!(
        open(&at, &http_load(1)),
        format!("cannot connect to {at}: the file at that path is not a socket of this type")
    );
}

#[test]
fn names_and_paths_that_lead_nowhere() {
    let nowhere = Target::Http {
        endpoint: Endpoint::Tcp { host: "no.such.host.invalid".into(), port: 80 },
        tls: false,
        authority: "x".into(),
        path: "/".into(),
    };
    assert_eq!(
        open(&nowhere, &http_load(1)),
        "cannot connect to http://no.such.host.invalid:80/: no address found for \
         'no.such.host.invalid': check its spelling, /etc/hosts and the name server"
    );
    let long = format!("/tmp/{}", "x".repeat(103));
    assert_eq!(
        open(&Target::Raw(Endpoint::Unix(long.clone().into())), &raw(Exchange::Oneshot)),
        format!(
            "cannot connect to unix:{long}: the socket path {long} has 108 bytes, but a Unix \
             socket's path can have at most 107: use a shorter one, e.g. in /tmp"
        )
    );
}

fn raw(exchange: Exchange) -> Load {
    Load { exchange, ..http_load(1) }
}

/// The error of learning from a server with these bytes or faults.
fn learn(service: Service, faults: Faults) -> String {
    let stalls = faults.stall_after.is_some();
    let mut rig = rig(On::V4, service, faults);
    if stalls {
        rig.load.timeout = Nanos::from_millis(200);
    }
    let error = rig.open().unwrap().learn().unwrap_err().to_string();
    error.replace(&rig.target.to_string(), "TARGET")
}

#[test]
fn first_answers_that_are_none() {
    let bytes = |answer: &str, close| Service::Bytes { answer: answer.into(), close };
    let none = Faults::default;
    for (service, faults, sentence) in [
        (
            bytes("\u{15}\u{3}\u{1}\0\u{2}\u{2}F", true),
            none(),
            "no usable answer from TARGET: the port speaks TLS; write https:// instead of \
             http://",
        ),
        (
            bytes("+OK POP3 ready\r\n", false),
            none(),
            "no usable answer from TARGET: its answer is not HTTP/1; for raw bytes use tcp:// or unix: instead of http://",
        ),
        (
            bytes("", true),
            none(),
            "no usable answer from TARGET: it closed the connection without an answer; check \
             whether it expects another protocol",
        ),
        (
            bytes("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", true),
            none(),
            "no usable answer from TARGET: it closed the connection before its answer was complete",
        ),
        (
            Service::hello(),
            Faults { stall_after: Some(0), ..none() },
            "no usable answer from TARGET: it accepted the connection, but did not answer within \
             200 ms; check whether the server is stuck or busy",
        ),
    ] {
        assert_eq!(learn(service, faults), sentence);
    }
}

#[test]
fn loads_that_do_not_fit_their_target() {
    let http = target("http://127.0.0.1:1/");
    let tcp = target("tcp://127.0.0.1:1");
    let datagram = Target::Raw(Endpoint::UnixDatagram("/tmp/x".into()));
    let pair = Target::Raw(Endpoint::Socketpair("/tmp/x".into()));
    let with = |change: fn(&mut Load)| {
        let mut load = http_load(1);
        change(&mut load);
        load
    };
    for (target, load, why) in [
        (&http, with(|load| load.connections = 0), "at least one connection is required"),
        (&http, with(|load| load.threads = 0), "at least one thread is required"),
        (
            &http,
            with(|load| load.timeout = Nanos::ZERO),
            "a timeout of zero would fail every request",
        ),
        (
            &tcp,
            http_load(1),
            "HTTP needs a target that begins with http://; for raw bytes choose --exchange oneshot, echo or bulk",
        ),
        (
            &http,
            raw(Exchange::Oneshot),
            "a raw exchange needs a raw target: tcp://host:port or unix:/path",
        ),
        (
            &tcp,
            raw(Exchange::Echo { size: Bytes(0) }),
            "an echo needs a message of at least 1 byte",
        ),
        (
            &tcp,
            raw(Exchange::Bulk { chunk: Bytes(0) }),
            "a bulk transfer needs a chunk of at least 1 byte",
        ),
        (
            &datagram,
            raw(Exchange::Oneshot),
            "datagram and seqpacket sockets support only the echo exchange",
        ),
        (&pair, raw(Exchange::Oneshot), "a socketpair supports only the echo and bulk exchanges"),
    ] {
        assert_eq!(open(target, &load), format!("{target} cannot be loaded like this: {why}"));
    }
}

#[test]
fn cpus_and_files_that_there_are_not() {
    let mut rig = rig(On::Unix, Service::hello(), Faults::default());
    rig.options.cpus = base::CpuSet::one(1023);
    assert_eq!(
        rig.open().unwrap().learn().unwrap_err().to_string(),
        "the load engine failed: a client thread cannot run on CPU 1023: Invalid argument (os \
         error 22)"
    );
    rig.load.connections = u32::MAX;
    let error = rig.open().err().unwrap().to_string();
    assert!(
        error.starts_with("4294967295 connections need as many open files, but the limit is ")
            && error.ends_with("; raise it with 'ulimit -n'"),
        "{error}"
    );
}
