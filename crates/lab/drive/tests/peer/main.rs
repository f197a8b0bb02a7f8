//! The load engine with epoll against the fixture: the client's ledger and the server's count.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

/// The I/O backend of every test in this binary.
const ENGINE: spec::EngineChoice = spec::EngineChoice::Epoll;

mod accounting;
mod faults;
mod grpc;
mod helper;
mod http2;
mod kinds;
mod lines;
mod open_loop;
mod protocol;
mod raw;
mod sentences;
mod slow_requests;
mod tls;
mod trouble;
mod values;
