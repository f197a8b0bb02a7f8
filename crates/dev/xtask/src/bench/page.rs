//! docs/performance.md, from the results.

use std::fmt::Write as _;

use base::{format_count, format_rate};
use stats::Estimate;

use super::clients::Client;
use super::lines::{Goal, LINES, Line, Measure, Work};
use super::results::{LineResults, Results, Run};
use crate::pages::ends;

const HEAD: &str = "\
# Performance

<!-- Made by `make bench` from docs/results/performance.json. Do not edit. -->

A load generator takes CPU time from the server beside it, and a load generator at its limit measures itself. This page compares the client of `tachograph load` with others, in the same minutes on the same machine, by tachograph's own method: interleaved rounds in random mirrored order, ratios of rounds with 95% intervals (Student's, on logarithms).

- The server is `tachograph serve-fixture`: one thread on CPU 0 that answers every request with the same 12 bytes. It is restarted for each round.
- The client has one thread on CPU 1, or on the server's CPU where stated.
- Client CPU is the CPU time of the client's process from start to end (getrusage(2), user and system), divided by the number of requests that the server counted; for a bulk transfer, by the megabytes that the client read.
- Tachograph checks status, framing and body of every answer; its start-up and its record in SQLite are included in its cost. The other clients do their own checks.
- Tachograph is measured with both engines; with TLS and HTTP/2 only with epoll, which `--engine auto` always selects there. Goals apply to the one that it selects.
- With TLS, the clients do not verify the certificate, which signs itself; all speak TLS 1.3 with AES-256-GCM.
- **met**: the whole interval meets the goal. **missed**: the whole interval misses it. **undecided**: the goal lies within the interval.

";

const TAIL: &str = "\
## What bounds it

Tachograph's client spends nine tenths of its CPU time in the kernel, so the number of system calls matters most. `strace -c -f` over one second of the first workload (2026-11-21) shows:

| client | system calls per request |
| --- | --- |
| tachograph, epoll | 1 sendto, 1 recvfrom, a share of one epoll_wait |
| tachograph, io_uring | 1 io_uring_enter for 37 requests |
| wrk | 1 write, 1 read, 2 epoll_ctl, a share of one epoll_wait |

Profile of the client in six workloads, by `perf record -e cpu-clock -F 4999` over three seconds of `tachograph load` with `--engine auto` (2026-11-21, shares of samples, including start-up and record):

| workload | engine | kernel | our code | clock (vDSO) | largest items |
| --- | --- | ---: | ---: | ---: | --- |
| tcp-64 | io_uring | 95.8% | 2.4% | 0.8% | TCP and packets, spread over many functions, none above 5.4% |
| unix-64 | io_uring | 91.7% | 5.0% | 1.7% | `_raw_spin_unlock_irqrestore` 13%, `unix_stream_read_generic` 7%, copying 6% |
| new-tcp | epoll | 94.5% | 4.1% | 0.2% | `_raw_spin_unlock_irqrestore` 9%; the rest is spread, none above 3% |
| new-unix | io_uring | 91.1% | 7.3% | 0.7% | `_raw_spin_unlock_irqrestore` 8%, other locks 10%; our code that opens connections 3.4% |
| same-cpu-tcp | epoll | 83.1% | 12.9% | 2.0% | switching to the server and back (`finish_task_switch`) 29% |
| two-cpus-tcp | epoll, --busy-poll | 67.0% | 24.8% | 7.1% | spinning: our wait loop 14%, system call entry 11%, clock 7% |

- A cpu-clock profile attributes code that ran with interrupts disabled to the function that enables them again, `_raw_spin_unlock_irqrestore`, without showing what that code was.
- So the kernel causes the misses on many connections: without the 6 to 8% outside the kernel, the client's CPU on TCP would be 0.66 × wrk's instead of 0.70 in the quiet rounds mentioned below, and 0.70 instead of 0.76 in those of the table, which is still above the goal of 0.65. The only possible gain is fewer or cheaper system calls, and io_uring already needs only one for 37 requests.
- With its own CPU and many connections, the client keeps the server as busy as itself: a cheaper client cannot exceed the server's throughput. CPU per request distinguishes the clients better, and is the steadier figure.
- With one connection on two CPUs, the two ends alternate; a client that spins avoids its own wake-up, but not the server's.
- The goals were set on a machine with slower peers: there, waking another CPU took 70 µs and all clients reached 13,000 to 15,000 requests per second on one connection; here they reach 42,000 to 85,000. Where wake-ups are cheap, avoiding its own cannot make a client three times as fast as the others. On Unix sockets, h2load and oha reached 250,000 and 150,000 there, and 366,000 and 240,000 here.
- A blocking client makes two system calls per request and nothing else. Tachograph's additional work (a third system call to wait, two clock readings, checking, counting) is the distance between the two.
- Lateness is only the client's own delay: a request that had to wait for a connection and was sent on the first free one is not late.
- The fifteen rounds of the first workload were disturbed, single rounds of both engines by 25% and more. Five rounds in a quiet hour (2026-11-21) gave 1.48 (1.46–1.50) × wrk, 1.25 (1.23–1.27) × ab and 0.702 (0.689–0.714) of wrk's CPU.
- Recording and verification are measured in rounds of 5 s, in which process start-up weighs less. Rounds of 1 s (2026-11-21) gave 1.10 (1.06–1.14) on TCP, which misses the goal, and 1.10 (0.96–1.26) on Unix sockets.

## Lines that need a quiet machine

These are not in the tables until they have been measured on a machine that does nothing else.

- `tcp-10000`, `unix-50000`, `tcp-50000`: connections by the ten thousand. Besides throughput and CPU, the table has the client's memory (`VmHWM` of its process), the connections that the server saw, and their fairness: the responses on a connection of the slowest hundredth, divided by the median. The server writes the number of responses on each connection that ends (`serve-fixture --answers-file`). Only ours has source addresses for 50,000 connections to one TCP port. 50,000 connections need the right to raise the limit on open files.
- `threads-1`, `threads-2`, `threads-4`, `threads-8`: threads of the client on all CPUs but the server's. On two CPUs they share one, so these lines show what a thread costs, not what it brings; and one server thread answers all of them.
- `floor-tcp-64`, `floor-unix-64`, `floor-unix-256`, `floor-tcp-1`, `floor-tcp-10000`: client CPU per request against the floor, the system calls of our epoll engine (an epoll_wait, and for each request a recv and a send of the same bytes) with nothing between them but counting. The goal is 1.10 × the floor; it includes start-up, checks, clocks and the record.

```
cargo run --profile dist -p xtask -- bench --only tcp-10000 --only unix-50000 --only tcp-50000 --rounds 9 --seconds 5
cargo run --profile dist -p xtask -- bench --only threads-1 --only threads-2 --only threads-4 --only threads-8 --rounds 9
cargo run --profile dist -p xtask -- bench --only floor-tcp-64 --only floor-unix-64 --only floor-unix-256 --only floor-tcp-1 --only floor-tcp-10000 --rounds 9 --seconds 5
```

## Run it again

```
make bench                                                   # everything
cargo run --profile dist -p xtask -- bench --only tcp-64     # one workload; the others are kept
cargo run --profile dist -p xtask -- bench --rounds 10 --seconds 2 --seed 7
```

`--only` may be repeated. Of wrk, ab, h2load, oha, hey and iperf3, those on PATH take part. The numbers of every round are in [`results/performance.json`](results/performance.json).
";

/// The whole page.
pub(super) fn page(results: &Results) -> String {
    let mut text = HEAD.to_owned();
    let measured: Vec<(&Line, &LineResults)> =
        LINES.iter().filter_map(|line| Some((line, results.lines.get(line.id)?))).collect();
    text += "## Goals\n\n| load | goal for ours | measured | 95% interval | |\n| --- | --- | ---: | ---: | --- |\n";
    for (line, numbers) in &measured {
        for row in goals(line, numbers) {
            text += &row;
        }
    }
    text += "\n## Every client\n";
    for (line, numbers) in &measured {
        text += &section(line, numbers);
    }
    text += &about(&measured);
    text + TAIL
}

/// The goals of one line, with a row for each client to compare with.
pub(super) fn goals(line: &Line, numbers: &LineResults) -> Vec<String> {
    let ours = ours(line, numbers);
    let row = |goal: &Goal, what: &str, estimate: Option<Estimate>| {
        let (measured, interval, verdict) = match estimate {
            None => ("–".to_owned(), "–".to_owned(), "not measured"),
            Some(e) => (figure(e.value), ends(&e, figure), verdict(goal, &e)),
        };
        format!("| {} | {what} | {measured} | {interval} | {verdict} |\n", line.title)
    };
    let mut rows = Vec::new();
    for goal in line.goals {
        if goal.measure == Measure::Lateness {
            let late =
                numbers.level(ours.name(), |run| run.lateness_p99_ns.unwrap_or(0) as f64 / 1e3);
            rows.push(row(goal, &format!("p99 lateness ≤ {} µs", figure(goal.limit)), late));
        }
        for theirs in goal.against {
            let (what, ratio) = match goal.measure {
                Measure::Cpu => (
                    format!("≤ {} × client CPU of {}", figure(goal.limit), theirs.name()),
                    numbers.ratio(ours.name(), theirs.name(), |run| run.cpu_us()),
                ),
                _ => (
                    format!("≥ {} × {}", figure(goal.limit), theirs.name()),
                    numbers.ratio(ours.name(), theirs.name(), |run| run.rate_per_s),
                ),
            };
            rows.push(row(goal, &what, ratio));
        }
    }
    rows
}

/// Which of our backends the goals apply to.
fn ours(line: &Line, numbers: &LineResults) -> Client {
    let taken =
        |client: &&Client| client.engine().is_some() && client.engine() == numbers.auto.as_deref();
    line.clients.iter().find(taken).copied().unwrap_or(Client::Epoll)
}

fn verdict(goal: &Goal, estimate: &Estimate) -> &'static str {
    let (low, high) = (estimate.low >= goal.limit, estimate.high <= goal.limit);
    match (goal.measure, low, high) {
        (Measure::Rate, true, _) | (Measure::Cpu | Measure::Lateness, _, true) => "**met**",
        (Measure::Rate, _, true) | (Measure::Cpu | Measure::Lateness, true, _) => "**missed**",
        _ => "undecided",
    }
}

/// One line's clients.
pub(super) fn section(line: &Line, numbers: &LineResults) -> String {
    let bulk = line.work == Work::Bulk;
    let open = matches!(line.work, Work::Open(_));
    let many = line.has_many_connections();
    let late = match (open, many) {
        (true, _) => " p99 lateness, µs |",
        (_, true) => " memory, MB | connections | slowest 1% ÷ median |",
        _ => "",
    };
    let each = if bulk { "MB" } else { "request" };
    let mut text = format!(
        "\n### {}\n\n`{}`, {}, {} rounds of {} s, seed {}{}{}\n\n| client | {} | 95% interval | µs of client CPU per {each} | outside the kernel | failed |{late}\n| --- | ---: | ---: | ---: | ---: | ---: |{}\n",
        line.title,
        line.id,
        numbers.date,
        numbers.rounds,
        numbers.seconds,
        numbers.seed,
        numbers
            .offered_per_s
            .map(|rate| format!(", offered {} requests/s", format_rate(rate)))
            .unwrap_or_default(),
        numbers
            .auto
            .as_ref()
            .map(|engine| format!("; `--engine auto` takes {engine}"))
            .unwrap_or_default(),
        line.unit(),
        [" ---: |", " ---: | ---: | ---: |", ""][if open { 0 } else { 2 - usize::from(many) }],
    );
    for client in line.clients {
        let name = client.name();
        let scale = if bulk { 1e6 } else { 1.0 };
        let (Some(rate), Some(cpu), Some(user)) = (
            numbers.level(name, |run| run.rate_per_s),
            numbers.level(name, |run| run.cpu_us() * scale),
            numbers.level(name, |run| run.user_share().max(1e-6)),
        ) else {
            continue;
        };
        let shown =
            |rate: f64| if bulk { format!("{} G", figure(rate / 1e9)) } else { format_rate(rate) };
        let _ = write!(
            text,
            "| {name} | {} | {} | {} | {:.0}% | {} |",
            shown(rate.value),
            ends(&rate, shown),
            figure(cpu.value),
            100.0 * user.value,
            numbers.failed(name),
        );
        if open {
            let late = numbers.level(name, |run| run.lateness_p99_ns.unwrap_or(0) as f64 / 1e3);
            let _ = write!(text, " {} |", late.map(|e| figure(e.value)).unwrap_or_default());
        }
        if many {
            text += &many_connections(numbers, name);
        }
        text.push('\n');
    }
    for sentence in &numbers.skipped {
        let _ = write!(text, "\nSkipped: {sentence}.\n");
    }
    text
}

/// Memory and fairness of a client.
fn many_connections(numbers: &LineResults, client: &str) -> String {
    let level = |value: fn(&Run) -> f64| numbers.level(client, value).map_or(f64::NAN, |e| e.value);
    let memory = level(|run| run.peak_bytes.unwrap_or(0) as f64 / 1e6);
    // The geometric mean of rounds: in none of them may a share be zero.
    let slowest = level(|run| run.spread.map_or(f64::NAN, |spread| spread.slowest.max(1e-3)));
    let spreads = numbers.runs.iter().filter(|run| run.client == client);
    let fewest = spreads.filter_map(|run| run.spread).map(|spread| spread.connections).min();
    let fewest = fewest.map_or_else(|| "–".to_owned(), format_count);
    format!(" {} | {fewest} | {} |", figure(memory), figure(slowest))
}

/// Machines and versions, without duplicates.
fn about(measured: &[(&Line, &LineResults)]) -> String {
    let mut text = "\n## Machine and versions\n\n".to_owned();
    let mut once = Vec::new();
    for (_, numbers) in measured {
        let versions =
            numbers.versions.iter().map(|(client, version)| format!("{client}: {version}"));
        for line in std::iter::once(numbers.machine.clone()).chain(versions) {
            if !once.contains(&line) {
                let _ = writeln!(text, "- {line}");
                once.push(line);
            }
        }
    }
    text.push('\n');
    text
}

/// Three significant digits.
fn figure(value: f64) -> String {
    let digits = (2 - value.abs().max(1e-3).log10().floor() as i32).max(0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::bench::results::sample;
    use crate::pages;

    #[test]
    fn figures_have_three_digits() {
        for (value, text) in [
            (1.5, "1.5"),
            (0.65, "0.65"),
            (1.234, "1.23"),
            (100.0, "100"),
            (12345.6, "12346"),
            (0.01234, "0.0123"),
        ] {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn a_goal_is_met_missed_or_undecided_by_its_whole_interval() {
        let rate = Goal { measure: Measure::Rate, against: &[], limit: 1.5 };
        let cpu = Goal { measure: Measure::Cpu, ..rate };
        for (low, high, of_rate, of_cpu) in [
            (1.6, 1.8, "**met**", "**missed**"),
            (1.2, 1.4, "**missed**", "**met**"),
            (1.4, 1.6, "undecided", "undecided"),
        ] {
            let estimate = Estimate { value: (low + high) / 2.0, low, high };
            assert_eq!(verdict(&rate, &estimate), of_rate);
            assert_eq!(verdict(&cpu, &estimate), of_cpu);
        }
    }

    #[test]
    fn a_line_says_who_was_measured_and_what_was_skipped() {
        let line = &LINES[0];
        let rows = goals(line, &sample()).concat();
        assert!(rows.contains("| ≥ 1.5 × wrk | 2 | 2–2 | **met** |"), "{rows}");
        assert!(rows.contains("| ≥ 1.3 × ab | – | – | not measured |"), "{rows}");
        let text = section(line, &sample());
        assert!(text.contains("Skipped: hey is not installed (apt install hey).\n"), "{text}");
        assert!(text.contains("`--engine auto` takes epoll"), "{text}");
        assert!(text.contains("| wrk | 181,712 |"), "{text}");
    }

    #[test]
    fn lines_that_were_not_measured_are_left_out() {
        let results = Results { lines: BTreeMap::from([("tcp-64".to_owned(), sample())]) };
        let text = page(&results);
        assert!(text.contains("`tcp-64`") && !text.contains("`unix-64`"));
    }

    #[test]
    fn the_page_is_the_one_that_its_numbers_make() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
        let results: Results = pages::load(&docs.join("results/performance.json")).unwrap();
        let page_there = std::fs::read_to_string(docs.join("performance.md")).unwrap();
        assert!(!results.lines.is_empty());
        assert_eq!(page_there, page(&results), "make it again: cargo run -p xtask -- bench page");
    }
}
