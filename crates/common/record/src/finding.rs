//! What a validity check saw: facts with their numbers. The sentences about them are made in `report`.

use base::Nanos;
use ledger::{Discrepancy, Errors};
use serde::{Deserialize, Serialize};

use crate::Offer;

/// One result of a validity check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The block, if it concerns one.
    pub block: Option<u32>,
    /// The variant's index, if it concerns one.
    pub variant: Option<u32>,
    /// What was seen.
    #[serde(flatten)]
    pub fact: Fact,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Weakens the result.
    Warning,
    /// Forbids a verdict on every metric that it touches.
    Invalid,
}

/// What a check saw, by check. Shares are fractions of 1, lengths of time are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "check", rename_all = "snake_case")]
pub enum Fact {
    /// The baseline could not start, so the others are compared with another variant.
    Baseline {
        /// Index of the variant that took its place.
        stand_in: u32,
    },
    /// No steady state was seen within the calibration.
    WarmUp {
        /// How long the calibration watched.
        watched: Nanos,
    },
    /// The null server on the same transport is hardly faster than this variant.
    NullServer {
        /// Requests per second of the null server ÷ those of the variant.
        factor: f64,
        /// Below this the client's own cost is part of the figure.
        limit: f64,
    },
    /// A client thread was busy nearly all the time.
    ClientBusy {
        /// Share of the busiest thread's time.
        share: f64,
        /// How many client threads there were.
        threads: u32,
    },
    /// An equation of the ledger does not hold.
    Ledger {
        /// Which one, with both sides.
        #[serde(flatten)]
        gap: Discrepancy,
    },
    /// The server's own count could not be read.
    ServedUnreadable {
        /// What the reader of the count reported.
        error: String,
    },
    /// The trials' counts do not add up to the session's own count of its life.
    TrialsDiffer {
        /// Requests by the trials.
        trials: u64,
        /// Requests by the session.
        session: u64,
    },
    /// The slots of a trial's series were changed after they were recorded.
    SeriesChanged {
        /// Under which offer.
        offer: Offer,
        /// What they added up to when the trial ended.
        before: u64,
        /// What they add up to now.
        now: u64,
        /// Requests completed by the ledger.
        completed: u64,
    },
    /// Requests failed.
    Failures {
        /// Under which offer.
        offer: Offer,
        /// How many failed.
        failed: u64,
        /// How many were sent.
        sent: u64,
        /// Failures by kind.
        kinds: Errors,
        /// The last line that the stack logged.
        log: Option<String>,
    },
    /// Connections of a closed loop were without a request (Little's law).
    Idle {
        /// How many connections there are.
        connections: u32,
        /// Share of connections × window without a request under way.
        share: f64,
        /// The largest share allowed.
        limit: f64,
    },
    /// The client sent requests of an open loop late.
    Lateness {
        /// 99th percentile.
        p99: Nanos,
        /// The largest that is allowed.
        limit: Nanos,
        /// Whether client and stack share CPUs, so that they have to wait for each other.
        shared_cpus: bool,
    },
    /// A disturbance went with one variant of a contrast and not with the other.
    Uneven {
        /// What disturbed.
        source: Disturber,
        /// Index of the other variant.
        other: u32,
        /// Mean over blocks for this variant, in the source's unit (see [`Disturber`]).
        here: f64,
        /// The same for the other variant.
        there: f64,
        /// Probability that chance alone spreads it so unevenly.
        p: f64,
    },
    /// A stack could not be started or died within a block; the block ended there.
    StackFailed {
        /// The error, with the stack's last words.
        error: String,
    },
    /// A process had to be killed because it did not stop when asked.
    Killed {
        /// Its description.
        process: String,
    },
    /// A CPU quota throttled the client and the stacks.
    Throttled {
        /// How often.
        times: u64,
    },
    /// A process left the CPUs of its stack.
    Unpinned {
        /// Its description.
        process: String,
    },
    /// The CPU frequency governor changed within a block.
    Governor {
        /// Governors before.
        before: Vec<String>,
        /// Governors after.
        after: Vec<String>,
    },
    /// Connections were turned away because the listening socket's queue was full.
    AcceptQueue {
        /// The kernel's counter (`ListenOverflows`, `ListenDrops`).
        counter: String,
        /// By how much it rose during this variant's slices.
        rise: u64,
        /// Whether a request failed, or took as long as such a connection waits at least: the
        /// counter is the whole machine's, and without that it was another program's connection.
        waited: bool,
    },
    /// The kernel sent packets again during this variant's slices.
    Resent {
        /// The kernel's counter (`TCPTimeouts`, `TCPSynRetrans`).
        counter: String,
        /// By how much it rose.
        rise: u64,
        /// Whether a request took as long as a lost packet costs at least.
        waited: bool,
    },
    /// Closed connections skipped TIME_WAIT because the kernel's limit was reached.
    TimeWait {
        /// How many.
        rise: u64,
    },
    /// The connection-tracking table is filling up.
    Conntrack {
        /// Share in use.
        share: f64,
        /// The largest share allowed.
        limit: f64,
    },
    /// Source addresses ran out of ports, and others of 127/8 were taken.
    Ports {
        /// How often.
        changes: u64,
    },
    /// The level changed within a trial.
    Drift {
        /// Relative change.
        change: f64,
    },
    /// The level of this variant changed within many of its trials, and not that of the others.
    NotSteady {
        /// Trials with a change.
        trials: u32,
        /// All trials.
        of: u32,
    },
    /// The offered rate of an open loop was not achieved.
    Unsustained {
        /// Completed ÷ offered.
        achieved: f64,
        /// The least allowed.
        limit: f64,
        /// Requests dropped because no connection was free in time.
        dropped: u64,
        /// The cap on connections, where the load had reached it.
        connections_cap: Option<u32>,
    },
    /// There is no server-side count.
    NotServed,
    /// Few requests stand behind the 99th percentile.
    FewRequests {
        /// The least of any trial.
        fewest: u64,
        /// What makes the percentile dependable.
        wanted: u64,
    },
    /// Two variants answer with bodies of different lengths.
    Answers {
        /// Length of this variant's answer in bytes.
        length: u64,
        /// Index of the other variant.
        other: u32,
        /// Length of its answer in bytes.
        other_length: u64,
    },
    /// The answer's body varies, so only status, framing and, unless it varies too, length are
    /// checked.
    BodyVaries {
        /// Whether the length varies too.
        #[serde(default)]
        length: bool,
    },
    /// The first answer has a status of 400 or above that was not declared.
    ErrorPage {
        /// The status.
        status: u16,
    },
    /// What long requests carry over the edges of windows does not balance.
    Edges {
        /// Mean balance, as a share of the connections' time.
        mean: f64,
        /// Half-width of its 95% interval.
        half_width: f64,
    },
    /// Something could not be looked at, so it is unknown rather than fine.
    Unchecked {
        /// What.
        what: Unchecked,
    },
    /// Sockets of closed connections wait in TIME_WAIT, which slows new connections down.
    TimeWaitSockets {
        /// How many more than before the load.
        more: u64,
        /// Ports that a client has to one address, where the kernel says so.
        ports: Option<u32>,
    },
    /// The kernel tracks loopback connections (NAT rules make it), which costs time on each.
    Tracked,
    /// The servers ran before the run began, so that every block measured the same start of each.
    Standing,
}

/// What can disturb a measurement from outside, and the unit of its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturber {
    /// Other processes: share of slices in which they used more than a fifth of a CPU.
    OtherProcesses,
    /// The hypervisor: share of CPU time stolen.
    Steal,
    /// The client's own lateness in an open loop: seconds at the 99th percentile.
    Lateness,
    /// A CPU quota: share of slices in which it throttled the client and the stack.
    Throttling,
}

/// What a check could not look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unchecked {
    /// CPU time of the machine (/proc/stat).
    MachineCpu,
    /// The kernel's TCP counters (/proc/net/netstat).
    TcpCounters,
    /// CPU time of the stack.
    StackCpu,
}

impl Finding {
    /// A finding about one variant over the whole part.
    pub fn of_variant(severity: Severity, variant: usize, fact: Fact) -> Finding {
        Finding { severity, block: None, variant: Some(variant as u32), fact }
    }

    /// Whether it forbids a verdict.
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
            Fact::ClientBusy { .. } => "client_busy",
            Fact::Ledger { .. } => "ledger",
            Fact::ServedUnreadable { .. } => "served_unreadable",
            Fact::TrialsDiffer { .. } => "trials_differ",
            Fact::SeriesChanged { .. } => "series_changed",
            Fact::Failures { .. } => "failures",
            Fact::Idle { .. } => "idle",
            Fact::Lateness { .. } => "lateness",
            Fact::Uneven { .. } => "uneven",
            Fact::StackFailed { .. } => "stack_failed",
            Fact::Killed { .. } => "killed",
            Fact::Throttled { .. } => "throttled",
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
            Fact::Ledger { gap: Discrepancy { law: ledger::Law::Served, left: 2, right: 1 } },
            Fact::Unchecked { what: Unchecked::TcpCounters },
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
