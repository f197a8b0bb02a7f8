//! The load generators.

/// A load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// Ours, on epoll.
    Epoll,
    /// Ours, on io_uring.
    Uring,
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
    /// Our epoll engine without reader, comparison, clock and histograms.
    Bare,
}

impl Client {
    /// Its name on the page and in the results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Client::Epoll => "tachograph, epoll",
            Client::Uring => "tachograph, io_uring",
            Client::Wrk => "wrk",
            Client::Ab => "ab",
            Client::H2load => "h2load",
            Client::Oha => "oha",
            Client::Hey => "hey",
            Client::Iperf3 => "iperf3",
            Client::Blocking => "blocking Rust client",
            Client::ReadLoop => "plain read loop",
            Client::Bare => "bare engine",
        }
    }

    /// The `--engine` value, for ours.
    pub(super) fn engine(self) -> Option<&'static str> {
        match self {
            Client::Epoll => Some("epoll"),
            Client::Uring => Some("io-uring"),
            _ => None,
        }
    }

    /// The program, if it is external, and how to install it.
    pub(super) fn program(self) -> Option<(&'static str, &'static str)> {
        match self {
            Client::Wrk => Some(("wrk", "apt install wrk")),
            Client::Ab => Some(("ab", "apt install apache2-utils")),
            Client::H2load => Some(("h2load", "apt install nghttp2-client")),
            Client::Oha => Some(("oha", "cargo install oha")),
            Client::Hey => Some(("hey", "apt install hey")),
            Client::Iperf3 => Some(("iperf3", "apt install iperf3")),
            _ => None,
        }
    }
}
