//! TLS between the load engine's sockets and its protocols.
//!
//! [`Tls`] is an engine of `netio` on top of another one: its slots are connected when the keys are
//! agreed on, and the bytes that it delivers are decrypted. So code that uses an engine needs to know
//! nothing of TLS, and how the bytes travel (epoll, io_uring, TCP, Unix sockets) is the business of the
//! engine below.
//!
//! The protocol is rustls', in its form without buffers: it changes bytes here into bytes there, and
//! `connection.rs` holds what it leaves between two reads.

mod client;
mod connection;
mod failure;
mod layer;

pub use client::Client;
pub use failure::io_failure;
pub use layer::Tls;
pub use trust::TlsError;
