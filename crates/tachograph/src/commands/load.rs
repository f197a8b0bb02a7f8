//! `tachograph load`: one target, every answer checked.

use std::time::Duration;

use base::{Nanos, RunId, Seed};
use drive::{Learned, Observation, Session, Slice};
use lab::{Recorder as _, Recording, SliceSeen};
use ledger::{Ledger, Tolerance};
use record::{Distribution, Machine, Run, RunKind, RunState, Severity};
use report::LoadReport;
use spec::{Mode, ServedBy, Target};

use super::network::Network;
use crate::failure::{Failure, Outcome, Status};
use crate::flags::Global;
use crate::flags::load::{ExchangeKind, LoadFlags};
use crate::store::runs_file;
use crate::{machine, output};

/// The resolution of the recorded series.
const STEP: Nanos = Nanos::from_millis(100);

pub(crate) fn run(flags: &LoadFlags, global: &Global) -> Outcome {
    let target = match &flags.unix_socket {
        Some(socket) => Target::parse_with_unix_socket(&flags.target, socket)?,
        None => Target::parse(&flags.target)?,
    };
    let load = flags.request.load(matches!(target, Target::Raw(_)))?;
    let mode = match flags.rate {
        None => Mode::Closed,
        Some(rate_per_s) => Mode::Open { rate_per_s, arrivals: flags.arrivals.into() },
    };
    let mut counter = flags
        .served_by
        .as_deref()
        .map(ServedBy::parse)
        .transpose()?
        .map(|by| stage::served::Reader::standing(&by))
        .transpose()?;
    let served_before = counter.as_mut().map(|reader| reader.read()).transpose()?;
    let stop = stage::signals::install().map_err(Failure::new)?;
    let seed = flags.seed.unwrap_or_else(Seed::from_time);
    let options = drive::Options {
        cpus: flags.cpus.clone().unwrap_or_default(),
        seed,
        step: STEP,
        stop: stop.clone(),
    };
    let mut recording = Recording::open(runs_file(global, "loads are recorded")?)?;

    let mut session = Session::open(&target, &load, &options)?;
    let learned = match load.exchange {
        spec::Exchange::Http(_) | spec::Exchange::Oneshot => Some(session.learn()?),
        spec::Exchange::Echo { .. } | spec::Exchange::Bulk { .. } => None,
    };
    let mut machine = machine::describe();
    let network = Network::before(&target, &load);
    let started = base::timestamp_now();
    let progress = Waiting::new(flags, global);
    let base_slice = Slice {
        mode,
        lead_in: Nanos::ZERO,
        window: flags.duration,
        requests: None,
        drain: load.timeout,
    };
    if flags.warmup > Nanos::ZERO {
        session.run(&Slice { window: flags.warmup, ..base_slice })?;
    }
    let began = base::timestamp_now();
    let seen = session.run(&Slice { requests: flags.requests, ..base_slice })?;
    drop(progress);
    let warnings = network.warnings(machine.connection_tracking, &seen);
    let engine = session.engine();
    let (life, life_errors) = session.close();
    let served = match (&mut counter, served_before) {
        (Some(reader), Some(before)) => Some(settle(reader, before, life.completed)?),
        _ => None,
    };

    let whole = Ledger { counts: life, served, series: None, errors: life_errors };
    let judge = |series| LoadReport {
        client_engine: Some(engine.name().to_owned()),
        ..judge(flags, &target, learned.as_ref(), &seen, &whole, series, warnings.clone())
    };
    remember_client(&judge(None), &mut machine);
    let as_run = |report: &LoadReport| as_run(flags, report, &seen, started, seed, machine.clone());
    let slice = SliceSeen::new(began, Nanos::ZERO, &seen);
    let series = record_series(&mut recording, as_run(&judge(None)), &slice)?;
    let report = judge(series);
    let run = as_run(&report);
    keep(&mut recording, &run).map_err(Failure::new)?;
    if let Some(file) = &flags.hdr {
        output::write_file(file, &hdr_log(&seen, started)?)?;
    }
    match &flags.json {
        Some(file) => output::write_file(file, &pretty(&report.to_json()))?,
        None => output::print(&report.terminal(&output::style(global.color))),
    }
    let nothing = seen.counts.completed == 0 && seen.counts.sent == 0;
    if nothing {
        return Err(Failure::new("stopped before anything was measured"));
    }
    Ok(if report.reasons.is_empty() { Status::Well } else { Status::VerdictFailed })
}

/// Records the one trial of a load with its series, which is read back.
fn record_series(
    recording: &mut Recording,
    mut run: Run,
    slice: &SliceSeen,
) -> Result<Option<u64>, Failure> {
    let blocks = std::mem::take(&mut run.parts[0].blocks);
    recording.begin(&run).map_err(Failure::new)?;
    let Some((block, trial)) = blocks.iter().find_map(|b| Some((b.index, b.trials.first()?)))
    else {
        return Ok(None);
    };
    let slices = std::slice::from_ref(slice);
    recording.trial(&run, 0, block, trial, slices).map_err(Failure::new)
}

/// Completes the record of a load.
fn keep(recording: &mut Recording, run: &Run) -> Result<(), String> {
    for (index, part) in run.parts.iter().enumerate() {
        for block in &part.blocks {
            recording.block(run, index, block)?;
        }
        recording.part_done(run, index, part)?;
    }
    recording.finish(run)
}

/// The server's count over the life of our connections, once it has caught up or had a second to.
fn settle(reader: &mut stage::served::Reader, before: u64, completed: u64) -> Result<u64, Failure> {
    let began = std::time::Instant::now();
    loop {
        let served = reader.read()?.saturating_sub(before);
        if served == completed || began.elapsed() > Duration::from_secs(1) {
            return Ok(served);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Everything that `load` reports, with the reasons for which it is not to be believed.
fn judge(
    flags: &LoadFlags,
    target: &Target,
    learned: Option<&Learned>,
    seen: &Observation,
    whole: &Ledger,
    series: Option<u64>,
    mut warnings: Vec<String>,
) -> LoadReport {
    let mut ledger =
        Ledger { counts: seen.counts, served: None, series, errors: seen.errors.clone() };
    // Probes and warm-up are part of the server's count; what remains is this slice's.
    if let Some(served) = whole.served {
        let outside = whole.counts.completed - seen.counts.completed;
        ledger.served = Some(served.saturating_sub(outside));
    }
    let tolerance = if flags.rate.is_some() { Tolerance::OPEN } else { Tolerance::CLOSED };
    let mut reasons: Vec<String> =
        ledger.audit(tolerance).into_iter().map(|gap| gap.sentence).collect();
    if let Some(learned) = learned {
        if let Some(status) = learned.status
            && status >= 400
            && flags.request.expect_status.is_none()
        {
            reasons.push(format!(
                "the first answer was status {status}; if that is what you want to measure, say --expect-status {status}"
            ));
        }
        if learned.varies {
            warnings.push("the body varies from answer to answer: status, framing and length are checked, its bytes are not".to_owned());
        }
    }
    let threads = &seen.threads;
    let busy = threads.iter().map(|t| t.cpu.0 as f64 / t.wall.0.max(1) as f64).fold(0.0, f64::max);
    // A thread that spins is busy all the time, whatever it waits for.
    if busy > 0.9 && flags.rate.is_none() && !flags.request.busy_poll {
        warnings.push(format!(
            "client-limited: a client thread was busy {:.0}% of the time; try --threads {}",
            100.0 * busy,
            flags.request.threads + 1
        ));
    }
    let buckets: Vec<f64> = whole_steps(seen).iter().map(|n| *n as f64).collect();
    if let Some(drift) = stats::drift(&buckets) {
        warnings.push(format!(
            "not steady: throughput changed by {:+.0}% after {}",
            100.0 * drift.change,
            Nanos(drift.at as u64 * seen.step.0)
        ));
    }
    if seen.counts.dropped > 0 {
        warnings.push(format!(
            "{} requests were dropped because the server was too far behind",
            seen.counts.dropped
        ));
    }
    let open = flags.rate.is_some();
    LoadReport {
        target: target.to_string(),
        load: load_words(flags),
        reasons,
        warnings,
        ledger,
        duration: seen.window.length,
        completed_in_window: seen.window.completed,
        payload_bytes: seen.window.payload_bytes,
        bulk: flags.request.exchange == Some(ExchangeKind::Bulk),
        offered_per_s: flags.rate,
        latency: open.then(|| Distribution::from_histogram(&seen.latency)),
        service_time: Distribution::from_histogram(&seen.service_time),
        lateness: open.then(|| Distribution::from_histogram(&seen.lateness)),
        client_cpu: threads.iter().fold(Nanos::ZERO, |sum, t| sum + t.cpu),
        client_threads: threads.len() as u32,
        client_thread_cpu: threads.iter().map(|thread| thread.cpu).collect(),
        client_engine: None,
        step: seen.step,
        completed_by_step: seen.completed_by_step.clone(),
    }
}

/// `10 connections, kept alive, closed loop`.
fn load_words(flags: &LoadFlags) -> String {
    let plural = if flags.request.connections == 1 { "" } else { "s" };
    let mut words = format!("{} connection{plural}", flags.request.connections);
    if flags.request.new_connection {
        words += ", a new one for each request";
    }
    match flags.rate {
        None => words += ", closed loop",
        Some(rate) => words += &format!(", open loop at {}/s", base::format_rate(rate)),
    }
    if flags.request.busy_poll {
        words += ", busy polling";
    }
    if flags.request.linger_zero {
        words += ", closed by reset (SO_LINGER 0)";
    }
    words
}

/// Keeps with the machine what a recorded run has no columns for.
fn remember_client(report: &LoadReport, machine: &mut Machine) {
    let times: Vec<String> = report.client_thread_cpu.iter().map(|cpu| cpu.0.to_string()).collect();
    for (name, value) in [
        (report::CLIENT_THREADS, report.client_threads.to_string()),
        (report::CLIENT_THREAD_CPU, times.join(" ")),
        (report::CLIENT_ENGINE, report.client_engine.clone().unwrap_or_default()),
    ] {
        machine.facts.insert(name.to_owned(), value);
    }
}

/// The steps that lie wholly inside the window.
fn whole_steps(seen: &Observation) -> &[u64] {
    let whole = (seen.window.length.0 / seen.step.0.max(1)) as usize;
    &seen.completed_by_step[..whole.min(seen.completed_by_step.len())]
}

/// The same as a recorded run of one block.
fn as_run(
    flags: &LoadFlags,
    report: &LoadReport,
    seen: &Observation,
    started: base::Timestamp,
    seed: Seed,
    machine: Machine,
) -> Run {
    let offer = if flags.rate.is_some() { "open" } else { "closed" };
    let trial = record::Trial {
        variant: 0,
        offer: offer.to_owned(),
        offered_per_s: flags.rate,
        started,
        slices: 1,
        window: seen.window.length,
        completed_in_window: seen.window.completed,
        payload_bytes: seen.window.payload_bytes,
        ledger: report.ledger.clone(),
        latency: report.latency.clone(),
        service_time: report.service_time.clone(),
        lateness: report.lateness.clone(),
        stack_cpu: None,
        machine_busy: None,
        client_cpu: report.client_cpu,
        client_busy: report.client_cpu.0 as f64 / seen.elapsed.0.max(1) as f64,
        peak_memory_bytes: None,
        completed_by_step: seen.completed_by_step.clone(),
        step: seen.step,
        env_padding_bytes: 0,
    };
    let block = record::Block {
        index: 1,
        started,
        elapsed: seen.elapsed,
        order: vec![0],
        rejected: Vec::new(),
        canary: [Nanos::ZERO; 2],
        steal: 0.0,
        lives: vec![record::Life { variant: 0, ledger: report.ledger.clone() }],
        trials: vec![trial],
    };
    let variant = record::Variant {
        name: report.target.clone(),
        commands: Vec::new(),
        target: report.target.clone(),
        served_by: flags.served_by.clone(),
        skipped: None,
        ledger: report.ledger.clone(),
        summaries: Vec::new(),
    };
    let warning = |sentence: &String| record::Finding {
        check: "load".to_owned(),
        severity: Severity::Warning,
        block: Some(1),
        variant: Some(0),
        value: 0.0,
        limit: 0.0,
        sentence: sentence.clone(),
    };
    let part = record::Part {
        name: "load".to_owned(),
        question: format!("How fast is {}?", report.target),
        layout: flags.cpus.as_ref().map_or_else(
            || "client not pinned".to_owned(),
            |cpus| format!("client on CPUs {cpus}"),
        ),
        load: report.load.clone(),
        variants: vec![variant],
        blocks: vec![block],
        comparisons: Vec::new(),
        findings: report.warnings.iter().map(warning).collect(),
        published: Vec::new(),
        reasons: report.reasons.clone(),
        precision: 0.0,
        quick: false,
        bulk: report.bulk,
    };
    Run {
        id: RunId::new(started, u64::from(std::process::id()) ^ seed.0),
        kind: RunKind::Load,
        state: RunState::Done,
        name: "load".to_owned(),
        title: report.target.clone(),
        question: part.question.clone(),
        started,
        finished: Some(base::timestamp_now()),
        command_line: super::measure::repeating_command(seed),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed,
        plan: String::new(),
        machine,
        reasons: Vec::new(),
        parts: vec![part],
    }
}

/// The latencies as an HdrHistogram interval log with one interval.
fn hdr_log(seen: &Observation, started: base::Timestamp) -> Result<String, Failure> {
    use hdrhistogram::serialization::V2DeflateSerializer;
    use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
    let histogram = if seen.latency.is_empty() { &seen.service_time } else { &seen.latency };
    let mut text = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut write = || -> Result<(), String> {
        let mut writer = IntervalLogWriterBuilder::new()
            .add_comment("times in nanoseconds; written by tachograph")
            .with_start_time(std::time::SystemTime::from(started))
            .with_base_time(std::time::SystemTime::from(started))
            .with_max_value_divisor(1.0)
            .begin_log_with(&mut text, &mut serializer)
            .map_err(|error| error.to_string())?;
        writer
            .write_histogram(histogram, Duration::ZERO, Duration::from(seen.elapsed), None)
            .map_err(|error| format!("{error:?}"))
    };
    write().map_err(|error| Failure::new(format!("cannot write the histogram log: {error}")))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A line on the terminal while the load runs.
struct Waiting(Option<indicatif::ProgressBar>);

impl Waiting {
    fn new(flags: &LoadFlags, global: &Global) -> Waiting {
        let wanted = !global.quiet && output::progress_wanted();
        Waiting(wanted.then(|| {
            let bar = indicatif::ProgressBar::new_spinner();
            let until = match flags.requests {
                Some(n) => format!("{} requests", base::format_count(n)),
                None => format!("{}", flags.warmup + flags.duration),
            };
            bar.set_message(format!("loading {} with {until}", flags.target));
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        }))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// JSON as people like to read it, ending in a newline.
fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}
