//! Which engine moves the bytes: what a person asked for, or the better one for the load at hand.

use std::io;

use netio::{Address, NoUring, Uring};
use spec::{EngineChoice, Exchange, Load};

/// What moves the client's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Readiness: one system call each to send and to receive.
    Epoll,
    /// Completions: one system call for a batch of connections.
    IoUring,
}

impl EngineKind {
    /// The name as in `--engine`.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Epoll => "epoll",
            EngineKind::IoUring => "io-uring",
        }
    }
}

/// The engine for a load on an address. An engine asked for by name that cannot be had is an error;
/// `auto` then takes the other.
pub(crate) fn choose(load: &Load, address: &Address) -> Result<EngineKind, NoUring> {
    match load.engine {
        EngineChoice::Epoll => Ok(EngineKind::Epoll),
        EngineChoice::IoUring => Uring::probe().map(|()| EngineKind::IoUring),
        EngineChoice::Auto if !is_io_uring_better(load, address) => Ok(EngineKind::Epoll),
        EngineChoice::Auto => {
            Ok(if Uring::probe().is_ok() { EngineKind::IoUring } else { EngineKind::Epoll })
        }
    }
}

/// The error when the engine that was asked for cannot be had.
pub(crate) fn unavailable(error: NoUring) -> io::Error {
    io::Error::other(error.to_string())
}

/// How connections are reached and used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    TcpKept,
    UnixKept,
    TcpNew,
    UnixNew,
}

/// From how many connections per thread on io_uring is the better engine, where it ever is.
///
/// Thousands of requests per second by epoll and by io_uring, client and fixture on a CPU each of an
/// idle virtual machine (Linux 6.18, rounds of 1 s in random order: two, and fifteen for kept Unix
/// sockets; `docs/engine.md` has the commands and what else was seen):
///
/// | | connections | epoll | io_uring |
/// | --- | ---: | ---: | ---: |
/// | TCP, kept | 1 | 71 | 69 |
/// | TCP, kept | 64 | 311 | 325 |
/// | Unix, kept | 64 | 686 | 743 |
/// | TCP, new | 16 | 60 | 65 |
/// | Unix, new | 16 | 164 | 167 |
///
/// Of seven further series of kept Unix sockets with 64 and 256 connections one had io_uring surely
/// ahead and none epoll; all had it at less CPU per request. What is faster in one series of
/// measurements and slower in another is left to epoll: new connections over TCP.
const IO_URING_FROM: [(Path, Option<u32>); 4] = [
    (Path::TcpKept, Some(64)),
    (Path::UnixKept, Some(64)),
    (Path::TcpNew, None),
    (Path::UnixNew, Some(16)),
];

/// Whether io_uring was measured to be the better engine for a load like this one.
fn is_io_uring_better(load: &Load, address: &Address) -> bool {
    // Streams without end are read in larger pieces by epoll, and datagrams are not sent through a ring.
    if matches!(load.exchange, Exchange::Bulk { .. }) || address.keeps_messages() {
        return false;
    }
    let new = load.new_connection || load.exchange == Exchange::Oneshot;
    let path = match (address, new) {
        (Address::Tcp(_), false) => Path::TcpKept,
        (Address::Tcp(_), true) => Path::TcpNew,
        (_, false) => Path::UnixKept,
        (_, true) => Path::UnixNew,
    };
    let per_thread = load.connections / load.threads.max(1);
    IO_URING_FROM
        .iter()
        .any(|(known, from)| *known == path && from.is_some_and(|from| per_thread >= from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Bytes;
    use spec::Endpoint;

    fn better(endpoint: Endpoint, load: Load) -> bool {
        is_io_uring_better(&load, &Address::resolve(&endpoint).unwrap()[0])
    }

    #[test]
    fn auto_follows_the_measurements() {
        let tcp = || Endpoint::Tcp { host: "127.0.0.1".into(), port: 1 };
        let unix = || Endpoint::Unix("/s".into());
        let load = |connections, threads, new_connection| Load {
            connections,
            threads,
            new_connection,
            ..Load::default()
        };
        for (endpoint, load, expected) in [
            (tcp(), load(1, 1, false), false),
            (tcp(), load(63, 1, false), false),
            (tcp(), load(64, 1, false), true),
            (tcp(), load(64, 2, false), false),
            (tcp(), load(128, 2, false), true),
            (unix(), load(63, 1, false), false),
            (unix(), load(64, 1, false), true),
            (tcp(), load(256, 1, true), false),
            (unix(), load(15, 1, true), false),
            (unix(), load(16, 1, true), true),
            (unix(), Load { exchange: Exchange::Oneshot, ..load(16, 1, false) }, true),
            (
                tcp(),
                Load { exchange: Exchange::Bulk { chunk: Bytes(1) }, ..load(64, 1, false) },
                false,
            ),
            (Endpoint::UnixDatagram("/s".into()), load(64, 1, true), false),
        ] {
            assert_eq!(better(endpoint.clone(), load.clone()), expected, "{endpoint} {load:?}");
        }
    }

    #[test]
    fn an_engine_that_was_named_is_taken() {
        let address = Address::Tcp("127.0.0.1:1".parse().unwrap());
        let chosen = |engine| choose(&Load { engine, ..Load::default() }, &address);
        assert_eq!(chosen(EngineChoice::Epoll), Ok(EngineKind::Epoll));
        assert_eq!(chosen(EngineChoice::Auto), Ok(EngineKind::Epoll));
        match Uring::probe() {
            Ok(()) => assert_eq!(chosen(EngineChoice::IoUring), Ok(EngineKind::IoUring)),
            Err(why) => assert_eq!(chosen(EngineChoice::IoUring), Err(why)),
        }
    }
}
