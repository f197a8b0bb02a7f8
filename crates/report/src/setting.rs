//! Setting of a part in words: load, layout, server-side counts, blocks, and other activity on the
//! machine.

use base::format_rate;
use record::{
    Block, BlockState, Disturbance, Engine, Exchange, Layout, Load, Machine, Metric, Offer, Part,
    Run, ServedBy,
};

use crate::text::{cpus, listed, plural};
use crate::verdict::words::{Rounding, is_few, percent};
use crate::{place, text};

/// `client on CPU 1, stack on CPU 0`.
pub(crate) fn layout(layout: &Layout) -> String {
    if let Some(words) = place::layout(layout) {
        return words;
    }
    match (layout.client.is_empty(), layout.stack.is_empty()) {
        (true, true) => "client and stack not pinned".to_owned(),
        (true, false) => format!("client not pinned, stack on {}", cpus(&layout.stack)),
        (false, true) => format!("client on {}, stack not pinned", cpus(&layout.client)),
        _ if layout.client == layout.stack => {
            format!("client and stack share {}", cpus(&layout.client))
        }
        _ if !layout.beside_client.is_empty() => {
            let (client, stack) = (cpus(&layout.client), cpus(&layout.stack));
            let first = [["client".to_owned()].as_slice(), &layout.beside_client].concat();
            format!("{} on {client}, the rest of the stack on {stack}", listed(&first))
        }
        _ => format!("client on {}, stack on {}", cpus(&layout.client), cpus(&layout.stack)),
    }
}

/// `client on CPU 1`, for a run that starts no stack.
pub(crate) fn client_layout(layout: &Layout) -> String {
    match layout.client.is_empty() {
        true => "client not pinned".to_owned(),
        false => format!("client on {}", cpus(&layout.client)),
    }
}

/// `10 connections, a new one for each request, closed loop, then open loop at 918 requests/s`.
pub(crate) fn load(load: &Load, offers: &[(Offer, Option<f64>)]) -> String {
    let open_alone = offers.iter().all(|(offer, _)| *offer == Offer::Open) && !offers.is_empty();
    let most = if open_alone { "at most " } else { "" };
    let connections = load.connections.div_ceil(load.streams.max(1));
    let mut words = vec![format!("{most}{}", plural(u64::from(connections), "connection"))];
    if load.is_mixed {
        words = vec![
            format!("{most}{} at once", plural(u64::from(load.connections), "request")),
            "on connections of HTTP/1.1 or streams of HTTP/2".to_owned(),
        ];
    } else if load.streams > 1 {
        words[0] += &format!(" of {}", plural(u64::from(load.streams), "stream"));
    }
    if load.http2 && !load.is_mixed {
        words.push("HTTP/2".to_owned());
    }
    if load.new_connection {
        words.push("a new one for each request".to_owned());
    }
    if !load.kinds.is_empty() {
        words.push(plural(load.kinds.len() as u64, "kind") + " of request");
    }
    if load.events {
        words.push("events counted".to_owned());
    }
    words.extend(exchange(load));
    if load.threads > 1 {
        words.push(plural(u64::from(load.threads), "client thread"));
    }
    if load.engines.iter().any(|engine| *engine != Engine::Epoll) {
        words.push(engines(&load.engines));
    }
    if load.busy_poll {
        words.push("busy polling".to_owned());
    }
    if load.insecure {
        words.push("certificates not verified".to_owned());
    }
    if load.tls_resumption {
        words.push("TLS sessions resumed".to_owned());
    }
    if load.linger_zero {
        words.push("closed by reset (SO_LINGER 0)".to_owned());
    }
    let offers: Vec<String> = offers.iter().map(|(kind, rate)| offer(*kind, *rate)).collect();
    if !offers.is_empty() {
        words.push(offers.join(", then "));
    }
    words.join(", ")
}

fn exchange(load: &Load) -> Option<String> {
    match load.exchange {
        Exchange::Http => None,
        Exchange::Grpc => Some(match &load.method {
            Some(method) => format!("gRPC {method}"),
            None => "gRPC".to_owned(),
        }),
        Exchange::Oneshot => Some("one answer per connection".to_owned()),
        Exchange::Echo { bytes } => Some(format!("echo of {}", text::size(bytes as f64))),
        Exchange::Bulk { bytes } => {
            Some(format!("a stream in chunks of {}", text::size(bytes as f64)))
        }
        Exchange::Lines { lines, bytes } => {
            let lines = text::plural(u64::from(lines), "line");
            Some(format!("messages of {lines} ({})", text::size(bytes as f64)))
        }
    }
}

/// `epoll`, `epoll and io_uring`.
pub(crate) fn engines(engines: &[Engine]) -> String {
    let name = |engine: &Engine| match engine {
        Engine::Epoll => "epoll".to_owned(),
        Engine::IoUring => "io_uring".to_owned(),
    };
    listed(&engines.iter().map(name).collect::<Vec<_>>())
}

/// The offers of a part, with the rate of an open loop.
pub(crate) fn offers(part: &Part) -> Vec<(Offer, Option<f64>)> {
    let trials = part.measured_blocks().flat_map(Block::measured_trials);
    let summaries = part.variants.iter().flat_map(|variant| &variant.summaries);
    let all = trials
        .map(|trial| (trial.offer, trial.offered_per_s))
        .chain(summaries.map(|summary| (summary.offer, summary.offered_per_s)));
    let mut offers: Vec<(Offer, Option<f64>)> = Vec::new();
    for (offer, rate) in all {
        if !offers.iter().any(|(known, _)| *known == offer) {
            offers.push((offer, rate));
        }
    }
    offers.sort_by_key(|(offer, _)| *offer);
    offers
}

/// `closed loop`, `open loop at 918 requests/s`.
pub(crate) fn offer(offer: Offer, offered_per_s: Option<f64>) -> String {
    match (offer, offered_per_s) {
        (Offer::Closed, _) => "closed loop".to_owned(),
        (Offer::Open, Some(rate)) => format!("open loop at {} requests/s", format_rate(rate)),
        (Offer::Open, None) => "open loop".to_owned(),
        (Offer::WarmUp, _) => "warm-up".to_owned(),
        (Offer::Calibration, _) => "calibration".to_owned(),
    }
}

/// The name of a metric in a table.
pub(crate) fn metric(metric: Metric, bulk: bool) -> &'static str {
    match metric {
        Metric::Throughput if bulk => "bytes/s",
        Metric::Throughput => "requests/s",
        Metric::P50 => "p50",
        Metric::P99 => "p99",
        Metric::Cpu => "CPU per request",
        Metric::Memory => "peak memory",
    }
}

/// The source of a server-side count.
pub(crate) fn served_by(by: &ServedBy) -> String {
    match by {
        ServedBy::Wsgi => "the WSGI counter in the application".to_owned(),
        ServedBy::StubStatus(address) => format!("nginx's stub_status at {address}"),
        ServedBy::Page(address) => format!("the page {address}"),
        ServedBy::LogLines(file) => format!("the lines of {file}"),
        ServedBy::FileSize(file) => format!("the size of {file}"),
        ServedBy::CounterFile(file) => format!("the counter file {file}"),
    }
}

/// How a block that does not count ended; `None` for others.
pub(crate) fn block(state: BlockState) -> Option<&'static str> {
    match state {
        BlockState::Complete => None,
        BlockState::Calibration => Some("calibration"),
        BlockState::Interrupted => Some("interrupted"),
        BlockState::Failed => Some("failed"),
        BlockState::Unfinished => Some("unfinished"),
    }
}

/// `12 blocks, 1 failed`.
pub(crate) fn blocks(part: &Part) -> String {
    let mut words = vec![match part.complete_blocks().count() as u64 {
        0 => "no complete block".to_owned(),
        count => plural(count, "block"),
    }];
    for state in [BlockState::Failed, BlockState::Interrupted, BlockState::Unfinished] {
        let ended_so = part.measured_blocks().filter(|b| b.state == state).count();
        if let Some(name) = block(state).filter(|_| ended_so > 0) {
            words.push(format!("{} {name}", base::format_count(ended_so as u64)));
        }
    }
    words.join(", ")
}

/// Load, layout and blocks of a part in one line.
pub(crate) fn line(part: &Part) -> String {
    let mut words = vec![load(&part.load, &offers(part)), part_layout(part), blocks(part)];
    if part.quick {
        words.push("shortened for a quick look".to_owned());
    }
    if part.independent_starts && part.variants.len() > 1 {
        words.push("independent starts".to_owned());
    }
    words.join("; ")
}

/// CPUs of client and stacks; only the client's if the servers were already running.
pub(crate) fn part_layout(part: &Part) -> String {
    match part.variants.iter().all(|variant| variant.commands.is_empty()) {
        true if !part.layout.machines.is_empty() => layout(&part.layout),
        true => client_layout(&part.layout),
        false => layout(&part.layout),
    }
}

/// What it costs that client and stack are on separate CPUs.
pub(crate) struct WakeupCost {
    /// In a line, without a full stop.
    pub(crate) brief: String,
    /// What it does to ratios.
    pub(crate) why: String,
}

/// What it costs that client and stack are on separate CPUs; `None` unless they are in some part.
pub(crate) fn waking(run: &Run) -> Option<WakeupCost> {
    let is_split = |part: &&Part| {
        let Layout { client, stack, .. } = &part.layout;
        let shared = client.iter().any(|cpu| stack.iter().any(|other| other == cpu));
        !client.is_empty() && !stack.is_empty() && !shared
    };
    let split: Vec<String> =
        run.parts.iter().filter(is_split).map(|part| part.name.clone()).collect();
    let cost = run.machine.wake.filter(|_| !split.is_empty())?;
    let of = match split.len() == run.parts.len() {
        true => "all variants".to_owned(),
        false => format!("the variants of {}", listed(&split)),
    };
    let (other, same) = (cost.other_cpu.0 as f64, cost.same_cpu.0 as f64);
    Some(WakeupCost {
        brief: format!(
            "crossing CPUs adds about {} to every request of {of}",
            rounded(other - same)
        ),
        why: format!(
            "Client and stack are on separate CPUs. Waking a thread took {} on another CPU and {} on \
             the same one. Ratios of short requests are therefore closer to 1 than on one CPU.",
            text::time(other),
            text::time(same),
        ),
    })
}

/// A duration in two significant digits.
fn rounded(nanos: f64) -> String {
    let unit = text::second_digit(nanos);
    let time = text::time((nanos / unit).round().max(0.0) * unit);
    let (number, unit) = time.split_once(' ').unwrap_or((&time, ""));
    format!("{} {unit}", text::without_zeros(number))
}

/// Below this share, other processes and the hypervisor are not mentioned.
const DISTURBANCE_MIN: f64 = 0.02;

/// Other activity on the machine and its cost; `None` for a quiet machine.
pub(crate) fn disturbance(part: &Part, machine: &Machine) -> Option<String> {
    let Disturbance { other_cpus, stolen, rounds, rounds_left_out, half_width, .. } =
        part.disturbance?;
    let mut causes = Vec::new();
    if let Some(cpus) = other_cpus.filter(|cpus| *cpus >= DISTURBANCE_MIN) {
        causes.push(format!("other processes used {} on average", cpu_use(cpus, machine.cpus)));
    }
    if let Some(share) = stolen.filter(|share| *share >= DISTURBANCE_MIN) {
        let share = percent(share.min(1.0), Rounding::Nearest);
        causes.push(format!("the hypervisor took {share} of the CPU time"));
    }
    if causes.is_empty() && rounds_left_out == 0 {
        return None;
    }
    let mut words = listed(&causes);
    if rounds_left_out > 0 {
        let so = if words.is_empty() { "" } else { ", so " };
        let were = if rounds_left_out == 1 { "was" } else { "were" };
        words += &format!(
            "{so}{} of {} {were} left out",
            base::format_count(u64::from(rounds_left_out)),
            plural(u64::from(rounds), "round"),
        );
    }
    let quiet = part.disturbance?.half_width_if_quiet;
    let narrower = |quiet: &f64| half_width.is_none_or(|half| *quiet < half);
    if let Some(quiet) = quiet.filter(narrower).filter(|_| !is_few(part.complete_blocks().count()))
    {
        let quiet = percent(quiet, Rounding::Up);
        words += &format!("; on a quiet machine the interval would have been about ±{quiet}");
    }
    Some(words)
}

/// `31% of a CPU`, `1.4 CPUs`; at most the CPUs of the machine.
fn cpu_use(cpus: f64, online: u32) -> String {
    let most = if online == 0 { f64::INFINITY } else { f64::from(online) };
    let cpus = cpus.min(most);
    if cpus < 0.995 {
        format!("{} of a CPU", percent(cpus, Rounding::Nearest))
    } else {
        let number = format!("{cpus:.1}");
        let number = number.strip_suffix(".0").unwrap_or(&number);
        format!("{number} {}", if number == "1" { "CPU" } else { "CPUs" })
    }
}

#[cfg(test)]
mod tests {
    use base::CpuSet;

    use super::*;

    #[test]
    fn a_layout_in_words() {
        let cpus = |text: &str| text.parse::<CpuSet>().unwrap_or_default();
        for (client, stack, words) in [
            ("1", "0", "client on CPU 1, stack on CPU 0"),
            ("0-1", "0-1", "client and stack share CPUs 0-1"),
            ("", "", "client and stack not pinned"),
            ("2-3", "", "client on CPUs 2-3, stack not pinned"),
            ("", "0", "client not pinned, stack on CPU 0"),
        ] {
            let of = Layout { client: cpus(client), stack: cpus(stack), ..Layout::default() };
            assert_eq!(layout(&of), words);
        }
        let beside_client = vec!["nginx".to_owned()];
        let of = Layout { client: cpus("1"), stack: cpus("0"), beside_client, ..Layout::default() };
        assert_eq!(layout(&of), "client and nginx on CPU 1, the rest of the stack on CPU 0");
        assert_eq!(
            client_layout(&Layout { client: cpus("1"), ..Layout::default() }),
            "client on CPU 1"
        );
    }

    #[test]
    fn a_cost_in_two_digits() {
        let times = [17_660.0, 30_160.0, 940.0, 4.0, -3.0, 123_000.0, 1_950_000.0];
        assert_eq!(
            times.map(rounded),
            ["18 µs", "30 µs", "940 ns", "4 ns", "0 ns", "120 µs", "2 ms"]
        );
    }

    #[test]
    fn a_load_in_words() {
        let plain = Load { connections: 1, threads: 1, ..Load::default() };
        assert_eq!(load(&plain, &[(Offer::Closed, None)]), "1 connection, closed loop");
        let all = Load {
            connections: 1_000,
            threads: 2,
            new_connection: true,
            exchange: Exchange::Echo { bytes: 64 },
            engines: vec![Engine::Epoll, Engine::IoUring],
            busy_poll: true,
            linger_zero: true,
            http2: true,
            streams: 10,
            is_mixed: false,
            insecure: true,
            tls_resumption: true,
            kinds: Vec::new(),
            events: false,
            status: Some(200),
            method: None,
        };
        assert_eq!(
            load(&all, &[(Offer::Open, Some(20_000.0))]),
            "at most 100 connections of 10 streams, HTTP/2, a new one for each request, echo of 64 B, 2 client threads, \
             epoll and io_uring, busy polling, certificates not verified, TLS sessions resumed, \
             closed by reset (SO_LINGER 0), open loop at 20,000 requests/s"
        );
        let mixed = Load { connections: 16, is_mixed: true, ..plain.clone() };
        assert_eq!(
            load(&mixed, &[(Offer::Closed, None)]),
            "16 requests at once, on connections of HTTP/1.1 or streams of HTTP/2, closed loop"
        );
        let both = [(Offer::Closed, None), (Offer::Open, Some(918.0))];
        let method = Some("a.B/C".to_owned());
        let calls = Load { exchange: Exchange::Grpc, method, http2: true, ..plain.clone() };
        assert_eq!(
            load(&calls, &[(Offer::Closed, None)]),
            "1 connection, HTTP/2, gRPC a.B/C, closed loop"
        );
        let bulk = Load { exchange: Exchange::Bulk { bytes: 65_536 }, ..plain };
        assert_eq!(
            load(&bulk, &both),
            "1 connection, a stream in chunks of 64 KiB, closed loop, then open loop at 918 requests/s"
        );
    }

    #[test]
    fn other_processes_never_use_more_than_the_machine_has() {
        assert_eq!(cpu_use(0.31, 2), "31% of a CPU");
        assert_eq!(cpu_use(1.0, 2), "1 CPU");
        assert_eq!(cpu_use(1.42, 2), "1.4 CPUs");
        assert_eq!(cpu_use(3.53, 2), "2 CPUs");
        assert_eq!(cpu_use(3.53, 0), "3.5 CPUs");
    }
}
