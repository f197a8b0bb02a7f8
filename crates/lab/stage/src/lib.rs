//! Every child process: starting, readiness, accounting, stopping, cleanup.
//!
//! A [`Stage`] is the temporary folder of one run with its lock. It starts stacks; each
//! [`LiveStack`] has its own guard process (see [`guard_main`]), of which all its processes are
//! descendants:
//!
//! ```text
//! tachograph ──socket pair── guard ─┬─ gunicorn ── workers
//!                                   └─ nginx ── workers
//! ```
//!
//! Whatever ends tachograph closes the socket pair, and the guard then stops the stack. If the
//! guard is killed, tachograph stops it; if both are killed, the next [`Stage::new`] does. CPU time
//! is counted by a control group per stack if the machine permits one, else over the process tree;
//! see [`Usage`].
//!
//! This crate does not know about load, blocks or verdicts.

mod accounting;
mod address_in_use;
mod allocation;
mod cgroup;
mod command;
pub mod container;
mod cpu_lock;
mod draws;
mod errand;
mod error;
mod experiment_files;
mod guard;
mod holder;
mod hook;
pub mod http;
mod layout;
mod ports;
mod process_exit;
mod processes;
mod protocol;
pub mod python;
mod ready;
mod redact;
mod run_folder;
pub mod server_count;
mod sharing;
pub mod signals;
mod stack;
mod stage;
mod start_options;
mod starting;
mod sweep;
mod usage;
mod vars;
mod worktrees;

pub use accounting::Accounting;
pub use cgroup::throttled;
pub use command::find_need;
pub use cpu_lock::{CpuLock, LOCK_DIR_VARIABLE, exclusive, exclusive_when_free, lock_folder};
pub use draws::Draws;
pub use errand::{Errand, ErrandEnd};
pub use error::{LogTail, StageError};
pub use experiment_files::{ExperimentFile, FilePiece};
pub use guard::guard_main;
pub use holder::Holder;
pub use hook::run_hook;
pub use process_exit::ProcessExit;
pub use stack::{LiveStack, StepResult, StopReport};
pub use stage::{Stage, StageOptions, sweep};
pub use start_options::StartOptions;
pub use sweep::SweepResult;
pub use usage::{Usage, UsageSource};
