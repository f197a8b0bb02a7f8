//! The zoo: servers that are uneven in known ways, and the truth about them.
//!
//! A [`Behaviour`] describes a server. [`Model`] computes when it answers each request; [`serve`]
//! does so over sockets and [`simulate`] over simulated clients, so both follow the same rules.
//! [`Behaviour::throughput_per_s`] is the long-run throughput by formula, and `server.py`
//! ([`ASYNCIO_SERVER`]) implements the same behaviours independently on one asyncio loop.
//!
//! Time has two scales. *Work* is the time for which the server has worked: it stands still while
//! the server stops, and runs slower in a slow phase. *Real* time is what a clock shows. Both are in
//! seconds from the server's start.

mod behaviour;
mod clock;
mod draw;
mod formula;
mod model;
mod queue;
mod server;
pub mod simulate;
pub mod slices;

pub use behaviour::{
    Behaviour, Lock, Pace, SlowConnections, SlowRequests, SlowSelection, StopTime,
};
pub use draw::{Kind, Subject};
pub use model::{Model, Service};
pub use queue::Queue;
pub use server::serve;

/// The source of a server of the same behaviours on Python's asyncio: `server.py PORT FILE`, where
/// the file is a [`Behaviour`] as JSON.
pub const ASYNCIO_SERVER: &str = include_str!("server.py");
