//! The page: what a round trip costs, what of it is whose, and what that says about the usual reasons.

use std::fmt::Write as _;

use stats::Estimate;

use super::WayResults;
use super::functions::{Group, Profile};
use super::namespaces::Namespaces;
use super::way::{SIZES, Way};
use crate::options::Options;

pub(super) fn page(all: &[WayResults], namespaces: &Namespaces, options: Options) -> String {
    let mut out = String::from(
        "# Why is a Unix socket faster than loopback TCP?\n\n\
         What does a message cost the kernel, by function, and which of the usual reasons are real?\n\n\
         A client and a server on one CPU send each other a message and its answer, one at a time, so a \
         round trip takes what both programs and the kernel compute for four system calls. The ways \
         differ in one thing each. The usual reasons (headers, routing, checksums, acknowledgements) \
         are tested below.\n",
    );
    for size in SIZES {
        trips(&mut out, all, size);
        profiles(&mut out, all, size);
    }
    reasons(&mut out, all);
    for (package, without) in &namespaces.missing {
        let _ = write!(out, "\nNot measured: {without} (`apt-get install {package}`).\n");
    }
    let machine = host::machine();
    let samples = || all.iter().filter_map(|measured| Some(measured.profile.as_ref()?.samples));
    let _ = write!(
        out,
        "\n## How\n\n{} rounds of all ways in random order, 100 ms each; times are geometric means with \
         95% intervals, differences and their intervals are over the rounds. The functions are those \
         that `perf` saw in 2 s of each way (about 5,000 samples per second of the CPU's clock), {} to {} of both programs, grouped \
         by their names (`crates/dev/xtask/src/why_unix/functions.rs`). In a virtual machine without \
         hardware counters, time during which interrupts are off is attributed to the function that \
         turns them on again, mostly when a thread is woken or switched. The server and the client are \
         in network namespaces of their own, so no firewall rule of the machine is in between.\n\n\
         Machine: {}, {} CPUs, Linux {}, congestion control {}. Repeat it as root with `cargo run \
         --release -p xtask -- why-unix --runs {} --seed {}`.\n",
        options.runs,
        base::format_count(samples().min().unwrap_or_default()),
        base::format_count(samples().max().unwrap_or_default()),
        machine.cpu_model,
        machine.cpus,
        machine.kernel.trim(),
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")
            .map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned()),
        options.runs,
        options.seed.0,
    );
    out
}

fn find(all: &[WayResults], way: Way, size: usize) -> Option<&WayResults> {
    all.iter().find(|measured| measured.way == way && measured.size == size)
}

/// What cannot be estimated.
const NONE: Estimate = Estimate { value: f64::NAN, low: f64::NAN, high: f64::NAN };

fn level(values: &[f64]) -> Estimate {
    stats::level(values, 0.95).unwrap_or(NONE)
}

/// The mean difference in nanoseconds over the rounds.
fn difference(from: &WayResults, to: &WayResults) -> Estimate {
    let differences: Vec<f64> =
        to.trips_ns.iter().zip(&from.trips_ns).map(|(to, from)| to - from).collect();
    match stats::Spread::of(&differences) {
        Some(spread) => {
            let half = spread.t_half_width(0.05);
            Estimate { value: spread.mean, low: spread.mean - half, high: spread.mean + half }
        }
        None => NONE,
    }
}

/// The ratio of two ways.
fn ratio(from: &WayResults, to: &WayResults) -> Option<Estimate> {
    let pairs: Vec<(f64, f64)> =
        from.trips_ns.iter().copied().zip(to.trips_ns.iter().copied()).collect();
    stats::mean_log_ratio(&pairs, 0.95).ok()
}

fn size_name(size: usize) -> String {
    if size < 1024 { format!("{size} bytes") } else { format!("{} KiB", size / 1024) }
}

fn trips(out: &mut String, all: &[WayResults], size: usize) {
    let _ = write!(
        out,
        "\n## Messages of {}\n\n| way | µs per round trip | compared with | difference, µs | ratio |\n\
         | :-- | --: | :-- | --: | --: |\n",
        size_name(size)
    );
    for measured in all.iter().filter(|measured| measured.size == size) {
        let own = level(&measured.trips_ns);
        let _ = write!(
            out,
            "| {} | {:.2} ({:.2}–{:.2}) |",
            measured.way.name(),
            own.value / 1e3,
            own.low / 1e3,
            own.high / 1e3
        );
        let reference = measured.way.reference().and_then(|way| find(all, way, size));
        match reference.and_then(|from| Some((from, ratio(from, measured)?))) {
            Some((from, ratio)) => {
                let d = difference(from, measured);
                let _ = writeln!(
                    out,
                    " {} | {:+.2} ({:+.2} to {:+.2}) | {:.2}× ({:.2}–{:.2}) |",
                    from.way.name(),
                    d.value / 1e3,
                    d.low / 1e3,
                    d.high / 1e3,
                    ratio.value,
                    ratio.low,
                    ratio.high
                );
            }
            None => out.push_str(" | | |\n"),
        }
    }
}

/// Microseconds of a group in a round trip.
fn spent(measured: &WayResults, profile: &Profile, group: Group) -> f64 {
    profile.share(group) * level(&measured.trips_ns).value / 1e3
}

fn profiles(out: &mut String, all: &[WayResults], size: usize) {
    let with: Vec<(&WayResults, &Profile)> = all
        .iter()
        .filter(|measured| measured.size == size)
        .filter_map(|measured| Some((measured, measured.profile.as_ref()?)))
        .collect();
    if with.is_empty() {
        return;
    }
    let heads: Vec<&str> = with.iter().map(|(measured, _)| measured.way.name()).collect();
    let _ = write!(
        out,
        "\nMicroseconds of a round trip by what the functions belong to:\n\n| | {} |\n| :-- |{}\n",
        heads.join(" | "),
        " --: |".repeat(with.len())
    );
    for group in Group::ALL {
        let cells: Vec<String> = with
            .iter()
            .map(|(measured, profile)| match spent(measured, profile, group) {
                zero if zero < 0.005 => "–".to_owned(),
                us => format!("{us:.2}"),
            })
            .collect();
        let _ = writeln!(out, "| {} | {} |", group.name(), cells.join(" | "));
    }
    let others: Vec<String> = with
        .iter()
        .filter_map(|(measured, profile)| {
            let others: Vec<String> =
                profile.others.iter().take(3).map(|(name, _)| format!("`{name}`")).collect();
            (!others.is_empty()).then(|| format!("{}: {}", measured.way.name(), others.join(", ")))
        })
        .collect();
    let _ = write!(out, "\nLargest functions of *other*: {}.\n", others.join("; "));
}

/// The difference between TCP and a Unix socket, and which part of it each usual reason is.
fn reasons(out: &mut String, all: &[WayResults]) {
    out.push_str(
        "\n## The usual reasons\n\nThe functions that each reason names, in a round trip by TCP over the \
         loopback device, as a share of its difference from a Unix stream socket. Shares do not add up to \
         100%, because a Unix socket has work of its own that TCP does not have.\n\n\
         | reason | 100 bytes | 16 KiB |\n| :-- | --: | --: |\n",
    );
    let share = |size: usize, groups: &[Group]| {
        let (tcp, unix) = (find(all, Way::Tcp, size)?, find(all, Way::Unix, size)?);
        let (of_tcp, of_unix) = (tcp.profile.as_ref()?, unix.profile.as_ref()?);
        let more: f64 = groups
            .iter()
            .map(|group| spent(tcp, of_tcp, *group) - spent(unix, of_unix, *group))
            .sum();
        let all_of_it = (level(&tcp.trips_ns).value - level(&unix.trips_ns).value) / 1e3;
        Some((more, 100.0 * more / all_of_it))
    };
    for (reason, groups) in [
        ("headers, segments, timers: TCP itself", &[Group::Tcp][..]),
        ("acknowledgements and congestion control", &[Group::Acknowledgement]),
        ("IP and routing", &[Group::Ip]),
        ("the network device and its queue", &[Group::Device]),
        ("checksums", &[Group::Checksum]),
        ("netfilter, without any rule", &[Group::Tracking]),
        ("sockets, buffers, copying", &[Group::Buffers]),
        ("waking and switching threads", &[Group::Switching]),
        ("what a Unix socket does instead", &[Group::Unix]),
    ] {
        let cell = |size| match share(size, groups) {
            Some((us, percent)) => format!("{us:+.2} µs, {percent:.0}%"),
            None => "–".to_owned(),
        };
        let _ = writeln!(out, "| {reason} | {} | {} |", cell(SIZES[0]), cell(SIZES[1]));
    }
}
