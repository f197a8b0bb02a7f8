//! Draws trials, blocks and parts from a seed, and summarises them.

use super::*;

/// Properties of a variant.
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) command: &'static str,
    pub(super) target: &'static str,
    pub(super) rate_per_s: f64,
    /// Scatter of blocks, as a standard deviation of the logarithm.
    pub(super) scatter: f64,
    pub(super) cpu_ns: f64,
    pub(super) memory_bytes: u64,
}

pub(super) const CONNECTIONS: f64 = 10.0;
pub(super) const STEP: Nanos = Nanos::from_millis(250);

pub(super) struct Maker {
    pub(super) rng: Rng,
}

impl Maker {
    pub(super) fn normal(&mut self) -> f64 {
        let (a, b): (f64, f64) =
            (self.rng.random_range(1e-12..1.0), self.rng.random_range(0.0..1.0));
        (-2.0 * a.ln()).sqrt() * (TAU * b).cos()
    }

    /// Log-normal times with one request in fifty on a slow path.
    pub(super) fn times(&mut self, count: u64, median_ns: f64, sigma: f64) -> Distribution {
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

    pub(super) fn series(&mut self, completed: u64, steps: u64) -> Vec<u64> {
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

    pub(super) fn trial(
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
            handshakes: None,
            disruption: None,
            kinds: Vec::new(),
            stream: None,
            profile: None,
        }
    }

    pub(super) fn block(
        &mut self,
        shapes: &[Shape],
        index: u32,
        at: Timestamp,
        open: Option<f64>,
    ) -> Block {
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
            elapsed: Nanos::from_millis(28_400),
            order,
            canary: [Nanos::from_micros(200_350), Nanos::from_micros(200_610)],
            steal: Some(0.002 * self.rng.random_range(0.0..1.0)),
            trials,
            ..Block::new(index, at, BlockState::Complete)
        }
    }
}

/// Two-sided 97.5% points of Student's t, accurate enough for a chart.
pub(super) fn t_975(blocks: usize) -> f64 {
    1.96 + 2.6 / (blocks.max(2) as f64 - 1.0)
}

pub(super) fn geometric(values: &[f64]) -> Estimate {
    let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let half = t_975(logs.len()) * (variance / n).sqrt();
    Estimate { value: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() }
}

fn times(trial: &Trial) -> &Distribution {
    trial.latency.as_ref().unwrap_or(&trial.service_time)
}

fn per_request(trial: &Trial, time: Option<Nanos>) -> f64 {
    time.unwrap().0 as f64 / trial.ledger.counts.completed as f64
}

pub(super) fn figure(trial: &Trial, metric: Metric) -> f64 {
    match metric {
        Metric::Throughput => trial.throughput_per_s(),
        Metric::P50 => times(trial).p50_ns as f64,
        Metric::P99 => times(trial).p99_ns as f64,
        Metric::Cpu => per_request(trial, trial.stack_cpu),
        Metric::Memory => trial.peak_memory_bytes.unwrap() as f64,
    }
}

fn values(blocks: &[Block], variant: u32, offer: Offer, of: &dyn Fn(&Trial) -> f64) -> Vec<f64> {
    let trials = blocks.iter().filter(|b| b.is_complete()).flat_map(|b| &b.trials);
    trials.filter(|t| t.variant == variant && t.offer == offer).map(of).collect()
}

pub(super) fn summary(
    blocks: &[Block],
    variant: u32,
    offer: Offer,
    offered_per_s: Option<f64>,
) -> Summary {
    let estimate = |of: &dyn Fn(&Trial) -> f64| geometric(&values(blocks, variant, offer, of));
    let of = |metric| estimate(&|trial| figure(trial, metric));
    let throughput_per_s = of(Metric::Throughput);
    Summary {
        offer,
        offered_per_s,
        throughput_per_s,
        bytes_per_s: throughput_per_s.value * 12.0,
        p50_ns: of(Metric::P50),
        p90_ns: estimate(&|trial| times(trial).p90_ns as f64),
        p99_ns: of(Metric::P99),
        cpu_ns_per_request: Some(of(Metric::Cpu)),
        machine_ns_per_request: Some(estimate(&|trial| per_request(trial, trial.machine_busy))),
        peak_memory_bytes: blocks
            .iter()
            .flat_map(|b| &b.trials)
            .filter(|t| t.variant == variant)
            .filter_map(|t| t.peak_memory_bytes)
            .max(),
    }
}

pub(super) fn comparison(
    part: &Part,
    variant: u32,
    metric: Metric,
    offer: Offer,
    adjusted_for: u32,
) -> Comparison {
    let of = |variant| values(&part.blocks, variant, offer, &|trial| figure(trial, metric));
    let (a, b) = (of(0), of(variant));
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
        biases: Vec::new(),
    };
    Comparison { baseline: 0, variant, metric, offer, primary, judgement, because: Vec::new() }
}

pub(super) fn machine() -> Machine {
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
        wake: None,
        facts: [("gunicorn", "23.0.0"), ("python", "3.13.5")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
    }
}

pub(super) fn part(
    seed: u64,
    shapes: &[Shape],
    blocks: u32,
    open: Option<f64>,
    started: Timestamp,
) -> Part {
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
        layout: Layout { client: CpuSet::one(1), stack: CpuSet::one(0), ..Layout::default() },
        load: Load { connections: 10, threads: 1, engines: vec![Engine::Epoll], ..Load::default() },
        blocks,
        precision: 0.01,
        disturbance: Some(Disturbance {
            other_cpus: Some(0.01),
            stolen: Some(0.0),
            rounds: 20 * block_count,
            rounds_left_out: 0,
            half_width: Some(0.005),
            half_width_if_quiet: Some(0.005),
        }),
        ..Part::default()
    };
    for (variant, shape) in shapes.iter().enumerate() {
        part.variants.push(Variant {
            name: shape.name.to_owned(),
            commands: vec![shape.command.to_owned()],
            target: shape.target.to_owned(),
            served_by: Some(ServedBy::Wsgi),
            ..Variant::default()
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

pub(super) fn summarise(part: &mut Part, variant: usize, open: Option<f64>) {
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

pub(super) fn run(
    id: &str,
    kind: RunKind,
    name: &str,
    title: &str,
    question: &str,
    parts: Vec<Part>,
) -> Run {
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
        version: record::version_with_method("0.1.0"),
        seed: Seed(4711),
        plan: String::new(),
        machine: machine(),
        error: None,
        parts,
    }
}

pub(super) fn at() -> Timestamp {
    "2026-11-21T07:15:30.25Z".parse().unwrap()
}
