//! The lines of the goals table.

use super::clients::Client;

/// One line: a load, its clients, and our goals.
#[derive(Debug)]
pub(super) struct Line {
    /// Its name, for `--only`.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) transport: Transport,
    pub(super) work: Work,
    pub(super) connections: u32,
    /// Whether TLS is spoken.
    pub(super) tls: bool,
    /// Streams on each connection of HTTP/2; 0 for HTTP/1.1.
    pub(super) streams: u32,
    /// Threads of the client.
    pub(super) threads: u32,
    /// Whether the client shares the server's CPU instead of having its own.
    pub(super) same_cpu: bool,
    pub(super) clients: &'static [Client],
    pub(super) goals: &'static [Goal],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Unix,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work {
    /// Requests on persistent connections.
    Kept,
    /// The same, with a client that spins instead of sleeping if it can.
    Spinning,
    /// A connection per request.
    NewConnection,
    /// An endless stream.
    Bulk,
    /// Open loop.
    Open(Offer),
}

/// The rate of an open loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Offer {
    /// This share of the closed loop's throughput.
    OfCapacity(f64),
    PerSecond(f64),
}

/// A goal for ours, with the I/O backend that `--engine auto` chooses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    pub(super) measure: Measure,
    /// The clients to compare with; the goal applies to all of them.
    pub(super) against: &'static [Client],
    pub(super) limit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Requests (or bytes) per second, ours ÷ theirs: minimum.
    Rate,
    /// Client CPU per request (or byte), ours ÷ theirs: maximum.
    Cpu,
    /// The 99th percentile of lateness in microseconds: maximum.
    Lateness,
}

const OURS: [Client; 2] = [Client::Epoll, Client::Uring];
use Client::{
    Ab, Bare, Blocking, Epoll, Floor, H2load, Hey, Iperf3, Oha, ReadLoop, Resumed, Uring, Wrk,
};

const fn rate(limit: f64, against: &'static [Client]) -> Goal {
    Goal { measure: Measure::Rate, against, limit }
}

const fn cpu(limit: f64, against: &'static [Client]) -> Goal {
    Goal { measure: Measure::Cpu, against, limit }
}

const LATENESS: [Goal; 1] = [Goal { measure: Measure::Lateness, against: &[], limit: 100.0 }];

/// The base for most other lines.
const KEPT: Line = Line {
    id: "",
    title: "",
    transport: Transport::Tcp,
    work: Work::Kept,
    connections: 64,
    tls: false,
    streams: 0,
    threads: 1,
    same_cpu: false,
    clients: &OURS,
    goals: &[],
};

/// A line about threads.
const THREADS: Line = Line { clients: &[Epoll, Wrk, H2load], ..KEPT };

/// A line about the floor: no client of one thread that makes these system calls can be cheaper.
const FLOOR: Line = Line { clients: &[Epoll, Floor], goals: &[cpu(1.1, &[Floor])], ..KEPT };

/// Connections from which on memory and fairness matter.
const MANY: u32 = 10_000;

/// All lines, in the order of the page.
pub(super) const LINES: [Line; 31] = [
    Line {
        id: "tcp-64",
        title: "TCP, 64 connections that are kept",
        clients: &[Epoll, Uring, Wrk, Ab, H2load, Oha, Hey],
        goals: &[rate(1.5, &[Wrk]), rate(1.3, &[Ab]), cpu(0.65, &[Wrk])],
        ..KEPT
    },
    Line {
        id: "unix-64",
        title: "Unix socket, 64 connections that are kept",
        transport: Transport::Unix,
        clients: &[Epoll, Uring, H2load, Oha],
        goals: &[rate(2.0, &[H2load]), rate(3.5, &[Oha])],
        ..KEPT
    },
    Line {
        id: "unix-256",
        title: "Unix socket, 256 connections that are kept",
        transport: Transport::Unix,
        connections: 256,
        clients: &[Epoll, Uring, H2load, Oha],
        goals: &[rate(2.0, &[H2load]), rate(3.5, &[Oha])],
        ..KEPT
    },
    Line {
        id: "new-tcp",
        title: "TCP, a connection for each request, 16 at a time",
        work: Work::NewConnection,
        connections: 16,
        clients: &[Epoll, Uring, Wrk, Ab, Oha, Hey],
        goals: &[rate(1.4, &[Wrk])],
        ..KEPT
    },
    Line {
        id: "new-unix",
        title: "Unix socket, a connection for each request, 16 at a time",
        transport: Transport::Unix,
        work: Work::NewConnection,
        connections: 16,
        clients: &[Epoll, Uring, Oha],
        goals: &[rate(3.2, &[Oha])],
        ..KEPT
    },
    Line {
        id: "https-64",
        title: "HTTPS, 64 connections that are kept",
        tls: true,
        clients: &[Epoll, Wrk, Oha],
        goals: &[rate(1.3, &[Wrk, Oha]), cpu(0.75, &[Wrk])],
        ..KEPT
    },
    Line {
        id: "https-new",
        title: "HTTPS, a connection for each request, 16 at a time",
        tls: true,
        work: Work::NewConnection,
        connections: 16,
        clients: &[Epoll, Resumed, Wrk],
        goals: &[rate(1.0, &[Wrk])],
        ..KEPT
    },
    Line {
        id: "h2c-16",
        title: "HTTP/2 without TLS, 16 connections of 16 streams",
        connections: 16,
        streams: 16,
        clients: &[Epoll, H2load],
        goals: &[rate(1.2, &[H2load]), cpu(0.85, &[H2load])],
        ..KEPT
    },
    Line {
        id: "h2-16",
        title: "HTTP/2 with TLS, 16 connections of 16 streams",
        tls: true,
        connections: 16,
        streams: 16,
        clients: &[Epoll, H2load],
        goals: &[rate(1.2, &[H2load]), cpu(0.85, &[H2load])],
        ..KEPT
    },
    Line {
        id: "same-cpu-tcp",
        title: "TCP, one connection, client and server on the same CPU",
        connections: 1,
        same_cpu: true,
        clients: &[Epoll, Uring, Blocking, Wrk, Ab, H2load, Oha],
        goals: &[rate(1.2, &[Wrk]), rate(0.95, &[Blocking])],
        ..KEPT
    },
    Line {
        id: "same-cpu-unix",
        title: "Unix socket, one connection, client and server on the same CPU",
        transport: Transport::Unix,
        connections: 1,
        same_cpu: true,
        clients: &[Epoll, Uring, Blocking, H2load, Oha],
        goals: &[rate(0.95, &[Blocking])],
        ..KEPT
    },
    Line {
        id: "two-cpus-tcp",
        title: "TCP, one connection on two CPUs, ours with --busy-poll",
        work: Work::Spinning,
        connections: 1,
        clients: &[Epoll, Uring, Wrk, Ab, H2load, Oha, Hey],
        goals: &[rate(3.0, &[Wrk, Ab, H2load, Oha, Hey])],
        ..KEPT
    },
    Line {
        id: "two-cpus-unix",
        title: "Unix socket, one connection on two CPUs, ours with --busy-poll",
        transport: Transport::Unix,
        work: Work::Spinning,
        connections: 1,
        clients: &[Epoll, Uring, H2load, Oha],
        goals: &[rate(3.0, &[H2load, Oha])],
        ..KEPT
    },
    Line {
        id: "bulk-tcp",
        title: "TCP, bulk transfer on one connection",
        work: Work::Bulk,
        connections: 1,
        clients: &[Epoll, Uring, ReadLoop, Iperf3],
        goals: &[rate(0.95, &[ReadLoop, Iperf3])],
        ..KEPT
    },
    Line {
        id: "bulk-unix",
        title: "Unix socket, bulk transfer on one connection",
        transport: Transport::Unix,
        work: Work::Bulk,
        connections: 1,
        clients: &[Epoll, Uring, ReadLoop],
        goals: &[rate(0.95, &[ReadLoop])],
        ..KEPT
    },
    Line {
        id: "recording-tcp",
        title: "TCP, 64 connections: all recording and verification against none",
        clients: &[Epoll, Bare],
        goals: &[cpu(1.03, &[Bare])],
        ..KEPT
    },
    Line {
        id: "recording-unix",
        title: "Unix socket, 64 connections: all recording and verification against none",
        transport: Transport::Unix,
        clients: &[Epoll, Bare],
        goals: &[cpu(1.03, &[Bare])],
        ..KEPT
    },
    Line {
        id: "open-half",
        // So many that no request waits for a connection: that would be the server's lateness.
        title: "TCP, 512 connections, open loop (Poisson) at half of capacity",
        connections: 512,
        work: Work::Open(Offer::OfCapacity(0.5)),
        goals: &LATENESS,
        ..KEPT
    },
    Line {
        id: "open-1000",
        title: "TCP, 64 connections, open loop (Poisson) at 1,000 requests/s",
        work: Work::Open(Offer::PerSecond(1000.0)),
        goals: &LATENESS,
        ..KEPT
    },
    Line {
        id: "tcp-10000",
        title: "TCP, 10,000 connections that are kept",
        connections: MANY,
        clients: &[Epoll, Uring, Wrk, H2load, Oha],
        ..KEPT
    },
    Line {
        id: "unix-50000",
        title: "Unix socket, 50,000 connections that are kept",
        transport: Transport::Unix,
        connections: 50_000,
        clients: &[Epoll, Uring, H2load, Oha],
        ..KEPT
    },
    // More than one source address has ports for: the others have no option for several.
    Line {
        id: "tcp-50000",
        title: "TCP, 50,000 connections that are kept",
        connections: 50_000,
        ..KEPT
    },
    Line { id: "threads-1", title: "TCP, 64 connections, 1 client thread", ..THREADS },
    Line { id: "threads-2", title: "TCP, 64 connections, 2 client threads", threads: 2, ..THREADS },
    Line { id: "threads-4", title: "TCP, 64 connections, 4 client threads", threads: 4, ..THREADS },
    Line { id: "threads-8", title: "TCP, 64 connections, 8 client threads", threads: 8, ..THREADS },
    Line { id: "floor-tcp-64", title: "TCP, 64 connections against the floor", ..FLOOR },
    Line {
        id: "floor-unix-64",
        title: "Unix socket, 64 connections against the floor",
        transport: Transport::Unix,
        ..FLOOR
    },
    Line {
        id: "floor-unix-256",
        title: "Unix socket, 256 connections against the floor",
        transport: Transport::Unix,
        connections: 256,
        ..FLOOR
    },
    Line {
        id: "floor-tcp-1",
        title: "TCP, one connection against the floor",
        connections: 1,
        ..FLOOR
    },
    Line {
        id: "floor-tcp-10000",
        title: "TCP, 10,000 connections against the floor",
        connections: MANY,
        ..FLOOR
    },
];

impl Line {
    /// Whether memory and fairness are shown.
    pub(super) fn has_many_connections(&self) -> bool {
        self.connections >= MANY
    }

    /// The unit of [`Work`], per second.
    pub(super) fn unit(&self) -> &'static str {
        if self.work == Work::Bulk { "bytes/s" } else { "requests/s" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_unique_name_and_goals_about_its_own_clients() {
        for (i, line) in LINES.iter().enumerate() {
            assert!(!line.id.is_empty() && LINES[..i].iter().all(|other| other.id != line.id));
            assert!(line.clients.contains(&Epoll), "{}", line.id);
            for client in line.goals.iter().flat_map(|goal| goal.against) {
                assert!(line.clients.contains(client), "{}: {client:?}", line.id);
            }
        }
    }
}
