//! The commands, one per file.

pub(crate) mod accuracy;
pub(crate) mod agent;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod container;
pub(crate) mod diff;
pub(crate) mod doctor;
mod doctor_on;
<<<<<<< HEAD
mod door;
pub(crate) mod export;
=======
mod far;
>>>>>>> 0ee1f7c (Stacks and clients on other machines: the agent, and compare --on and --from)
pub(crate) mod guard;
mod hooks;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod maintain;
pub(crate) mod man;
pub(crate) mod measure;
mod neighbours;
pub(crate) mod publish;
pub(crate) mod query;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod self_hash;
pub(crate) mod series;
pub(crate) mod serve;
pub(crate) mod serve_fixture;
