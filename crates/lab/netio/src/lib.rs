//! Sockets and I/O backends behind one trait, and the only crate that may use unsafe code.
//!
//! An [`Engine`] owns a fixed number of slots, each with at most one socket, all connected to one
//! [`Address`] and all sending one constant message. It reports events as calls to a [`Handler`]: a
//! slot was connected, bytes arrived, a connection ended. The interface does not say how the engine
//! learns of them: [`Epoll`] is readiness-based and works everywhere, [`Uring`] is completion-based
//! where the kernel offers io_uring, and tests put a script with seeded faults behind the same
//! trait.

mod address;
mod connect;
mod counter;
mod engine;
mod epoll;
mod failure;
mod listen;
mod names;
mod retired;
mod uring;

pub use address::{Address, AddressError, MAX_PATH_BYTES};
pub use counter::SharedCounter;
pub use engine::{
    Connect, Ending, Engine, EngineLayer, GrpcFields, Handler, Handshake, Messages, Setup, Traffic,
    Wire,
};
pub use epoll::{Epoll, EpollWire};
pub use failure::{Failure, Http2Failure, TlsFailure};
pub use listen::{Listener, bind_listener, bind_packets, hand_over_socketpair};
pub use names::use_builtin_lookups;
pub use retired::RETIRED_MAX;
pub use uring::{NoUring, Uring, UringWire};
