//! The load generators.

use crate::tools::{Tool, ab, h2load, hey, oha, wrk};

/// A load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// Ours, on epoll.
    Epoll,
    /// Ours, on io_uring.
    Uring,
    /// Ours, whose new connections continue earlier TLS sessions.
    Resumed,
    Wrk,
    Ab,
    H2load,
    Oha,
    Hey,
    Iperf3,
    /// One connection with blocking I/O, comparing every response.
    Blocking,
    /// Reads and discards.
    ReadLoop,
    /// The system calls of our epoll engine, and nothing else.
    Floor,
    /// Our epoll engine without reader, comparison, clock and histograms.
    Bare,
}

impl Client {
    /// Its name on the page and in the results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Client::Epoll => "tachograph, epoll",
            Client::Uring => "tachograph, io_uring",
            Client::Resumed => "tachograph, sessions resumed",
            Client::Wrk => "wrk",
            Client::Ab => "ab",
            Client::H2load => "h2load",
            Client::Oha => "oha",
            Client::Hey => "hey",
            Client::Iperf3 => "iperf3",
            Client::Blocking => "blocking Rust client",
            Client::ReadLoop => "plain read loop",
            Client::Floor => "system calls alone",
            Client::Bare => "bare engine",
        }
    }

    /// The `--engine` value, for ours.
    pub(super) fn engine(self) -> Option<&'static str> {
        match self {
            Client::Epoll | Client::Resumed => Some("epoll"),
            Client::Uring => Some("io-uring"),
            _ => None,
        }
    }

    /// The program, if it loads HTTP and is external.
    pub(super) fn tool(self) -> Option<&'static Tool> {
        match self {
            Client::Wrk => Some(&wrk::TOOL),
            Client::Ab => Some(&ab::TOOL),
            Client::H2load => Some(&h2load::TOOL),
            Client::Oha => Some(&oha::TOOL),
            Client::Hey => Some(&hey::TOOL),
            _ => None,
        }
    }

    /// Where the program is from, if it is external.
    pub(super) fn source(self) -> Option<&'static str> {
        match self {
            Client::Iperf3 => Some("Debian package iperf3"),
            _ => self.tool().map(|tool| tool.source),
        }
    }
}
