//! The load engine: opens connections to one target, loads it in slices and observes the responses.
//!
//! A [`Session`] belongs to one variant: its connections stay open between slices, and its counts
//! cover its whole life, from the first probe to the last drained response.

mod alarm;
mod choice;
mod client_thread;
mod conn;
mod continued;
mod deck;
mod error;
mod events;
mod fault;
mod grpc;
mod histogram;
pub mod http;
mod kinds;
mod lines;
mod link;
mod live;
mod observe;
mod one_way;
mod outbox;
mod pacer;
mod response;
mod schedule;
mod session;
mod slice;
mod slice_counts;
mod slice_run;
mod stall_count;
mod values;
mod worker;

pub use choice::EngineKind;
pub use error::DriveError;
pub use fault::{Fault, GrpcFault};
pub use histogram::{Histogram, SparseHistogram};
pub use kinds::KindCounts;
pub use link::{RoundTrip, bytes_per_s};
pub use live::LiveCounts;
pub use observe::{
    ConnectionsLimit, Handshakes, LearnedResponse, LimitedBy, Observation, StreamTimes, ThreadUse,
    Window,
};
pub use pacer::Pacer;
pub use session::{DEVIATING_SHARE, Life, Options, Session};
pub use slice::{LoopStart, Slice, StopFlag, ThreadShare};
