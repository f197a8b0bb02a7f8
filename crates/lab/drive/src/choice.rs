//! Choosing the I/O backend: the requested one, or the faster one for this load.

use std::io;

use netio::{Address, NoUring, Uring};
use serde::{Deserialize, Serialize};
use spec::{EngineChoice, Exchange, HttpVersion, Load};

/// I/O backend of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EngineKind {
    /// Readiness-based: one system call each to send and to receive.
    Epoll,
    /// Completion-based: one system call for a batch of connections.
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

/// The I/O backend for a load on an address. If the requested one is not available, that is an
/// error; `auto` then uses the other.
pub(crate) fn choose(load: &Load, address: &Address, tls: bool) -> Result<EngineKind, NoUring> {
    match load.engine {
        EngineChoice::Epoll => Ok(EngineKind::Epoll),
        EngineChoice::IoUring => Uring::probe().map(|()| EngineKind::IoUring),
        // Encrypted messages and streams do not pass through the ring's queue.
        EngineChoice::Auto
            if tls || load.http == HttpVersion::Http2 || !is_io_uring_better(load, address) =>
        {
            Ok(EngineKind::Epoll)
        }
        EngineChoice::Auto => {
            Ok(if Uring::probe().is_ok() { EngineKind::IoUring } else { EngineKind::Epoll })
        }
    }
}

/// The error if the requested I/O backend is not available.
pub(crate) fn unavailable(error: NoUring) -> io::Error {
    io::Error::other(error.to_string())
}

/// The transport and use of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    TcpKept,
    UnixKept,
    TcpNew,
    UnixNew,
}

/// Number of connections per thread from which io_uring is faster, if it ever is.
///
/// Thousands of requests per second with epoll and io_uring, client and fixture on one CPU each of
/// an idle virtual machine (Linux 6.18, rounds of 1 s in random order: two, and fifteen for kept
/// Unix sockets; commands and further results are in `docs/engine.md`):
///
/// | | connections | epoll | io_uring |
/// | --- | ---: | ---: | ---: |
/// | TCP, kept | 1 | 71 | 69 |
/// | TCP, kept | 64 | 311 | 325 |
/// | Unix, kept | 64 | 686 | 743 |
/// | TCP, new | 16 | 60 | 65 |
/// | Unix, new | 16 | 164 | 167 |
///
/// Of seven further series with kept Unix sockets and 64 and 256 connections, io_uring was
/// significantly faster in one, epoll in none, and io_uring used less CPU time per request in all.
/// Where results differ between series (new TCP connections), epoll is used.
const IO_URING_FROM: [(Path, Option<u32>); 4] = [
    (Path::TcpKept, Some(64)),
    (Path::UnixKept, Some(64)),
    (Path::TcpNew, None),
    (Path::UnixNew, Some(16)),
];

/// Whether io_uring was measured to be faster for this kind of load.
fn is_io_uring_better(load: &Load, address: &Address) -> bool {
    // epoll reads endless streams in larger pieces, and datagrams are not sent through a ring.
    if matches!(load.exchange, Exchange::Bulk { .. } | Exchange::Lines(_))
        || address.keeps_messages()
    {
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
        let chosen = |engine| choose(&Load { engine, ..Load::default() }, &address, false);
        assert_eq!(chosen(EngineChoice::Epoll), Ok(EngineKind::Epoll));
        assert_eq!(chosen(EngineChoice::Auto), Ok(EngineKind::Epoll));
        match Uring::probe() {
            Ok(()) => assert_eq!(chosen(EngineChoice::IoUring), Ok(EngineKind::IoUring)),
            Err(why) => assert_eq!(chosen(EngineChoice::IoUring), Err(why)),
        }
    }
}
