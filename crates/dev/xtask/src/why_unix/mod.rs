//! `why-unix`: what a message costs the kernel over TCP and over a Unix socket, by function.
//!
//! A client and a server on one CPU send each other messages, one at a time, so the time of a round
//! trip is what both of them and the kernel compute. The ways differ in one thing each: the kind of
//! socket, connection tracking, the network device and its checksums, a new connection for each
//! message. Everything happens in network namespaces of their own, which end with their processes.

mod functions;
mod namespaces;
mod page;
mod trip;
mod way;

use std::path::Path;

use rand::seq::SliceRandom as _;

use crate::options::Options;
use crate::{pages, say};
use functions::Profile;
use namespaces::Namespaces;
use way::{SIZES, Way};

pub(crate) use trip::{Client, serve};

/// Where the page is written.
const PAGE: &str = "docs/results/why-unix.md";

/// Time of a way in a round, and under the profiler, in milliseconds.
const ROUND_MS: u64 = 100;
const PROFILE_MS: u64 = 2_000;

/// A way with messages of a size, and what was measured.
pub(crate) struct WayResults {
    way: Way,
    size: usize,
    /// Nanoseconds per round trip, by round.
    trips_ns: Vec<f64>,
    /// Shares of the functions of the kernel, if `perf` is there.
    profile: Option<Profile>,
}

/// Measures and writes the page.
pub(crate) fn run(options: Options) -> Result<(), String> {
    let namespaces = Namespaces::begin()?;
    let mut all: Vec<WayResults> = Way::ALL
        .iter()
        .filter(|way| namespaces.admits(**way))
        .flat_map(|way| {
            let sizes = SIZES.iter().filter(|size| way.carries(**size));
            sizes.map(|size| WayResults {
                way: *way,
                size: *size,
                trips_ns: Vec::new(),
                profile: None,
            })
        })
        .collect();
    let mut rng = options.seed.rng("why-unix");
    for round in 1..=options.runs {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.shuffle(&mut rng);
        for place in order {
            let WayResults { way, size, trips_ns, .. } = &mut all[place];
            let trip = namespaces.measure(*way, *size, ROUND_MS)?;
            trips_ns.push(trip.nanos as f64 / trip.count as f64);
        }
        say(&format!("round {round} of {}", options.runs));
    }
    for measured in &mut all {
        measured.profile = namespaces.profile(measured.way, measured.size, PROFILE_MS)?;
    }
    let page = page::page(&all, &namespaces, options);
    pages::write(Path::new(PAGE), &page)?;
    say(&format!("written to {PAGE}"));
    Ok(())
}
