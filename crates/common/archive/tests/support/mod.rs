//! Random runs of every shape, from a seed.

use base::{Nanos, Rng, RunId, Seed, Timestamp};
use hdrhistogram::Histogram;
use ledger::{Counts, Discrepancy, Law, Ledger};
use rand::RngExt;
use record::*;
use stats::{Bias, BiasCause, Estimate, Judgement, Opinion, Verdict};

/// Draws random values for every field, including unusual ones.
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
            1 => f64::from_bits(self.below(0x7ff0_0000_0000_0000)),
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
        let high = if self.flag() { f64::INFINITY } else { self.real() };
        Estimate { value: self.real(), low: self.real(), high }
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
                reconnected: self.count(),
            },
            served: self.some(Draw::count),
            discarded: self.some(Draw::count),
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

    fn slice(&mut self) -> Slice {
        Slice {
            round: self.below(99) as u32,
            window: self.nanos(),
            completed: self.count(),
            other_cpus: self.some(Draw::real),
            stolen: self.some(Draw::real),
            kept: self.flag(),
        }
    }

    fn thread(&mut self) -> ThreadUse {
        ThreadUse { cpu: self.nanos(), wall: self.nanos() }
    }

    fn trial(&mut self, variant: u32, offer: Offer) -> Trial {
        Trial {
            variant,
            offer,
            offered_per_s: self.some(Draw::real),
            started: self.time(),
            slices: self.many(9, Draw::slice),
            window: self.nanos(),
            completed_in_window: self.count(),
            payload_bytes: self.count(),
            ledger: self.ledger(),
            latency: self.some(Draw::distribution),
            service_time: self.distribution(),
            lateness: self.some(Draw::distribution),
            stack_cpu: self.some(Draw::nanos),
            machine_busy: self.some(Draw::nanos),
            client: self.many(4, Draw::thread),
            peak_memory_bytes: self.some(Draw::count),
            completed_by_step: self.many(9, Draw::count),
            step: self.nanos(),
            env_padding_bytes: self.below(4096) as u32,
            handshakes: self.some(Draw::handshakes),
            disruption: self.some(Draw::disruption),
            profile: self.some(Draw::profile),
            kinds: self.many(3, Draw::kind_trial),
            stream: self.some(Draw::stream),
        }
    }

    fn stream(&mut self) -> StreamTimes {
        let mut times = || Distribution { hdr_v2: Vec::new(), ..self.distribution() };
        let (first_byte, first_event, gaps) = (times(), times(), times());
        let (events, events_in_window) = (self.count(), self.count());
        StreamTimes { events, events_in_window, first_byte, first_event, gaps }
    }

    fn kind_trial(&mut self) -> KindTrial {
        let Ledger { counts, errors, .. } = self.ledger();
        KindTrial {
            counts,
            errors,
            times: Distribution { hdr_v2: Vec::new(), ..self.distribution() },
        }
    }

    fn handshakes(&mut self) -> Handshakes {
        // What is stored of these is their percentiles.
        let took = Distribution { hdr_v2: Vec::new(), ..self.distribution() };
        Handshakes { version: self.text(), cipher: self.text(), took, resumed: self.count() }
    }

    fn function(&mut self) -> Function {
        let (name, module) = (self.some(Draw::text), self.text());
        Function { name, module, is_program: self.flag() }
    }

    fn profile(&mut self) -> Profile {
        let call = |d: &mut Draw| Call {
            function: d.below(9) as u32,
            caller: d.some(|d| d.below(9) as u32),
            samples: d.count(),
        };
        Profile {
            period: self.nanos(),
            functions: self.many(9, Draw::function),
            calls: self.many(9, call),
            interrupts: self.count(),
            lost: self.count(),
            waits: self.some(|d| Waits {
                voluntary: d.count(),
                involuntary: d.count(),
                run_delay: d.nanos(),
            }),
            system_calls: self.some(|d| SystemCalls {
                requests: d.count(),
                calls: d.many(3, |d| (d.text(), d.count())).into_iter().collect(),
            }),
        }
    }

    fn cost(&mut self) -> CostDifference {
        let (baseline_ns, variant_ns) = (self.real(), self.real());
        CostDifference { baseline_ns, variant_ns, difference_ns: self.estimate() }
    }

    fn function_difference(&mut self) -> FunctionDifference {
        let (function, own) = (self.function(), self.cost());
        FunctionDifference { function, own, with_callees: self.cost() }
    }

    fn why(&mut self) -> Why {
        let call = |d: &mut Draw| CallDifference {
            function: d.function(),
            caller: d.some(|d| d.below(9) as u32),
            with_callees: d.cost(),
        };
        Why {
            baseline: Some(0),
            variant: self.below(4) as u32,
            offer: self.offer(),
            blocks: self.below(99) as u32,
            tested: self.below(999) as u32,
            own: self.cost(),
            counted: self.cost(),
            interrupts: self.cost(),
            functions: self.many(3, Draw::function_difference),
            kernel_functions: self.many(3, Draw::function_difference),
            others: self.cost(),
            other_functions: self.below(999) as u32,
            unnamed: self.cost(),
            with_callees: self.many(3, Draw::function_difference),
            groups: self.many(3, |d| GroupDifference { name: d.text(), own: d.cost() }),
            calls: self.many(9, call),
            waits: self.some(|d| WaitDifference {
                voluntary: d.count_difference(),
                involuntary: d.count_difference(),
                run_delay: d.cost(),
            }),
            system_calls: self.many(3, |d| SystemCallDifference {
                name: d.text(),
                calls: d.some(Draw::count_difference),
                time: d.cost(),
            }),
        }
    }

    fn count_difference(&mut self) -> CountDifference {
        let (baseline, variant) = (self.real(), self.real());
        CountDifference { baseline, variant, difference: self.estimate() }
    }

    fn disruption(&mut self) -> Disruption {
        Disruption {
            actions: self.many(3, Draw::action),
            longest_wait: self.nanos(),
            failed_before: self.count(),
            new_processes: self.below(9) as u32,
        }
    }

    fn action(&mut self) -> ActionTaken {
        let outcomes = [
            StepOutcome::Signalled { pid: 4711 },
            StepOutcome::NoProcess,
            StepOutcome::Exited { status: 3 },
            StepOutcome::Killed { signal: 9 },
            StepOutcome::Unfinished,
        ];
        ActionTaken {
            name: self.text(),
            started: self.time(),
            at: self.nanos(),
            took: self.nanos(),
            failed: self.count(),
            steps: self.many(3, |draw| StepTaken {
                what: draw.text(),
                at: draw.nanos(),
                outcome: draw.one_of(&outcomes),
            }),
        }
    }

    fn block(&mut self, index: u32, variants: u32) -> Block {
        use BlockState::*;
        let mut trials = Vec::new();
        for variant in 0..variants {
            for offer in [Offer::WarmUp, Offer::Closed, Offer::Open] {
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
            state: self.one_of(&[Calibration, Complete, Interrupted, Failed, Unfinished]),
            canary: [self.nanos(), self.nanos()],
            steal: self.some(Draw::real),
            trials,
            lives: (0..variants).map(|variant| Life { variant, ledger: self.ledger() }).collect(),
        }
    }

    fn offer(&mut self) -> Offer {
        self.one_of(&[Offer::Closed, Offer::Open, Offer::WarmUp, Offer::Calibration])
    }

    fn summary(&mut self) -> Summary {
        Summary {
            offer: self.offer(),
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

    fn served_by(&mut self) -> ServedBy {
        let place = self.text();
        match self.below(6) {
            0 => ServedBy::Wsgi,
            1 => ServedBy::StubStatus(place),
            2 => ServedBy::Page(place),
            3 => ServedBy::LogLines(place),
            4 => ServedBy::FileSize(place),
            _ => ServedBy::CounterFile(place),
        }
    }

    fn variant(&mut self) -> Variant {
        Variant {
            name: self.text(),
            commands: self.many(3, Draw::text),
            target: self.text(),
            served_by: self.some(Draw::served_by),
            skipped: self.some(Draw::text),
            ceiling: self.flag(),
            ledger: self.ledger(),
            summaries: self.many(3, Draw::summary),
        }
    }

    /// An estimate as JSON stores it: a non-finite upper end is infinite.
    fn ratio(&mut self) -> Estimate {
        let low = self.below(1_000) as f64 / 1_024.0;
        let high = if self.flag() { f64::INFINITY } else { low + 0.5 };
        Estimate { value: low + 0.25, low, high }
    }

    fn judgement(&mut self) -> Judgement {
        use Verdict::*;
        Judgement {
            ratio: self.ratio(),
            verdict: self.one_of(&[
                Faster,
                Slower,
                NoDifference,
                Equivalent,
                Inconclusive,
                Invalid,
            ]),
            precision: 0.02,
            confidence: 0.95,
            adjusted_for: self.below(9) as u32,
            margin: self.some(|_| 0.02),
            blocks: self.below(99) as u32,
            merged: 1 + self.below(3) as u32,
            second_opinion_p: self.some(|d| d.below(1_024) as f64 / 1_024.0),
            second_opinion: self.one_of(&[
                Opinion::Agrees,
                Opinion::Disagrees,
                Opinion::Unavailable,
            ]),
            anytime: self.flag(),
            more_blocks: self.some(|d| d.below(999) as u32),
            biases: self.many(2, |_| Bias { cause: BiasCause::Steal, log_bound: 0.0625 }),
        }
    }

    fn comparison(&mut self, variants: u32) -> Comparison {
        use Metric::*;
        Comparison {
            baseline: self.below(variants.into()) as u32,
            variant: self.below(variants.into()) as u32,
            metric: self.one_of(&[Throughput, P50, P99, Cpu, Memory]),
            offer: self.offer(),
            primary: self.flag(),
            judgement: self.judgement(),
            because: self.many(3, |d| d.below(4) as u32),
        }
    }

    fn fact(&mut self) -> Fact {
        match self.below(8) {
            0 => Fact::Ledger {
                gap: Discrepancy {
                    law: self.one_of(&[Law::Offered, Law::Sent, Law::Served, Law::Series]),
                    left: self.count(),
                    right: self.count(),
                },
            },
            1 => Fact::Failures {
                offer: self.offer(),
                failed: self.count(),
                sent: self.count(),
                kinds: self.many(3, |d| (d.text(), d.count())).into_iter().collect(),
                log: self.some(Draw::text),
            },
            2 => Fact::Uneven {
                source: Disturber::OtherProcesses,
                other: 1,
                here: 0.5,
                there: 0.25,
                p: 0.001,
                log_bound: self.some(|_| 0.125),
            },
            3 => Fact::Unsustained {
                achieved: 0.25,
                limit: 0.99,
                dropped: self.count(),
                connections_cap: self.some(|d| d.below(99) as u32),
            },
            4 => Fact::Governor { before: vec![self.text()], after: self.many(3, Draw::text) },
            5 => {
                Fact::Lateness { p99: self.nanos(), limit: self.nanos(), shared_cpus: self.flag() }
            }
            6 => Fact::Unchecked { what: UncheckedInput::TcpCounters },
            _ => Fact::NotServed,
        }
    }

    fn finding(&mut self) -> Finding {
        Finding {
            severity: self.one_of(&[Severity::Note, Severity::Warning, Severity::Invalid]),
            block: self.some(|d| d.below(9) as u32),
            variant: self.some(|d| d.below(9) as u32),
            fact: self.fact(),
        }
    }

    fn layout(&mut self) -> Layout {
        let set = |d: &mut Draw| d.many(4, |d| d.below(8) as usize).into_iter().collect();
        let (client, stack) = (set(self), set(self));
        Layout {
            client,
            stack,
            beside_client: self.many(2, Draw::text),
            apart: self.flag(),
            machines: self.many(2, Draw::place),
            clients_apart: self.some(Draw::nanos),
            links: self.many(2, |d| Link {
                client: d.some(Draw::text),
                round_trip: d.nanos(),
                bytes_per_s: d.below(1 << 40) as f64,
                ..Link::default()
            }),
        }
    }

    fn place(&mut self) -> PartMachine {
        PartMachine {
            name: self.some(Draw::text),
            machine: self.machine(),
            is_client: self.flag(),
            stacks: self.many(2, Draw::text),
            address: self.some(Draw::text),
            clock: self.some(|d| ClockOffset {
                offset_ns: d.below(1 << 40) as i64 - (1 << 39),
                error: d.nanos(),
            }),
            segments_resent: self.some(|d| d.below(1 << 40)),
            ..PartMachine::default()
        }
    }

    fn load(&mut self) -> Load {
        let bytes = self.below(1 << 20);
        Load {
            connections: self.below(1_000) as u32,
            threads: self.below(9) as u32,
            new_connection: self.flag(),
            exchange: self.one_of(&[
                Exchange::Http,
                Exchange::Grpc,
                Exchange::Oneshot,
                Exchange::Echo { bytes },
                Exchange::Bulk { bytes },
                Exchange::Lines { lines: 1 + bytes as u32 % 100, bytes },
            ]),
            engines: self.many(3, |d| d.one_of(&[Engine::Epoll, Engine::IoUring])),
            busy_poll: self.flag(),
            linger_zero: self.flag(),
            http2: self.flag(),
            streams: self.below(9) as u32,
            is_mixed: self.flag(),
            insecure: self.flag(),
            tls_resumption: self.flag(),
            status: Some(200),
            kinds: self.many(3, |d| LoadKind {
                name: d.text(),
                weight: d.below(1_000) as u32,
                requests: d.count(),
                status: d.some(|d| d.below(600) as u16),
            }),
            events: self.flag(),
            method: self.some(Draw::text),
        }
    }

    fn disturbance(&mut self) -> Disturbance {
        let share = |d: &mut Draw| d.below(1_024) as f64 / 1_024.0;
        Disturbance {
            other_cpus: self.some(share),
            stolen: self.some(share),
            rounds: self.below(99) as u32,
            rounds_left_out: self.below(99) as u32,
            half_width: self.some(share),
            half_width_if_quiet: self.some(share),
        }
    }

    fn published(&mut self) -> PublishedFigure {
        PublishedFigure {
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
            layout: self.layout(),
            load: self.load(),
            variants: (0..variants).map(|_| self.variant()).collect(),
            blocks: (1..=blocks).map(|index| self.block(index, variants)).collect(),
            comparisons: self.many(4, |d| d.comparison(variants)),
            findings: self.many(4, Draw::finding),
            published: self.many(3, Draw::published),
            changes: self.many(3, |d| Change { from: d.text(), what: d.text() }),
            precision: 0.01,
            quick: self.flag(),
            independent_starts: self.flag(),
            disturbance: self.some(Draw::disturbance),
            profiled: self.flag(),
            why: self.many(2, Draw::why),
            kinds: self.many(3, |d| KindComparison {
                baseline: 0,
                variant: d.below(9) as u32,
                offer: d.offer(),
                kind: d.below(9) as u32,
                ratio: d.ratio(),
            }),
            streams: self.many(3, |d| StreamComparison {
                baseline: 0,
                variant: d.below(9) as u32,
                offer: d.offer(),
                part: d.one_of(&StreamPart::ALL),
                ratio: d.ratio(),
            }),
            capacity: self.some(Draw::capacity),
        }
    }

    fn share(&mut self) -> f64 {
        self.below(1_024) as f64 / 1_024.0
    }

    fn client_limit(&mut self) -> ClientLimit {
        let share = self.share();
        if self.flag() { ClientLimit::Busy { share } } else { ClientLimit::Late { share } }
    }

    fn capacity(&mut self) -> Capacity {
        let condition = |d: &mut Draw| match d.below(3) {
            0 => Condition::Latency { quantile: d.share(), limit: d.nanos() },
            1 => Condition::Errors { share: d.share() },
            _ => Condition::Cpu { share: d.share() },
        };
        let outcome = |d: &mut Draw| match d.below(5) {
            0 => CapacityOutcome::Found {
                per_s: d.ratio(),
                by: d.below(3) as u32,
                blocks: d.below(99) as u32,
                anytime: d.flag(),
            },
            1 => CapacityOutcome::AtLeast { per_s: d.share() },
            2 => CapacityOutcome::Nowhere { per_s: d.share() },
            3 => CapacityOutcome::ClientLimited {
                held_per_s: d.some(Draw::share),
                per_s: d.share(),
                limit: d.client_limit(),
            },
            _ => CapacityOutcome::Undecided {
                held_per_s: d.some(Draw::share),
                failed_per_s: d.some(Draw::share),
            },
        };
        Capacity {
            conditions: self.many(3, condition),
            variants: self.many(3, |d| VariantCapacity {
                variant: d.below(9) as u32,
                outcome: outcome(d),
                connections_busy: [d.below(9) as u32, d.below(9) as u32],
            }),
            trials: self.many(9, Draw::capacity_trial),
        }
    }

    fn capacity_trial(&mut self) -> CapacityTrial {
        CapacityTrial {
            variant: self.below(9) as u32,
            block: self.below(99) as u32,
            round: self.below(99) as u32,
            offered_per_s: self.share(),
            lead_in: self.nanos(),
            window: self.nanos(),
            due: self.count(),
            slow: self.some(Draw::count),
            offered: self.count(),
            failed: self.count(),
            answered: self.count(),
            cpu: self.some(Draw::share),
            p50_ns: self.count(),
            tail_ns: self.count(),
            holds: self.flag(),
            kept: self.flag(),
            connections_busy: self.flag(),
            client: self.some(Draw::client_limit),
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
            wake: self.some(|d| base::WakeCost { same_cpu: d.nanos(), other_cpu: d.nanos() }),
            facts: self.many(4, |d| (d.text(), d.text())).into_iter().collect(),
        }
    }

    pub(crate) fn run(&mut self) -> Run {
        let started = self.time();
        Run {
            id: RunId::new(started, self.count()),
            kind: self.one_of(&[RunKind::Load, RunKind::Compare, RunKind::Run]),
            state: self.one_of(&[
                RunState::Running,
                RunState::Done,
                RunState::Interrupted,
                RunState::Failed,
            ]),
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
            error: self.some(Draw::text),
            parts: self.many(4, Draw::part),
        }
    }
}
