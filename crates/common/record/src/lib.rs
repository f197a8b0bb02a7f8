//! The data model of a run: blocks, trials, histograms, findings and verdicts, as plain data.
//!
//! A [`Run`] is what every exporter reads. It contains facts and no sentences. In JSON, a run is without
//! its parts, a part without its blocks, a block without its trials, a trial without its slices, and a
//! distribution without its histogram: `archive` stores each of them on its own.
//!
//! Not here: how a number was measured (`drive`, `conduct`), what it means (`stats`), or where runs
//! are kept (`archive`).

mod capacity;
mod diff;
mod disruption;
mod distribution;
mod finding;
mod gate;
mod json;
mod kinds;
mod layout;
mod line;
mod method;
mod model;
mod offer;
mod profile;
mod replay;
mod stream;

pub use base::Machine;
pub use capacity::{
    Capacity, CapacityOutcome, CapacityTrial, ClientLimit, Condition, VariantCapacity,
};
pub use diff::{Diff, DiffOutcome, Revision};
pub use disruption::{ActionTaken, Disruption, StepOutcome, StepTaken};
pub use distribution::{Distribution, HistogramError};
pub use finding::{
    BusyProcess, Disturber, Fact, Finding, NetworkLimit, ProfileGap, Severity, UncheckedInput,
};
pub use gate::{GateDecision, GateFigure, GateOutcome, GateTest, GateUnknown};
pub use kinds::{KindComparison, KindTrial, LoadKind};
pub use layout::{ClockOffset, Layout, Link, PartMachine};
pub use line::{FirstComparison, RunLine};
pub use method::{METHOD, version_with_method};
pub use model::*;
pub use offer::Offer;
pub use profile::{
    Call, CallDifference, CostDifference, CountDifference, Function, FunctionDifference,
    GroupDifference, Profile, SystemCallDifference, SystemCalls, WaitDifference, Waits, Why,
};
pub use replay::{
    DifferenceExample, DifferenceGroup, DifferenceKind, FailedPairs, FailureCause, Pair, Replay,
    ReplayEquation, ReplayLaw, ReplayServer, Side,
};
pub use stream::{StreamComparison, StreamPart, StreamTimes};
