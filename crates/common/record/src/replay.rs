//! A replay: the same requests to two servers, and how their answers differ.

use std::collections::BTreeMap;
use std::fmt;

use base::{Nanos, Timestamp};
use ledger::Ledger;

use crate::RunState;

/// One of the two servers of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The first one: what is known.
    Old,
    /// The second one: what is tried.
    New,
}

impl Side {
    /// Both, in their order.
    pub const BOTH: [Side; 2] = [Side::Old, Side::New];

    /// Its name: `old` or `new`.
    pub fn word(self) -> &'static str {
        match self {
            Side::Old => "old",
            Side::New => "new",
        }
    }
}

/// Something of each server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair<T> {
    /// That of the first one.
    pub old: T,
    /// That of the second one.
    pub new: T,
}

impl<T> Pair<T> {
    /// That of one side.
    pub fn of(&self, side: Side) -> &T {
        match side {
            Side::Old => &self.old,
            Side::New => &self.new,
        }
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Old => &mut self.old,
            Side::New => &mut self.new,
        }
    }
}

/// One of its servers, as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayServer {
    /// Its command or URL, without secrets.
    pub command: String,
    /// The other machine on which it was started.
    pub machine: Option<String>,
}

impl fmt::Display for ReplayServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.command)?;
        self.machine.iter().try_for_each(|machine| write!(f, ", on {machine}"))
    }
}

/// A replay, whether complete or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The log, as named on the command line.
    pub log: String,
    /// The servers.
    pub servers: Pair<ReplayServer>,
    /// When it began.
    pub started: Timestamp,
    /// From the first request to the last answer.
    pub elapsed: Nanos,
    /// The command, without secrets.
    pub command_line: Vec<String>,
    /// The version of tachograph.
    pub version: String,
    /// Whether it is complete.
    pub state: RunState,
    /// Why it is not, unless it was stopped by hand.
    pub error: Option<String>,
    /// Requests that each server was sent at once, at most.
    pub connections: u32,
    /// The speed of the log's times; `None` for as fast as both answer.
    pub speed: Option<f64>,
    /// How long after its time the latest request was sent, at that speed.
    pub late: Nanos,
    /// Entries of the log that were read.
    pub entries: u64,
    /// Entries that were not sent, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// Requests that were sent to both.
    pub asked: u64,
    /// Those that both answered alike.
    pub same: u64,
    /// Those that both answered, differently.
    pub different: u64,
    /// Those that were not answered.
    pub failed: FailedPairs,
    /// Those that were not answered when the replay was stopped.
    pub in_flight: u64,
    /// What was compared besides status and body: names of headers in lower case.
    pub headers: Vec<String>,
    /// What was ignored in bodies of JSON.
    pub ignored: Vec<String>,
    /// The requests to each server.
    pub ledgers: Pair<Ledger>,
    /// Differences by kind, the most frequent first.
    pub groups: Vec<DifferenceGroup>,
    /// Requests with a difference of a kind that has no group because there were too many.
    pub ungrouped: u64,
    /// Failures by side and cause, the most frequent first.
    pub failures: Vec<FailureCause>,
}

/// Requests that one or both servers did not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailedPairs {
    /// Only the first one did not.
    pub old: u64,
    /// Only the second one did not.
    pub new: u64,
    /// Neither did.
    pub both: u64,
}

impl FailedPairs {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.old + self.new + self.both
    }

    /// Those that one server did not answer, but the other did.
    pub fn only(&self, side: Side) -> u64 {
        match side {
            Side::Old => self.old,
            Side::New => self.new,
        }
    }
}

/// In what two answers differ. Those to one request may differ in several ways, but if their statuses
/// do, nothing else of them is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceKind {
    /// The status.
    Status {
        /// That of the first server.
        old: u16,
        /// That of the second one.
        new: u16,
    },
    /// A header.
    Header {
        /// Its name, in lower case.
        name: String,
    },
    /// A value in a body of JSON.
    JsonValue {
        /// Its place: a JSON Pointer (RFC 6901) with `*` instead of indices.
        pointer: String,
    },
    /// The lengths of an array.
    JsonLength {
        /// Its place.
        pointer: String,
    },
    /// A member of an object that only one answer has.
    JsonMember {
        /// Its place.
        pointer: String,
        /// Whose answer has it.
        side: Side,
    },
    /// The bytes of the body.
    Body,
}

/// The requests whose answers differ in one way.
#[derive(Clone, Debug, PartialEq)]
pub struct DifferenceGroup {
    /// In what they differ.
    pub kind: DifferenceKind,
    /// Number of requests.
    pub requests: u64,
    /// The first of them in the log.
    pub example: DifferenceExample,
}

/// A request of a log, and what the servers answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DifferenceExample {
    /// Its line in the log; in a HAR, its entry.
    pub line: u64,
    /// Its method.
    pub method: String,
    /// Path and query, without secrets.
    pub path: String,
    /// What differs, cut to a readable length.
    pub values: Pair<String>,
}

/// Failures of one server with one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureCause {
    /// The server.
    pub side: Side,
    /// The cause, as in ledgers: `timeout`.
    pub cause: String,
    /// Number of requests.
    pub requests: u64,
    /// The line of the first of them in the log.
    pub line: u64,
    /// Its method and path.
    pub request: String,
}

/// An equation of a replay besides those of its two ledgers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayLaw {
    /// Entries of the log = asked + left out.
    Entries,
    /// Asked = same + different + failed + in flight.
    Asked,
    /// Sent to a server = asked.
    Sent(Side),
    /// Completed by a server = same + different + failed only at the other one.
    Completed(Side),
    /// Failures of a server = failed only there + failed at both.
    Failed(Side),
}

/// Both sides of an equation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayEquation {
    /// The equation.
    pub law: ReplayLaw,
    /// Its left-hand side.
    pub left: u64,
    /// Its right-hand side.
    pub right: u64,
}

impl Replay {
    /// Entries of the log that were not sent.
    pub fn left_out_sum(&self) -> u64 {
        self.left_out.values().sum()
    }

    /// Every equation that must hold. Entries are counted where the log is read, requests of a server
    /// where they are sent and answered, and pairs where they are compared. A replay that was stopped
    /// has entries that were read ahead, and requests that one server had answered.
    pub fn equations(&self) -> Vec<ReplayEquation> {
        let compared = self.same + self.different;
        let answers = compared + self.failed.sum() + self.in_flight;
        let mut all =
            vec![ReplayEquation { law: ReplayLaw::Asked, left: self.asked, right: answers }];
        for side in Side::BOTH {
            let left = self.ledgers.of(side).counts.sent;
            all.push(ReplayEquation { law: ReplayLaw::Sent(side), left, right: self.asked });
        }
        if self.state != RunState::Done {
            return all;
        }
        let right = self.asked + self.left_out_sum();
        all.push(ReplayEquation { law: ReplayLaw::Entries, left: self.entries, right });
        let FailedPairs { old, new, both } = self.failed;
        for (side, here, there) in [(Side::Old, old, new), (Side::New, new, old)] {
            let counts = &self.ledgers.of(side).counts;
            let (left, right) = (counts.completed, compared + there);
            all.push(ReplayEquation { law: ReplayLaw::Completed(side), left, right });
            let (left, right) = (counts.failed, here + both);
            all.push(ReplayEquation { law: ReplayLaw::Failed(side), left, right });
        }
        all
    }

    /// Whether all counts add up, those of the ledgers included.
    pub fn adds_up(&self) -> bool {
        let ledgers = Side::BOTH.iter().all(|side| self.ledgers.of(*side).audit().is_empty());
        ledgers && self.equations().iter().all(|equation| equation.left == equation.right)
    }
}
