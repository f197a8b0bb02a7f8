//! Findings in words, with what to do about them.

use base::{Nanos, format_count};
use ledger::{Discrepancy, Law};
use record::{
    Block, BusyProcess, Disturber, Fact, Finding, Metric, NetworkLimit, Offer, Part, ProfileGap,
    Severity, UncheckedInput,
};

use crate::text::{listed, plural, second_digit};
use crate::verdict::words::{self, Rounding, percent, signed_percent};
use crate::{disruption, ledger as equations, setting, view};

/// A finding with what to do about it: one line without a full stop.
pub fn words(part: &Part, finding: &Finding) -> String {
    let log = match &finding.fact {
        Fact::Failures { log: Some(log), .. } => format!("; last line of its log: {log}"),
        _ => String::new(),
    };
    clause(part, finding) + &log
}

/// `52,555 of 100,471 requests failed (52,555 status 502)`.
pub(crate) fn failed(failed: u64, sent: u64, kinds: &ledger::Errors) -> String {
    let kinds = match equations::failures(kinds) {
        none if none.is_empty() => String::new(),
        kinds => format!(" ({kinds})"),
    };
    format!("{} of {} failed{kinds}", format_count(failed), plural(sent, "request"))
}

/// Why there is more CPU time in one of samples and count.
fn gap(cause: ProfileGap) -> &'static str {
    match cause {
        ProfileGap::Waking => {
            "; it charges threads from the moment at which they are woken, samples belong to them from \
             that at which they run"
        }
        ProfileGap::Steal => {
            "; the hypervisor took CPU time, which the samples contain and the count does not"
        }
    }
}

/// What of the network limits the figures, and what to do.
fn network(by: NetworkLimit) -> String {
    match by {
        NetworkLimit::Bytes { used_per_s, carried_per_s } => format!(
            "its responses take {}/s, and the network carried {}/s; smaller responses or a faster \
             network show more of the server",
            base::Bytes(used_per_s as u64),
            base::Bytes(carried_per_s as u64)
        ),
        NetworkLimit::RoundTrip { round_trip, connections, most_per_s } => format!(
            "with a round trip of {round_trip}, {} carry at most {} requests/s; use more (-c)",
            plural(u64::from(connections), "connection"),
            format_count(most_per_s as u64)
        ),
    }
}

pub(crate) fn clause(part: &Part, finding: &Finding) -> String {
    // A single variant need not be named.
    let variant = finding.variant.filter(|_| part.variants.len() > 1);
    let name = variant.map(|variant| view::name(part, variant));
    let subject = name.unwrap_or("the server");
    let limited = match name {
        Some(name) => format!("{name} is client-limited"),
        None => "client-limited".to_owned(),
    };
    // If the text does not name the variant, its name precedes it with a colon.
    let of = |words: String| match name {
        Some(name) => format!("{name}: {words}"),
        None => words,
    };
    let share = |share: f64| percent(share, Rounding::Nearest);
    match &finding.fact {
        Fact::Baseline { stand_in } => {
            let other = view::name(part, *stand_in);
            format!("{subject} could not start, so the others are compared with {other}")
        }
        Fact::WarmUp { watched } => format!(
            "{subject} had not settled after {watched} of calibration; its figures may include warm-up"
        ),
        Fact::NullServer { factor, limit } => format!(
            "{limited}: the null server on the same transport is only {factor:.1}× as fast \
             ({limit:.0}× needed); give the client more threads (--threads) or CPUs"
        ),
        Fact::NetworkLimited { by } => {
            format!("{}: {}", limited.replace("client", "network"), network(*by))
        }
        Fact::ClientBusy { share: busy, threads } => format!(
            "{limited}: a client thread was busy {} of the time; try --threads {}",
            share(*busy),
            threads + 1
        ),
        Fact::Ledger { gap } => of(unequal(gap)),
        Fact::Discarded { offer, discarded, completed } => of(format!(
            "its kernel discarded {} of {} ({}) {}, because the receive buffer was full",
            format_count(*discarded),
            plural(*completed, "request"),
            share(*discarded as f64 / (*completed).max(1) as f64),
            during(*offer)
        )),
        Fact::Uncounted { offer } => of(format!(
            "the server-side count of a trial differs from its requests {}, although that of all \
             trials does not",
            during(*offer)
        )),
        Fact::ServedUnreadable { error } => {
            of(format!("the server's own count could not be read: {error}"))
        }
        Fact::TrialsDiffer { trials, session } => of(format!(
            "the trials add up to {}, but the session counted {}; please report this bug",
            plural(*trials, "request"),
            format_count(*session)
        )),
        Fact::SeriesChanged { offer, before, now, completed } => of(format!(
            "the recorded series of its {} adds up to {} now, {} when it was recorded, and {} completed; its slots were changed afterwards",
            setting::offer(*offer, None),
            format_count(*now),
            format_count(*before),
            plural(*completed, "request")
        )),
        Fact::Failures { offer, failed: n, sent, kinds, .. } => {
            of(format!("{} {}{}", failed(*n, *sent, kinds), during(*offer), may_vary(kinds)))
        }
        Fact::Idle { connections, share: idle, limit } => of(format!(
            "its {} had no request outstanding for {} of the time (limit {}); \
             give the client more CPU time",
            plural(u64::from(*connections), "connection"),
            share(*idle),
            share(*limit)
        )),
        Fact::Lateness { p99, limit, shared_cpus } => {
            of(lateness(*p99, *limit, *shared_cpus, &lower_rate(part, finding.variant, LATE_SHARE)))
        }
        Fact::Uneven { source, other, here, there, p, log_bound } => {
            let other = view::name(part, *other);
            uneven(subject, other, *source, *here, *there, *p, *log_bound)
        }
        Fact::StackFailed { error } | Fact::MachineLost { error } => of(error.clone()),
        Fact::ActionFailed { action, step, outcome, log } => {
            let step = if step == action { String::new() } else { format!(" {step}") };
            let log = log.as_ref().map_or_else(String::new, |log| format!(": {log}"));
            of(format!("the action {action}{step} {}{log}", disruption::outcome(*outcome)))
        }
        Fact::Killed { message } => of(message.clone()),
        Fact::Throttled { times } => {
            let times = times_in_words(*times);
            of(format!("a CPU quota throttled the client and the stack {times}; raise the quota"))
        }
        Fact::Neighbours { cpus, processes } => neighbours(*cpus, processes),
        Fact::Unpinned { process } => of(format!(
            "{process} left the CPUs of its stack; remove its own CPU affinity settings"
        )),
        Fact::Governor { before, after } => format!(
            "the CPU frequency governor changed from {} to {}; set one governor for all CPUs",
            before.join(", "),
            after.join(", ")
        ),
        Fact::AcceptQueue { counter, rise, waited } => of(accept_queue(counter, *rise, *waited)),
        Fact::Resent { counter, rise, waited } => of(resent(counter, *rise, *waited)),
        Fact::TimeWait { rise } => of(format!(
            "{} skipped TIME_WAIT because the kernel's limit was reached",
            plural(*rise, "closed connection")
        )),
        Fact::Conntrack { share: used, limit } => format!(
            "the connection-tracking table is {} full (limit {}), and new connections stall when it \
             is full; raise nf_conntrack_max, or do not track loopback",
            share(*used),
            share(*limit)
        ),
        Fact::Ports { changes } => of(format!(
            "one source address ran out of ports {}, so connections came from several addresses in \
             127.0.0.0/27; use a Unix socket or keep-alive connections to avoid this",
            times_in_words(*changes)
        )),
        Fact::Drift { change } if !change.is_finite() => {
            format!("{subject} completed nothing for a part of the trial")
        }
        Fact::Drift { change } => {
            format!(
                "throughput of {subject} changed by {} within the trial",
                signed_percent(*change)
            )
        }
        Fact::NotSteady { trials, of } => format!(
            "{subject} is not steady: its throughput changed within {} of {}",
            format_count(u64::from(*trials)),
            plural(u64::from(*of), "trial")
        ),
        Fact::Unsustained { achieved, limit, dropped, connections_cap } => format!(
            "{subject} did not sustain the offered rate: {} of the requests were completed ({} needed){}",
            share(*achieved),
            share(*limit),
            unsustained_cause(
                *dropped,
                *connections_cap,
                &lower_rate(part, finding.variant, SUGGESTED_SHARE * achieved)
            )
        ),
        Fact::NotServed => {
            of("no server-side count; add --served-by or the WSGI counter to cross-check"
                .to_owned())
        }
        Fact::FewRequests { fewest, wanted } => of(format!(
            "a trial has only {}, too few for a reliable p99; {} per trial are enough",
            plural(*fewest, "request"),
            format_count(*wanted)
        )),
        Fact::Answers { length, other, other_length } => format!(
            "response bodies differ in size: {} for {subject}, {} for {}; check that both do the \
             same work",
            plural(*length, "byte"),
            format_count(*other_length),
            view::name(part, *other),
        ),
        Fact::NotProfiled { why } => format!("no profile: {why}"),
        Fact::NothingSampled { few_blocks: true } => {
            "no profile: fewer than two blocks are complete".to_owned()
        }
        Fact::NothingSampled { few_blocks: false } => "no profile: a variant has no samples; of servers \
             that were running already, only those on this machine are sampled, and other users' only by root"
            .to_owned(),
        Fact::ProfileDiffers { sampled, counted, cause, .. } => of(format!(
            "the samples do not add up to the CPU time that the kernel counted: {sampled} of \
             {counted}{}",
            cause.map_or("", gap)
        )),
        Fact::Standing => "the servers were already running, so there is one start of each: the \
             interval covers these starts only, and not how starts of the same server differ"
            .to_owned(),
        Fact::BodyVaries { length } => of(body_varies(*length).to_owned()),
        Fact::ErrorPage { status } => of(error_page(*status)),
        Fact::Edges { mean, half_width } => of(format!(
            "slow requests were cut off by the ends of slices: {} (±{}) of the connections' time is \
             unaccounted for; allow more time (--max-time)",
            signed_percent(*mean),
            share(*half_width)
        )),
        Fact::LongStops { stopped, slice, needed } => of(format!(
            "no request ended for {stopped} around the end of an average slice, and slices of {slice} are \
             too short for such stops: what they measure depends on where they begin; allow at least {} \
             times the time (--max-time)",
            (needed * stopped.0 as f64 / (slice.0 as f64).max(1.0)).ceil()
        )),
        Fact::ShortSlices { window, p99 } => of(format!(
            "p99 has no upper limit: its slices measured {window} each on average, which is shorter \
             than the p99 itself ({p99}); allow more time (--max-time)"
        )),
        Fact::RareStalls { measured, longest, .. } => of(rare_stalls(*measured, *longest)),
        Fact::Unchecked { what } => of(unchecked(*what).to_owned()),
        Fact::TimeWaitSockets { more, ports } => time_wait_sockets(*more, *ports),
        Fact::Tracked => {
            "the kernel tracks loopback connections (because of NAT rules such as Docker's), \
             which costs time per connection; compare only with machines that do the same"
                .to_owned()
        }
    }
}

fn rare_stalls(measured: u32, longest: Nanos) -> String {
    match measured {
        0 => format!(
            "a request took {longest}, but none that counts for its throughput stalled; the \
             intervals of its throughput and p99 allow for stalls like this one"
        ),
        _ => format!(
            "only {} of up to {longest} in what was measured; the intervals of its throughput and \
             p99 allow for more or fewer, and that of p99 for longer ones",
            plural(measured.into(), "stall")
        ),
    }
}

fn during(offer: Offer) -> String {
    let preposition = match offer {
        Offer::Closed | Offer::Open => "in the",
        Offer::WarmUp | Offer::Calibration => "during",
    };
    format!("{preposition} {}", setting::offer(offer, None))
}

fn lateness(p99: Nanos, limit: Nanos, shared_cpus: bool, lower: &str) -> String {
    let why = match shared_cpus {
        true => " because the client shares its CPUs with the stack".to_owned(),
        false => format!("; stop what else runs on the client's CPUs, or {lower}"),
    };
    format!("1% of requests were sent more than {p99} late (limit {limit}){why}")
}

/// The share of the offered rate to suggest to a client that is late.
const LATE_SHARE: f64 = 0.5;

/// The share of a sustained rate to suggest: at its capacity a server's queue grows without end.
const SUGGESTED_SHARE: f64 = 0.9;

/// How to offer less: `share` of the rate that a variant was offered, rounded down to two digits.
fn lower_rate(part: &Part, variant: Option<u32>, share: f64) -> String {
    let trials = part.measured_blocks().flat_map(Block::measured_trials);
    let rates = trials
        .filter(|trial| variant.is_none_or(|variant| trial.variant == variant))
        .filter_map(|trial| trial.offered_per_s);
    let rate = rates.reduce(f64::min).map(|rate| two_digits(rate * share)).filter(|r| *r >= 1.0);
    let is_load =
        part.variants.iter().all(|v| v.commands.is_empty()) && part.comparisons.is_empty();
    match (rate, is_load) {
        (Some(rate), true) => format!("offer a lower rate (--rate {rate:.0})"),
        (None, true) => "offer a lower rate with --rate".to_owned(),
        (Some(rate), false) => format!(
            "offer at most {}/s ({}, or open in an experiment)",
            format_count(rate as u64),
            open_share(part, rate)
        ),
        (None, false) => {
            "offer a lower rate with --open-share, or open in an experiment".to_owned()
        }
    }
}

/// The option that offers this rate: as a share of the slowest variant's throughput.
fn open_share(part: &Part, rate: f64) -> String {
    let closed = part.variants.iter().flat_map(|variant| &variant.summaries);
    let throughputs = closed.filter(|s| s.offer == Offer::Closed).map(|s| s.throughput_per_s.value);
    match throughputs.reduce(f64::min).map(|slowest| (100.0 * rate / slowest).floor()) {
        Some(percent) if (1.0..=100.0).contains(&percent) => format!("--open-share {percent}%"),
        _ => "--open-share".to_owned(),
    }
}

fn two_digits(value: f64) -> f64 {
    let unit = second_digit(value);
    (value / unit).floor() * unit
}

/// The most processes to name.
const NAMED_MAX: usize = 3;

fn neighbours(cpus: f64, processes: &[BusyProcess]) -> String {
    let name = |p: &BusyProcess| {
        format!("{}, pid {}: {}", p.name, p.pid, percent(p.cpus, Rounding::Nearest))
    };
    let named: Vec<String> = processes.iter().take(NAMED_MAX).map(name).collect();
    let named = match (named.is_empty(), processes.len().saturating_sub(NAMED_MAX)) {
        (true, _) => String::new(),
        (false, 0) => format!(" ({})", named.join("; ")),
        (false, more) => format!(" ({}; and {more} more)", named.join("; ")),
    };
    format!(
        "other processes used {cpus:.1} CPUs just before the load{named}: a single load cannot tell \
         their effect from the server's; stop them, or use compare"
    )
}

/// Connections refused by the kernel; `waited` means that requests of this run may be affected.
fn accept_queue(counter: &str, rise: u64, waited: bool) -> String {
    let turned_away = format!("{} turned away", were(rise, "connection"));
    match waited {
        true => format!(
            "{turned_away} because the listening socket's queue was full ({counter}); \
             raise the server's backlog or net.core.somaxconn"
        ),
        false => format!(
            "{turned_away} somewhere on this machine ({counter}), but no request failed or waited \
             for that: they were another program's, or were opened before the load"
        ),
    }
}

/// Packets retransmitted by the kernel; `waited` means that requests of this run may have waited
/// for them.
fn resent(counter: &str, rise: u64, waited: bool) -> String {
    match waited {
        true => format!(
            "{} sent again ({counter}) and requests waited for them; \
             look for a full backlog or connection-tracking table",
            were(rise, "packet")
        ),
        false => format!(
            "the kernel's {counter} rose by {}, but no request was slow enough for a lost packet",
            format_count(rise)
        ),
    }
}

/// Why a server did not sustain the offered rate, and what to do.
fn unsustained_cause(dropped: u64, connections_cap: Option<u32>, lower: &str) -> String {
    let requests = were(dropped, "request");
    match (dropped, connections_cap) {
        (0, _) => format!("; {lower}"),
        (_, Some(cap)) => format!(
            "; {requests} dropped because all {} were in use: allow more with --connections, or {lower}",
            plural(u64::from(cap), "connection")
        ),
        (_, None) => {
            format!("; {requests} dropped because the server could not keep up: {lower}")
        }
    }
}

/// What to do if bodies differ that may.
pub(crate) fn may_vary(kinds: &ledger::Errors) -> &'static str {
    match (kinds.contains_key("length differs"), kinds.contains_key("body differs")) {
        (true, _) => {
            "; if the length of the body may vary, add --check status (check = \"status\" in an \
             experiment's [load])"
        }
        (false, true) => {
            "; if the body may vary, add --check length (check = \"length\" in an experiment's \
             [load])"
        }
        (false, false) => "",
    }
}

fn body_varies(length: bool) -> &'static str {
    match length {
        true => {
            "the body and its length vary between responses, so only status and framing are checked"
        }
        false => {
            "the body varies between responses, so only status, framing and length are checked"
        }
    }
}

fn error_page(status: u16) -> String {
    match status {
        300..400 => format!(
            "the first answer was a redirect (status {status}), which is not followed; load its \
             target instead, or add --expect-status {status}"
        ),
        _ => format!(
            "the first answer had status {status}; if that is expected, add --expect-status {status}"
        ),
    }
}

fn unchecked(what: UncheckedInput) -> &'static str {
    match what {
        UncheckedInput::MachineCpu => {
            "/proc/stat could not be read, so CPU use by other processes is unchecked"
        }
        UncheckedInput::TcpCounters => {
            "/proc/net/netstat could not be read, so refused connections and lost packets are \
             unchecked"
        }
        UncheckedInput::StackCpu => {
            "the stack's CPU time could not be read, so its CPU per request is unknown"
        }
        UncheckedInput::ShortSlices => {
            "the kernel's CPU accounting is too coarse for slices this short, so a process that \
             disturbed only one variant may have gone unnoticed"
        }
    }
}

fn time_wait_sockets(more: u64, ports: Option<u32>) -> String {
    let ports = ports.map_or_else(String::new, |ports| {
        format!(" (of {} ports per address)", format_count(u64::from(ports)))
    });
    let wait = if more == 1 { "waits" } else { "wait" };
    format!(
        "{} {wait} in TIME_WAIT{ports}, which slows new connections down for a minute; \
         --linger-zero resets connections instead",
        plural(more, "more socket")
    )
}

/// `1 request was`, `1,566 requests were`.
fn were(count: u64, noun: &str) -> String {
    format!("{} {}", plural(count, noun), if count == 1 { "was" } else { "were" })
}

fn times_in_words(times: u64) -> String {
    match times {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        times => format!("{} times", format_count(times)),
    }
}

/// An equation of the ledger that does not hold.
fn unequal(gap: &Discrepancy) -> String {
    let by = gap.difference();
    let n = u64::try_from(by.unsigned_abs()).unwrap_or(u64::MAX);
    let more_or_less = if by > 0 { "more" } else { "fewer" };
    let difference = format!("{} {more_or_less}", plural(n, "request"));
    let sides = format!("{} ≠ {}", format_count(gap.left), format_count(gap.right));
    match gap.law {
        Law::Served if by < 0 => format!(
            "the server counted {difference} than the client completed ({sides}); \
             look for a proxy that answers itself, or a worker that was killed"
        ),
        Law::Served => format!(
            "the server counted {difference} than the client completed ({sides}); \
             look for a retry in a proxy, or another client"
        ),
        Law::Series => format!(
            "the recorded series holds {difference} than the client completed ({sides}); either \
             the record was changed, or this is a bug: please report it"
        ),
        Law::Sent => format!(
            "sent differs from completed + failed + in flight ({sides}); please report this bug"
        ),
        Law::Offered => {
            format!("offered differs from sent + dropped ({sides}); please report this bug")
        }
    }
}

/// An uneven disturbance, which affected a variant and the other one in these shares of their time;
/// lateness in seconds.
fn uneven(
    name: &str,
    other: &str,
    source: Disturber,
    here: f64,
    there: f64,
    p: f64,
    log_bound: Option<f64>,
) -> String {
    let [share, other_share] =
        [here, there].map(|share| percent(share.clamp(0.0, 1.0), Rounding::Nearest));
    let [late, other_late] = [here, there].map(|late_s| Nanos::from_secs_f64(late_s.max(0.0)));
    let (seen, metrics, remedy) = match source {
        Disturber::OtherProcesses => (
            format!(
                "other processes were busy during {share} of {name}'s slices and {other_share} of \
                 {other}'s"
            ),
            "throughput",
            "find and stop the process that runs alongside it",
        ),
        Disturber::Steal => (
            format!(
                "the hypervisor took {share} of the CPU time in {name}'s slices and {other_share} \
                 in {other}'s"
            ),
            "throughput and CPU per request",
            "use a machine with dedicated CPUs",
        ),
        Disturber::Throttling => (
            format!(
                "a CPU quota throttled {share} of {name}'s slices and {other_share} of {other}'s"
            ),
            "throughput",
            "lift the quota, or offer less load",
        ),
        Disturber::Lateness => (
            format!(
                "1% of requests to {name} were sent more than {late} late, to {other} more than \
                 {other_late}"
            ),
            "p50",
            "offer a lower rate with --open-share, or give the client its own CPUs",
        ),
    };
    if let Some(log_bound) = log_bound {
        let bound = words::widening(log_bound);
        return format!("{seen}: the interval of {metrics} is widened by {bound}");
    }
    let chance = match p {
        p if p < 0.001 => "less than 0.1%".to_owned(),
        p => percent(p, Rounding::Nearest),
    };
    format!(
        "{seen}; this happens by chance in {chance} of runs, so the ratio may be biased: {remedy}"
    )
}

/// The name of a severity.
pub(crate) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Invalid => "INVALID",
    }
}

/// `no verdict on p50 and p99` for the metrics that a finding forbids.
pub(crate) fn forbids(metrics: &[Metric], bulk: bool) -> String {
    let names: Vec<String> =
        metrics.iter().map(|metric| setting::metric(*metric, bulk).to_owned()).collect();
    format!("no verdict on {}", listed(&names))
}

#[cfg(test)]
#[path = "fact_tests.rs"]
mod tests;
