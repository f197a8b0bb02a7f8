//! The tests of `peer` with io_uring.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

/// The I/O backend of every test in this binary.
const ENGINE: spec::EngineChoice = spec::EngineChoice::IoUring;

#[path = "peer/accounting.rs"]
mod accounting;
#[path = "peer/faults.rs"]
mod faults;
#[path = "peer/helper.rs"]
mod helper;
#[path = "peer/http2.rs"]
mod http2;
#[path = "peer/kinds.rs"]
mod kinds;
#[path = "peer/open_loop.rs"]
mod open_loop;
#[path = "peer/protocol.rs"]
mod protocol;
#[path = "peer/raw.rs"]
mod raw;
#[path = "peer/sentences.rs"]
mod sentences;
#[path = "peer/tls.rs"]
mod tls;
#[path = "peer/trouble.rs"]
mod trouble;
#[path = "peer/values.rs"]
mod values;
