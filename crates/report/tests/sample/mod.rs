//! Realistic runs, from a fixed seed.
#![allow(dead_code, clippy::unwrap_used)] // each test file uses some of them; a sample may fail its test

mod capacity;
mod flawed;
mod load;
mod maker;
mod short;
mod sound;

use std::f64::consts::TAU;
use std::sync::OnceLock;

use base::{CpuSet, Nanos, Rng, RunId, Seed, Timestamp};
use hdrhistogram::Histogram;
use ledger::{Counts, Discrepancy, Law, Ledger};
use rand::RngExt;
use record::*;
use stats::{Estimate, Judgement, Opinion, Verdict};

pub(crate) use capacity::*;
pub(crate) use flawed::*;
pub(crate) use load::*;
use maker::*;
pub(crate) use short::*;
pub(crate) use sound::*;

/// All samples, by name.
pub(crate) fn all() -> Vec<(&'static str, Run)> {
    vec![
        ("tcp_unix", tcp_unix()),
        ("profiled", profiled()),
        ("hostile", hostile()),
        ("layers", layers()),
        ("invalid", invalid()),
        ("late", late()),
        ("uneven", uneven()),
        ("interrupted", interrupted()),
        ("cut_off", cut_off()),
        ("load", load()),
        ("load_unsustained", load_unsustained()),
        ("bulk", bulk()),
        ("few_blocks", few_blocks()),
        ("hopeless", hopeless()),
        ("refused", refused()),
        ("overloaded", overloaded()),
        ("unbounded", unbounded()),
        ("changed", changed()),
        ("capacity", capacity()),
        ("capacity_limited", capacity_limited()),
    ]
}
