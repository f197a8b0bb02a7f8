//! Realistic runs, from a fixed seed.
#![allow(dead_code, clippy::unwrap_used)] // each test file uses some of them; a sample may fail its test

use std::f64::consts::TAU;
use std::sync::OnceLock;

use base::{CpuSet, Nanos, Rng, RunId, Seed, Timestamp};
use hdrhistogram::Histogram;
use ledger::{Counts, Discrepancy, Law, Ledger};
use rand::RngExt;
use record::*;
use stats::{Estimate, Judgement, Opinion, Verdict};

/// Properties of a variant.
struct Shape {
    name: &'static str,
    command: &'static str,
    target: &'static str,
    rate_per_s: f64,
    /// Scatter of blocks, as a standard deviation of the logarithm.
    scatter: f64,
    cpu_ns: f64,
    memory_bytes: u64,
}

const CONNECTIONS: f64 = 10.0;
const STEP: Nanos = Nanos::from_millis(250);

struct Maker {
    rng: Rng,
}

impl Maker {
    fn normal(&mut self) -> f64 {
        let (a, b): (f64, f64) =
            (self.rng.random_range(1e-12..1.0), self.rng.random_range(0.0..1.0));
        (-2.0 * a.ln()).sqrt() * (TAU * b).cos()
    }

    /// Log-normal times with one request in fifty on a slow path.
    fn times(&mut self, count: u64, median_ns: f64, sigma: f64) -> Distribution {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        let draws = count.min(8_000);
        for i in 0..draws {
            let mut value = median_ns * (sigma * self.normal()).exp();
            if self.rng.random_range(0..50) == 0 {
                value *= 2.2 * (0.3 * self.normal()).exp();
            }
            let copies = count / draws + u64::from(i < count % draws);
            histogram.record_n(value as u64, copies).unwrap();
        }
        Distribution::from_histogram(&histogram)
    }

    fn series(&mut self, completed: u64, steps: u64) -> Vec<u64> {
        let mut left = completed;
        let mut series = Vec::new();
        for step in 0..steps - 1 {
            let share = left as f64 / (steps - step) as f64;
            let count = (share + self.normal() * share.sqrt() * 2.0).max(0.0) as u64;
            series.push(count.min(left));
            left -= count.min(left);
        }
        series.push(left);
        series
    }

    fn trial(
        &mut self,
        shape: &Shape,
        variant: u32,
        at: Timestamp,
        open: Option<f64>,
        block: f64,
    ) -> Trial {
        let window = Nanos::from_secs(5);
        let own = shape.rate_per_s * block * (shape.scatter * self.normal()).exp();
        let rate = open.unwrap_or(own);
        let completed = (rate * 5.0).round() as u64;
        let all = completed + (rate * 0.6) as u64;
        let closed_ns = CONNECTIONS / own * 1e9;
        let service_ns = if open.is_some() { closed_ns * 0.16 } else { closed_ns * 0.97 };
        let jitter = (shape.scatter * self.normal()).exp();
        let service_time =
            self.times(completed, service_ns * jitter, if open.is_some() { 0.35 } else { 0.09 });
        let latency = open.map(|_| self.times(completed, service_ns * jitter * 1.04, 0.37));
        let lateness = open.map(|_| self.times(completed, 4_200.0, 0.5));
        let slice = |round: u32| Slice {
            round,
            window: Nanos::from_millis(250),
            completed: completed / 20 + u64::from(u64::from(round) < completed % 20),
            other_cpus: Some(0.01 * f64::from(round % 4)),
            stolen: Some(0.0),
            kept: true,
        };
        let slices = (0..20).map(slice).collect();
        let cpu = shape.cpu_ns * (0.006 * self.normal()).exp() * all as f64;
        Trial {
            variant,
            offer: if open.is_some() { Offer::Open } else { Offer::Closed },
            offered_per_s: open,
            started: at,
            slices,
            window,
            completed_in_window: completed,
            payload_bytes: completed * 12,
            ledger: Ledger {
                counts: Counts { offered: all, sent: all, completed: all, ..Counts::default() },
                served: Some(all),
                series: Some(all),
                ..Ledger::default()
            },
            latency,
            service_time,
            lateness,
            stack_cpu: Some(Nanos(cpu as u64)),
            machine_busy: Some(Nanos((cpu * 1.31) as u64)),
            client: vec![ThreadUse {
                cpu: Nanos((all as f64 * 9_400.0) as u64),
                wall: Nanos::from_millis(5_600),
            }],
            peak_memory_bytes: Some(shape.memory_bytes + self.rng.random_range(0..60) * 4096),
            completed_by_step: self.series(all, 23),
            step: STEP,
            env_padding_bytes: self.rng.random_range(0..4096),
        }
    }

    fn block(&mut self, shapes: &[Shape], index: u32, at: Timestamp, open: Option<f64>) -> Block {
        let level = (0.012 * self.normal()).exp();
        let mut order: Vec<u32> = (0..10).map(|i| i % shapes.len() as u32).collect();
        let mirror: Vec<u32> = order.iter().rev().copied().collect();
        order.extend(mirror);
        let mut trials = Vec::new();
        for offer in [None].into_iter().chain(open.map(Some)) {
            for (variant, shape) in shapes.iter().enumerate() {
                trials.push(self.trial(shape, variant as u32, at, offer, level));
            }
        }
        Block {
            index,
            started: at,
            elapsed: Nanos::from_millis(28_400),
            order,
            state: BlockState::Complete,
            canary: [Nanos::from_micros(200_350), Nanos::from_micros(200_610)],
            steal: Some(0.002 * self.rng.random_range(0.0..1.0)),
            trials,
            lives: Vec::new(),
        }
    }
}

/// Two-sided 97.5% points of Student's t, accurate enough for a chart.
fn t_975(blocks: usize) -> f64 {
    1.96 + 2.6 / (blocks.max(2) as f64 - 1.0)
}

fn geometric(values: &[f64]) -> Estimate {
    let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let half = t_975(logs.len()) * (variance / n).sqrt();
    Estimate { value: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() }
}

/// Figures of a summary other than metrics.
#[derive(Clone, Copy)]
enum Figure {
    Of(Metric),
    P90,
    Machine,
}

fn figure(trial: &Trial, figure: Figure) -> f64 {
    let times = trial.latency.as_ref().unwrap_or(&trial.service_time);
    let completed = trial.ledger.counts.completed as f64;
    match figure {
        Figure::Of(Metric::Throughput) => trial.throughput_per_s(),
        Figure::Of(Metric::P50) => times.p50_ns as f64,
        Figure::P90 => times.p90_ns as f64,
        Figure::Of(Metric::P99) => times.p99_ns as f64,
        Figure::Of(Metric::Cpu) => trial.stack_cpu.unwrap().0 as f64 / completed,
        Figure::Of(Metric::Memory) => trial.peak_memory_bytes.unwrap() as f64,
        Figure::Machine => trial.machine_busy.unwrap().0 as f64 / completed,
    }
}

fn values(blocks: &[Block], variant: u32, offer: Offer, of: Figure) -> Vec<f64> {
    let trials = blocks.iter().filter(|b| b.is_complete()).flat_map(|b| &b.trials);
    trials.filter(|t| t.variant == variant && t.offer == offer).map(|t| figure(t, of)).collect()
}

fn summary(blocks: &[Block], variant: u32, offer: Offer, offered_per_s: Option<f64>) -> Summary {
    let estimate = |of| geometric(&values(blocks, variant, offer, of));
    let throughput_per_s = estimate(Figure::Of(Metric::Throughput));
    Summary {
        offer,
        offered_per_s,
        throughput_per_s,
        bytes_per_s: throughput_per_s.value * 12.0,
        p50_ns: estimate(Figure::Of(Metric::P50)),
        p90_ns: estimate(Figure::P90),
        p99_ns: estimate(Figure::Of(Metric::P99)),
        cpu_ns_per_request: Some(estimate(Figure::Of(Metric::Cpu))),
        machine_ns_per_request: Some(estimate(Figure::Machine)),
        peak_memory_bytes: blocks
            .iter()
            .flat_map(|b| &b.trials)
            .filter(|t| t.variant == variant)
            .filter_map(|t| t.peak_memory_bytes)
            .max(),
    }
}

fn comparison(
    part: &Part,
    variant: u32,
    metric: Metric,
    offer: Offer,
    adjusted_for: u32,
) -> Comparison {
    let a = values(&part.blocks, 0, offer, Figure::Of(metric));
    let b = values(&part.blocks, variant, offer, Figure::Of(metric));
    let ratios: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b / a).collect();
    let ratio = geometric(&ratios);
    let primary = metric == Metric::Throughput;
    let higher_is_better = metric == Metric::Throughput;
    let verdict = match (ratio.low > 1.0, ratio.high < 1.0) {
        _ if ratios.len() < stats::DECIDING_BLOCKS_MIN => Verdict::Inconclusive,
        (true, _) if higher_is_better => Verdict::Faster,
        (true, _) => Verdict::Slower,
        (_, true) if higher_is_better => Verdict::Slower,
        (_, true) => Verdict::Faster,
        _ if ratio.high - ratio.low < 0.04 => Verdict::NoDifference,
        _ => Verdict::Inconclusive,
    };
    let judgement = Judgement {
        ratio,
        verdict,
        precision: part.precision,
        confidence: 0.95,
        adjusted_for: if primary { adjusted_for } else { 1 },
        margin: None,
        blocks: ratios.len() as u32,
        merged: 1,
        second_opinion_p: Some(0.001),
        second_opinion: Opinion::Agrees,
        anytime: false,
        more_blocks: (verdict == Verdict::Inconclusive).then_some(38),
    };
    Comparison { baseline: 0, variant, metric, offer, primary, judgement, because: Vec::new() }
}

fn machine() -> Machine {
    Machine {
        cpu_model: "AMD EPYC 7B13".to_owned(),
        cpus: 2,
        memory_bytes: 8 << 30,
        kernel: "6.12.5-amd64".to_owned(),
        os: "Debian GNU/Linux 13 (trixie)".to_owned(),
        hypervisor: Some("KVM".to_owned()),
        governor: None,
        connection_tracking: Some(false),
        cgroup: 2,
        facts: [("gunicorn", "23.0.0"), ("python", "3.13.5")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
    }
}

fn part(seed: u64, shapes: &[Shape], blocks: u32, open: Option<f64>, started: Timestamp) -> Part {
    let mut maker = Maker { rng: Seed(seed).rng("sample") };
    let block_count = blocks;
    let blocks: Vec<Block> = (1..=blocks)
        .map(|index| {
            let at = started.as_second() + i64::from(index) * 29;
            maker.block(shapes, index, Timestamp::from_second(at).unwrap(), open)
        })
        .collect();
    let mut part = Part {
        name: "main".to_owned(),
        question: "Which of them serves more?".to_owned(),
        layout: Layout { client: CpuSet::one(1), stack: CpuSet::one(0) },
        load: Load { connections: 10, threads: 1, engines: vec![Engine::Epoll], ..Load::default() },
        variants: Vec::new(),
        blocks,
        comparisons: Vec::new(),
        findings: Vec::new(),
        published: Vec::new(),
        precision: 0.01,
        quick: false,
        disturbance: Some(Disturbance {
            other_cpus: Some(0.01),
            stolen: Some(0.0),
            rounds: 20 * block_count,
            rounds_left_out: 0,
            half_width: Some(0.005),
            half_width_if_quiet: Some(0.005),
        }),
    };
    for (variant, shape) in shapes.iter().enumerate() {
        part.variants.push(Variant {
            name: shape.name.to_owned(),
            commands: vec![shape.command.to_owned()],
            target: shape.target.to_owned(),
            served_by: Some(ServedBy::Wsgi),
            skipped: None,
            ceiling: false,
            ledger: Ledger::default(),
            summaries: Vec::new(),
        });
        summarise(&mut part, variant, open);
    }
    let others = shapes.len() as u32 - 1;
    for variant in 1..=others {
        for (metric, offer) in [
            (Metric::Throughput, Offer::Closed),
            (Metric::P50, Offer::Open),
            (Metric::P99, Offer::Open),
            (Metric::Cpu, Offer::Closed),
        ] {
            if offer == Offer::Closed || open.is_some() {
                let comparison = comparison(&part, variant, metric, offer, others);
                part.comparisons.push(comparison);
            }
        }
    }
    part.comparisons.sort_by_key(|c| !c.primary);
    part
}

fn summarise(part: &mut Part, variant: usize, open: Option<f64>) {
    let mut ledger = Ledger { served: Some(0), series: Some(0), ..Ledger::default() };
    for trial in part.blocks.iter().filter(|b| b.is_complete()).flat_map(|b| &b.trials) {
        if trial.variant == variant as u32 {
            ledger.extend(&trial.ledger);
        }
    }
    let mut summaries = vec![summary(&part.blocks, variant as u32, Offer::Closed, None)];
    if open.is_some() {
        summaries.push(summary(&part.blocks, variant as u32, Offer::Open, open));
    }
    part.variants[variant].ledger = ledger;
    part.variants[variant].summaries = summaries;
}

fn run(id: &str, kind: RunKind, name: &str, title: &str, question: &str, parts: Vec<Part>) -> Run {
    let started: Timestamp = "2026-11-21T07:15:30.25Z".parse().unwrap();
    Run {
        id: RunId(id.to_owned()),
        kind,
        state: RunState::Done,
        name: name.to_owned(),
        title: title.to_owned(),
        question: question.to_owned(),
        started,
        finished: Some("2026-11-21T07:21:48.75Z".parse().unwrap()),
        command_line: ["tachograph", "run", name, "--seed", "4711"].map(str::to_owned).to_vec(),
        version: "0.1.0".to_owned(),
        seed: Seed(4711),
        plan: String::new(),
        machine: machine(),
        error: None,
        parts,
    }
}

fn at() -> Timestamp {
    "2026-11-21T07:15:30.25Z".parse().unwrap()
}

const TCP: Shape = Shape {
    name: "tcp",
    command: "gunicorn -b 127.0.0.1:$PORT server:app",
    target: "http://127.0.0.1:$PORT/",
    rate_per_s: 1_837.0,
    scatter: 0.006,
    cpu_ns: 492_000.0,
    memory_bytes: 41 << 20,
};
const UNIX: Shape = Shape {
    name: "unix",
    command: "gunicorn -b unix:$SOCKET server:app",
    target: "http://unix:$SOCKET:/",
    rate_per_s: 2_056.0,
    scatter: 0.007,
    cpu_ns: 441_000.0,
    memory_bytes: 41 << 20,
};

fn published(variant: Option<&str>, figure: &str, throughput_per_s: Option<f64>) -> Published {
    Published {
        variant: variant.map(str::to_owned),
        figure: figure.to_owned(),
        throughput_per_s,
        source: "2017, 2 cores, Flask 0.12, gunicorn 19.6".to_owned(),
    }
}

/// Two variants, twelve complete blocks and a failed one, closed and open loop, on a machine with
/// other activity.
pub(crate) fn tcp_unix() -> Run {
    // Many samples are variations of this one, and generating its requests takes longest.
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(make_tcp_unix).clone()
}

fn make_tcp_unix() -> Run {
    let mut part = part(1, &[TCP, UNIX], 12, Some(918.0), at());
    part.published = vec![
        published(Some("tcp"), "1,837 req/s, latency 5.44 ms mean", Some(1_837.0)),
        published(Some("unix"), "2,019 req/s, latency 4.95 ms mean", Some(2_019.0)),
    ];
    let mut bad = part.blocks[4].clone();
    bad.state = BlockState::Failed;
    for (i, block) in part.blocks.iter_mut().enumerate().skip(4) {
        block.index = i as u32 + 2;
    }
    part.blocks.insert(4, bad);
    part.findings = vec![
        Finding {
            severity: Severity::Warning,
            block: Some(5),
            variant: Some(0),
            fact: Fact::StackFailed {
                error: "gunicorn ended with status 3: Worker failed to boot".to_owned(),
            },
        },
        Finding::of_variant(Severity::Warning, 1, Fact::NullServer { factor: 2.4, limit: 3.0 }),
    ];
    part.disturbance = Some(Disturbance {
        other_cpus: Some(0.31),
        stolen: Some(0.0),
        rounds: 96,
        rounds_left_out: 12,
        half_width: Some(0.009),
        half_width_if_quiet: Some(0.006),
    });
    run(
        "20261121-071530-k3f9",
        RunKind::Run,
        "flask-gunicorn-nginx",
        "Flask behind gunicorn: TCP or a Unix socket?",
        "Should nginx reach the app by TCP or by a Unix socket?",
        vec![part],
    )
}

/// Commands as names, as in `compare`, with everything that could break a page.
pub(crate) fn hostile() -> Run {
    let names = [
        "gunicorn -b 127.0.0.1:$PORT --access-logfile '/tmp/a b.log' 'server:app' # <b>&\"",
        "sh -c 'exec gunicorn -b unix:$SOCKET \"server:app\"' </dev/null | tee *.log `id`",
    ];
    let mut run = tcp_unix();
    run.kind = RunKind::Compare;
    run.name = "compare".to_owned();
    run.title = "compare </title><script>alert(1)</script>".to_owned();
    run.command_line = vec!["tachograph".to_owned(), "compare".to_owned()];
    run.command_line.extend(names.map(str::to_owned));
    for (variant, name) in run.parts[0].variants.iter_mut().zip(names) {
        variant.name = name.to_owned();
        variant.commands = vec![name.to_owned()];
    }
    run.parts[0].published.clear();
    run
}

/// Five variants, one of them skipped, no open loop.
pub(crate) fn layers() -> Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(make_layers).clone()
}

fn make_layers() -> Run {
    let shape =
        |name, command, rate_per_s, scatter| Shape { name, command, rate_per_s, scatter, ..TCP };
    let shapes = [
        shape("gunicorn-sync", "gunicorn -k sync app:app", 1_840.0, 0.01),
        shape("gunicorn-gthread", "gunicorn -k gthread app:app", 1_848.0, 0.011),
        shape("uvicorn", "uvicorn app:app", 3_950.0, 0.03),
        shape("granian", "granian --interface wsgi app:app", 9_800.0, 0.02),
        shape("uwsgi", "uwsgi --http :$PORT", 2_391.0, 0.06),
    ];
    let mut part = part(2, &shapes, 16, None, at());
    part.variants.push(Variant {
        name: "mod_wsgi".to_owned(),
        commands: vec!["apache2 -X -f $DIR/httpd.conf".to_owned()],
        target: "http://127.0.0.1:$PORT/".to_owned(),
        served_by: None,
        ceiling: false,
        skipped: Some(
            "apache2 is not installed: apt install apache2 libapache2-mod-wsgi-py3".to_owned(),
        ),
        ledger: Ledger::default(),
        summaries: Vec::new(),
    });
    part.published = vec![published(Some("uwsgi"), "2,391 req/s", Some(2_391.0))];
    part.quick = true;
    run(
        "20261121-080000-p5th",
        RunKind::Run,
        "python-servers",
        "Ways of running Python behind a web server",
        "Which way of running Python behind a web server is fastest, one request at a time?",
        vec![part],
    )
}

/// Makes the comparisons of some metrics INVALID because of a new finding.
pub(crate) fn forbid(part: &mut Part, finding: Finding, metrics: &[Metric]) {
    let index = part.findings.len() as u32;
    part.findings.push(finding);
    for comparison in part.comparisons.iter_mut().filter(|c| metrics.contains(&c.metric)) {
        comparison.judgement.verdict = Verdict::Invalid;
        comparison.because.push(index);
    }
}

/// All metrics: those forbidden by a ledger that does not add up.
pub(crate) const ALL: [Metric; 5] =
    [Metric::Throughput, Metric::P50, Metric::P99, Metric::Cpu, Metric::Memory];

/// The server counted three requests fewer than the client.
pub(crate) fn invalid() -> Run {
    let mut run = tcp_unix();
    run.id = RunId("20261121-090000-bad1".to_owned());
    let part = &mut run.parts[0];
    let ledger = &mut part.variants[1].ledger;
    let completed = ledger.counts.completed;
    ledger.served = Some(completed - 3);
    let gap = Discrepancy { law: Law::Served, left: completed - 3, right: completed };
    forbid(part, Finding::of_variant(Severity::Invalid, 1, Fact::Ledger { gap }), &ALL);
    run
}

/// The client was late with one variant's requests: only its latency is INVALID.
pub(crate) fn late() -> Run {
    let mut run = tcp_unix();
    run.id = RunId("20261121-091500-late".to_owned());
    let fact = Fact::Uneven {
        source: Disturber::Lateness,
        other: 0,
        here: 0.003,
        there: 0.000_04,
        p: 0.000_2,
    };
    let finding = Finding::of_variant(Severity::Invalid, 1, fact);
    forbid(&mut run.parts[0], finding, &[Metric::P50, Metric::P99]);
    run
}

/// Other processes ran whenever one variant did.
pub(crate) fn uneven() -> Run {
    let mut run = tcp_unix();
    run.id = RunId("20261121-093000-even".to_owned());
    let fact = Fact::Uneven {
        source: Disturber::OtherProcesses,
        other: 0,
        here: 0.62,
        there: 0.03,
        p: 0.000_1,
    };
    forbid(&mut run.parts[0], Finding::of_variant(Severity::Invalid, 1, fact), &ALL);
    run
}

/// Stopped by Ctrl-C after five blocks.
pub(crate) fn interrupted() -> Run {
    let mut part = part(3, &[TCP, UNIX], 5, None, at());
    for comparison in &mut part.comparisons {
        let judgement = &mut comparison.judgement;
        judgement.anytime = true;
        judgement.ratio.low *= 0.97;
        judgement.ratio.high *= 1.03;
    }
    let mut run = run(
        "20261121-100000-stop",
        RunKind::Compare,
        "compare",
        "tcp against unix",
        "Which serves more?",
        vec![part],
    );
    run.state = RunState::Interrupted;
    run
}

/// Killed before the end of the first block.
pub(crate) fn cut_off() -> Run {
    let mut part = part(4, &[TCP, UNIX], 1, None, at());
    part.blocks[0].state = BlockState::Unfinished;
    part.blocks[0].trials.truncate(1);
    part.comparisons.clear();
    part.disturbance = None;
    for variant in &mut part.variants {
        variant.summaries.clear();
        variant.ledger = Ledger::default();
    }
    let mut run = run(
        "20261121-110000-kill",
        RunKind::Compare,
        "compare",
        "tcp against unix",
        "Which serves more?",
        vec![part],
    );
    run.state = RunState::Running;
    run.finished = None;
    run
}

/// One target, as `load` records it: a warm-up and a measured trial in one block.
fn load_of(open: Option<f64>) -> Run {
    let mut part = part(5, &[TCP], 1, open, at());
    let variant = &mut part.variants[0];
    variant.commands.clear();
    variant.name = "http://127.0.0.1:8000/".to_owned();
    variant.target = "http://127.0.0.1:8000/".to_owned();
    variant.served_by = None;
    variant.summaries.clear();
    let block = &mut part.blocks[0];
    // The maker makes a closed and an open trial; the last one is used.
    let mut trial = block.trials.pop().unwrap();
    trial.ledger.served = None;
    trial.stack_cpu = None;
    trial.machine_busy = None;
    trial.peak_memory_bytes = None;
    variant.ledger = trial.ledger.clone();
    let warm_up = Trial { offer: Offer::WarmUp, offered_per_s: None, ..trial.clone() };
    block.trials = vec![warm_up, trial];
    part.layout.stack = CpuSet::default();
    part.load.status = Some(200);
    part.question = "How fast is http://127.0.0.1:8000/?".to_owned();
    part.name = "load".to_owned();
    part.disturbance = None;
    part.findings.push(Finding::of_variant(Severity::Note, 0, Fact::NotServed));
    run(
        "20261121-120000-load",
        RunKind::Load,
        "load",
        "http://127.0.0.1:8000/",
        "How fast is http://127.0.0.1:8000/?",
        vec![part],
    )
}

/// One target in a closed loop.
pub(crate) fn load() -> Run {
    load_of(None)
}

/// One target in an open loop that it did not sustain, on two client threads.
pub(crate) fn load_unsustained() -> Run {
    let mut run = load_of(Some(2_000.0));
    run.id = RunId("20261121-121500-open".to_owned());
    let part = &mut run.parts[0];
    part.load.threads = 2;
    part.load.engines = vec![Engine::IoUring];
    let trial = &mut part.blocks[0].trials[1];
    let other = ThreadUse { cpu: Nanos::from_millis(310), ..trial.client[0] };
    trial.client.push(other);
    let counts = &mut trial.ledger.counts;
    counts.dropped = 7_823;
    counts.offered += counts.dropped;
    counts.failed = 2;
    counts.completed -= 2;
    counts.reconnected = 4;
    trial.ledger.series = Some(counts.completed);
    trial.completed_by_step[0] -= 2;
    trial.ledger.errors.insert("timeout".to_owned(), 2);
    part.variants[0].ledger = trial.ledger.clone();
    let counts = trial.ledger.counts;
    let fact = Fact::Unsustained {
        achieved: counts.completed as f64 / counts.offered as f64,
        limit: 0.99,
        dropped: counts.dropped,
        connections_cap: Some(10),
    };
    part.findings.insert(0, Finding::of_variant(Severity::Invalid, 0, fact));
    let busy = Fact::ClientBusy { share: 0.97, threads: 2 };
    part.findings.push(Finding::of_variant(Severity::Warning, 0, busy));
    run
}

/// Streams of bytes, in GB/s, in two parts.
pub(crate) fn bulk() -> Run {
    let shapes = [
        Shape { rate_per_s: 41_000.0, scatter: 0.02, ..TCP },
        Shape { rate_per_s: 66_000.0, scatter: 0.02, ..UNIX },
    ];
    let mut first = part(6, &shapes, 6, None, at());
    first.load.exchange = Exchange::Bulk { bytes: 65_536 };
    first.name = "bulk".to_owned();
    first.question = "How many bytes per second go through?".to_owned();
    for variant in &mut first.variants {
        for summary in &mut variant.summaries {
            summary.bytes_per_s = summary.throughput_per_s.value * 65_536.0;
        }
    }
    for trial in first.blocks.iter_mut().flat_map(|b| &mut b.trials) {
        trial.payload_bytes = trial.completed_in_window * 65_536;
    }
    let mut second = part(7, &[TCP, UNIX], 6, None, at());
    second.name = "oneshot".to_owned();
    second.question = "How many connections per second?".to_owned();
    run(
        "20261121-130000-bulk",
        RunKind::Run,
        "raw-sockets",
        "A Unix socket against loopback IP, with nothing else in the way",
        "How much faster is a Unix socket than loopback TCP?",
        vec![first, second],
    )
}

/// All samples, by name.
pub(crate) fn all() -> Vec<(&'static str, Run)> {
    vec![
        ("tcp_unix", tcp_unix()),
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
    ]
}

/// The layers with too few blocks for a decision, one of them with an interval of thousands.
pub(crate) fn few_blocks() -> Run {
    let mut run = layers();
    let part = &mut run.parts[0];
    part.blocks.truncate(2);
    for comparison in &mut part.comparisons {
        let judgement = &mut comparison.judgement;
        judgement.blocks = 2;
        judgement.verdict = Verdict::Inconclusive;
        judgement.ratio.low = 0.0;
        judgement.ratio.high = 9_388_685_609.0;
        judgement.more_blocks = Some(183_823);
    }
    run
}

/// No complete block, but trials of each.
pub(crate) fn hopeless() -> Run {
    let mut part = part(9, &[TCP, UNIX], 3, Some(918.0), at());
    part.comparisons.clear();
    for variant in &mut part.variants {
        variant.summaries.clear();
    }
    for block in &mut part.blocks {
        block.state = BlockState::Failed;
        part.findings.push(Finding {
            severity: Severity::Warning,
            block: Some(block.index),
            variant: Some(1),
            fact: Fact::StackFailed { error: "gunicorn ended with status 3".to_owned() },
        });
    }
    run(
        "20261121-140000-none",
        RunKind::Compare,
        "compare",
        "tcp against unix",
        "Which serves more?",
        vec![part],
    )
}

/// A valid part beside one in which a short backlog made requests fail, with the same message in
/// every block.
pub(crate) fn refused() -> Run {
    let mut run = tcp_unix();
    run.parts[0].findings.clear();
    run.parts[0].published.clear();
    run.parts[0].name = "sockets".to_owned();
    let mut part = run.parts[0].clone();
    part.name = "short-backlog".to_owned();
    part.question = "What becomes of a short backlog of unix?".to_owned();
    part.blocks.truncate(7);
    for block in part.blocks.iter().filter(|block| block.is_complete()) {
        for offer in [Offer::WarmUp, Offer::Closed] {
            part.findings.push(Finding {
                severity: Severity::Invalid,
                block: Some(block.index),
                variant: Some(1),
                fact: Fact::Failures {
                    offer,
                    failed: 10_007,
                    sent: 18_452,
                    kinds: [("status 502".to_owned(), 10_007)].into(),
                    log: Some(
                        "nginx: connect() to unix:/1.sock failed (11: Resource temporarily unavailable)"
                            .to_owned(),
                    ),
                },
            });
        }
    }
    let because: Vec<u32> = (0..part.findings.len() as u32).collect();
    let ledger = &mut part.variants[1].ledger;
    ledger.counts.completed -= 58_889;
    ledger.counts.failed = 58_889;
    ledger.served = Some(ledger.counts.completed);
    ledger.series = Some(ledger.counts.completed);
    ledger.errors.insert("status 502".to_owned(), 58_889);
    part.comparisons.retain(|c| c.primary);
    for comparison in &mut part.comparisons {
        comparison.judgement.verdict = Verdict::Invalid;
        comparison.judgement.blocks = 6;
        comparison.because = because.clone();
    }
    run.parts.push(part);
    run.plan = "[experiment]\nname = \"x\"\nabout = \"\"\"\nOne *socket* of two kinds.\n\"\"\"\n"
        .to_owned();
    run
}
