//! The proof that a daemon can be replaced under load without losing a request or a point.
//!
//! Senders use connections that stay open and are cut within lines, datagrams, and HTTP requests on
//! one connection and on a new one each, while the daemon is replaced again and again. Then they go on
//! for as long with a daemon that stays: what a request takes then is not the restarts' fault.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::daemon::{Daemon, points};

/// The measurements of the senders.
const SENDERS: [&str; 7] = ["tcp", "unix", "pickle", "udp", "dgram", "http", "http_new"];

/// Lines that are sent together.
const LINES: u64 = 10;

/// Pause of a sender between two sendings, which makes a steady load of 1,000 lines per second.
const PACE: Duration = Duration::from_millis(10);

/// Result of the proof.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    /// Replacements.
    pub restarts: u32,
    /// HTTP requests.
    pub requests: u64,
    /// Those that failed.
    pub failed: u64,
    /// Points sent, and points in the store, by sender.
    pub points: Vec<(&'static str, i64, i64)>,
    /// The longest time of a request while daemons were replaced.
    pub longest: Duration,
    /// The same while none was, for as long afterwards.
    pub longest_afterwards: Duration,
}

impl Proof {
    /// Whether no request failed and no point was lost or doubled.
    pub fn holds(&self) -> bool {
        let is_equal = |(_, sent, stored): &(&str, i64, i64)| sent == stored && *sent > 0;
        self.failed == 0 && self.requests > 0 && self.points.iter().all(is_equal)
    }
}

/// What a sender has done.
#[derive(Debug, Default)]
struct SenderTotals {
    points: i64,
    requests: u64,
    failed: u64,
    longest: Duration,
    longest_afterwards: Duration,
}

/// What the senders must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Restarts,
    Afterwards,
    Over,
}

/// Replaces a daemon `restarts` times under load. `start` gets the options of the sockets.
///
/// # Errors
/// What prevented the proof, in words.
pub fn prove(
    place: &str,
    folder: &Path,
    restarts: u32,
    start: impl Fn(&[String]) -> Command,
) -> Result<Proof, String> {
    let (stream, datagram) = (folder.join("s.sock"), folder.join("d.sock"));
    let sockets = [
        "tcp://127.0.0.1:0".to_owned(),
        format!("unix:{}", stream.display()),
        "udp://127.0.0.1:0".to_owned(),
        format!("unix-dgram:{}", datagram.display()),
    ];
    let mut options = vec!["--http".to_owned(), "127.0.0.1:0".to_owned(), "--no-statsd".to_owned()];
    options.extend(sockets.into_iter().flat_map(|socket| ["--graphite".to_owned(), socket]));
    options.extend(["--pickle".to_owned(), "tcp://127.0.0.1:0".to_owned()]);
    let mut daemon = Daemon::start(start(&options), 6)?;
    let (http, tcp, udp) = (daemon.at("tcp://", 0), daemon.at("tcp://", 1), daemon.at("udp://", 0));
    let pickle = daemon.at("tcp://", 2);
    let phase = Mutex::new(Phase::Restarts);
    let now = || *phase.lock().unwrap_or_else(PoisonError::into_inner);
    let enter = |next| *phase.lock().unwrap_or_else(PoisonError::into_inner) = next;
    let over = || now() == Phase::Over;
    let (replaced, sent) = thread::scope(|scope| {
        let senders = [
            scope.spawn(|| over_tcp(&tcp, "tcp", text, over)),
            scope.spawn(|| over_unix(&stream, over)),
            scope.spawn(|| over_tcp(&pickle, "pickle", |lines| lines.frame(LINES), over)),
            scope.spawn(|| {
                let socket = UdpSocket::bind("127.0.0.1:0")?;
                in_datagrams("udp", |bytes| socket.send_to(bytes, &udp), over)
            }),
            scope.spawn(|| {
                let socket = UnixDatagram::unbound()?;
                in_datagrams("dgram", |bytes| socket.send_to(bytes, &datagram), over)
            }),
            scope.spawn(|| over_http(&http, "http", true, now)),
            scope.spawn(|| over_http(&http, "http_new", false, now)),
        ];
        let began = Instant::now();
        let replaced = (0..restarts).try_for_each(|_| daemon.replace());
        enter(Phase::Afterwards);
        thread::sleep(began.elapsed());
        enter(Phase::Over);
        let sent = senders.map(|sender| sender.join());
        (replaced, sent)
    });
    replaced?;
    daemon.stop()?;
    let mut proof = Proof { restarts, ..Proof::default() };
    let stored = points(place, &SENDERS).map_err(|error| error.to_string())?;
    for ((name, sent), stored) in SENDERS.into_iter().zip(sent).zip(stored) {
        let sent = sent.map_err(|_| format!("the sender {name} panicked"))?;
        let sent = sent.map_err(|error| format!("the sender {name} failed: {error}"))?;
        proof.requests += sent.requests;
        proof.failed += sent.failed;
        proof.longest = proof.longest.max(sent.longest);
        proof.longest_afterwards = proof.longest_afterwards.max(sent.longest_afterwards);
        proof.points.push((name, sent.points, stored));
    }
    Ok(proof)
}

/// The lines of a sender, of one point per millisecond, from an hour ago.
struct Lines {
    name: &'static str,
    at_ms: u64,
    sent: i64,
}

impl Lines {
    fn new(name: &'static str) -> Lines {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Lines { name, at_ms: (now.as_millis() as u64).saturating_sub(3_600_000), sent: 0 }
    }

    fn next(&mut self, count: u64) -> String {
        let lines = (self.at_ms..self.at_ms + count).map(|at_ms| {
            format!("{} {} {}.{:03}\n", self.name, at_ms % 100, at_ms / 1_000, at_ms % 1_000)
        });
        let lines = lines.collect();
        self.at_ms += count;
        self.sent += count as i64;
        lines
    }

    /// The same as a frame of Graphite's pickle protocol, as Python writes a list of points, but
    /// without remembering any.
    fn frame(&mut self, count: u64) -> Vec<u8> {
        let mut pickle = b"\x80\x02](".to_vec();
        for at_ms in self.at_ms..self.at_ms + count {
            let path = self.name.as_bytes();
            pickle.push(b'X');
            pickle.extend((path.len() as u32).to_le_bytes());
            pickle.extend(path);
            pickle.push(b'G');
            pickle.extend((at_ms as f64 / 1e3).to_be_bytes());
            pickle.extend([b'K', (at_ms % 100) as u8, 0x86, 0x86]);
        }
        pickle.extend(b"e.");
        self.at_ms += count;
        self.sent += count as i64;
        [&(pickle.len() as u32).to_be_bytes()[..], &pickle].concat()
    }

    fn sent(&self) -> SenderTotals {
        SenderTotals { points: self.sent, ..SenderTotals::default() }
    }
}

/// Sends lines or frames over a stream, in parts that end anywhere, and waits until the daemon has
/// ended it.
fn over_stream(
    mut stream: impl io::Read + io::Write,
    close: impl Fn() -> io::Result<()>,
    mut lines: Lines,
    next: impl Fn(&mut Lines) -> Vec<u8>,
    over: impl Fn() -> bool,
) -> io::Result<SenderTotals> {
    let mut rest = Vec::new();
    while !over() {
        rest.extend(next(&mut lines));
        let cut = rest.len() - 7;
        stream.write_all(&rest[..cut])?;
        rest.drain(..cut);
        thread::sleep(PACE);
    }
    stream.write_all(&rest)?;
    close()?;
    stream.read_to_end(&mut Vec::new())?;
    Ok(lines.sent())
}

fn over_tcp(
    at: &str,
    name: &'static str,
    next: impl Fn(&mut Lines) -> Vec<u8>,
    over: impl Fn() -> bool,
) -> io::Result<SenderTotals> {
    let stream = TcpStream::connect(at)?;
    over_stream(&stream, || stream.shutdown(Shutdown::Write), Lines::new(name), next, over)
}

fn over_unix(at: &Path, over: impl Fn() -> bool) -> io::Result<SenderTotals> {
    let stream = UnixStream::connect(at)?;
    over_stream(&stream, || stream.shutdown(Shutdown::Write), Lines::new("unix"), text, over)
}

fn text(lines: &mut Lines) -> Vec<u8> {
    lines.next(LINES).into_bytes()
}

fn in_datagrams(
    name: &'static str,
    send: impl Fn(&[u8]) -> io::Result<usize>,
    over: impl Fn() -> bool,
) -> io::Result<SenderTotals> {
    let mut lines = Lines::new(name);
    while !over() {
        send(lines.next(LINES).as_bytes())?;
        thread::sleep(PACE);
    }
    Ok(lines.sent())
}

/// Sends requests one after the other, on one connection while it is kept open, or on new ones.
fn over_http(
    at: &str,
    name: &'static str,
    keeps: bool,
    phase: impl Fn() -> Phase,
) -> io::Result<SenderTotals> {
    let mut lines = Lines::new(name);
    let mut sent = SenderTotals::default();
    let mut kept: Option<TcpStream> = None;
    loop {
        let longest = match phase() {
            Phase::Restarts => &mut sent.longest,
            Phase::Afterwards => &mut sent.longest_afterwards,
            Phase::Over => break,
        };
        let body = lines.next(LINES);
        let body: String = body.lines().filter_map(influx).collect();
        let before = Instant::now();
        let answer = match kept.take() {
            Some(stream) => Ok(stream),
            None => TcpStream::connect(at),
        };
        sent.requests += 1;
        match answer.and_then(|mut stream| Ok((request(&mut stream, &body)?, stream))) {
            Ok(((true, stays), stream)) => {
                *longest = before.elapsed().max(*longest);
                kept = Some(stream).filter(|_| keeps && stays);
            }
            Ok(((false, _), _)) | Err(_) => sent.failed += 1,
        }
        thread::sleep(PACE);
    }
    Ok(SenderTotals { points: lines.sent, ..sent })
}

/// A Graphite line as one of Influx, with its time in milliseconds.
fn influx(line: &str) -> Option<String> {
    let mut parts = line.split(' ');
    let (name, value, time) = (parts.next()?, parts.next()?, parts.next()?);
    Some(format!("{name} value={value} {}\n", time.replace('.', "")))
}

/// Sends a request: whether it was answered with 204, and whether the connection stays.
///
/// # Errors
/// Those of the connection.
pub fn request(stream: &mut TcpStream, body: &str) -> io::Result<(bool, bool)> {
    let answer = ask(stream, "", body)?;
    Ok((answer.starts_with("http/1.1 204 "), !answer.contains("\r\nconnection: close\r\n")))
}

/// Sends a request, with further headers, each with its end; returns the answer's, in lower case.
pub(crate) fn ask(stream: &mut TcpStream, headers: &str, body: &str) -> io::Result<String> {
    let length = body.len();
    let head = format!(
        "POST /write?precision=ms HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: \
         {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes())?;
    let mut answer = Vec::new();
    let mut part = [0; 4_096];
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => answer.extend_from_slice(&part[..count]),
        }
    }
    Ok(String::from_utf8_lossy(&answer).to_lowercase())
}
