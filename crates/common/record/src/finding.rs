//! Findings of the validity checks: facts with their numbers. `report` makes the sentences.

use base::Nanos;
use ledger::{Discrepancy, Errors};
use serde::{Deserialize, Serialize};

use crate::{Offer, StepOutcome};

/// A finding of a validity check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Severity.
    pub severity: Severity,
    /// The block, if the finding is about one.
    pub block: Option<u32>,
    /// The variant's index, if the finding is about one.
    pub variant: Option<u32>,
    /// The fact.
    #[serde(flatten)]
    pub fact: Fact,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// For information.
    Note,
    /// Weakens the result.
    Warning,
    /// Forbids the verdicts on all affected metrics.
    Invalid,
}

/// A process that used CPU time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BusyProcess {
    /// Its id.
    pub pid: i32,
    /// Its name in the kernel.
    pub name: String,
    /// CPUs used.
    pub cpus: f64,
}

/// What of a network limits a variant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum NetworkLimit {
    /// The bytes that it carries.
    Bytes {
        /// Bytes per second of the variant's responses.
        used_per_s: f64,
        /// Bytes per second of a bulk exchange.
        carried_per_s: f64,
    },
    /// Its round trip.
    RoundTrip {
        /// The median round trip of the nearest client, for each request.
        #[serde(rename = "round_trip_ns")]
        round_trip: Nanos,
        /// Connections, each of which waits for its response.
        connections: u32,
        /// Requests per second of a server that takes no time.
        most_per_s: f64,
    },
}

/// The facts, by check. Shares are fractions of 1; durations are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "check", rename_all = "snake_case")]
pub enum Fact {
    /// The baseline could not start, so another variant is the baseline.
    Baseline {
        /// Index of that variant.
        stand_in: u32,
    },
    /// The calibration saw no steady state.
    WarmUp {
        /// Duration of the calibration.
        watched: Nanos,
    },
    /// The null server on the same transport is hardly faster than this variant.
    NullServer {
        /// Throughput of the null server ÷ throughput of the variant.
        factor: f64,
        /// Below this limit the client's own cost distorts the figure.
        limit: f64,
    },
    /// The network between client and server limits this variant.
    NetworkLimited {
        /// What of it.
        #[serde(flatten)]
        by: NetworkLimit,
    },
    /// The stacks' CPUs could not be sampled.
    NotProfiled {
        /// The cause, and what to do.
        why: String,
    },
    /// The stacks were to be sampled, and there is nothing to tell.
    NothingSampled {
        /// Whether too few blocks are complete; otherwise a variant has no samples.
        few_blocks: bool,
    },
    /// The sampled CPU time of a trial is not that of its control group.
    ProfileDiffers {
        /// The offer of the trials.
        offer: Offer,
        /// CPU time by samples, over all blocks.
        #[serde(rename = "sampled_ns")]
        sampled: Nanos,
        /// The same by the control group.
        #[serde(rename = "counted_ns")]
        counted: Nanos,
        /// Why, if that is known.
        #[serde(default)]
        cause: Option<ProfileGap>,
    },
    /// A client thread was busy nearly all the time.
    ClientBusy {
        /// Busy share of the busiest thread.
        share: f64,
        /// Number of client threads.
        threads: u32,
    },
    /// An equation of the ledger does not hold.
    Ledger {
        /// The equation, with both sides.
        #[serde(flatten)]
        gap: Discrepancy,
    },
    /// The server's kernel discarded messages before the server read them. They are counted, so this
    /// is a result.
    Discarded {
        /// The offer of the trials.
        offer: Offer,
        /// Discarded messages.
        discarded: u64,
        /// Completed messages.
        completed: u64,
    },
    /// The server-side count of a trial did not account for its requests, although the count of all
    /// trials does.
    Uncounted {
        /// The offer of the trial.
        offer: Offer,
    },
    /// The server's own count could not be read.
    ServedUnreadable {
        /// The error from reading the count.
        error: String,
    },
    /// The trials' counts do not add up to the count of the whole session.
    TrialsDiffer {
        /// Requests counted by the trials.
        trials: u64,
        /// Requests counted by the session.
        session: u64,
    },
    /// The slots of a trial's series were changed after they were recorded.
    SeriesChanged {
        /// The offer of the trial.
        offer: Offer,
        /// The slots' total at the end of the trial.
        before: u64,
        /// Their total now.
        now: u64,
        /// Completed requests in the ledger.
        completed: u64,
    },
    /// Requests failed.
    Failures {
        /// The offer of the trial.
        offer: Offer,
        /// Failed requests.
        failed: u64,
        /// Sent requests.
        sent: u64,
        /// Failures by kind.
        kinds: Errors,
        /// The last line of the stack's log.
        log: Option<String>,
    },
    /// Connections of a closed loop were idle (Little's law).
    Idle {
        /// Number of connections.
        connections: u32,
        /// Share of connections × window without an outstanding request.
        share: f64,
        /// The largest share allowed.
        limit: f64,
    },
    /// The client sent requests of an open loop late.
    Lateness {
        /// 99th percentile.
        p99: Nanos,
        /// The largest lateness allowed.
        limit: Nanos,
        /// Whether client and stack share CPUs and so wait for each other.
        shared_cpus: bool,
    },
    /// A disturbance affected one variant of a contrast and not the other.
    Uneven {
        /// The kind of disturbance.
        source: Disturber,
        /// Index of the other variant.
        other: u32,
        /// Mean over blocks for this variant, in the unit given by [`Disturber`].
        here: f64,
        /// The same for the other variant.
        there: f64,
        /// Probability of so uneven a distribution by chance alone.
        p: f64,
        /// The bound on the bias of the metrics that have one, as a logarithm: their intervals are
        /// widened by it. `None` if the bias is unknown or too large, which forbids their verdicts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log_bound: Option<f64>,
    },
    /// A stack could not start, or died within a block; the block ended there.
    StackFailed {
        /// The error, with the end of the stack's log.
        error: String,
    },
    /// The connection to another machine was lost within a block; the block ended there.
    MachineLost {
        /// The error, with the machine's name.
        error: String,
    },
    /// A step of an action did not do what it was to do.
    ActionFailed {
        /// The action's name.
        action: String,
        /// The signal or the command.
        step: String,
        /// The outcome.
        outcome: StepOutcome,
        /// The last line that the actions' commands printed.
        log: Option<String>,
    },
    /// A process did not stop when asked and was killed.
    Killed {
        /// Which process, what it was asked and how long it was given, in words.
        #[serde(alias = "process")]
        message: String,
    },
    /// A CPU quota throttled the client and the stacks.
    Throttled {
        /// Number of times.
        times: u64,
    },
    /// Other processes used CPUs just before a load, while its server was idle.
    Neighbours {
        /// CPUs used: 1.6 is one and 60% of another.
        cpus: f64,
        /// The busiest processes, if they lived long enough to be seen.
        processes: Vec<BusyProcess>,
    },
    /// A process ran outside its stack's CPUs.
    Unpinned {
        /// The process.
        process: String,
    },
    /// The CPU frequency governor changed within a block.
    Governor {
        /// Governors before.
        before: Vec<String>,
        /// Governors after.
        after: Vec<String>,
    },
    /// Connections were refused because the accept queue was full.
    AcceptQueue {
        /// The kernel's counter (`ListenOverflows`, `ListenDrops`).
        counter: String,
        /// Its increase during this variant's slices.
        rise: u64,
        /// Whether, in a slice with such an increase that opened connections, a request failed, or
        /// took at least as long as such a connection waits; `rise` is then that of these slices. The
        /// counter covers the whole machine; without such a request the connection was another
        /// program's.
        waited: bool,
    },
    /// The kernel retransmitted packets during this variant's slices.
    Resent {
        /// The kernel's counter (`TCPTimeouts`, `TCPSynRetrans`).
        counter: String,
        /// Its increase.
        rise: u64,
        /// Whether a request took at least as long as a lost packet costs.
        waited: bool,
    },
    /// Closed connections skipped TIME_WAIT because the kernel's limit was reached.
    TimeWait {
        /// Number of connections.
        rise: u64,
    },
    /// The connection-tracking table is nearly full.
    Conntrack {
        /// Share in use.
        share: f64,
        /// The largest share allowed.
        limit: f64,
    },
    /// A source address ran out of ports, and the client changed to another one of 127/8.
    Ports {
        /// Number of changes.
        changes: u64,
    },
    /// The level changed within a trial.
    Drift {
        /// Relative change.
        change: f64,
    },
    /// The level of this variant changed within many of its trials; that of the others did not.
    NotSteady {
        /// Trials with a change.
        trials: u32,
        /// All trials.
        of: u32,
    },
    /// The open loop's offered rate was not achieved.
    Unsustained {
        /// Completed ÷ offered.
        achieved: f64,
        /// The lowest share allowed.
        limit: f64,
        /// Requests dropped because no connection was free in time.
        dropped: u64,
        /// The connection limit, if the load reached it.
        connections_cap: Option<u32>,
    },
    /// There is no server-side count.
    NotServed,
    /// The 99th percentile rests on few requests; only in runs of method 1.
    FewRequests {
        /// The smallest number in a trial.
        fewest: u64,
        /// The number that makes the percentile dependable.
        wanted: u64,
    },
    /// Two variants respond with bodies of different lengths.
    Answers {
        /// Length of this variant's body in bytes.
        length: u64,
        /// Index of the other variant.
        other: u32,
        /// Length of its body in bytes.
        other_length: u64,
    },
    /// The response's body varies, so only status, framing and, unless it varies too, length are
    /// checked.
    BodyVaries {
        /// Whether the length varies too.
        #[serde(default)]
        length: bool,
    },
    /// The first response has an undeclared status of 400 or above.
    ErrorPage {
        /// The status.
        status: u16,
    },
    /// The work that long requests carry across the edges of windows does not balance.
    Edges {
        /// Mean balance, as a share of the connections' time.
        mean: f64,
        /// Half-width of its 95% interval.
        half_width: f64,
    },
    /// A closed loop's slices are too short for the stops of the whole server at their ends.
    LongStops {
        /// Mean time around the end of a slice in which no request ended: from the last one before it
        /// to the first one after it.
        #[serde(rename = "stopped_ns")]
        stopped: Nanos,
        /// Mean length of a slice.
        #[serde(rename = "slice_ns")]
        slice: Nanos,
        /// Number of such times that a slice must last.
        needed: f64,
    },
    /// An open loop's windows are shorter than the waits of its slowest requests.
    ShortSlices {
        /// Mean length of a window.
        #[serde(rename = "window_ns")]
        window: Nanos,
        /// The latency that 1% of the requests reach.
        #[serde(rename = "p99_ns")]
        p99: Nanos,
    },
    /// Stalls are so rare that blocks hardly show what they cost.
    RareStalls {
        /// What they cost the closed loop, in shares of the connections' time.
        lost: stats::Stalls,
        /// What they delayed in the open loop, in shares of its requests.
        delayed: stats::Stalls,
        /// Number of stalls in the measured slices of the closed loop, or of the open one if only
        /// its percentiles are concerned.
        measured: u32,
        /// The longest request under any load.
        #[serde(rename = "longest_ns")]
        longest: Nanos,
    },
    /// A check could not read its input, so the result is unknown.
    Unchecked {
        /// The input.
        what: UncheckedInput,
    },
    /// Sockets of closed connections are in TIME_WAIT, which slows new connections.
    TimeWaitSockets {
        /// Increase since before the load.
        more: u64,
        /// Ports that a client has to one address, if the kernel reports it.
        ports: Option<u32>,
    },
    /// The kernel tracks loopback connections (because of NAT rules), which costs time on each.
    Tracked,
    /// The servers were already running, so every block measured the same start of each.
    Standing,
}

/// Why samples do not add up to the CPU time that the kernel counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileGap {
    /// The kernel charges threads from the moment at which they are woken, and not from that at which
    /// they run.
    Waking,
    /// The hypervisor took CPU time, which the kernel subtracts (`update_rq_clock_task` in
    /// kernel/sched/core.c). The clock that samples goes on.
    Steal,
}

/// Kinds of external disturbance, and the unit of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturber {
    /// Other processes: share of slices in which they used more than a fifth of a CPU.
    OtherProcesses,
    /// The hypervisor: share of CPU time stolen.
    Steal,
    /// The client's own lateness in an open loop: 99th percentile in seconds.
    Lateness,
    /// A CPU quota: share of slices in which it throttled the client and the stack.
    Throttling,
}

/// An input that a check could not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UncheckedInput {
    /// CPU time of the machine (/proc/stat).
    MachineCpu,
    /// The kernel's TCP counters (/proc/net/netstat).
    TcpCounters,
    /// CPU time of the stack.
    StackCpu,
    /// What other processes did during slices as short as these.
    ShortSlices,
}

impl Finding {
    /// A finding about one variant for the whole part.
    pub fn of_variant(severity: Severity, variant: usize, fact: Fact) -> Finding {
        Finding { severity, block: None, variant: Some(variant as u32), fact }
    }

    /// Whether the finding forbids a verdict.
    pub fn is_invalid(&self) -> bool {
        self.severity == Severity::Invalid
    }
}

impl Fact {
    /// The check's name, as in JSON and SQL: `ledger`, `failures`, `uneven`.
    pub fn check(&self) -> &'static str {
        match self {
            Fact::Baseline { .. } => "baseline",
            Fact::WarmUp { .. } => "warm_up",
            Fact::NullServer { .. } => "null_server",
            Fact::NetworkLimited { .. } => "network_limited",
            Fact::NotProfiled { .. } => "not_profiled",
            Fact::NothingSampled { .. } => "nothing_sampled",
            Fact::ProfileDiffers { .. } => "profile_differs",
            Fact::ClientBusy { .. } => "client_busy",
            Fact::Ledger { .. } => "ledger",
            Fact::Discarded { .. } => "discarded",
            Fact::Uncounted { .. } => "uncounted",
            Fact::ServedUnreadable { .. } => "served_unreadable",
            Fact::TrialsDiffer { .. } => "trials_differ",
            Fact::SeriesChanged { .. } => "series_changed",
            Fact::Failures { .. } => "failures",
            Fact::Idle { .. } => "idle",
            Fact::Lateness { .. } => "lateness",
            Fact::Uneven { .. } => "uneven",
            Fact::StackFailed { .. } => "stack_failed",
            Fact::MachineLost { .. } => "machine_lost",
            Fact::ActionFailed { .. } => "action_failed",
            Fact::Killed { .. } => "killed",
            Fact::Throttled { .. } => "throttled",
            Fact::Neighbours { .. } => "neighbours",
            Fact::Unpinned { .. } => "unpinned",
            Fact::Governor { .. } => "governor",
            Fact::AcceptQueue { .. } => "accept_queue",
            Fact::Resent { .. } => "resent",
            Fact::TimeWait { .. } => "time_wait",
            Fact::Conntrack { .. } => "conntrack",
            Fact::Ports { .. } => "ports",
            Fact::Drift { .. } => "drift",
            Fact::NotSteady { .. } => "not_steady",
            Fact::Unsustained { .. } => "unsustained",
            Fact::NotServed => "not_served",
            Fact::FewRequests { .. } => "few_requests",
            Fact::Answers { .. } => "answers",
            Fact::BodyVaries { .. } => "body_varies",
            Fact::ErrorPage { .. } => "error_page",
            Fact::Edges { .. } => "edges",
            Fact::LongStops { .. } => "long_stops",
            Fact::ShortSlices { .. } => "short_slices",
            Fact::RareStalls { .. } => "rare_stalls",
            Fact::Unchecked { .. } => "unchecked",
            Fact::TimeWaitSockets { .. } => "time_wait_sockets",
            Fact::Tracked => "tracked",
            Fact::Standing => "standing",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_has_one_name_in_rust_json_and_sql() {
        let facts = [
            Fact::NotServed,
            Fact::BodyVaries { length: true },
            Fact::WarmUp { watched: Nanos(1) },
            Fact::NullServer { factor: 2.0, limit: 3.0 },
            Fact::NetworkLimited {
                by: NetworkLimit::Bytes { used_per_s: 9.0, carried_per_s: 10.0 },
            },
            Fact::Ledger { gap: Discrepancy { law: ledger::Law::Served, left: 2, right: 1 } },
            Fact::Unchecked { what: UncheckedInput::TcpCounters },
        ];
        for fact in facts {
            let check = fact.check();
            let finding = Finding::of_variant(Severity::Warning, 1, fact);
            let json = serde_json::to_value(&finding).unwrap();
            assert_eq!(json["check"], check);
            assert_eq!(serde_json::from_value::<Finding>(json).unwrap(), finding);
        }
    }
}
