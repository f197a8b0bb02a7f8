//! The profilers of a run: that of this machine, and those of others with stacks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::{CpuSet, Nanos};
use far::Machine;
use profile::{ProfileStep, ProfiledStack, Profiler, ProfilerOptions, WatchedStack};
use record::Profile;
use spec::{Endpoint, Variant};
use stage::LiveStack;

use crate::machines::{Machines, NearMachine, Site};
use crate::servers::servers_at;
use crate::wherever::Stack;

/// Time of a CPU between two samples: 353 per second, which cost a server less than 1% of its CPU time,
/// which 499 did not everywhere (docs/why.md). A prime number meets all phases of what happens in round
/// numbers of times per second, such as the kernel's own ticks.
pub const SAMPLE_PERIOD: Nanos = Nanos(1_000_000_000 / 353);

/// The profilers of all machines with stacks.
pub(crate) struct Profilers {
    near: Option<Profiler>,
}

/// The CPUs of a machine.
#[derive(Default)]
struct SampledCpus {
    machine: Option<Arc<Machine>>,
    stacks: CpuSet,
    clients: CpuSet,
    /// Whether stacks may run on other CPUs too.
    all: bool,
}

impl Profilers {
    /// Samples the CPUs of all stacks whose parts want it; `None` if none does.
    ///
    /// # Errors
    /// Why that is not possible, and on which machine.
    pub(crate) fn start(
        plan: &spec::Plan,
        near: &NearMachine,
        machines: &Machines,
    ) -> Result<Option<Profilers>, String> {
        let mut by_machine: BTreeMap<String, SampledCpus> = BTreeMap::new();
        for part in plan.parts.iter().filter(|part| part.schedule.why) {
            for variant in &part.variants {
                // A variant without a site does not start, and says why.
                let Ok(site) = Site::of(variant, part, near, machines) else { continue };
                let name = site.stack.as_ref().map_or("", |machine| machine.name());
                let cpus = by_machine.entry(name.to_owned()).or_default();
                // A server that is running already may be anywhere.
                cpus.all |= variant.stack.processes.is_empty();
                let beside = variant.stack.processes.iter().any(|process| process.beside_client);
                let beside = site.beside_cpus.iter().filter(|_| beside);
                cpus.stacks.0.extend(site.stack_cpus.iter().chain(beside));
                cpus.clients.0.extend(site.client_cpus.iter().flat_map(CpuSet::iter));
                cpus.machine = site.stack;
            }
        }
        if by_machine.is_empty() {
            return Ok(None);
        }
        let mut profilers = Profilers { near: None };
        for SampledCpus { machine, stacks, clients, all } in by_machine.into_values() {
            let options = |online: CpuSet| ProfilerOptions {
                sampled: if all || stacks.is_empty() { online.clone() } else { stacks.clone() },
                readers: clients.iter().filter(|cpu| online.0.contains(cpu)).collect(),
                online,
                period: SAMPLE_PERIOD,
            };
            match machine {
                Some(machine) => {
                    let started = machine.sample(options(machine.facts().cpus.clone()));
                    started.map_err(|error| error.to_string())?;
                }
                None => {
                    let online = host::all_cpus().map_err(|error| error.to_string())?;
                    let started = Profiler::start(options(online));
                    profilers.near = Some(started.map_err(|error| error.to_string())?);
                }
            }
        }
        Ok(Some(profilers))
    }

    /// Samples a stack from now on: of one without processes, the servers that listen at its target.
    ///
    /// # Errors
    /// If the connection to its machine is lost.
    pub(crate) fn watch(
        &self,
        index: usize,
        plan: &Variant,
        stack: &Stack,
        target: &Endpoint,
    ) -> Result<Option<SampledStack>, far::FarError> {
        let mut folders: Vec<PathBuf> = plan.stack.working_dir.iter().cloned().collect();
        Ok(match (stack, &self.near) {
            (Stack::Far(stack), _) => {
                Some(SampledStack::Far(far::ProfiledStack::watch(stack, folders)?))
            }
            (Stack::Near(stack), Some(profiler)) => {
                folders.extend(std::env::current_dir());
                let mut watched = watched(index as u32, folders, stack);
                if plan.stack.processes.is_empty() {
                    watched.guard = None;
                    // Without any, it has no samples, which the report says.
                    watched.processes = servers_at(target).unwrap_or_default();
                }
                Some(SampledStack::Near(profiler.watch(watched)))
            }
            (Stack::Near(_), None) => None,
        })
    }
}

/// How a profiler recognises a stack, and what differs between its starts.
fn watched(number: u32, mut folders: Vec<PathBuf>, stack: &LiveStack) -> WatchedStack {
    folders.push(stack.dir().to_owned());
    WatchedStack {
        stack: number,
        guard: Some(stack.guard_pid() as u32),
        processes: stack.pids().into_iter().map(|pid| pid as u32).collect(),
        folders,
    }
}

/// A stack that is sampled, until this is dropped.
pub(crate) enum SampledStack {
    Near(ProfiledStack),
    Far(far::ProfiledStack),
}

impl SampledStack {
    /// Tells it what comes. If the connection is lost, the slice fails too.
    pub(crate) fn step(&self, step: ProfileStep) {
        match self {
            SampledStack::Near(stack) => stack.step(step),
            SampledStack::Far(stack) => drop(stack.step(step)),
        }
    }

    /// CPU time of its living threads, if it is here.
    pub(crate) fn cpu(&self) -> Option<Nanos> {
        match self {
            SampledStack::Near(stack) => Some(stack.cpu()),
            SampledStack::Far(_) => None,
        }
    }

    /// Names the samples of its trials while its processes live; none if the connection is lost.
    pub(crate) fn take(&self) -> Vec<(usize, Profile)> {
        match self {
            SampledStack::Near(stack) => stack.take(),
            SampledStack::Far(stack) => stack.take().unwrap_or_default(),
        }
    }
}
