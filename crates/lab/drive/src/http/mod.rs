//! HTTP/1.1: requests, and an exact reader of responses.

mod chunked;
mod head;
mod reader;
mod request;
mod template;

pub use reader::{Flow, ResponseReader, Sink};
pub use request::request_bytes;

/// Limit on the head of a response, in bytes.
const HEAD_MAX: usize = 65_536;
