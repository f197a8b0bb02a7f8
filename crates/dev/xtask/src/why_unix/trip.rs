//! The client and the server, in processes of their own.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::say;

/// The server's port, in a namespace where it is alone.
const PORT: u16 = 7001;

/// Round trips before those that are measured.
const FIRST_TRIPS: u64 = 200;

/// Names of the threads, by which the profiler tells them from others.
pub(super) const CLIENT: &str = "trip-client";
pub(super) const SERVER: &str = "trip-server";

/// Limit on an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Largest datagram.
const DATAGRAM_MAX: usize = 1 << 16;

/// Serves until standard input ends.
pub(crate) fn serve(folder: &Path) -> io::Result<()> {
    let tcp = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    let udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    let unix = UnixListener::bind(folder.join("stream"))?;
    let datagrams = UnixDatagram::bind(folder.join("datagrams"))?;
    named(move || {
        accepted(tcp.incoming().inspect(|stream| {
            // An answer is one write, which nothing follows.
            let _ = stream.as_ref().map(|stream| stream.set_nodelay(true));
        }));
    })?;
    named(move || accepted(unix.incoming()))?;
    named(move || {
        let mut message = vec![0; DATAGRAM_MAX];
        while let Ok((count, from)) = udp.recv_from(&mut message) {
            let _ = udp.send_to(&message[..count], from);
        }
    })?;
    named(move || {
        let mut message = vec![0; DATAGRAM_MAX];
        while let Ok((count, from)) = datagrams.recv_from(&mut message) {
            let _ = from.as_pathname().map(|path| datagrams.send_to(&message[..count], path));
        }
    })?;
    say("ready");
    io::stdin().read_to_end(&mut Vec::new()).map(|_| ())
}

fn named(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(SERVER.to_owned()).spawn(work).map(|_| ())
}

/// Answers one connection after another. A message ends where its first four bytes say.
fn accepted<S: Read + Write>(connections: impl Iterator<Item = io::Result<S>>) {
    let mut message = vec![0; DATAGRAM_MAX];
    for mut connection in connections.flatten() {
        while let Ok(count) = whole(&mut connection, &mut message) {
            if connection.write_all(&message[..count]).is_err() {
                break;
            }
        }
    }
}

/// Reads a message; returns its length.
fn whole(stream: &mut impl Read, message: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    loop {
        let length = message.first_chunk().map_or(0, |first| u32::from_le_bytes(*first) as usize);
        if count >= 4 && count >= length {
            return Ok(count);
        }
        match stream.read(&mut message[count..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => count += more,
        }
    }
}

/// Round trips, and the nanoseconds that they took.
pub(super) struct Trips {
    pub(super) count: u64,
    pub(super) nanos: u64,
}

/// A client in a process of its own.
#[derive(Debug, clap::Args)]
pub(crate) struct Client {
    way: String,
    folder: PathBuf,
    host: IpAddr,
    size: usize,
    millis: u64,
}

impl Client {
    /// Measures in a thread with a name, and prints the number of round trips and the nanoseconds that
    /// they took.
    pub(crate) fn run(self) -> io::Result<()> {
        let thread = thread::Builder::new().name(CLIENT.to_owned());
        let trips = thread.spawn(move || self.measure(&self.way))?.join();
        let trips = trips.map_err(|_| io::Error::other("it panicked"))??;
        say(&format!("{} {}", trips.count, trips.nanos));
        Ok(())
    }

    fn measure(&self, way: &str) -> io::Result<Trips> {
        let mut message = vec![b'x'; self.size];
        message[..4].copy_from_slice(&(self.size as u32).to_le_bytes());
        let mut answer = vec![0; DATAGRAM_MAX];
        let stream = self.folder.join("stream");
        match way {
            "tcp" => {
                let mut kept = self.connect()?;
                self.trips(|| trip(&mut kept, &message, &mut answer))
            }
            "unix" => {
                let mut kept = UnixStream::connect(stream)?;
                self.trips(|| trip(&mut kept, &message, &mut answer))
            }
            "tcp-new" => self.trips(|| trip(&mut self.connect()?, &message, &mut answer)),
            "unix-new" => {
                self.trips(|| trip(&mut UnixStream::connect(&stream)?, &message, &mut answer))
            }
            "udp" => {
                let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
                socket.connect(self.server())?;
                socket.set_read_timeout(Some(PATIENCE))?;
                self.trips(|| {
                    socket.send(&message)?;
                    socket.recv(&mut answer)
                })
            }
            _ => {
                let own = self.folder.join(format!("client-{}", std::process::id()));
                let socket = UnixDatagram::bind(&own)?;
                socket.connect(self.folder.join("datagrams"))?;
                socket.set_read_timeout(Some(PATIENCE))?;
                self.trips(|| {
                    socket.send(&message)?;
                    socket.recv(&mut answer)
                })
            }
        }
    }

    fn server(&self) -> SocketAddr {
        SocketAddr::new(self.host, PORT)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.server())?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Makes round trips until the time is over. Each returns the length of the answer.
    fn trips(&self, mut one: impl FnMut() -> io::Result<usize>) -> io::Result<Trips> {
        let mut whole = || match one()? {
            count if count == self.size => Ok(()),
            count => Err(io::Error::other(format!("{count} of {} bytes came back", self.size))),
        };
        for _ in 0..FIRST_TRIPS {
            whole()?;
        }
        let (mut count, start) = (0, Instant::now());
        loop {
            whole()?;
            count += 1;
            let elapsed = start.elapsed();
            if elapsed >= Duration::from_millis(self.millis) {
                return Ok(Trips { count, nanos: elapsed.as_nanos() as u64 });
            }
        }
    }
}

fn trip(stream: &mut (impl Read + Write), message: &[u8], answer: &mut [u8]) -> io::Result<usize> {
    stream.write_all(message)?;
    // The length of the answer before says nothing about this one.
    answer[..4].copy_from_slice(&(message.len() as u32).to_le_bytes());
    whole(stream, answer)
}
