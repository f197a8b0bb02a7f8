//! Rounds: tools in turn on one CPU, against servers on another.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::Seed;
use rustix::thread::{CpuSet, sched_getaffinity};
use stage::CpuLock;

use crate::{pages, say};

/// What the rounds of all loads share.
pub(crate) struct Rounds {
    /// Excludes other measurements.
    _exclusive: CpuLock,
    pub(crate) stop: Arc<AtomicBool>,
    /// This machine in words.
    pub(crate) machine: String,
    pub(crate) server_cpu: usize,
    pub(crate) tool_cpu: usize,
    /// All CPUs but the server's.
    pub(crate) other_cpus: base::CpuSet,
    count: u32,
    seed: Seed,
}

impl Rounds {
    /// So many rounds for `command`, in an order that the seed decides.
    pub(crate) fn new(command: &str, count: u32, seed: Seed) -> Result<Rounds, String> {
        let (server_cpu, tool_cpu, other_cpus) = cpus()?;
        Ok(Rounds {
            _exclusive: stage::exclusive(&base::CpuSet::default(), command)
                .map_err(|error| error.to_string())?,
            stop: stage::signals::install().map_err(|error| error.to_string())?,
            machine: pages::machine(),
            server_cpu,
            tool_cpu,
            other_cpus,
            count,
            seed,
        })
    }

    /// The rounds of a load, from 1, and in each the tools in turn: in random order, and mirrored in
    /// the next round. Prints which round begins.
    pub(crate) fn of<'t, T>(
        &self,
        load: &str,
        tools: &'t [T],
    ) -> impl Iterator<Item = (u32, Vec<&'t T>)> {
        let (count, mut rng) = (self.count, self.seed.rng(load));
        let orders = (0..count.div_ceil(2)).flat_map(move |_| {
            let order = stats::mirrored_order(tools.len(), 2, &mut rng);
            [order[..tools.len()].to_vec(), order[tools.len()..].to_vec()]
        });
        (1..=count).zip(orders).map(move |(round, order)| {
            say(&format!("{load}: round {round} of {count}"));
            (round, order.into_iter().filter_map(|at| tools.get(at)).collect())
        })
    }
}

/// The CPUs of a server, of a tool, and all others than the server's, on which this program may run.
fn cpus() -> Result<(usize, usize, base::CpuSet), String> {
    let allowed = sched_getaffinity(None).map_err(|error| format!("sched_getaffinity: {error}"))?;
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    match (cpus.next(), cpus.next()) {
        (Some(first), Some(second)) => {
            let rest = std::iter::once(second).chain(cpus).map(|cpu| cpu.to_string());
            let rest = rest.collect::<Vec<_>>().join(",").parse();
            Ok((first, second, rest.map_err(|error| format!("{error}"))?))
        }
        _ => Err("there is one CPU, and the server and a tool need one each".to_owned()),
    }
}
