//! Runs of every shape from one seed.

use base::{Nanos, Rng, RunId, Seed, Timestamp};
use hdrhistogram::Histogram;
use ledger::{Counts, Ledger};
use rand::RngExt;
use stats::{Estimate, Verdict};
use tachograph_record::*;

/// Draws values for every field, odd ones included.
pub(crate) struct Draw(Rng);

impl Draw {
    pub(crate) fn new(seed: u64) -> Draw {
        Draw(Seed(seed).rng("record"))
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0.random_range(0..limit)
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    fn some<T>(&mut self, draw: impl FnOnce(&mut Draw) -> T) -> Option<T> {
        self.flag().then(|| draw(self))
    }

    fn many<T>(&mut self, limit: u64, mut draw: impl FnMut(&mut Draw) -> T) -> Vec<T> {
        (0..self.below(limit)).map(|_| draw(self)).collect()
    }

    fn text(&mut self) -> String {
        const TEXTS: [&str; 8] = [
            "",
            "tcp",
            "gunicorn -b '127.0.0.1:$PORT' a:b",
            "it's \"quoted\" \\ and\nbroken",
            "naïve ≠ 日本 🦀",
            "'; DROP TABLE run; --",
            "<script>alert(1)</script>",
            "null",
        ];
        TEXTS[self.below(8) as usize].to_owned()
    }

    fn count(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::MAX - self.below(3),
            2 => (1 << 53) + self.below(9),
            _ => self.below(1_000_000),
        }
    }

    fn real(&mut self) -> f64 {
        match self.below(6) {
            0 => 0.0,
            1 => f64::INFINITY,
            2 => -0.1,
            3 => 1e300,
            _ => self.0.random_range(0.0..1e6),
        }
    }

    fn nanos(&mut self) -> Nanos {
        Nanos(self.count())
    }

    fn time(&mut self) -> Timestamp {
        Timestamp::from_nanosecond(1_795_000_000_000_000_000 + i128::from(self.below(1 << 60)))
            .unwrap()
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn estimate(&mut self) -> Estimate {
        Estimate { value: self.real(), low: self.real(), high: self.real() }
    }

    fn ledger(&mut self) -> Ledger {
        Ledger {
            counts: Counts {
                offered: self.count(),
                dropped: self.count(),
                sent: self.count(),
                completed: self.count(),
                failed: self.count(),
                in_flight: self.count(),
            },
            served: self.some(Draw::count),
            series: self.some(Draw::count),
            errors: self.many(3, |d| (d.text(), d.count())).into_iter().collect(),
        }
    }

    fn distribution(&mut self) -> Distribution {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for _ in 0..self.below(50) {
            histogram.record(self.below(1 << 40)).unwrap();
        }
        Distribution::from_histogram(&histogram)
    }

    fn trial(&mut self, variant: u32, offer: &str) -> Trial {
        Trial {
            variant,
            offer: offer.to_owned(),
            offered_per_s: self.some(Draw::real),
            started: self.time(),
            slices: self.below(40) as u32,
            window: self.nanos(),
            completed_in_window: self.count(),
            payload_bytes: self.count(),
            ledger: self.ledger(),
            latency: self.some(Draw::distribution),
            service_time: self.distribution(),
            lateness: self.some(Draw::distribution),
            stack_cpu: self.some(Draw::nanos),
            machine_busy: self.some(Draw::nanos),
            client_cpu: self.nanos(),
            client_busy: self.real(),
            peak_memory_bytes: self.some(Draw::count),
            completed_by_step: self.many(9, |d| d.below(3)),
            step: self.nanos(),
            env_padding_bytes: self.below(4096) as u32,
        }
    }

    fn block(&mut self, index: u32, variants: u32) -> Block {
        let mut trials = Vec::new();
        for variant in 0..variants {
            for offer in ["closed", "open"] {
                if self.below(4) > 0 {
                    trials.push(self.trial(variant, offer));
                }
            }
        }
        Block {
            index,
            started: self.time(),
            elapsed: self.nanos(),
            order: self.many(8, |d| d.below(5) as u32),
            rejected: self.many(3, Draw::text),
            canary: [self.nanos(), self.nanos()],
            steal: self.real(),
            trials,
            lives: (0..variants).map(|variant| Life { variant, ledger: self.ledger() }).collect(),
        }
    }

    fn summary(&mut self) -> Summary {
        Summary {
            offer: self.text(),
            offered_per_s: self.some(Draw::real),
            throughput_per_s: self.estimate(),
            bytes_per_s: self.real(),
            p50_ns: self.estimate(),
            p90_ns: self.estimate(),
            p99_ns: self.estimate(),
            cpu_ns_per_request: self.some(Draw::estimate),
            machine_ns_per_request: self.some(Draw::estimate),
            peak_memory_bytes: self.some(Draw::count),
        }
    }

    fn variant(&mut self) -> Variant {
        Variant {
            name: self.text(),
            commands: self.many(3, Draw::text),
            target: self.text(),
            served_by: self.some(Draw::text),
            skipped: self.some(Draw::text),
            ledger: self.ledger(),
            summaries: self.many(3, Draw::summary),
        }
    }

    fn comparison(&mut self) -> Comparison {
        use Verdict::*;
        Comparison {
            baseline: self.below(5) as u32,
            variant: self.below(5) as u32,
            metric: self.text(),
            offer: self.text(),
            primary: self.flag(),
            ratio: self.estimate(),
            confidence: 0.95,
            adjusted_for: self.below(9) as u32,
            blocks: self.below(99) as u32,
            verdict: self.one_of(&[
                Faster,
                Slower,
                NoDifference,
                Equivalent,
                Inconclusive,
                Invalid,
            ]),
            sentence: self.text(),
            anytime: self.flag(),
        }
    }

    fn finding(&mut self) -> Finding {
        use Severity::*;
        Finding {
            check: self.text(),
            severity: self.one_of(&[Note, Warning, Rejected, Invalid]),
            block: self.some(|d| d.below(9) as u32),
            variant: self.some(|d| d.below(9) as u32),
            value: self.real(),
            limit: self.real(),
            sentence: self.text(),
        }
    }

    fn published(&mut self) -> Published {
        Published {
            variant: self.some(Draw::text),
            figure: self.text(),
            throughput_per_s: self.some(|d| d.below(1_000_000) as f64 / 8.0),
            source: self.text(),
        }
    }

    fn part(&mut self) -> Part {
        let variants = 1 + self.below(4) as u32;
        let blocks = self.below(4) as u32;
        Part {
            name: self.text(),
            question: self.text(),
            layout: self.text(),
            load: self.text(),
            variants: (0..variants).map(|_| self.variant()).collect(),
            blocks: (1..=blocks).map(|index| self.block(index, variants)).collect(),
            comparisons: self.many(4, Draw::comparison),
            findings: self.many(4, Draw::finding),
            published: self.many(3, Draw::published),
            reasons: self.many(3, Draw::text),
            precision: 0.01,
            quick: self.flag(),
            bulk: self.flag(),
        }
    }

    fn machine(&mut self) -> Machine {
        Machine {
            cpu_model: self.text(),
            cpus: self.below(256) as u32,
            memory_bytes: self.count(),
            kernel: self.text(),
            os: self.text(),
            hypervisor: self.some(Draw::text),
            governor: self.some(Draw::text),
            connection_tracking: self.some(Draw::flag),
            cgroup: self.below(3) as u32,
            facts: self.many(4, |d| (d.text(), d.text())).into_iter().collect(),
        }
    }

    pub(crate) fn run(&mut self) -> Run {
        let started = self.time();
        Run {
            id: RunId::new(started, self.count()),
            kind: self.one_of(&[RunKind::Load, RunKind::Compare, RunKind::Run]),
            state: self.one_of(&[RunState::Running, RunState::Done, RunState::Interrupted]),
            name: self.text(),
            title: self.text(),
            question: self.text(),
            started,
            finished: self.some(Draw::time),
            command_line: self.many(5, Draw::text),
            version: self.text(),
            seed: Seed(self.count()),
            plan: self.text(),
            machine: self.machine(),
            reasons: self.many(3, Draw::text),
            parts: self.many(4, Draw::part),
        }
    }
}
