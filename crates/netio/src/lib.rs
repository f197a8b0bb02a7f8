//! Sockets and readiness behind one trait, and the only crate that may use unsafe code.
//!
//! An [`Engine`] owns a fixed number of slots, each with at most one socket,
//! all connected to one [`Address`] and all sending one constant message. It
//! reports what happened as calls on a [`Handler`]: a slot was connected, bytes
//! arrived, a connection ended. Nothing in that contract says how the engine
//! learns of it, so that one built on completions (io_uring) or on a script
//! with seeded faults fits behind the same trait as [`Epoll`].

mod address;
mod connect;
mod counter;
mod engine;
mod epoll;
mod failure;
mod listen;

pub use address::{Address, AddressError, MAX_PATH_BYTES};
pub use counter::SharedCounter;
pub use engine::{Connect, Ending, Engine, Handler, Traffic, Wire};
pub use epoll::{Epoll, EpollWire, RETIRED_MAX};
pub use failure::Failure;
pub use listen::{Listener, bind_listener, bind_packets, hand_over_socketpair};
