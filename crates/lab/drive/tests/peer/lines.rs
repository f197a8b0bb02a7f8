//! Messages of lines against receivers that count, drop, reset and stop reading.

use drive::Life;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::Nanos;
use drive::Session;
use rustix::net::sockopt;
use spec::{Arrivals, Endpoint, EngineChoice, Exchange, Lines, Load, Mode, Target};

use crate::helper::{assert_counts, eventually, for_ms, options, requests};

const PER_MESSAGE: u32 = 20;

fn lines() -> Lines {
    let (series, prefix) = (50, "load".to_owned());
    Lines { per_message: PER_MESSAGE, series, prefix, interval: Nanos::from_secs(1) }
}

fn session(endpoint: Endpoint, connections: u32, threads: u32) -> Session {
    let load = Load {
        connections,
        threads,
        engine: EngineChoice::Epoll,
        exchange: Exchange::Lines(lines()),
        timeout: Nanos::from_secs(20),
        ..Load::default()
    };
    Session::open(&Target::Raw(endpoint), &load, &options()).unwrap()
}

fn tcp(listener: &TcpListener) -> Endpoint {
    let at = listener.local_addr().unwrap();
    Endpoint::Tcp { host: at.ip().to_string(), port: at.port() }
}

fn udp(socket: &UdpSocket) -> Endpoint {
    let at = socket.local_addr().unwrap();
    Endpoint::Udp { host: at.ip().to_string(), port: at.port() }
}

/// Reads a stream to its end and counts its lines; closing it then is the acknowledgement.
fn count(stream: impl std::io::Read) -> u64 {
    let mut count = 0;
    for line in BufReader::new(stream).split(b'\n') {
        let line = line.unwrap();
        assert_eq!(line.len() + 1, lines().line_bytes(), "{}", String::from_utf8_lossy(&line));
        count += 1;
    }
    count
}

/// A receiver of streams; the counted lines.
fn receiver<S: std::io::Read + Send + 'static>(
    mut accept: impl FnMut() -> std::io::Result<S> + Send + 'static,
) -> Arc<AtomicU64> {
    let counted = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&counted);
    std::thread::spawn(move || {
        while let Ok(stream) = accept() {
            let sum = Arc::clone(&sum);
            std::thread::spawn(move || sum.fetch_add(count(stream), Ordering::SeqCst));
        }
    });
    counted
}

/// Closed and open loops over some connections; what was completed is exactly what was counted.
fn streams_are_acknowledged(endpoint: Endpoint, counted: &AtomicU64) {
    let mut session = session(endpoint, 3, 2);
    let exact = session.run(&requests(1_000)).unwrap();
    assert_counts(&exact.counts);
    assert_eq!((exact.counts.completed, exact.window.completed), (1_000, 1_000));
    let closed = session.run(&for_ms(20, 100)).unwrap();
    assert_counts(&closed.counts);
    // The whole slice is the window, because when a message arrived is unknown.
    assert_eq!(closed.window.completed, closed.counts.completed);
    assert_eq!(closed.completed_by_step.iter().sum::<u64>(), closed.counts.completed);
    assert!(closed.counts.completed > 0 && closed.window.length >= Nanos::from_millis(120));
    let mode = Mode::Open { rate_per_s: 2_000.0, arrivals: Arrivals::Uniform };
    let open = session.run(&drive::Slice { mode, ..for_ms(0, 200) }).unwrap();
    assert_counts(&open.counts);
    assert_eq!(open.latency.len(), open.window.completed);
    let Life { counts, errors, .. } = session.close();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(counts.sent, counts.completed + counts.in_flight);
    assert_eq!(counts.in_flight, 0);
    assert_eq!(counted.load(Ordering::SeqCst), counts.completed * u64::from(PER_MESSAGE));
}

#[test]
fn what_a_stream_carried_is_completed_when_the_receiver_closes_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = tcp(&listener);
    let counted = receiver(move || listener.accept().map(|(stream, _)| stream));
    streams_are_acknowledged(endpoint, &counted);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let counted = receiver(move || listener.accept().map(|(stream, _)| stream));
    streams_are_acknowledged(Endpoint::Unix(path), &counted);
}

#[test]
fn a_unix_datagram_socket_makes_its_sender_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let socket = UnixDatagram::bind(&path).unwrap();
    let (counted, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (sum, end) = (Arc::clone(&counted), Arc::clone(&over));
    let reader = std::thread::spawn(move || {
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match socket.recv(&mut buffer) {
                Ok(bytes) => sum.fetch_add(count(&buffer[..bytes]), Ordering::SeqCst),
                Err(_) if end.load(Ordering::SeqCst) => return,
                Err(_) => 0,
            };
        }
    });
    let mut session = session(Endpoint::UnixDatagram(path), 2, 1);
    // More than the receiver's queue holds.
    let seen = session.run(&requests(5_000)).unwrap();
    assert_eq!(seen.counts.completed, 5_000, "{:?}", seen.errors);
    let seen = session.run(&for_ms(0, 100)).unwrap();
    assert_counts(&seen.counts);
    let Life { counts, .. } = session.close();
    let all = counts.completed * u64::from(PER_MESSAGE);
    eventually("every datagram", || counted.load(Ordering::SeqCst) == all);
    over.store(true, Ordering::SeqCst);
    reader.join().unwrap();
}

/// Datagrams that the kernel discarded because this socket's buffer was full (proc_net_udp(5)).
fn drops(socket: &UdpSocket) -> u64 {
    let port = socket.local_addr().unwrap().port();
    let table = std::fs::read_to_string("/proc/net/udp").unwrap();
    let of_port =
        |line: &&str| line.split_whitespace().nth(1).unwrap().ends_with(&format!(":{port:04X}"));
    let line = table.lines().skip(1).find(of_port).unwrap();
    line.split_whitespace().last().unwrap().parse().unwrap()
}

#[test]
fn what_the_kernel_of_a_receiver_discards_is_what_is_missing_there() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    sockopt::set_socket_recv_buffer_size(&socket, 4_096).unwrap();
    let mut session = session(udp(&socket), 1, 1);
    let seen = session.run(&requests(3_000)).unwrap();
    // The socket takes every datagram, whatever becomes of it.
    assert_eq!(seen.counts.completed, 3_000, "{:?}", seen.errors);
    socket.set_nonblocking(true).unwrap();
    let mut buffer = vec![0; 1 << 16];
    let mut received = 0;
    while let Ok(bytes) = socket.recv(&mut buffer) {
        assert_eq!(bytes, lines().message_bytes());
        received += 1;
    }
    let dropped = drops(&socket);
    assert!(received > 0 && dropped > 0, "{received} received, {dropped} dropped");
    assert_eq!(received + dropped, 3_000);
}

#[test]
fn without_a_receiver_datagrams_fail() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let endpoint = udp(&socket);
    drop(socket);
    let mut session = session(endpoint, 1, 1);
    let seen = session.run(&requests(100)).unwrap();
    assert_counts(&seen.counts);
    // The kernel reports each of them with the next one.
    assert!(seen.errors.get("refused") > Some(&10), "{:?}", seen.errors);
}

#[test]
fn a_stream_that_is_reset_in_the_middle_has_failed_as_a_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = tcp(&listener);
    let server = std::thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        first.read_exact(&mut vec![0; 50_000]).unwrap();
        // Bytes that were not read make the close a reset.
        sockopt::set_socket_linger(&first, Some(Duration::ZERO)).unwrap();
        drop(first);
        let (second, _) = listener.accept().unwrap();
        count(second)
    });
    let mut session = session(endpoint, 1, 1);
    let seen = session.run(&requests(20_000)).unwrap();
    assert_counts(&seen.counts);
    assert_eq!(seen.counts.in_flight, 0);
    let least = 50_000 / lines().message_bytes() as u64;
    assert!(seen.counts.failed >= least, "{:?}", seen.errors);
    assert_eq!(seen.errors.get("reset"), Some(&seen.counts.failed), "{:?}", seen.errors);
    assert_eq!(server.join().unwrap(), seen.counts.completed * u64::from(PER_MESSAGE));
}

#[test]
fn a_receiver_that_closes_early_or_answers_acknowledges_nothing() {
    for (answers, kinds) in [
        (true, &["bytes after the response"][..]),
        (false, &["closed before the last message", "reset"]),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = tcp(&listener);
        let over = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&over);
        let server = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.unwrap();
                // Everything that has arrived is read, so the close is an orderly one.
                let _ = stream.read(&mut vec![0; 1 << 22]);
                if answers {
                    let _ = stream.write_all(b"thanks");
                    let _ = stream.read_to_end(&mut Vec::new());
                }
            }
        });
        let at = match &endpoint {
            Endpoint::Tcp { host, port } => format!("{host}:{port}"),
            other => panic!("{other}"),
        };
        let mut session = session(endpoint, 1, 1);
        let mode = Mode::Open { rate_per_s: 500.0, arrivals: Arrivals::Uniform };
        let seen = session.run(&drive::Slice { mode, ..for_ms(0, 200) }).unwrap();
        assert_counts(&seen.counts);
        let failed: u64 = kinds.iter().filter_map(|kind| seen.errors.get(*kind)).sum();
        assert!(failed > 0, "{:?}", seen.errors);
        assert_eq!(failed, seen.counts.failed, "{:?}", seen.errors);
        over.store(true, Ordering::SeqCst);
        drop(session);
        drop(std::net::TcpStream::connect(at));
        server.join().unwrap();
    }
}

#[test]
fn an_acknowledgement_that_never_comes_is_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = tcp(&listener);
    let mut session = {
        let load = Load {
            connections: 1,
            exchange: Exchange::Lines(lines()),
            timeout: Nanos::from_millis(200),
            ..Load::default()
        };
        Session::open(&Target::Raw(endpoint), &load, &options()).unwrap()
    };
    // The kernel takes them, but no process reads them.
    let seen = session.run(&requests(10)).unwrap();
    assert_eq!((seen.counts.completed, seen.counts.failed), (0, 10), "{:?}", seen.errors);
    assert_eq!(seen.errors.get("timeout"), Some(&10));
    drop(listener);
}
