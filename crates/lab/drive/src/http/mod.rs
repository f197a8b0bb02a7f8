//! HTTP/1.1: what is sent, and an exact reader of what comes back.

mod chunked;
mod head;
mod reader;
mod request;
mod template;

pub use reader::{Flow, Reader, Sink};
pub(crate) use request::request_bytes;

/// The longest head of an answer, in bytes.
const HEAD_MAX: usize = 65_536;
