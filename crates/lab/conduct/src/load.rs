//! `load`: one trial on a server that is already running, after probes and a warm-up.
//!
//! It is recorded like any run: one part, one variant, and one block with two trials. `warm-up`
//! contains the three probes and the warm-up (without one, up to 300 requests that show whether the
//! body varies), `closed` or `open` the measured slice including the
//! drain. Together they are the whole session.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::{CpuSet, Nanos, RunId, Seed, Timestamp};
use drive::{EngineKind, Histogram, LearnedResponse, LiveCounts, LoopStart, Observation, Slice};
use far::Look;
use host::{Identity, Meter, Reading};
use ledger::Ledger;
use profile::{ProfileStep, ProfiledStack, Profiler, ProfilerOptions, WatchedStack};
use record::{
    Block, BlockState, Fact, Life, Machine, Offer, Part, Run, RunKind, RunState, Severity, Trial,
    UncheckedInput, Variant,
};
use spec::{Endpoint, Load, Mode, ServedBy, Target};
use stats::Sureness;

use crate::analyse;
use crate::error::{ConductError, ErrorPage};
use crate::layout;
use crate::looks::Looks;
use crate::machine_activity::activity;
use crate::machines::{Machines, Site};
use crate::reflect;
use crate::server_count::{Counter, FinalCount};
use crate::servers::servers_at;
use crate::trial_sum::{Cost, TrialSum, empty};
use crate::validity::{ACHIEVED_MIN, CLIENT_BUSY_MAX, Inspector, drift_of_slices};
use crate::watch::{Event, RunRecorder, StackActivity, Watcher};
use crate::wherever::ClientSession;
use crate::why;

/// Resolution of the recorded series.
const STEP: Nanos = Nanos::from_millis(100);
/// Requests from which a load without warm-up learns whether the body varies, and the time after
/// which no more are sent.
const LEARN_REQUESTS: u64 = 300;
const LEARN_MAX: Duration = Duration::from_millis(200);
/// They are sent in groups of one per connection, but of at least this many.
const LEARN_AT_ONCE_MIN: u64 = 10;
/// Length of a bucket for finding changes of level, in service times. Connections in step with each
/// other complete all at once, so buckets differ by one such burst.
const DRIFT_SERVICE_TIMES: u64 = 40;
/// With fewer buckets no change of level is looked for.
const DRIFT_BUCKETS_MIN: usize = 8;
/// The share of a CPU that other processes may use without a warning.
const BUSY_SHARE_MIN: f64 = 0.2;
/// Additional sockets in TIME_WAIT that are worth reporting.
const TIME_WAIT_MIN: u64 = 1000;

/// Plan of a load.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The target.
    pub target: Target,
    /// The requests.
    pub load: Load,
    /// Closed or open loop.
    pub mode: Mode,
    /// Duration of the measurement; ignored if `requests` is set.
    pub duration: Nanos,
    /// Number of requests to measure instead.
    pub requests: Option<u64>,
    /// Duration of the load before the measurement.
    pub warmup: Nanos,
    /// Source of the server-side count.
    pub served_by: Option<ServedBy>,
    /// Whether the server's functions are sampled.
    pub why: bool,
    /// The machines that load the target, all at once, as given to ssh; none means this one.
    pub from: Vec<String>,
}

/// Options of a load, apart from its plan.
#[derive(Clone)]
pub struct LoadOptions {
    /// The run's name, if it has one.
    pub name: Option<String>,
    /// The seed of the arrivals.
    pub seed: Seed,
    /// The command that repeats the run.
    pub command_line: Vec<String>,
    /// Facts about this machine.
    pub machine: Machine,
    /// CPUs for the client threads on this machine; empty for no pinning.
    pub cpus: CpuSet,
    /// The other machines of the plan, connected.
    pub machines: Machines,
    /// What other processes did just before; `None` if it could not be observed.
    pub neighbours: Option<host::Neighbours>,
    /// Live counts, of a client on this machine.
    pub live: Arc<LiveCounts>,
    /// Set to end the load early.
    pub stop: drive::StopFlag,
}

/// Result of a load.
#[derive(Debug)]
pub struct LoadResult {
    /// The run as recorded.
    pub run: Run,
    /// Latency (open loop) or service time (closed loop) of requests completed in the window, in
    /// nanoseconds; empty if nothing was measured.
    pub times: Histogram,
    /// From the first measured request to the end of the drain.
    pub elapsed: Nanos,
}

/// Loads a target and records the run, including the data before an interruption.
///
/// # Errors
/// If the target does not respond, or responds with an unexpected error, if the server-side count
/// cannot be read, if another machine cannot be reached, or if the record cannot be written.
pub fn load(
    plan: &LoadPlan,
    options: &LoadOptions,
    recorder: &mut dyn RunRecorder,
    watcher: &mut dyn Watcher,
) -> Result<LoadResult, ConductError> {
    let drive_options = drive::Options {
        cpus: options.cpus.clone(),
        seed: options.seed,
        step: STEP,
        stop: options.stop.clone(),
        among: None,
    };
    let site = Site::of_clients(&plan.from, &options.cpus, &options.machines)
        .map_err(ConductError::Host)?;
    let open = |load: &Load| ClientSession::open(&site, &plan.target, load, &drive_options);
    let origin = format!("the server at {}", base::redact(&plan.target.to_string()));
    let encoded = reflect::encoded(&plan.load, &origin, &mut |load| {
        let mut session = open(load)?;
        let learned = session.learn();
        reflect::reply(learned, &session.close(), &origin)
    })?;
    let counter = plan.served_by.as_ref().map(Counter::external).transpose()?;
    let mut session = open(encoded.as_ref().unwrap_or(&plan.load))?;
    session.near().into_iter().for_each(|session| session.watch(Arc::clone(&options.live)));
    let profiled = plan.why.then(|| profiled(plan.target.endpoint(), &options.cpus));
    let mut loading = LoadInProgress {
        plan,
        site: &site,
        stop: &options.stop,
        served: counter.as_ref().map(|_| 0),
        counter,
        meter: Meter::open(),
        inspector: Inspector { block: 1, client_shares: false, findings: Vec::new() },
        probing: Duration::ZERO,
        profiled: None,
    };
    match profiled {
        Some(Ok(profiled)) => loading.profiled = Some(profiled),
        Some(Err(why)) => loading.find(Severity::Warning, Fact::NotProfiled { why }),
        None => {}
    }
    if plan.from.is_empty() {
        loading.inspect_neighbours(options.neighbours.as_ref());
    }
    let (warm, status) = loading.probe(&mut session)?;
    let mut run = blank(plan, options, session.engine());
    run.parts[0].layout = layout::of_load(&site, &options.machine);
    run.parts[0].load.status = status;
    recorder.begin(&run).map_err(ConductError::Record)?;
    let result = loading.run(session, warm, &mut run, recorder, watcher);
    run.finished = Some(base::timestamp_now());
    run.state = match &result {
        Err(_) => RunState::Failed,
        Ok(_) if options.stop.load(Ordering::Relaxed) => RunState::Interrupted,
        Ok(_) => RunState::Done,
    };
    run.error = result.as_ref().err().map(|error| base::redact(&error.to_string()));
    let finished = recorder.finish(&run).map_err(ConductError::Record);
    let seen = result?;
    finished?;
    let elapsed = seen.as_ref().map_or(Nanos::ZERO, |seen| seen.elapsed);
    let times = match (seen, plan.mode) {
        (Some(seen), Mode::Closed) => seen.service_time,
        (Some(seen), Mode::Open { .. }) => seen.latency,
        (None, _) => empty(),
    };
    Ok(LoadResult { run, times, elapsed })
}

/// A load in progress.
struct LoadInProgress<'a> {
    plan: &'a LoadPlan,
    /// Where the clients are.
    site: &'a Site,
    stop: &'a drive::StopFlag,
    counter: Option<Counter>,
    /// The latest server-side count; `None` if there is none or it could not be read.
    served: Option<u64>,
    meter: Meter,
    inspector: Inspector,
    /// How long the probes took.
    probing: Duration,
    /// The server, if its functions are sampled.
    profiled: Option<(Profiler, ProfiledStack)>,
}

impl LoadInProgress<'_> {
    /// Learns the response, unless the exchange has none, and refuses an error page. Returns the
    /// probes and, for HTTP, the status that every response must have.
    fn probe(
        &mut self,
        session: &mut ClientSession,
    ) -> Result<(TrialSum, Option<u16>), ConductError> {
        let mut warm = TrialSum::new(Offer::WarmUp, None, STEP);
        let (started, began) = (base::timestamp_now(), Instant::now());
        let learned = match self.plan.load.exchange.is_learned() {
            true => Some(session.learn()?),
            false => None,
        };
        self.probing = began.elapsed();
        warm.add_life(&session.life(), started, self.probing.into());
        let mut status = self.plan.load.expect.status;
        if let Some(learned) = learned {
            self.inspect_status(&learned)?;
            status = status.or(learned.status);
        }
        Ok((warm, status))
    }

    /// Sends further requests as a short warm-up, to learn whether the body varies. A server to
    /// which the probes alone took [`LEARN_MAX`] gets none.
    fn learn_more(
        &self,
        session: &mut ClientSession,
        warm: &mut TrialSum,
    ) -> Result<(), ConductError> {
        let began = Instant::now();
        let at_once = u64::from(self.plan.load.connections).max(LEARN_AT_ONCE_MIN);
        let mut left = LEARN_REQUESTS.min(self.plan.requests.unwrap_or(LEARN_REQUESTS));
        while left > 0 && self.probing + began.elapsed() < LEARN_MAX && !self.stopped() {
            let requests = left.min(at_once);
            let slice = Slice {
                start: LoopStart::Fresh,
                mode: Mode::Closed,
                lead_in: Nanos::ZERO,
                window: Nanos::ZERO,
                requests: Some(requests),
                drain: self.plan.load.timeout,
                stalled_after: None,
            };
            self.slice(session, warm, &slice)?;
            left -= requests;
        }
        Ok(())
    }

    /// Ends the learning, and reports what varies unless the load says what to check.
    fn settle(
        &mut self,
        session: &mut ClientSession,
        warm: &mut TrialSum,
    ) -> Result<(), ConductError> {
        if !self.plan.load.exchange.is_learned() {
            return Ok(());
        }
        let before = session.life();
        let learned = session.settle()?;
        warm.retract_between(&before, &session.life());
        if learned.varies && !self.plan.load.expect.says_what_to_compare() {
            let length = learned.length.is_none();
            self.find(Severity::Warning, Fact::BodyVaries { length });
        }
        Ok(())
    }

    fn inspect_status(&mut self, learned: &LearnedResponse) -> Result<(), ConductError> {
        let declared = self.plan.load.expect.status.is_some();
        if let Some(page) = ErrorPage::of(&self.plan.load, learned) {
            return Err(page.into());
        }
        if let Some(status) = learned.status.filter(|status| *status >= 300 && !declared) {
            self.find(Severity::Warning, Fact::ErrorPage { status });
        }
        Ok(())
    }

    /// The load itself cannot tell other processes from the server, which is idle before it.
    fn inspect_neighbours(&mut self, seen: Option<&host::Neighbours>) {
        let Some(seen) = seen else {
            return self.find(Severity::Note, Fact::Unchecked { what: UncheckedInput::MachineCpu });
        };
        let busy = seen.busier_than(BUSY_SHARE_MIN, &CpuSet::default());
        if busy.is_empty() {
            return;
        }
        let process = |p: &host::Neighbour| {
            let name = p.name.chars().filter(|c| !c.is_control()).collect();
            record::BusyProcess { pid: p.pid, name, cpus: p.share }
        };
        let cpus = busy.iter().map(|(_, share)| share).sum();
        let processes = seen.processes.iter().map(process).collect();
        self.find(Severity::Warning, Fact::Neighbours { cpus, processes });
    }

    fn find(&mut self, severity: Severity, fact: Fact) {
        self.inspector.find(severity, Some(0), fact);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Warms up, measures, and records both.
    fn run(
        mut self,
        mut session: ClientSession,
        mut warm: TrialSum,
        run: &mut Run,
        recorder: &mut dyn RunRecorder,
        watcher: &mut dyn Watcher,
    ) -> Result<Option<Observation>, ConductError> {
        recorder.part(run, 0, &run.parts[0]).map_err(ConductError::Record)?;
        let clock = Instant::now();
        let before = self.look()?;
        let plan = self.plan;
        let slice = Slice {
            mode: plan.mode,
            start: LoopStart::Fresh,
            lead_in: Nanos::ZERO,
            window: plan.duration,
            requests: plan.requests,
            drain: plan.load.timeout,
            stalled_after: None,
        };
        let variant = base::redact(&plan.target.to_string());
        if plan.load.exchange.is_learned() {
            session.keep_learning()?;
        }
        if plan.warmup > Nanos::ZERO {
            let what = StackActivity::WarmingUp;
            watcher.event(&Event::Doing { what, variant: variant.clone(), share_done: 0.0 });
            let slice = Slice { window: plan.warmup, requests: None, ..slice };
            self.slice(&mut session, &mut warm, &slice)?;
        } else if plan.load.exchange.is_learned() && session.is_learning() {
            self.learn_more(&mut session, &mut warm)?;
        }
        self.settle(&mut session, &mut warm)?;
        let mut block = blank_block(run.started);
        let completed = session.life().counts.completed;
        self.write(&warm, completed, run, &mut block, recorder)?;
        let mut seen = None;
        if !self.stopped() {
            let total = (plan.warmup + plan.duration).as_secs_f64().max(1e-9);
            let share_done = plan.warmup.as_secs_f64() / total;
            watcher.event(&Event::Doing { what: StackActivity::Loading, variant, share_done });
            let (offer, rate) = match plan.mode {
                Mode::Closed => (Offer::Closed, None),
                Mode::Open { rate_per_s, .. } => (Offer::Open, Some(rate_per_s)),
            };
            let mut trial_sum = TrialSum::new(offer, rate, STEP);
            let server = self.profiled.as_ref().map(|(_, server)| server);
            server.iter().for_each(|server| server.step(ProfileStep::Begin(0)));
            let (observed, apart) = self.slice(&mut session, &mut trial_sum, &slice)?;
            run.parts[0].layout.clients_apart = apart;
            server.iter().for_each(|server| server.step(ProfileStep::End(0)));
            let profiles = server.map(ProfiledStack::take).unwrap_or_default();
            trial_sum.profile = profiles.into_iter().next().map(|(_, profile)| profile);
            if offer == Offer::Open {
                run.parts[0].load.connections = observed.connections_limit.connections;
            }
            let completed = close(session, &mut trial_sum);
            self.write(&trial_sum, completed, run, &mut block, recorder)?;
            self.inspect(&warm, &trial_sum, &observed);
            self.inspect_network(&trial_sum, &before, run.machine.connection_tracking);
            seen = Some(observed);
        }
        if self.stopped() {
            block.state = BlockState::Interrupted;
        }
        block.elapsed = clock.elapsed().into();
        block.lives.push(life(&block.trials));
        recorder.block(run, 0, &block).map_err(ConductError::Record)?;
        for trial in &block.trials {
            for gap in trial.ledger.audit() {
                self.find(Severity::Invalid, Fact::Ledger { gap });
            }
        }
        let part = &mut run.parts[0];
        if self.profiled.is_some() {
            let offer = if matches!(plan.mode, Mode::Closed) { Offer::Closed } else { Offer::Open };
            let sureness = Sureness { alpha: 0.05, interrupted: false };
            part.profiled = true;
            part.why = why::costs(std::iter::once(&block), offer, sureness).into_iter().collect();
        }
        part.blocks.push(block);
        part.findings = self.inspector.findings;
        part.findings.extend(why::profile_differs(part));
        analyse::add_up_ledgers(part);
        recorder.part_done(run, 0, &run.parts[0]).map_err(ConductError::Record)?;
        Ok(seen)
    }

    /// Reads the counters of the machines of the clients.
    fn look(&self) -> Result<Looks, ConductError> {
        let here = |looks: &mut Looks| {
            if self.site.clients.is_empty() {
                looks.throttled = stage::throttled();
                looks.stack_cpu = self.profiled.as_ref().map(|(_, server)| server.cpu());
                looks.readings.push((Identity::default(), self.meter.read()));
            }
        };
        Ok(Looks::take(&self.site.machines(), |_| Look::default(), here)?)
    }

    /// Loads the target for one slice and adds it to `trial_sum`; also returns how far apart several
    /// clients began.
    fn slice(
        &self,
        session: &mut ClientSession,
        trial_sum: &mut TrialSum,
        slice: &Slice,
    ) -> Result<(Observation, Option<Nanos>), ConductError> {
        let before = self.look()?;
        let started = base::timestamp_now();
        let (seen, apart) = session.run(slice)?;
        let after = self.look()?;
        // Processes that ended took theirs with them.
        let rise = |(a, b): (Nanos, Nanos)| Some(Nanos(b.0.checked_sub(a.0)?));
        let throttled = before.throttled.zip(after.throttled);
        let cost = Cost {
            stack_cpu: before.stack_cpu.zip(after.stack_cpu).and_then(rise),
            activity: activity(&before.readings, &after.readings),
            peak_memory_bytes: None,
            throttled: throttled.map(|(a, b)| b.saturating_sub(a)),
        };
        trial_sum.add(&seen, cost, 0, started, slice);
        Ok((seen, apart))
    }

    /// Records a trial with the server-side count of its requests, once that has reached
    /// `completed`.
    fn write(
        &mut self,
        trial_sum: &TrialSum,
        completed: u64,
        run: &Run,
        block: &mut Block,
        recorder: &mut dyn RunRecorder,
    ) -> Result<(), ConductError> {
        let mut trial = trial_sum.trial(0, 0, &|_| true);
        if let Some(counter) = &mut self.counter {
            let FinalCount { served, error, .. } = counter.settle(completed);
            trial.ledger.served =
                served.zip(self.served).map(|(now, then)| now.saturating_sub(then));
            self.served = served;
            if let Some(error) = error {
                self.find(Severity::Invalid, Fact::ServedUnreadable { error });
            }
        }
        trial.ledger.series = recorder
            .trial(run, 0, block.index, &trial, &trial_sum.seen)
            .map_err(ConductError::Record)?;
        block.trials.push(trial);
        Ok(())
    }

    /// Findings from the two trials.
    fn inspect(&mut self, warm: &TrialSum, trial_sum: &TrialSum, seen: &Observation) {
        let open = trial_sum.offer == Offer::Open;
        self.inspector.failures_of(Some(0), warm, open, None);
        self.inspector.failures_of(Some(0), trial_sum, open, None);
        self.inspector.lateness(Some(0), trial_sum);
        let busiest = seen.threads.iter().map(|t| t.cpu.0 as f64 / t.wall.0.max(1) as f64);
        let share = busiest.fold(0.0, f64::max);
        // A spinning thread is always busy, and in a few milliseconds a thread's cost is mostly its
        // start.
        let long = seen.elapsed >= STEP;
        if share > CLIENT_BUSY_MAX && long && !open && !self.plan.load.busy_poll {
            let threads = self.plan.load.threads;
            self.find(Severity::Warning, Fact::ClientBusy { share, threads });
        }
        let counts = &seen.counts;
        // What had not been sent when the time was over was sent and answered later.
        let in_time = counts.completed.saturating_sub(seen.window.waiting);
        let achieved = in_time as f64 / counts.offered.max(1) as f64;
        if open && counts.offered > 0 && achieved < ACHIEVED_MIN {
            let cap = seen.connections_limit.connections;
            let fact = Fact::Unsustained {
                achieved,
                limit: ACHIEVED_MIN,
                dropped: counts.dropped + seen.window.waiting,
                connections_cap: (seen.waiting_for_connections > 0).then_some(cap),
            };
            self.find(Severity::Invalid, fact);
        }
        let slow = Nanos(seen.service_time.value_at_quantile(0.99));
        if !open && let Some(change) = drift(whole_steps(seen), seen.step, slow) {
            self.find(Severity::Warning, Fact::Drift { change });
        }
        let throttled = trial_sum.slices.iter().filter_map(|slice| slice.cost.throttled).sum();
        if throttled > 0 {
            self.find(Severity::Warning, Fact::Throttled { times: throttled });
        }
    }

    /// Findings about the machine's network.
    fn inspect_network(
        &mut self,
        trial_sum: &TrialSum,
        before: &Looks,
        tracked_here: Option<bool>,
    ) {
        if !matches!(self.plan.target.endpoint(), Endpoint::Tcp { .. }) {
            return;
        }
        let there = self.site.clients.iter();
        let tracked: Vec<Option<bool>> = match self.site.clients.is_empty() {
            true => vec![tracked_here],
            false => there.map(|client| client.facts().machine.connection_tracking).collect(),
        };
        if tracked.contains(&Some(true)) {
            self.find(Severity::Warning, Fact::Tracked);
        }
        let first = self.inspector.findings.len();
        self.inspector.counters(Some(0), trial_sum);
        // The counters cover the whole machine, and a server may turn away too many connections on
        // purpose: such findings are reported but forbid nothing.
        for finding in &mut self.inspector.findings[first..] {
            finding.severity = finding.severity.min(Severity::Warning);
        }
        if trial_sum.slices.iter().any(|slice| slice.cost.activity.counters.is_none()) {
            self.find(Severity::Note, Fact::Unchecked { what: UncheckedInput::TcpCounters });
        }
        // Everything has been measured: a connection that is lost now takes nothing away.
        let Ok(after) = self.look() else { return };
        let waiting = |(_, reading): &(_, Reading)| reading.counters.as_ref()?.time_wait_sockets;
        let both = after.readings.iter().map(waiting).zip(before.readings.iter().map(waiting));
        let more = both.filter_map(|(now, then)| Some(now?.saturating_sub(then?))).max();
        if let Some(more) =
            more.filter(|more| self.plan.load.new_connection && *more >= TIME_WAIT_MIN)
        {
            let here = host::ephemeral_ports().filter(|_| self.site.clients.is_empty());
            let ports =
                here.map(|(first, last)| u32::from(last).saturating_sub(u32::from(first)) + 1);
            self.find(Severity::Warning, Fact::TimeWaitSockets { more, ports });
        }
    }
}

/// Samples the processes that listen at the target, and all that they have started or will; an error
/// says why that is not possible.
fn profiled(endpoint: &Endpoint, client: &CpuSet) -> Result<(Profiler, ProfiledStack), String> {
    let processes = servers_at(endpoint).map_err(|error| error.to_string())?;
    let online = host::all_cpus().map_err(|error| error.to_string())?;
    let options = ProfilerOptions {
        sampled: online.clone(),
        online,
        readers: client.clone(),
        period: crate::profilers::SAMPLE_PERIOD,
    };
    let profiler = Profiler::start(options).map_err(|error| error.to_string())?;
    let watched = WatchedStack {
        stack: 0,
        guard: None,
        processes,
        folders: std::env::current_dir().into_iter().collect(),
    };
    let stack = profiler.watch(watched);
    Ok((profiler, stack))
}

/// Closes the connections; returns the number of requests completed on them.
fn close(session: ClientSession, trial_sum: &mut TrialSum) -> u64 {
    let before = session.life();
    let after = session.close();
    trial_sum.retract_between(&before, &after);
    after.counts.completed
}

/// The change of level over the steps inside the measured window, if it exceeds the bursts in which
/// connections complete. `slow` is a long service time.
fn drift(steps: &[u64], step: Nanos, slow: Nanos) -> Option<f64> {
    let per_bucket = (slow * DRIFT_SERVICE_TIMES).0.div_ceil(step.0.max(1)).max(1);
    let buckets = steps.chunks_exact(usize::try_from(per_bucket).ok()?);
    let rates: Vec<f64> = buckets.map(|bucket| bucket.iter().sum::<u64>() as f64).collect();
    if rates.len() < DRIFT_BUCKETS_MIN {
        return None;
    }
    drift_of_slices(&rates, rates.iter().sum::<f64>() as u64)
}

/// The steps that are entirely inside the window.
fn whole_steps(seen: &Observation) -> &[u64] {
    let whole = (seen.window.length.0 / seen.step.0.max(1)) as usize;
    &seen.completed_by_step[..whole.min(seen.completed_by_step.len())]
}

/// The sum of all trials' ledgers.
fn life(trials: &[Trial]) -> Life {
    let mut ledgers = trials.iter().map(|trial| &trial.ledger);
    let mut ledger: Ledger = ledgers.next().cloned().unwrap_or_default();
    ledgers.for_each(|later| ledger.extend(later));
    Life { variant: 0, ledger }
}

fn blank_block(started: Timestamp) -> Block {
    Block { order: vec![0], ..Block::new(1, started, BlockState::Complete) }
}

/// The run before anything except probes has been sent.
fn blank(plan: &LoadPlan, options: &LoadOptions, engine: Option<EngineKind>) -> Run {
    let target = base::redact(&plan.target.to_string());
    let engine = engine.map(|engine| match engine {
        EngineKind::Epoll => record::Engine::Epoll,
        EngineKind::IoUring => record::Engine::IoUring,
    });
    let started = base::timestamp_now();
    let part = Part {
        name: "load".to_owned(),
        load: record::Load {
            engines: engine.into_iter().collect(),
            ..analyse::shared_load(&plan.load)
        },
        variants: vec![Variant {
            name: target.clone(),
            target: target.clone(),
            served_by: plan.served_by.as_ref().map(analyse::served_by),
            ..Variant::default()
        }],
        ..Part::default()
    };
    Run {
        id: RunId::new(started, options.seed.derive("id", u64::from(std::process::id())).0),
        kind: RunKind::Load,
        state: RunState::Running,
        name: options.name.clone().unwrap_or_else(|| "load".to_owned()),
        title: target,
        question: String::new(),
        started,
        finished: None,
        command_line: base::redact_arguments(&options.command_line),
        version: record::version_with_method(env!("CARGO_PKG_VERSION")),
        seed: options.seed,
        plan: String::new(),
        machine: options.machine.clone(),
        error: None,
        parts: vec![part],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Completed requests by step for 100 connections to a server that takes `service` for every
    /// request, over 5 s: they stay in step with each other.
    fn in_step(service: Nanos) -> Vec<u64> {
        let length = Nanos::from_secs(5);
        let mut steps = vec![0; (length.0 / STEP.0) as usize];
        let mut at = service;
        while at < length {
            steps[(at.0 / STEP.0) as usize] += 100;
            at += service;
        }
        steps
    }

    #[test]
    fn a_constant_server_of_50_ms_is_steady() {
        for service_us in [900, 9_700, 50_150, 53_000] {
            let service = Nanos::from_micros(service_us);
            assert_eq!(drift(&in_step(service), STEP, service), None, "{service}");
        }
    }

    #[test]
    fn a_server_that_halves_its_speed_drifts() {
        let service = Nanos::from_millis(1);
        let mut steps = in_step(service);
        let half = steps.len() / 2;
        steps[half..].iter_mut().for_each(|n| *n /= 2);
        let change = drift(&steps, STEP, service).unwrap();
        assert!((change + 0.5).abs() < 0.05, "{change}");
    }
}
