//! Specifications: targets, loads, stacks, variants and the plan of an experiment.
//!
//! Text (an experiment file, a target on the command line) becomes a validated plan, or an error
//! with its position in the text. No I/O happens here.

mod action;
mod calls;
mod capacity;
mod capacity_aim;
mod compare;
mod error;
mod fail_if;
mod far;
mod file;
mod load;
mod names;
mod parameters;
mod plan;
mod request_file;
mod requests;
mod served_by;
mod target;
mod variables;

pub use action::{Action, ActionStep, Deed, SIGNALS};
pub use calls::{CallBodies, Calls, framed, method_name};
pub use capacity::capacity_plan;
pub use capacity_aim::{CapacityAim, LatencyLimit};
pub use compare::{CompareArgs, compare_plan, replay_server};
pub use error::{SpecError, TextPosition};
pub use fail_if::{FailIf, Interval, METRICS, RatioTest, Test, Truth, VariantMetric};
pub use far::{check_clients, check_placement};
pub use file::{SourceFile, includes, join_files, parse_plan, parse_plan_files};
pub use load::{
    Arrivals, EngineChoice, Exchange, HttpVersion, Lines, Load, Mode, OPEN_CONNECTIONS_MAX,
    TlsOptions,
};
pub use parameters::{Parameter, Values, expand as expand_parameters};
pub use plan::{
    Change, Contrast, FileTemplate, Layout, Margin, Metric, Offer, Part, Plan, Process,
    PublishedFigure, ReadyCheck, Schedule, ServedBy, Stack, StopSignal, Variant,
};
pub use request_file::{
    LogEntry, LogReader, LogRequest, RequestDefaults, RequestFile, parse_requests,
};
pub use requests::{Check, Expect, HttpRequest, KeptValue, PathRequest, RequestKind, ValueSource};
pub use target::{Endpoint, Target, TargetError};
pub use variables::LOOPBACK;
