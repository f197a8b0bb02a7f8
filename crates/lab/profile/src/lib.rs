//! Where the CPU time of running stacks goes.
//!
//! A [`Profiler`] samples what the stacks' CPUs execute (the kernel's `cpu-clock` event, which needs no
//! hardware counters and therefore works in virtual machines), keeps the samples of each stack's
//! processes that lie in measured slices, and names the functions in them. Each sample stands for the
//! same CPU time, so the samples of a trial add up to the CPU time of its stack, and how they are
//! distributed over functions adds up too.
//!
//! The kernel writes samples into one ring per CPU (perf_event_open(2)). They are read between slices,
//! or by a thread beside the client if a slice is long, never by a process of the stack.
//!
//! Not here: what differs between two variants, and how sure that is (`conduct`).

mod call_tree;
mod chain;
mod error;
mod lineage;
mod maps;
mod names;
mod perf_map;
mod profiler;
mod sampler;
mod threads;
mod tracer;
mod unwind;

pub use error::ProfileError;
pub use profiler::{ProfileStep, ProfiledStack, Profiler, ProfilerOptions, WatchedStack};
