//! Tasks for development: `cargo run --release -p xtask -- prove simulation`, `… -- bench`.

mod aa;
mod accuracy;
mod batches;
mod bench;
mod bench_render;
mod bench_slots;
mod bench_transports;
mod binary;
mod container_kills;
mod corpus;
mod crashes;
mod cut_connections;
mod database_kills;
mod diff;
mod faults;
mod graphite;
mod imports;
mod injection;
mod kills;
mod noise;
mod options;
mod parquet;
mod power_cuts;
mod restarts;
mod serve_kills;
mod simulation;
mod truth;
mod warehouse;
mod why_unix;
mod zoo;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo run --release -p xtask -- TASK

tasks:
  prove simulation [--runs N] [--seed N]
        play the method's scenarios (2,000 runs each by default) and print
        their coverage as a Markdown table; fails if a goal is missed
  prove aa [--runs N] [--seed N]
        compare the same gunicorn with itself (60 times by default) and count false alarms
  prove sixty [--equal|--slower] [--runs N] [--seed N]
        gunicorn compared with itself for 60 seconds, and two servers of which one needs 1% more
        CPU time (60 times each by default): false alarms, coverage, half-width, power
  prove injection [--runs N] [--seed N]
        servers with exactly known differences of 2, 5 and 20% (60 comparisons by default)
  prove noise [--runs N] [--seed N] [--profile NAME] [--seconds S] [--closed-only] [--binary FILE]
        two equal servers, and two that differ by 5%, beside neighbours that the proof starts
        itself (4 comparisons of 60 s of each kind and profile by default): runs with a verdict,
        false alarms, coverage and half-widths, beside wrk; --binary measures another build
  prove zoo [--runs N] [--seed N] [--seconds S] [--kind NAME] [--found] [--quiet|--neighbours]
            [--binary FILE] [--together N] [--keep FILE] [--page] [--load S]
        servers that are uneven in known ways (slow requests, stops, locks, …), drawn by the seed,
        each compared with an even one and with itself 5% worse (11 servers, 60 s a comparison by
        default): intervals that hold the truth, wrong signs, half-widths; --found takes instead
        the three servers about which an earlier method was wrong; --together makes N
        comparisons at a time, --keep continues with what is in FILE, --page writes
        docs/proofs/zoo.md, --load checks the truth against tachograph load instead
  prove diff [--runs N] [--seed N]
        tachograph diff on a repository whose head is equal, and on one whose head is 5% slower
        (10 comparisons of 30 s of each by default), beside a neighbour that uses a third of a
        CPU: false alarms and misses of the default conditions
  prove faults [--runs N]
        servers that lie or are slow, a throttled client, a CPU hog: how often each is
        caught (20 passes of the tests by default, about two minutes each)
  prove kills [--runs N] [--seed N]
        kill -9 at random moments (100 times by default); nothing may stay behind
  prove container-kills [--runs N] [--seed N]
        the same for runs whose stacks are containers (30 times by default); call it by
        scripts/with-docker.sh where no Docker Engine runs
  prove cut-connections [--runs N] [--seed N]
        comparisons over ssh that are cut at random moments, by kill -9 at either end and of ssh
        and by taking the link down (50 times by default, as root); nothing may stay behind at
        either end after ten seconds
  prove crashes [--runs SEEDS] [--seed FIRST]
        the simulators of the recorder's engine, on every CPU: torn writes, failing disks, power
        cuts, a store that loses answers, clocks that jump (1,000,000 seeds of each by default);
        prints the accidents by kind and seeds a second; needs no built binary
  prove batches [--runs N] [--seed N]
        kill -9 a program with ten writers of series, in SQLite and in PostgreSQL (500 times
        each by default); what was acknowledged must be there once
  prove imports [--runs N] [--seed N]
        kill -9 tachograph import, into SQLite and into PostgreSQL (500 times each by
        default), and call it again; every line must be there once
  prove restarts [--runs N]
        replace tachograph serve under load (1,000 times by default): requests failed, points
        lost or doubled, the longest pause
  prove serve-kills [--runs N] [--seed N]
        kill -9 tachograph serve under load, with SQLite and with PostgreSQL; what was
        acknowledged must be there once
  prove database-kills [--runs N] [--seed N]
        kill -9 the PostgreSQL server of tachograph serve under load (200 times by default);
        what was acknowledged, also without the server, must be there once
  prove power-cuts [--runs N] [--seed N]
        record the system calls of tachograph serve under load with strace, and start a daemon on
        every state of its files that a power cut may leave, at N moments (500 by default); what
        was acknowledged must be there once, and without each kind of sync it must not be
  prove corpus FILE
        inputs of another project's tests through our parsers, compared with what it makes
        of them: corpus.json of influxdata/line-protocol, lexer_test.go of gostatsd,
        statsd_msg.c of brubeck, plain_test.go of go-carbon, test_protocols.py of carbon
  prove accuracy [--runs N] [--seed N]
        the experiment series-accuracy: the same updates through the real rrdtool, the real
        whisper and ours, then N random ones (1,000,000 by default); needs no built binary
  prove graphite [--runs N] [--seed N]
        every function of docs/graphite.md over random series, ours and the real graphite-web's
        over whisper files (20 random ranges by default); needs no built binary
  prove warehouse [--runs N] [--seed N]
        three recorders, with files imported twice and kills while they import and export (N
        intervals each and round, 3,000 by default), published to a real Spark cluster, once more
        with a real KDC: sums by series, step and day beside the truth, and what a login by
        Kerberos costs; installs Spark in target/warehouse (400 MB)
  prove parquet [--runs DAYS] [--seed N]
        three recorders with random histories of some days (4 by default, at most 10) export to one
        folder while they grow: the totals of DuckDB and pyarrow are those of the stores; needs no
        built binary
  prove all
        all of these but container-kills and corpus, which need an engine and a file, one after the other

  bench-render [--runs N]
        /render of 50 series over a day of 10-second slots, from tachograph serve and from the
        real graphite-web (20 requests by default)
  bench-transports [--runs N] [--seed N]
        the same lines to tachograph serve over TCP, UDP and Unix sockets (6 rounds by default):
        points per second, CPU per point, losses, until SQL sees them; writes target/bench-transports.md
  why-unix [--runs N] [--seed N]
        what a message costs the kernel over TCP and over a Unix socket, by function, with and
        without checksums, connection tracking and new connections (20 rounds by default, as
        root); writes docs/results/why-unix.md
  bench-series [--only NAME,NAME…] [--points N] [--series N] [--per-slot N] [--rounds N]
               [--values walk|counts|noise]
        fill ours, rrdtool, whisper and others with the same history (10,000,000 points of
        10,000 series, one and ten to a slot) and write docs/series-performance.md
  bench-series queries [--only NAME,NAME…] [--series N]
        query one series over a day again and again while lines are imported (1,000 series
        by default), in SQLite and in PostgreSQL; writes into the same page
  bench-series exports [--points N]
        export the same histories as Parquet (10,000,000 points of 10,000 series, one and ten to a
        slot), from SQLite and from PostgreSQL; prints a table
  bench [--only LINE]… [--rounds N] [--seconds S] [--seed N]
        our load engine beside wrk, ab, h2load, oha, hey and iperf3, whichever are on PATH:
        5 rounds of 1 s by default, into docs/performance.md and its numbers beside it
  bench page
        docs/performance.md from the numbers that are kept
  truth [--only SCENARIO]… [--tool NAME]… [--rounds N] [--seed N] [--note TEXT] [--tools FOLDER]
        [--docs FOLDER]
        what wrk, ab, h2load, hey, oha, vegeta, k6, fortio and ours report about servers of known
        behaviour (3 rounds by default), and compare about three that are sometimes slow, into docs/truth.md and its numbers beside it; the tools
        are those that scripts/truth-tools.sh installed in FOLDER (target/truth-tools), or on PATH
  truth page
        docs/truth.md from the numbers that are kept

All but the simulation, the crashes and the batches run target/release/tachograph: build it first.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["prove", "simulation", options @ ..] => simulation::prove(options),
        ["prove", "aa", options @ ..] => aa::prove(options),
        ["prove", "sixty", options @ ..] => aa::prove_sixty(options),
        ["prove", "injection", options @ ..] => injection::prove(options),
        ["prove", "faults", options @ ..] => faults::prove(options),
        ["prove", "diff", options @ ..] => diff::prove(options),
        ["prove", "noise", options @ ..] => noise::prove(options),
        // Started by `prove noise` beside a comparison.
        ["neighbour", words @ ..] => noise::become_neighbour(words),
        ["prove", "zoo", options @ ..] => zoo::prove(options),
        // Started by `prove zoo` and `truth`.
        ["zoo-server", words @ ..] => zoo::become_server(words),
        ["prove", "kills", options @ ..] => kills::prove(options),
        ["prove", "container-kills", options @ ..] => container_kills::prove(options),
        ["prove", "cut-connections", options @ ..] => cut_connections::prove(options),
        ["prove", "crashes", options @ ..] => crashes::prove(options),
        ["prove", "batches", options @ ..] => batches::prove(options),
        ["prove", "imports", options @ ..] => imports::prove(options),
        ["prove", "restarts", options @ ..] => restarts::prove(options),
        ["prove", "serve-kills", options @ ..] => serve_kills::prove(options),
        ["prove", "database-kills", options @ ..] => database_kills::prove(options),
        ["prove", "power-cuts", options @ ..] => power_cuts::prove(options),
        ["bench-render", options @ ..] => bench_render::run(options),
        ["why-unix", options @ ..] => why_unix::run(options),
        // Started by `why-unix`, in network namespaces.
        ["why-unix-server", words @ ..] => why_unix::become_server(words),
        ["why-unix-client", words @ ..] => why_unix::become_client(words),
        ["bench-transports", options @ ..] => bench_transports::run(options),
        ["prove", "corpus", words @ ..] => corpus::prove(words),
        ["prove", "accuracy", options @ ..] => accuracy::prove(options),
        ["prove", "graphite", options @ ..] => graphite::prove(options),
        ["prove", "warehouse", options @ ..] => warehouse::prove(options),
        // Started by `prove warehouse`, with the environment of a realm.
        ["hive-logins", words @ ..] => warehouse::become_client(words),
        ["prove", "parquet", options @ ..] => parquet::prove(options),
        ["prove", "all"] => all(),
        ["bench-series", options @ ..] => bench_slots::bench(options),
        ["fill-series", words @ ..] => bench_slots::fill(words),
        ["bench", "page"] => bench::write_page(),
        ["bench", options @ ..] => bench::bench(options),
        ["truth", "page", options @ ..] => truth::write_page(options),
        ["truth", options @ ..] => truth::measure(options),
        // Started by the bench itself.
        ["bench-pinned", words @ ..] => bench::become_pinned(words),
        ["bench-client", words @ ..] => bench::client(words),
        ["write-batches", words @ ..] => batches::write(words),
        _ => usage_error("no such task"),
    }
}

/// Runs every proof, even after failures.
fn all() -> ExitCode {
    let proofs: [fn(&[&str]) -> ExitCode; 20] = [
        simulation::prove,
        crashes::prove,
        accuracy::prove,
        graphite::prove,
        parquet::prove,
        kills::prove,
        batches::prove,
        imports::prove,
        restarts::prove,
        serve_kills::prove,
        power_cuts::prove,
        database_kills::prove,
        warehouse::prove,
        aa::prove_sixty,
        aa::prove,
        injection::prove,
        noise::prove,
        zoo::prove,
        diff::prove,
        faults::prove,
    ];
    let failed = proofs.iter().filter(|proof| proof(&[]) != ExitCode::SUCCESS).count();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints an error and the usage; exit status 2.
#[allow(clippy::print_stderr, reason = "a task speaks to the person who called it")]
fn usage_error(what: &str) -> ExitCode {
    eprint!("{what}\n\n{USAGE}");
    ExitCode::from(2)
}

/// Runs a task with its options; the exit status tells whether it succeeded, failed or was
/// called wrongly.
fn task<O>(
    name: &str,
    options: Result<O, String>,
    run: impl FnOnce(&O) -> Result<bool, String>,
) -> ExitCode {
    let options = match options {
        Ok(options) => options,
        Err(what) => return usage_error(&what),
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            say(&format!("{name}: {what}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a line of output.
#[allow(clippy::print_stdout, reason = "the result of a task is what it prints")]
fn say(line: &str) {
    println!("{line}");
}
