//! Runs with a verdict.

use super::*;

pub(super) const TCP: Shape = Shape {
    name: "tcp",
    command: "gunicorn -b 127.0.0.1:$PORT server:app",
    target: "http://127.0.0.1:$PORT/",
    rate_per_s: 1_837.0,
    scatter: 0.006,
    cpu_ns: 492_000.0,
    memory_bytes: 41 << 20,
};
pub(super) const UNIX: Shape = Shape {
    name: "unix",
    command: "gunicorn -b unix:$SOCKET server:app",
    target: "http://unix:$SOCKET:/",
    rate_per_s: 2_056.0,
    scatter: 0.007,
    cpu_ns: 441_000.0,
    memory_bytes: 41 << 20,
};

pub(super) fn published(
    variant: Option<&str>,
    figure: &str,
    throughput_per_s: Option<f64>,
) -> PublishedFigure {
    PublishedFigure {
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

/// The same with samples: one function became slower, another faster.
pub(crate) fn profiled() -> Run {
    let cost = |baseline_ns: f64, variant_ns: f64, half: f64| CostDifference {
        baseline_ns,
        variant_ns,
        difference_ns: Estimate {
            value: variant_ns - baseline_ns,
            low: variant_ns - baseline_ns - half,
            high: variant_ns - baseline_ns + half,
        },
    };
    let count = |baseline: f64, variant: f64, half: f64| CountDifference {
        baseline,
        variant,
        difference: Estimate {
            value: variant - baseline,
            low: variant - baseline - half,
            high: variant - baseline + half,
        },
    };
    let function = |name: &str, module: &str| Function {
        name: Some(name.to_owned()),
        module: module.to_owned(),
        is_program: false,
    };
    let row = |name, module, own, with_callees| FunctionDifference {
        function: function(name, module),
        own,
        with_callees,
    };
    let call = |name, module, caller, with_callees| CallDifference {
        function: function(name, module),
        caller,
        with_callees,
    };
    let mut run = tcp_unix();
    run.parts[0].profiled = true;
    run.parts[0].why = vec![Why {
        baseline: Some(0),
        variant: 1,
        offer: Offer::Closed,
        blocks: 12,
        tested: 143,
        own: cost(491_800.0, 441_300.0, 6_100.0),
        counted: cost(492_100.0, 441_000.0, 5_900.0),
        interrupts: cost(0.0, 120.0, 90.0),
        functions: vec![
            row(
                "TCP: segments, timers, headers",
                "kernel",
                cost(31_000.0, 0.0, 2_400.0),
                cost(31_000.0, 0.0, 2_400.0),
            ),
            row("Unix sockets", "kernel", cost(0.0, 9_000.0, 1_100.0), cost(0.0, 9_000.0, 1_100.0)),
            row(
                "<Request as From>::from",
                "app & co.py",
                cost(8_000.0, 12_000.0, 1_300.0),
                cost(9_000.0, 13_200.0, 1_900.0),
            ),
        ],
        kernel_functions: vec![row(
            "tcp_sendmsg_locked",
            "kernel",
            cost(21_000.0, 0.0, 2_400.0),
            cost(52_000.0, 0.0, 3_300.0),
        )],
        others: cost(452_800.0, 420_300.0, 7_000.0),
        other_functions: 411,
        unnamed: cost(900.0, 880.0, 300.0),
        with_callees: vec![row(
            "send",
            "libc.so.6",
            cost(300.0, 310.0, 90.0),
            cost(61_000.0, 16_000.0, 4_000.0),
        )],
        groups: vec![
            GroupDifference { name: "app.py".to_owned(), own: cost(400_000.0, 401_000.0, 5_000.0) },
            GroupDifference {
                name: "kernel: TCP: segments, timers, headers".to_owned(),
                own: cost(45_000.0, 100.0, 3_000.0),
            },
        ],
        calls: vec![
            call("python3.12", "process", None, cost(491_800.0, 441_300.0, 9_000.0)),
            call(
                "<Request as From>::from",
                "app & co.py",
                Some(0),
                cost(9_000.0, 13_200.0, 1_900.0),
            ),
            call("send", "libc.so.6", Some(0), cost(61_000.0, 16_000.0, 4_000.0)),
            call("tcp_sendmsg_locked", "kernel", Some(2), cost(52_000.0, 0.0, 3_300.0)),
        ],
        waits: Some(WaitDifference {
            voluntary: count(1.02, 0.98, 0.01),
            involuntary: count(0.001, 0.002, 0.004),
            run_delay: cost(3_100.0, 900.0, 700.0),
        }),
        system_calls: vec![
            SystemCallDifference {
                name: "sendto".to_owned(),
                calls: Some(count(1.0, 1.0, 0.0)),
                time: cost(60_100.0, 15_200.0, 4_100.0),
            },
            SystemCallDifference {
                name: "getpeername".to_owned(),
                calls: Some(count(2.0, 0.0, 0.0)),
                time: cost(400.0, 0.0, 500.0),
            },
            SystemCallDifference {
                name: "recvfrom".to_owned(),
                calls: Some(count(1.0, 1.0, 0.0)),
                time: cost(9_000.0, 8_800.0, 1_500.0),
            },
        ],
    }];
    run
}

pub(super) fn make_tcp_unix() -> Run {
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

pub(super) fn make_layers() -> Run {
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
        skipped: Some(
            "apache2 is not installed: apt install apache2 libapache2-mod-wsgi-py3".to_owned(),
        ),
        ..Variant::default()
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

/// Parts that change one thing each; the first of them compared with a part that was not selected.
pub(crate) fn changed() -> Run {
    let published = [TCP, Shape { rate_per_s: 1_870.0, ..UNIX }];
    let changed = |seed, shapes: &[Shape], name: &str, changes: &[(&str, &str)]| {
        let mut part = part(seed, shapes, 8, None, at());
        part.name = name.to_owned();
        part.question = format!("Which is faster, {name}?");
        let change =
            |&(from, what): &(&str, &str)| Change { from: from.to_owned(), what: what.to_owned() };
        part.changes = changes.iter().map(change).collect();
        part
    };
    let one_thread = [("as-published", "one client thread")];
    let one_cpu =
        [("one-thread", "nginx on the application's CPU"), ("as-published", "both changes")];
    run(
        "20261123-160000-chng",
        RunKind::Run,
        "flask-gunicorn-nginx-2016",
        "Flask behind gunicorn and nginx, as published",
        "Which difference makes the ratio larger?",
        vec![
            changed(8, &published, "as-published", &[("versions-of-2016", "versions of today")]),
            changed(9, &published, "one-thread", &one_thread),
            changed(10, &[TCP, UNIX], "one-cpu", &one_cpu),
        ],
    )
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
    let mut run = run(
        "20261121-130000-bulk",
        RunKind::Run,
        "raw-sockets",
        "A Unix socket against loopback IP, with nothing else in the way",
        "How much faster is a Unix socket than loopback TCP?",
        vec![first, second],
    );
    let (same_cpu, other_cpu) = (Nanos(2_940), Nanos(20_600));
    run.machine.wake = Some(base::WakeCost { same_cpu, other_cpu });
    run
}
