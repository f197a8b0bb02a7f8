//! Calls by gRPC: what a descriptor says about a method, and messages from JSON.
//!
//! The messages of requests are encoded before the load begins, from JSON, by the descriptors in a
//! file or those that the server describes itself with ([`reflection`]). No I/O happens here.
//!
//! Descriptors are read, and messages written, by our own few hundred lines. prost-reflect and
//! prost-types took 14 s of the build (`cargo build --timings`, beside other work), and with prost and
//! its derive macros, which only tests need so far, it would be more; and its errors do not say where in
//! a message a value does not fit.

mod calls;
mod descriptor;
mod error;
mod json;
pub mod reflection;
mod schema;
mod well_known;
mod wire;

pub use calls::{encode, services};
pub use error::GrpcError;
pub use schema::Schema;
