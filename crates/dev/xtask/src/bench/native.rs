//! The project's own reference clients.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Nanos;
use netio::{Address, Connect, Ending, Engine, Epoll, Handler, Handshake, Setup, Wire};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use spec::{Endpoint, Target};

use crate::say;

/// The request of the blocking client and the bare engine.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: tachograph/0.1.0\r\n\r\n";

/// Size of the buffer for a response, and for one read of a bulk transfer.
const BUFFER_BYTES: usize = 256 * 1024;

/// Events per epoll_wait, as of the engine.
const EVENTS: usize = 256;

/// Requests between two readings of the clock.
const BETWEEN_LOOKS: u32 = 64;

/// One of the clients, in a process of its own.
#[derive(Debug, clap::Args)]
pub(crate) struct OwnClient {
    /// `blocking`, `read-loop`, `bare` or `floor`.
    kind: String,
    #[arg(value_parser = Target::parse)]
    at: Target,
    connections: usize,
    seconds: f64,
}

impl OwnClient {
    /// Runs the client and prints its results as JSON.
    pub(crate) fn run(&self) -> Result<(), String> {
        let length = Duration::from_secs_f64(self.seconds.clamp(0.01, 3600.0));
        let done = match self.kind.as_str() {
            "blocking" => blocking(self.at.endpoint(), length),
            "read-loop" => read_loop(self.at.endpoint(), length),
            "floor" => floor(self.at.endpoint(), self.connections, length),
            _ => bare(self.at.endpoint(), self.connections, length),
        };
        let (completed, took) = done.map_err(|error| format!("{}: {error}", self.kind))?;
        say(&format!(r#"{{"completed": {completed}, "seconds": {}}}"#, took.as_secs_f64()));
        Ok(())
    }
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn connect(endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
    match endpoint {
        Endpoint::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port))?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
        Endpoint::Unix(path) => Ok(Box::new(UnixStream::connect(path)?)),
        _ => Err(io::Error::other("a TCP port or a Unix socket is wanted")),
    }
}

/// The first response, whose length is given by its Content-Length.
fn first_answer(stream: &mut dyn Stream) -> io::Result<Vec<u8>> {
    stream.write_all(REQUEST)?;
    let (mut answer, mut buffer) = (Vec::new(), vec![0; BUFFER_BYTES]);
    loop {
        let n = stream.read(&mut buffer)?;
        answer.extend_from_slice(&buffer[..n]);
        if n == 0 || answer.len() > BUFFER_BYTES {
            return Err(io::Error::other("the server's first answer has no end"));
        }
        if whole_length(&answer) == Some(answer.len()) {
            return Ok(answer);
        }
    }
}

fn whole_length(answer: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(answer);
    let (head, _) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "))?;
    Some(head.len() + 4 + length.parse::<usize>().ok()?)
}

/// One connection, one request after another, every response compared with the first.
fn blocking(endpoint: &Endpoint, length: Duration) -> io::Result<(u64, Duration)> {
    let mut stream = connect(endpoint)?;
    let first = first_answer(&mut *stream)?;
    let (mut answer, mut completed, began) = (vec![0; first.len()], 0, Instant::now());
    while began.elapsed() < length {
        for _ in 0..BETWEEN_LOOKS {
            stream.write_all(REQUEST)?;
            stream.read_exact(&mut answer)?;
            if answer != first {
                return Err(io::Error::other("an answer differs from the first"));
            }
        }
        completed += u64::from(BETWEEN_LOOKS);
    }
    Ok((completed, began.elapsed()))
}

/// Reads and counts bytes.
fn read_loop(endpoint: &Endpoint, length: Duration) -> io::Result<(u64, Duration)> {
    let mut stream = connect(endpoint)?;
    let (mut buffer, mut bytes, began) = (vec![0; BUFFER_BYTES], 0, Instant::now());
    while began.elapsed() < length {
        match stream.read(&mut buffer)? {
            0 => return Err(io::Error::other("the server has closed")),
            n => bytes += n as u64,
        }
    }
    Ok((bytes, began.elapsed()))
}

/// The system calls of our epoll engine on kept connections, one epoll_wait for many requests and for
/// each a recv and a send, with nothing between them but counting.
fn floor(endpoint: &Endpoint, connections: usize, length: Duration) -> io::Result<(u64, Duration)> {
    let answer_bytes = first_answer(&mut *connect(endpoint)?)?.len();
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let sockets: Vec<OwnedFd> =
        (0..connections).map(|_| open(endpoint)).collect::<io::Result<_>>()?;
    let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    for (at, socket) in sockets.iter().enumerate() {
        epoll::add(&epoll, socket, EventData::new_u64(at as u64), flags)?;
    }
    for socket in &sockets {
        send_request(socket)?;
    }
    let (mut received, mut completed) = (vec![0; connections], 0);
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut space = [const { MaybeUninit::uninit() }; EVENTS];
    let limit = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    let began = Instant::now();
    while began.elapsed() < length {
        let (events, _) = epoll::wait(&epoll, &mut space, Some(&limit))?;
        for event in events {
            let at = event.data.u64() as usize;
            let (n, _) = recv(&sockets[at], buffer.as_mut_slice(), RecvFlags::empty())?;
            if n == 0 {
                return Err(io::Error::other("the server has closed"));
            }
            received[at] += n;
            if received[at] >= answer_bytes {
                received[at] = 0;
                completed += 1;
                send_request(&sockets[at])?;
            }
        }
    }
    Ok((completed, began.elapsed()))
}

/// A connected socket that does not block.
fn open(endpoint: &Endpoint) -> io::Result<OwnedFd> {
    match endpoint {
        Endpoint::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port))?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(stream.into())
        }
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_nonblocking(true)?;
            Ok(stream.into())
        }
        _ => Err(io::Error::other("a TCP port or a Unix socket is wanted")),
    }
}

fn send_request(socket: &OwnedFd) -> io::Result<()> {
    match send(socket, REQUEST, SendFlags::NOSIGNAL)? {
        n if n == REQUEST.len() => Ok(()),
        _ => Err(io::Error::other("a request did not fit")),
    }
}

/// Our epoll engine without anything on top: a response is complete when enough bytes have arrived.
fn bare(endpoint: &Endpoint, connections: usize, length: Duration) -> io::Result<(u64, Duration)> {
    let answer_bytes = first_answer(&mut *connect(endpoint)?)?.len();
    let address = Address::resolve(endpoint).map_err(io::Error::other)?.remove(0);
    let mut engine = Epoll::new(&Setup::new(address, Arc::from(REQUEST), connections))?;
    let mut counter =
        Counter { answer_bytes, received: vec![0; connections], completed: 0, failed: false };
    for slot in 0..connections {
        match engine.wire().connect(slot) {
            Ok(Connect::Done) => counter.connected(engine.wire(), slot, None),
            Ok(Connect::Pending) => {}
            Err(failure) => {
                return Err(io::Error::other(format!(
                    "a connection could not be made: {failure:?}"
                )));
            }
        }
    }
    let began = Instant::now();
    while began.elapsed() < length && !counter.failed {
        engine.turn(Nanos::from_millis(50), &mut counter)?;
    }
    if counter.failed {
        Err(io::Error::other("a connection ended"))
    } else {
        Ok((counter.completed, began.elapsed()))
    }
}

struct Counter {
    answer_bytes: usize,
    /// Bytes of the incomplete response, by slot.
    received: Vec<usize>,
    completed: u64,
    failed: bool,
}

impl Handler for Counter {
    fn connected(&mut self, wire: &mut dyn Wire, slot: usize, _: Option<Handshake>) {
        self.failed |= wire.send(slot, 0).is_err();
    }

    fn taken(&mut self, _wire: &mut dyn Wire, _slot: usize) {}

    fn received(&mut self, wire: &mut dyn Wire, slot: usize, bytes: &[u8], _: bool) {
        self.received[slot] += bytes.len();
        if self.received[slot] >= self.answer_bytes {
            self.received[slot] = 0;
            self.completed += 1;
            self.failed |= wire.send(slot, 0).is_err();
        }
    }

    fn ended(&mut self, _: &mut dyn Wire, _: usize, _: Ending) {
        self.failed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_counts_what_the_server_does() {
        let listen = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: 0 };
        let config = fixture::Config::new(listen, fixture::Service::hello());
        let server = fixture::spawn(config).unwrap();
        let (completed, _) = floor(server.endpoint(), 8, Duration::from_millis(50)).unwrap();
        // Besides the first, those that were on their way at the end.
        let served = server.stop().unwrap();
        assert!((completed + 1..=completed + 9).contains(&served), "{completed} {served}");
    }

    #[test]
    fn an_answer_ends_where_its_length_says() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nHello World!";
        assert_eq!(whole_length(answer), Some(answer.len()));
        assert_eq!(whole_length(&answer[..20]), None);
        assert_eq!(whole_length(b"HTTP/1.1 200 OK\r\n\r\n"), None);
    }
}
