//! Lines in datagrams.
//!
//! A datagram has whole lines; the last one needs no end. What the kernel drops because its buffer
//! is full is counted by the kernel.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use tokio::net::{UdpSocket, UnixDatagram};
use tokio::sync::watch;

use crate::Access;
use crate::daemon::{Phase, Service};
use crate::given::Given;
use crate::handover::{Left, What};
use crate::ingest::{Format, Ingest, Message, now_us};
use crate::metrics::{ByWay, NOT_ALLOWED, Sender, Way};
use crate::sockets::{Bound, UNIX, name_of};

/// Lines of one sender are handed over together up to this size.
const MESSAGE_BYTES: usize = 256 << 10;

/// Datagrams that are received before looking whether the daemon stops.
const RECEIVED_MAX: usize = 10_000;

/// More than the longest datagram.
const DATAGRAM_MAX: usize = 1 << 17;

/// A socket that receives lines.
#[derive(Debug)]
pub(crate) struct Datagrams {
    pub(crate) socket: Bound,
    pub(crate) service: Service,
    /// Its address in the options.
    pub(crate) wanted: String,
    pub(crate) given: Given,
    pub(crate) format: Format,
    pub(crate) way: Way,
    pub(crate) access: Access,
}

/// Lines of one sender.
struct Gathered {
    from: Option<IpAddr>,
    name: Arc<str>,
    lines: Vec<u8>,
}

impl Datagrams {
    /// Receives until the daemon stops; then what has arrived is read first. If a successor takes
    /// over, the socket is returned.
    pub(crate) async fn run(
        self,
        ingest: Ingest,
        mut phase: watch::Receiver<Phase>,
    ) -> Option<Left> {
        let mut buffer = vec![0; DATAGRAM_MAX];
        let mut gathered = Gathered { from: None, name: UNIX.into(), lines: Vec::new() };
        loop {
            let now = *phase.borrow_and_update();
            if now == Phase::HandOver {
                let (service, wanted, given) = (self.service, self.wanted, self.given);
                let what = What::Socket { service, wanted, given };
                return Some(Left { fd: self.socket.into_fd().ok()?, what });
            }
            if now != Phase::Stop {
                tokio::select! {
                    _ = phase.changed() => continue,
                    readable = self.readable() => {
                        if readable.is_err() {
                            return None;
                        }
                    }
                }
            }
            let mut received = 0;
            while received < RECEIVED_MAX
                && let Ok((length, from)) = self.try_receive(&mut buffer)
            {
                received += 1;
                if from.is_some_and(|from| !self.access.allows(from)) {
                    let sender = Sender { way: self.way, name: name_of(from).into() };
                    ingest.metrics.turn_away(&sender, NOT_ALLOWED);
                    continue;
                }
                ingest.metrics.datagrams.get_or_create(&ByWay { way: self.way }).inc();
                if from != gathered.from || gathered.lines.len() + length >= MESSAGE_BYTES {
                    self.hand_over(&ingest, &mut gathered).await;
                    if from != gathered.from {
                        gathered.from = from;
                        gathered.name = name_of(from).into();
                    }
                }
                let datagram = buffer.get(..length).unwrap_or_default();
                gathered.lines.extend_from_slice(datagram);
                if !datagram.ends_with(b"\n") {
                    gathered.lines.push(b'\n');
                }
            }
            self.hand_over(&ingest, &mut gathered).await;
            if now == Phase::Stop {
                return None;
            }
        }
    }

    async fn readable(&self) -> io::Result<()> {
        match &self.socket {
            Bound::Udp(socket) => socket.readable().await,
            Bound::UnixDatagram(socket) => socket.readable().await,
            Bound::Tcp(_) | Bound::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn try_receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<IpAddr>)> {
        match &self.socket {
            Bound::Udp(socket) => from_udp(socket, buffer),
            Bound::UnixDatagram(socket) => from_unix(socket, buffer),
            Bound::Tcp(_) | Bound::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    async fn hand_over(&self, ingest: &Ingest, gathered: &mut Gathered) {
        if gathered.lines.is_empty() {
            return;
        }
        let Some(room) = ingest.room(gathered.lines.len()).await else { return };
        let sender = Sender { way: self.way, name: gathered.name.clone() };
        let message = Message {
            format: self.format,
            lines: std::mem::take(&mut gathered.lines),
            arrival_us: now_us(),
            sender,
            answer: None,
            room,
        };
        ingest.send(message).await;
    }
}

fn from_udp(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, Option<IpAddr>)> {
    loop {
        match socket.try_recv_from(buffer) {
            Ok((length, from)) => return Ok((length, Some(from.ip().to_canonical()))),
            // The peer has closed the port that we sent to; the socket still works.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
    }
}

fn from_unix(socket: &UnixDatagram, buffer: &mut [u8]) -> io::Result<(usize, Option<IpAddr>)> {
    Ok((socket.try_recv(buffer)?, None))
}

/// Counts what the kernel drops at a UDP socket.
#[derive(Debug)]
pub(crate) struct Drops {
    way: Way,
    inode: u64,
    known: u64,
}

impl Drops {
    /// Counts from now on; `None` for sockets without drops.
    pub(crate) fn of(datagrams: &Datagrams) -> Option<Drops> {
        let Bound::Udp(socket) = &datagrams.socket else { return None };
        let inode = rustix::fs::fstat(socket.as_fd()).ok()?.st_ino;
        Some(Drops { way: datagrams.way, inode, known: dropped(inode)? })
    }

    /// The way, and the number of datagrams dropped since the last call.
    pub(crate) fn new_ones(&mut self) -> (Way, u64) {
        let now = dropped(self.inode).unwrap_or(self.known);
        let new = now.saturating_sub(self.known);
        self.known = now;
        (self.way, new)
    }
}

/// The number of datagrams that the kernel has dropped at a socket, by its inode.
fn dropped(inode: u64) -> Option<u64> {
    ["/proc/net/udp", "/proc/net/udp6"].into_iter().find_map(|file| {
        let table = fs::read_to_string(file).ok()?;
        drops_in(&table, inode)
    })
}

/// The last column of a socket's row in /proc/net/udp (proc_pid_net(5)).
fn drops_in(table: &str, inode: u64) -> Option<u64> {
    let inode = inode.to_string();
    table.lines().find_map(|row| {
        let mut columns = row.split_ascii_whitespace();
        (columns.nth(9)? == inode).then(|| columns.last()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_found_by_the_inode() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n  341: 0100007F:07D3 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 17\n  342: 0100007F:07D4 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 0\n";
        assert_eq!(drops_in(table, 4711), Some(17));
        assert_eq!(drops_in(table, 4712), Some(0));
        assert_eq!(drops_in(table, 471), None);
    }

    #[test]
    fn the_kernel_counts_what_does_not_fit() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let inode = rustix::fs::fstat(&socket).unwrap().st_ino;
        assert_eq!(dropped(inode), Some(0));
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let sent = 2_000;
        for _ in 0..sent {
            sender.send_to(&[b'x'; 8_000], socket.local_addr().unwrap()).unwrap();
        }
        socket.set_nonblocking(true).unwrap();
        let mut received = 0;
        while socket.recv(&mut [0; 8_000]).is_ok() {
            received += 1;
        }
        let dropped = dropped(inode).unwrap();
        assert!(dropped > 0 && received > 0);
        assert_eq!(dropped + received, sent);
    }
}
