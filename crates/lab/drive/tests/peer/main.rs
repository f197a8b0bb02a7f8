//! The load engine against the fixture, by epoll: the client's ledger beside the server's own count.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

/// What moves the client's bytes in every test of this binary.
const ENGINE: spec::EngineChoice = spec::EngineChoice::Epoll;

mod accounting;
mod faults;
mod helper;
mod open_loop;
mod protocol;
mod raw;
mod sentences;
mod trouble;
