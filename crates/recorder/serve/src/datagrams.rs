//! Lines in datagrams.
//!
//! A datagram has whole lines; the last one needs no end. What the kernel drops because its buffer
//! is full is counted by the kernel. Datagrams are not acknowledged, so those of a few milliseconds
//! are handed over together: a commit of the journal for each would cost more than reading it.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::time::Duration;

use tokio::net::{UdpSocket, UnixDatagram};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::Access;
use crate::handover_item::{Activation, HandoverItem, ItemKind};
use crate::ingest::{Format, Ingest, Message};
use crate::metrics::{ByWay, NOT_ALLOWED, Sender, Way};
use crate::phase::Phase;
use crate::plaintext::FULL_TICK;
use crate::service::Service;
use crate::sockets::{BoundSocket, name_of};

/// Lines are handed over together up to this size, from so many senders, and for so long.
const MESSAGE_BYTES: usize = 256 << 10;
const SENDERS_MAX: usize = 64;
const HELD_MAX: Duration = Duration::from_millis(10);

/// Datagrams that are received before looking whether the daemon stops.
const RECEIVED_MAX: usize = 10_000;

/// More than the longest datagram.
const DATAGRAM_MAX: usize = 1 << 17;

/// A socket that receives lines.
#[derive(Debug)]
pub(crate) struct Datagrams {
    pub(crate) socket: BoundSocket,
    pub(crate) service: Service,
    /// Its address in the options.
    pub(crate) wanted: String,
    pub(crate) given: Activation,
    pub(crate) format: Format,
    pub(crate) way: Way,
    pub(crate) access: Access,
}

/// Lines of one sender.
struct SenderLines {
    from: Option<IpAddr>,
    lines: Vec<u8>,
}

/// Lines that are handed over together.
#[derive(Default)]
struct HeldLines {
    of: Vec<SenderLines>,
    bytes: usize,
    /// When they are handed over at the latest.
    until: Option<Instant>,
}

impl HeldLines {
    /// Whether there is room for a datagram of a sender.
    fn has_room(&self, from: Option<IpAddr>, length: usize) -> bool {
        let has_sender = || self.of.iter().any(|known| known.from == from);
        self.bytes + length < MESSAGE_BYTES && (self.of.len() < SENDERS_MAX || has_sender())
    }

    fn add(&mut self, from: Option<IpAddr>, datagram: &[u8]) {
        self.until.get_or_insert_with(|| Instant::now() + HELD_MAX);
        self.bytes += datagram.len() + 1;
        let at = self.of.iter().position(|known| known.from == from).unwrap_or_else(|| {
            self.of.push(SenderLines { from, lines: Vec::new() });
            self.of.len() - 1
        });
        let lines = &mut self.of[at].lines;
        lines.extend_from_slice(datagram);
        if !datagram.ends_with(b"\n") {
            lines.push(b'\n');
        }
    }
}

impl Datagrams {
    /// Receives until the daemon stops; then what has arrived is read first. If a successor takes
    /// over, the socket is returned.
    pub(crate) async fn run(
        self,
        ingest: Ingest,
        mut phase: watch::Receiver<Phase>,
    ) -> Option<HandoverItem> {
        let mut buffer = vec![0; DATAGRAM_MAX];
        let mut held = HeldLines::default();
        loop {
            let now = *phase.borrow_and_update();
            if now == Phase::HandOver {
                self.hand_over(&ingest, &mut held).await;
                let (service, wanted, given) = (self.service, self.wanted, self.given);
                let what = ItemKind::Socket { service, wanted, given };
                return Some(HandoverItem { fd: self.socket.into_fd().ok()?, what });
            }
            if now != Phase::Stop {
                let until = held.until;
                tokio::select! {
                    _ = phase.changed() => continue,
                    () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                        self.hand_over(&ingest, &mut held).await;
                        continue;
                    }
                    () = sleep(FULL_TICK), if ingest.is_full() => continue,
                    readable = self.readable(), if !ingest.is_full() => {
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
                if !held.has_room(from, length) {
                    self.hand_over(&ingest, &mut held).await;
                }
                held.add(from, buffer.get(..length).unwrap_or_default());
            }
            // A socket that is full all the time leaves no time to wait for.
            let is_over = held.until.is_some_and(|until| until <= Instant::now());
            if now == Phase::Stop || is_over {
                self.hand_over(&ingest, &mut held).await;
            }
            if now == Phase::Stop {
                return None;
            }
        }
    }

    async fn readable(&self) -> io::Result<()> {
        match &self.socket {
            BoundSocket::Udp(socket) => socket.readable().await,
            BoundSocket::UnixDatagram(socket) => socket.readable().await,
            BoundSocket::Tcp(_) | BoundSocket::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn try_receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<IpAddr>)> {
        match &self.socket {
            BoundSocket::Udp(socket) => from_udp(socket, buffer),
            BoundSocket::UnixDatagram(socket) => from_unix(socket, buffer),
            BoundSocket::Tcp(_) | BoundSocket::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    async fn hand_over(&self, ingest: &Ingest, held: &mut HeldLines) {
        for SenderLines { from, lines } in std::mem::take(held).of {
            let Some(room) = ingest.room(lines.len()).await else { continue };
            let sender = Sender { way: self.way, name: name_of(from).into() };
            let format = self.format;
            let (arrived, key, answer) = (ingest.state.arrived(), None, None);
            ingest.send(Message { format, lines, arrived, key, sender, answer, room }).await;
        }
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
        let BoundSocket::Udp(socket) = &datagrams.socket else { return None };
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
