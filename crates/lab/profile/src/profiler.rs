//! Collects the samples of running stacks.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use base::{CpuSet, Nanos};
use record::{Profile, SystemCalls, Waits};
use serde::{Deserialize, Serialize};

use crate::call_tree::CallTree;
use crate::chain::Chain;
use crate::error::ProfileError;
use crate::lineage::Lineage;
use crate::names::{Names, ProcessNames};
use crate::sampler::{PerfEvent, Sample, Sampler};
use crate::threads;
use crate::tracer::SystemCallTracer;
use crate::unwind::Unwinder;

/// How often the rings are read at least: in longer slices they would fill.
const READ_EVERY: Duration = Duration::from_millis(250);

/// The process of a CPU that does nothing.
const IDLE: u32 = 0;

/// Options of a profiler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProfilerOptions {
    /// The CPUs of the stacks.
    pub sampled: CpuSet,
    /// All CPUs on which processes of the stacks may be started.
    pub online: CpuSet,
    /// The CPUs of the client, on which the rings are read; any if empty.
    pub readers: CpuSet,
    /// Time of a CPU between two samples of it.
    pub period: Nanos,
}

/// What a profile is told of a stack's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProfileStep {
    /// Keep samples from now on, for this trial.
    Begin(usize),
    /// Add them to this trial, if that has begun.
    End(usize),
    /// Count system calls from now on, which makes them slower.
    BeginCounting,
    /// Count no more, if that has begun; so many requests were completed meanwhile.
    EndCounting(u64),
}

/// A stack whose processes are sampled.
#[derive(Clone, Debug)]
pub struct WatchedStack {
    /// A number of the caller's.
    pub stack: u32,
    /// Its guard, from which its processes descend; `None` if it was not started by us.
    pub guard: Option<u32>,
    /// Its processes so far, some of which may not descend from the guard.
    pub processes: Vec<u32>,
    /// Folders that are left out of the names of source files, because they differ between starts.
    pub folders: Vec<PathBuf>,
}

/// Samples the stacks' CPUs while there are stacks. It goes on between slices, so that the moments of
/// samples do not depend on where a slice begins.
pub struct Profiler {
    inner: Arc<Mutex<Inner>>,
    ended: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

struct Inner {
    sampler: Sampler,
    lineage: Lineage,
    watched: HashMap<u32, WatchedStack>,
    /// Where each process has code that it generated.
    generated: HashMap<u32, Vec<(u64, u64)>>,
    /// The stack that is loaded, and since when.
    loaded: Option<(u32, Nanos)>,
    /// Its samples so far.
    slice: SampleCounts,
    /// By stack and trial.
    trials: BTreeMap<(u32, usize), SampleCounts>,
    names: Names,
    unwinder: Unwinder,
    period: Nanos,
    /// The CPUs of the stacks.
    sampled: CpuSet,
    /// What the threads of a stack had waited when a trial of it began.
    waits: BTreeMap<(u32, usize), Waits>,
    /// Counts the system calls of a stack.
    tracer: Option<(u32, SystemCallTracer)>,
    /// What was counted of a stack.
    system_calls: HashMap<u32, SystemCalls>,
}

/// How often each chain was sampled.
#[derive(Default)]
struct SampleCounts {
    /// By process.
    chains: HashMap<(u32, Chain), u64>,
    /// Those of an idle CPU, by what it did.
    idle: HashMap<Chain, u64>,
    lost: u64,
}

impl SampleCounts {
    fn add(&mut self, other: SampleCounts) {
        for (key, count) in other.chains {
            *self.chains.entry(key).or_default() += count;
        }
        for (chain, count) in other.idle {
            *self.idle.entry(chain).or_default() += count;
        }
        self.lost += other.lost;
    }
}

impl Profiler {
    /// Prepares to sample, and notes from now on which processes are started.
    ///
    /// # Errors
    /// If the kernel does not permit it; the error says what to set.
    pub fn start(options: ProfilerOptions) -> Result<Profiler, ProfileError> {
        let readers = options.readers.clone();
        let inner = Arc::new(Mutex::new(Inner {
            sampler: Sampler::open(&options.sampled, &options.online, options.period)?,
            lineage: Lineage::default(),
            watched: HashMap::new(),
            generated: HashMap::new(),
            loaded: None,
            slice: SampleCounts::default(),
            trials: BTreeMap::new(),
            names: Names::default(),
            unwinder: Unwinder::default(),
            period: options.period,
            sampled: options.sampled,
            waits: BTreeMap::new(),
            tracer: None,
            system_calls: HashMap::new(),
        }));
        let ended = Arc::new(AtomicBool::new(false));
        let reader = reader(Arc::clone(&inner), Arc::clone(&ended), readers);
        Ok(Profiler { inner, ended, reader: Some(reader) })
    }

    /// Counts the processes of a stack from now on, until the result is dropped.
    pub fn watch(&self, watched: WatchedStack) -> ProfiledStack {
        let stack = watched.stack;
        let mut inner = lock(&self.inner);
        inner.read();
        if let Some(guard) = watched.guard {
            inner.lineage.guarded(guard, stack);
        }
        for pid in &watched.processes {
            inner.join(*pid, stack);
        }
        if inner.watched.is_empty() {
            inner.sampler.go_on();
        }
        inner.watched.insert(stack, watched);
        drop(inner);
        ProfiledStack { inner: Arc::clone(&self.inner), stack }
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stack that is sampled. Dropping it ends that.
pub struct ProfiledStack {
    inner: Arc<Mutex<Inner>>,
    stack: u32,
}

impl ProfiledStack {
    /// CPU time of its living threads since they began.
    pub fn cpu(&self) -> Nanos {
        let mut inner = lock(&self.inner);
        inner.read();
        threads::cpu(inner.lineage.processes_of(self.stack))
    }

    /// Does what comes next.
    pub fn step(&self, step: ProfileStep) {
        match step {
            ProfileStep::Begin(trial) => self.begin(trial),
            ProfileStep::End(trial) => self.end(trial),
            ProfileStep::BeginCounting => self.begin_counting(),
            ProfileStep::EndCounting(requests) => self.end_counting(requests),
        }
    }

    fn begin_counting(&self) {
        let mut inner = lock(&self.inner);
        // Where the kernel does not permit it, nothing is known of them.
        let tracer = SystemCallTracer::open(&inner.sampled).ok();
        inner.tracer = tracer.map(|tracer| (self.stack, tracer));
    }

    fn end_counting(&self, requests: u64) {
        let mut inner = lock(&self.inner);
        let Some((stack, mut tracer)) = inner.tracer.take() else { return };
        inner.read();
        let calls = tracer.count(|pid| inner.lineage.is_of(pid, stack));
        if let Some(calls) = calls.filter(|_| requests > 0) {
            inner.system_calls.insert(stack, SystemCalls { requests, calls });
        }
    }

    fn begin(&self, trial: usize) {
        let mut inner = lock(&self.inner);
        inner.read();
        if !inner.waits.contains_key(&(self.stack, trial)) {
            let waits = inner.waits_of(self.stack);
            inner.waits.insert((self.stack, trial), waits);
        }
        inner.slice = SampleCounts::default();
        inner.loaded = Some((self.stack, base::monotonic_now()));
    }

    fn end(&self, trial: usize) {
        let mut inner = lock(&self.inner);
        inner.read();
        if let Some((stack, _)) = inner.loaded.take() {
            let mut slice = std::mem::take(&mut inner.slice);
            slice.lost = std::mem::take(&mut inner.sampler.lost);
            inner.trials.entry((stack, trial)).or_default().add(slice);
        }
    }

    /// Names the samples of its trials while its processes live, and forgets them.
    pub fn take(&self) -> Vec<(usize, Profile)> {
        lock(&self.inner).take(self.stack)
    }
}

impl Drop for ProfiledStack {
    fn drop(&mut self) {
        lock(&self.inner).forget(self.stack);
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            reader.thread().unpark();
            // It has nothing to say.
            let _ = reader.join();
        }
    }
}

/// Reads the rings from time to time, on the client's CPUs.
fn reader(inner: Arc<Mutex<Inner>>, ended: Arc<AtomicBool>, cpus: CpuSet) -> JoinHandle<()> {
    std::thread::spawn(move || {
        if !cpus.is_empty() {
            let mut set = rustix::thread::CpuSet::new();
            cpus.iter().for_each(|cpu| set.set(cpu));
            // Where it may not choose, it runs anywhere.
            let _ = rustix::thread::sched_setaffinity(None, &set);
        }
        while !ended.load(Ordering::Relaxed) {
            std::thread::park_timeout(READ_EVERY);
            lock(&inner).read();
        }
    })
}

impl Inner {
    /// Reads what the kernel has noted.
    fn read(&mut self) {
        for event in self.sampler.drain() {
            match event {
                PerfEvent::Forked { pid, parent } => {
                    self.lineage.forked(pid, parent);
                    if pid != parent {
                        let inherited = self.generated.get(&parent).cloned();
                        self.generated.remove(&pid);
                        self.generated.extend(inherited.map(|ranges| (pid, ranges)));
                    }
                }
                PerfEvent::Generated { pid, range } => {
                    let ranges = self.generated.entry(pid).or_default();
                    if !ranges.contains(&range) {
                        ranges.push(range);
                    }
                }
                PerfEvent::Sample(sample) => self.note(sample),
            }
        }
    }

    fn note(&mut self, sample: Sample) {
        let Some((loaded, since)) = self.loaded else { return };
        let Sample { at, pid, kernel, registers, stack } = sample;
        if at < since {
            return;
        }
        if pid == IDLE {
            *self.slice.idle.entry(Chain { kernel, user: Vec::new() }).or_default() += 1;
        } else if self.lineage.is_of(pid, loaded) {
            let generated = self.generated.get(&pid).map_or(&[][..], Vec::as_slice);
            let calls = |registers| self.unwinder.calls(pid, registers, &stack, generated);
            let user = registers.map(calls).unwrap_or_default();
            *self.slice.chains.entry((pid, Chain { kernel, user })).or_default() += 1;
        }
    }

    /// Adds a process to a stack to which it does not belong by its descent.
    fn join(&mut self, pid: u32, stack: u32) {
        if self.lineage.is_of(pid, stack) {
            return;
        }
        self.lineage.joined(pid, stack);
        // What it generated before it was watched was not noted.
        let ranges = crate::maps::generated(pid);
        if !ranges.is_empty() {
            self.generated.entry(pid).or_insert(ranges);
        }
    }

    /// Forgets a stack. Of one that we started, it removes the maps of generated code that those of its
    /// processes left which had ended earlier; the guard removes those of the others.
    fn forget(&mut self, stack: u32) {
        let is_ours = self.watched.remove(&stack).is_some_and(|watched| watched.guard.is_some());
        // A server that was running already may be another stack too.
        let is_others = |pid| self.watched.keys().any(|other| self.lineage.is_of(pid, *other));
        let theirs = |pid: &u32| self.lineage.is_of(*pid, stack) && !is_others(*pid);
        let ended: Vec<u32> = self.generated.keys().copied().filter(theirs).collect();
        for pid in ended {
            if is_ours {
                // Most have none.
                let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
            }
            self.generated.remove(&pid);
        }
        self.lineage.ended(stack);
        self.trials.retain(|(of, _), _| *of != stack);
        self.waits.retain(|(of, _), _| *of != stack);
        if self.watched.is_empty() {
            self.sampler.pause();
        }
        self.unwinder.forget_ended();
    }

    /// What the threads of a stack have waited so far.
    fn waits_of(&self, stack: u32) -> Waits {
        threads::waits(self.lineage.processes_of(stack))
    }

    fn take(&mut self, stack: u32) -> Vec<(usize, Profile)> {
        let system_calls = self.system_calls.remove(&stack);
        // Each trial has waited until the next one began, and the last one until now.
        let mut end = self.waits_of(stack);
        let mut waits: BTreeMap<usize, Option<Waits>> = BTreeMap::new();
        let began: Vec<((u32, usize), Waits)> = self
            .waits
            .range((stack, 0)..=(stack, usize::MAX))
            .map(|(key, of)| (*key, *of))
            .collect();
        for ((_, trial), begin) in began.into_iter().rev() {
            waits.insert(trial, end.since(&begin));
            end = begin;
        }
        self.waits.retain(|(of, _), _| *of != stack);
        let folders =
            self.watched.get(&stack).map(|watched| watched.folders.clone()).unwrap_or_default();
        let trials: Vec<usize> =
            self.trials.keys().filter(|(of, _)| *of == stack).map(|(_, trial)| *trial).collect();
        let mut processes: HashMap<u32, ProcessNames> = HashMap::new();
        let mut profiles = Vec::new();
        let idle = ProcessNames::idle();
        for trial in trials {
            let Some(samples) = self.trials.remove(&(stack, trial)) else { continue };
            for (pid, _) in samples.chains.keys() {
                processes.entry(*pid).or_insert_with(|| {
                    let generates = self.generated.contains_key(pid);
                    let ancestors: Vec<u32> = self.lineage.ancestors(*pid).collect();
                    ProcessNames::of(*pid, if generates { &ancestors } else { &[] }, &folders)
                });
            }
            let named = samples.chains.keys().map(|(pid, chain)| (chain, &processes[pid]));
            self.names.learn(named.chain(samples.idle.keys().map(|chain| (chain, &idle))));
            let mut tree = CallTree::default();
            for ((pid, chain), count) in &samples.chains {
                let process = &processes[pid];
                let mut functions = vec![process.itself()];
                functions.extend(self.names.functions(chain, process));
                tree.add(&functions, *count);
            }
            let interrupts = samples.idle.iter().filter(|(chain, _)| {
                self.names.functions(chain, &idle).iter().any(|function| function.is_interrupt())
            });
            let interrupts = interrupts.map(|(_, count)| count).sum();
            let mut profile = tree.finish(self.period, interrupts, samples.lost);
            profile.waits = waits.get(&trial).copied().flatten();
            profile.system_calls.clone_from(&system_calls);
            profiles.push((trial, profile));
        }
        profiles
    }
}
