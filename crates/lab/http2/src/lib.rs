//! HTTP/2 between the load engine's sockets and its requests (RFC 9113, RFC 7541).
//!
//! [`Http2`] is an engine of `netio` on top of another one, plain or with TLS. Its slots are streams: to
//! connect a slot is to have a connection for it, several slots share one, and to send on it is to
//! begin a stream. What is sent while received bytes are processed goes out in one piece.
//!
//! The protocol is our own because a client that repeats one request needs little of it, and that
//! little decides what the client costs: the request is encoded once, and a response's headers are
//! decoded again only if they differ from those of the response before.

pub mod frame;
pub mod hpack;

mod connection;
mod fields;
mod layer;
mod relay;
mod request;
mod streams;

pub use layer::Http2;
pub use request::{RequestSet, own_request};
