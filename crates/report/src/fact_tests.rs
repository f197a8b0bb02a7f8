//! The text of every finding.

use record::Variant;

use super::*;
use crate::finding_lines::{self, FindingLine};

fn variant(name: &str) -> Variant {
    Variant { name: name.to_owned(), ..Variant::default() }
}

fn part(names: &[&str]) -> Part {
    Part {
        name: "main".to_owned(),
        variants: names.iter().map(|name| variant(name)).collect(),
        precision: 0.02,
        ..Part::default()
    }
}

fn line_about(names: &[&str], variant: Option<u32>, fact: Fact) -> String {
    let finding = Finding { severity: Severity::Warning, block: None, variant, fact };
    words(&part(names), &finding)
}

/// The text of a finding about `b` beside `a`.
fn of_b(fact: Fact) -> String {
    line_about(&["a", "b"], Some(1), fact)
}

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

#[test]
fn what_every_check_saw() {
    let rare_stalls = |measured| {
        let (lost, delayed) = (stats::Stalls::default(), stats::Stalls::default());
        Fact::RareStalls { lost, delayed, measured, longest: Nanos::from_millis(300) }
    };
    let gap = |law, left, right| Fact::Ledger { gap: Discrepancy { law, left, right } };
    let uneven =
        |source, here, there, p| Fact::Uneven { source, other: 0, here, there, p, log_bound: None };
    for (fact, text) in [
        (Fact::Baseline { stand_in: 0 }, "b could not start, so the others are compared with a"),
        (
            Fact::WarmUp { watched: Nanos::from_secs(3) },
            "b had not settled after 3.00 s of calibration; its figures may include warm-up",
        ),
        (
            Fact::NullServer { factor: 2.44, limit: 3.0 },
            "b is client-limited: the null server on the same transport is only 2.4× as fast (3× \
             needed); give the client more threads (--threads) or CPUs",
        ),
        (
            Fact::NetworkLimited {
                by: NetworkLimit::Bytes { used_per_s: 94_371_840.0, carried_per_s: 104_857_600.0 },
            },
            "b is network-limited: its responses take 90.0 MiB/s, and the network carried 100 MiB/s; \
             smaller responses or a faster network show more of the server",
        ),
        (
            Fact::NetworkLimited {
                by: NetworkLimit::RoundTrip {
                    round_trip: ms(100),
                    connections: 10,
                    most_per_s: 100.0,
                },
            },
            "b is network-limited: with a round trip of 100 ms, 10 connections carry at most 100 \
             requests/s; use more (-c)",
        ),
        (
            Fact::ClientBusy { share: 0.97, threads: 1 },
            "b is client-limited: a client thread was busy 97% of the time; try --threads 2",
        ),
        (
            gap(Law::Served, 186_113, 186_116),
            "b: the server counted 3 requests fewer than the client completed (186,113 ≠ 186,116); look for a proxy that answers itself, or a worker that was killed",
        ),
        (
            gap(Law::Served, 1_001, 1_000),
            "b: the server counted 1 request more than the client completed (1,001 ≠ 1,000); look for a retry in a proxy, or another client",
        ),
        (
            gap(Law::Series, 9, 10),
            "b: the recorded series holds 1 request fewer than the client completed (9 ≠ 10); \
             either the record was changed, or this is a bug: please report it",
        ),
        (
            gap(Law::Sent, 10, 9),
            "b: sent differs from completed + failed + in flight (10 ≠ 9); please report this bug",
        ),
        (
            gap(Law::Offered, 10, 9),
            "b: offered differs from sent + dropped (10 ≠ 9); please report this bug",
        ),
        (
            Fact::ServedUnreadable { error: "the page has no count".to_owned() },
            "b: the server's own count could not be read: the page has no count",
        ),
        (
            Fact::TrialsDiffer { trials: 1_000, session: 1_001 },
            "b: the trials add up to 1,000 requests, but the session counted 1,001; please report \
             this bug",
        ),
        (
            Fact::Failures {
                offer: Offer::Closed,
                failed: 10_007,
                sent: 18_452,
                kinds: [("status 502".to_owned(), 10_007)].into(),
                log: Some("upstream closed".to_owned()),
            },
            "b: 10,007 of 18,452 requests failed (10,007 status 502) in the closed loop; last line of its log: upstream closed",
        ),
        (
            Fact::Failures {
                offer: Offer::WarmUp,
                failed: 1,
                sent: 1,
                kinds: ledger::Errors::new(),
                log: None,
            },
            "b: 1 of 1 request failed during warm-up",
        ),
        (
            Fact::Idle { connections: 10, share: 0.031, limit: 0.02 },
            "b: its 10 connections had no request outstanding for 3.1% of the time (limit 2%); give the client more CPU time",
        ),
        (
            Fact::Lateness { p99: ms(3), limit: Nanos::from_micros(100), shared_cpus: false },
            "b: 1% of requests were sent more than 3.00 ms late (limit 100 µs); stop what else runs on the client's CPUs, or offer a lower rate with --rate",
        ),
        (
            Fact::Lateness { p99: ms(3), limit: Nanos::from_micros(100), shared_cpus: true },
            "b: 1% of requests were sent more than 3.00 ms late (limit 100 µs) because the client shares its CPUs with the stack",
        ),
        (
            uneven(Disturber::OtherProcesses, 0.62, 0.03, 0.000_1),
            "other processes were busy during 62% of b's slices and 3% of a's; this happens by \
             chance in less than 0.1% of runs, so the ratio may be biased: find and stop the \
             process that runs alongside it",
        ),
        (
            uneven(Disturber::Steal, 0.05, 0.002, 0.004),
            "the hypervisor took 5% of the CPU time in b's slices and 0.2% in a's; this happens \
             by chance in 0.4% of runs, so the ratio may be biased: use a machine with \
             dedicated CPUs",
        ),
        (
            Fact::Uneven {
                source: Disturber::Steal,
                other: 0,
                here: 0.338,
                there: 0.274,
                p: 0.000_1,
                log_bound: Some(0.0862),
            },
            "the hypervisor took 33.8% of the CPU time in b's slices and 27.4% in a's: the interval \
             of throughput and CPU per request is widened by ±9.1%",
        ),
        (
            uneven(Disturber::Lateness, 0.003, 0.000_04, 0.000_1),
            "1% of requests to b were sent more than 3.00 ms late, to a more than 40.0 \
             µs; this happens by chance in less than 0.1% of runs, so the ratio may be biased: offer \
             a lower rate with --open-share, or give the client its own CPUs",
        ),
        (
            Fact::StackFailed { error: "gunicorn ended with status 3".to_owned() },
            "b: gunicorn ended with status 3",
        ),
        (
            Fact::Killed {
                message: "'gunicorn' did not stop within 2.00 s of SIGTERM and was killed"
                    .to_owned(),
            },
            "b: 'gunicorn' did not stop within 2.00 s of SIGTERM and was killed",
        ),
        (
            Fact::Throttled { times: 2 },
            "b: a CPU quota throttled the client and the stack twice; raise the quota",
        ),
        (
            Fact::Neighbours {
                cpus: 1.62,
                processes: [(7, 0.8), (8, 0.5), (9, 0.2), (10, 0.1)]
                    .map(|(pid, cpus)| BusyProcess { pid, name: "rustc".to_owned(), cpus })
                    .into(),
            },
            "other processes used 1.6 CPUs just before the load (rustc, pid 7: 80%; rustc, pid 8: \
             50%; rustc, pid 9: 20%; and 1 more): a single load cannot tell their effect from the \
             server's; stop them, or use compare",
        ),
        (
            Fact::Neighbours { cpus: 0.3, processes: vec![] },
            "other processes used 0.3 CPUs just before the load: a single load cannot tell their \
             effect from the server's; stop them, or use compare",
        ),
        (
            Fact::Unpinned { process: "nginx (pid 7)".to_owned() },
            "b: nginx (pid 7) left the CPUs of its stack; remove its own CPU affinity settings",
        ),
        (
            Fact::Governor {
                before: vec!["powersave".to_owned()],
                after: vec!["performance".to_owned()],
            },
            "the CPU frequency governor changed from powersave to performance; set one governor for all CPUs",
        ),
        (
            Fact::AcceptQueue { counter: "ListenOverflows".to_owned(), rise: 5, waited: false },
            "b: 5 connections were turned away somewhere on this machine (ListenOverflows), but \
             no request failed or waited for that: they were another program's, or were opened \
             before the load",
        ),
        (
            Fact::AcceptQueue { counter: "ListenOverflows".to_owned(), rise: 1_200, waited: true },
            "b: 1,200 connections were turned away because the listening socket's queue was full (ListenOverflows); raise the server's backlog or net.core.somaxconn",
        ),
        (
            Fact::Resent { counter: "TCPSynRetrans".to_owned(), rise: 1, waited: true },
            "b: 1 packet was sent again (TCPSynRetrans) and requests waited for them; look for a full backlog or connection-tracking table",
        ),
        (
            Fact::Resent { counter: "TCPTimeouts".to_owned(), rise: 3, waited: false },
            "b: the kernel's TCPTimeouts rose by 3, but no request was slow enough for a lost \
             packet",
        ),
        (
            Fact::TimeWait { rise: 1 },
            "b: 1 closed connection skipped TIME_WAIT because the kernel's limit was reached",
        ),
        (
            Fact::Conntrack { share: 0.62, limit: 0.5 },
            "the connection-tracking table is 62% full (limit 50%), and new connections stall when it is full; raise nf_conntrack_max, or do not track loopback",
        ),
        (
            Fact::Ports { changes: 1 },
            "b: one source address ran out of ports once, so connections came from several \
             addresses in 127.0.0.0/27; use a Unix socket or keep-alive connections to avoid this",
        ),
        (Fact::Drift { change: -0.14 }, "throughput of b changed by −14% within the trial"),
        (Fact::Drift { change: f64::INFINITY }, "b completed nothing for a part of the trial"),
        (
            Fact::NotSteady { trials: 4, of: 13 },
            "b is not steady: its throughput changed within 4 of 13 trials",
        ),
        (
            Fact::Unsustained {
                achieved: 0.201,
                limit: 0.99,
                dropped: 1_566,
                connections_cap: Some(10),
            },
            "b did not sustain the offered rate: 20.1% of the requests were completed (99% needed); 1,566 requests were dropped because all 10 connections were in use: allow more with --connections, or offer a lower rate with --rate",
        ),
        (
            Fact::Unsustained { achieved: 0.201, limit: 0.99, dropped: 1, connections_cap: None },
            "b did not sustain the offered rate: 20.1% of the requests were completed (99% needed); 1 request was dropped because the server could not keep up: offer a lower rate with --rate",
        ),
        (
            Fact::Unsustained { achieved: 0.97, limit: 0.99, dropped: 0, connections_cap: None },
            "b did not sustain the offered rate: 97% of the requests were completed (99% needed); offer a lower rate with --rate",
        ),
        (
            Fact::NotProfiled { why: "the kernel does not permit it".to_owned() },
            "no profile: the kernel does not permit it",
        ),
        (
            Fact::NothingSampled { few_blocks: true },
            "no profile: fewer than two blocks are complete",
        ),
        (
            Fact::NothingSampled { few_blocks: false },
            "no profile: a variant has no samples; of servers that were running already, only those on this machine are sampled, and other users' only by root",
        ),
        (
            Fact::ProfileDiffers {
                offer: Offer::Closed,
                sampled: Nanos::from_millis(900),
                counted: Nanos::from_secs(1),
                cause: None,
            },
            "b: the samples do not add up to the CPU time that the kernel counted: 900 ms of 1.00 s",
        ),
        (
            Fact::ProfileDiffers {
                offer: Offer::Closed,
                sampled: Nanos::from_millis(900),
                counted: Nanos::from_secs(1),
                cause: Some(ProfileGap::Waking),
            },
            "b: the samples do not add up to the CPU time that the kernel counted: 900 ms of 1.00 s; it charges threads from the moment at which they are woken, samples belong to them from that at which they run",
        ),
        (
            Fact::ProfileDiffers {
                offer: Offer::Closed,
                sampled: Nanos::from_millis(1050),
                counted: Nanos::from_secs(1),
                cause: Some(ProfileGap::Steal),
            },
            "b: the samples do not add up to the CPU time that the kernel counted: 1.05 s of 1.00 s; the hypervisor took CPU time, which the samples contain and the count does not",
        ),
        (
            Fact::Standing,
            "the servers were already running, so there is one start of each: the interval covers these starts only, and not how starts of the same server differ",
        ),
        (
            Fact::Discarded { offer: Offer::Closed, discarded: 460_700, completed: 4_000_000 },
            "b: its kernel discarded 460,700 of 4,000,000 requests (11.5%) in the closed loop, because the receive buffer was full",
        ),
        (
            Fact::Uncounted { offer: Offer::Closed },
            "b: the server-side count of a trial differs from its requests in the closed loop, although that of all trials does not",
        ),
        (
            Fact::NotServed,
            "b: no server-side count; add --served-by or the WSGI counter to cross-check",
        ),
        (
            Fact::FewRequests { fewest: 812, wanted: 10_000 },
            "b: a trial has only 812 requests, too few for a reliable p99; 10,000 per trial are \
             enough",
        ),
        (
            Fact::Answers { length: 12, other: 0, other_length: 2_044 },
            "response bodies differ in size: 12 bytes for b, 2,044 for a; check that both do the \
             same work",
        ),
        (
            Fact::BodyVaries { length: true },
            "b: the body and its length vary between responses, so only status and framing are checked",
        ),
        (
            Fact::BodyVaries { length: false },
            "b: the body varies between responses, so only status, framing and length are checked",
        ),
        (
            Fact::ErrorPage { status: 404 },
            "b: the first answer had status 404; if that is expected, add --expect-status 404",
        ),
        (
            Fact::Edges { mean: 0.012, half_width: 0.004 },
            "b: slow requests were cut off by the ends of slices: +1.2% (±0.4%) of the connections' time is unaccounted for; allow more time (--max-time)",
        ),
        (
            Fact::LongStops {
                stopped: Nanos::from_millis(500),
                slice: Nanos::from_millis(520),
                needed: 4.0,
            },
            "b: no request ended for 500 ms around the end of an average slice, and slices of 520 ms are too short for such stops: what they measure depends on where they begin; allow at least 4 times the time (--max-time)",
        ),
        (
            Fact::ShortSlices { window: Nanos::from_millis(450), p99: Nanos::from_millis(930) },
            "b: p99 has no upper limit: its slices measured 450 ms each on average, which is shorter than the p99 itself (930 ms); allow more time (--max-time)",
        ),
        (
            rare_stalls(2),
            "b: only 2 stalls of up to 300 ms in what was measured; the intervals of its throughput and p99 allow for more or fewer, and that of p99 for longer ones",
        ),
        (
            rare_stalls(0),
            "b: a request took 300 ms, but none that counts for its throughput stalled; the intervals of its throughput and p99 allow for stalls like this one",
        ),
        (
            Fact::Unchecked { what: UncheckedInput::MachineCpu },
            "b: /proc/stat could not be read, so CPU use by other processes is unchecked",
        ),
        (
            Fact::Unchecked { what: UncheckedInput::TcpCounters },
            "b: /proc/net/netstat could not be read, so refused connections and lost packets are unchecked",
        ),
        (
            Fact::Unchecked { what: UncheckedInput::StackCpu },
            "b: the stack's CPU time could not be read, so its CPU per request is unknown",
        ),
        (
            Fact::Unchecked { what: UncheckedInput::ShortSlices },
            "b: the kernel's CPU accounting is too coarse for slices this short, so a process that disturbed only one variant may have gone unnoticed",
        ),
        (
            Fact::TimeWaitSockets { more: 20_000, ports: Some(28_232) },
            "20,000 more sockets wait in TIME_WAIT (of 28,232 ports per address), which slows new \
             connections down for a minute; --linger-zero resets connections instead",
        ),
        (
            Fact::Tracked,
            "the kernel tracks loopback connections (because of NAT rules such as Docker's), \
             which costs time per connection; compare only with machines that do the same",
        ),
    ] {
        assert_eq!(of_b(fact), text);
    }
}

#[test]
fn a_single_variant_is_not_named() {
    let alone = |fact| line_about(&["http://127.0.0.1:8000/"], Some(0), fact);
    assert_eq!(
        alone(Fact::ClientBusy { share: 0.97, threads: 1 }),
        "client-limited: a client thread was busy 97% of the time; try --threads 2"
    );
    assert_eq!(
        alone(Fact::Drift { change: 0.06 }),
        "throughput of the server changed by +6% within the trial"
    );
    assert!(alone(Fact::NotServed).starts_with("no server-side count; "));
}

fn finding(block: u32, variant: u32, severity: Severity, fact: Fact) -> Finding {
    Finding { severity, block: Some(block), variant: Some(variant), fact }
}

fn block(index: u32) -> Block {
    Block::new(index, base::Timestamp::UNIX_EPOCH, record::BlockState::Complete)
}

fn lines(part: &Part) -> Vec<String> {
    finding_lines::all(part).iter().map(FindingLine::line).collect()
}

#[test]
fn findings_of_one_kind_are_one_line() {
    let mut part = part(&["a", "b", "c"]);
    part.blocks = (1..=4).map(block).collect();
    for (block, variant, change) in [(1, 0, -0.14), (2, 1, 0.44), (3, 2, -0.2), (3, 2, 0.44)] {
        let drift = Fact::Drift { change };
        part.findings.push(finding(block, variant, Severity::Note, drift));
    }
    part.findings.push(finding(4, 1, Severity::Warning, Fact::Throttled { times: 1 }));
    assert_eq!(
        lines(&part),
        [
            "b: a CPU quota throttled the client and the stack once; raise the quota (block 4)",
            "throughput of b changed by +44% within the trial; also a and c (block 2, and in 2 more blocks)",
        ]
    );
}

#[test]
fn invalid_findings_name_each_variant() {
    let mut part = part(&["a", "b"]);
    part.blocks = (1..=2).map(block).collect();
    for (block, variant, left) in [(1, 0, 9), (1, 1, 8), (2, 1, 7)] {
        let gap = Discrepancy { law: Law::Sent, left, right: 10 };
        part.findings.push(finding(block, variant, Severity::Invalid, Fact::Ledger { gap }));
    }
    assert_eq!(
        lines(&part),
        [
            "a: sent differs from completed + failed + in flight (9 ≠ 10); please report this bug (block 1)",
            "b: sent differs from completed + failed + in flight (7 ≠ 10); please report this bug (block 2, and in 1 more block)",
        ]
    );
}

#[test]
fn failures_of_several_blocks_show_the_whole_ledger() {
    let mut part = part(&["a", "b"]);
    part.blocks = (1..=2).map(block).collect();
    for n in [1, 2] {
        let fact = Fact::Failures {
            offer: Offer::Closed,
            failed: 10 * u64::from(n),
            sent: 100,
            kinds: [("timeout".to_owned(), 10)].into(),
            log: Some(format!("line {n}")),
        };
        part.findings.push(finding(n, 1, Severity::Invalid, fact));
    }
    let ledger = &mut part.variants[1].ledger;
    (ledger.counts.failed, ledger.counts.sent) = (31, 240);
    ledger.errors = [("timeout".to_owned(), 31)].into();
    assert_eq!(
        lines(&part),
        ["b: 31 of 240 requests failed (31 timeout); last line of its log: line 2"]
    );
}

#[test]
fn a_lower_rate_has_two_digits() {
    for (rate, rounded) in [(1098.9, 1000.0), (12_345.0, 12_000.0), (99.9, 99.0), (7.9, 7.0)] {
        assert_eq!(two_digits(rate), rounded, "{rate}");
    }
}
