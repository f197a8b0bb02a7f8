//! Runs, blocks, trials, histograms and verdicts: the plain data and their SQLite store.
//!
//! A [`Run`] is what every exporter reads. A [`Store`] keeps runs in one SQLite file and writes
//! each trial as soon as it ends, so a killed run keeps its data. The tables are meant to be read
//! with SQL; start with the view `trials`.
//!
//! Not here: how a number was measured (`drive`, `conduct`) or what it means (`stats`).

mod diff;
mod disruption;
mod distribution;
mod error;
pub mod file;
mod finding;
mod folder;
mod gate;
mod line;
mod method;
mod model;
mod offer;
mod owners;
mod read;
mod schema;
mod store;
mod write;

pub use base::Machine;
pub use diff::{Diff, DiffOutcome, Revision};
pub use disruption::{ActionTaken, Disruption, StepOutcome, StepTaken};
pub use distribution::HistogramError;
pub use error::RecordError;
pub use finding::{BusyProcess, Disturber, Fact, Finding, NetworkLimit, Severity, Unchecked};
pub use folder::create_folder;
pub use gate::{GateDecision, GateFigure, GateOutcome, GateTest, GateUnknown};
pub use line::{FirstComparison, RunLine};
pub use method::{METHOD, version_with_method};
pub use model::*;
pub use offer::Offer;
pub use owners::{Foreign, refuse_foreign, refuse_foreign_links};
pub use store::{Store, default_path};
pub use write::add_trial;
