//! The sentences about a replay.

use base::format_count;
use record::{DifferenceKind, Replay, ReplayEquation, ReplayLaw, RunState, Side};

use crate::ledger::Clause;

/// `1 request`, `1,234 requests`.
fn counted(count: u64, one: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {one}{s}", format_count(count))
}

/// The result in one sentence.
pub(super) fn headline(replay: &Replay) -> String {
    let Replay { same, different, failed, .. } = replay;
    let failed = failed.sum();
    if replay.asked == 0 {
        return "No request was sent.".to_owned();
    }
    let compared = same + different;
    let answers = match (compared, *different) {
        (0, _) => "No answers were compared".to_owned(),
        (1, 0) => "The answers to 1 request are the same".to_owned(),
        (_, 0) => format!("The answers to all {} are the same", counted(compared, "request")),
        _ => format!(
            "The answers to {} of {} differ",
            format_count(*different),
            counted(compared, "request")
        ),
    };
    match failed {
        0 => format!("{answers}."),
        _ => format!("{answers}; {} failed.", counted(failed, "request")),
    }
}

/// How the requests were sent.
pub(super) fn setting(replay: &Replay) -> String {
    let connections = counted(u64::from(replay.connections), "connection");
    let pace = match replay.speed {
        None => "as fast as both servers answered".to_owned(),
        Some(1.0) => "at the log's own times".to_owned(),
        Some(speed) => format!("at {speed}× the log's speed"),
    };
    let late = match replay.speed {
        Some(_) => format!(", at most {} late", replay.late),
        None => String::new(),
    };
    let requests = counted(replay.asked, "request");
    let elapsed = replay.elapsed;
    format!("{requests} of {} in {elapsed}, {connections} to each server, {pace}{late}", replay.log)
}

/// Why the replay did not come to the end of the log.
pub(super) fn end(replay: &Replay) -> Option<String> {
    match (&replay.error, replay.state) {
        (Some(error), _) => Some(format!("ended early: {error}")),
        (None, RunState::Interrupted) => Some("stopped before the end of the log".to_owned()),
        _ => None,
    }
}

/// In what answers differ.
pub(super) fn difference(kind: &DifferenceKind) -> String {
    let place = |pointer: &str| match pointer {
        "" => "the whole JSON".to_owned(),
        _ => format!("JSON {pointer}"),
    };
    match kind {
        DifferenceKind::Status { old, new } => format!("status {old} → {new}"),
        DifferenceKind::Header { name } => format!("header {name}"),
        DifferenceKind::JsonValue { pointer } => place(pointer),
        DifferenceKind::JsonLength { pointer } => format!("length of {}", place(pointer)),
        DifferenceKind::JsonMember { pointer, side } => {
            format!("{} only in {}", place(pointer), side.word())
        }
        DifferenceKind::Body => "body".to_owned(),
    }
}

/// The groups that are not shown, and what has no group.
pub(super) fn more(replay: &Replay, shown: usize) -> Option<String> {
    let hidden = replay.groups.len().saturating_sub(shown) as u64;
    let ungrouped = match replay.ungrouped {
        0 => None,
        count => Some(format!("{} with differences of further kinds", counted(count, "request"))),
    };
    let hidden = (hidden > 0).then(|| counted(hidden, "more kind"));
    let parts: Vec<String> = hidden.into_iter().chain(ungrouped).collect();
    (!parts.is_empty()).then(|| format!("and {}", parts.join(", ")))
}

/// What was left out: `requests whose body is not in the log (12)`.
pub(super) fn left_out(replay: &Replay) -> Option<String> {
    let reasons = replay.left_out.iter().map(|(why, n)| format!("{why} ({})", format_count(*n)));
    let reasons: Vec<String> = reasons.collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// A line of the ledger.
pub(super) struct ReplayAccount {
    pub(super) label: &'static str,
    pub(super) clauses: Vec<Clause>,
}

impl ReplayAccount {
    pub(super) fn line(&self) -> String {
        self.clauses.iter().map(Clause::to_string).collect::<Vec<_>>().join("; ")
    }

    pub(super) fn is_broken(&self) -> bool {
        self.clauses.iter().any(Clause::is_broken)
    }
}

/// The ledger: of the log, of the pairs of answers, and of each server. Equations between them are
/// shown if they do not hold.
pub(super) fn accounts(replay: &Replay) -> Vec<ReplayAccount> {
    let entries = [(replay.asked, "asked"), (replay.left_out_sum(), "left out")];
    let log = match replay.state {
        // What was read ahead was not asked.
        RunState::Done => Clause::equation(("entries", replay.entries), &entries),
        _ => Clause::equation(("entries", entries.iter().map(|(n, _)| n).sum()), &entries),
    };
    let Replay { asked, same, different, failed, in_flight, .. } = *replay;
    let outcomes = [
        (same, "same"),
        (different, "different"),
        (failed.sum(), "failed"),
        (in_flight, "in flight"),
    ];
    let pairs = Clause::equation(("asked", asked), &outcomes);
    let mut all = vec![
        ReplayAccount { label: "log", clauses: vec![log] },
        ReplayAccount { label: "pairs", clauses: vec![pairs] },
    ];
    for side in Side::BOTH {
        let counts = &replay.ledgers.of(side).counts;
        let right = [
            (counts.completed, "completed"),
            (counts.failed, "failed"),
            (counts.in_flight, "in flight"),
        ];
        let mut clauses = vec![Clause::equation(("sent", counts.sent), &right)];
        let of_side = replay.equations().into_iter().filter(|equation| is_of(equation, side));
        clauses.extend(of_side.map(clause).filter(Clause::is_broken));
        all.push(ReplayAccount { label: side.word(), clauses });
    }
    all
}

fn is_of(equation: &ReplayEquation, wanted: Side) -> bool {
    match equation.law {
        ReplayLaw::Sent(side) | ReplayLaw::Completed(side) | ReplayLaw::Failed(side) => {
            side == wanted
        }
        ReplayLaw::Entries | ReplayLaw::Asked => false,
    }
}

fn clause(equation: ReplayEquation) -> Clause {
    let [left, right] = match equation.law {
        ReplayLaw::Entries => ["entries", "asked or left out"],
        ReplayLaw::Asked => ["asked", "compared, failed or in flight"],
        ReplayLaw::Sent(_) => ["sent", "asked"],
        ReplayLaw::Completed(_) => ["completed", "compared, or failed at the other one"],
        ReplayLaw::Failed(_) => ["failed", "not compared because of it"],
    };
    Clause::equation((left, equation.left), &[(equation.right, right)])
}
