//! What happens in a run, as a list that can be printed, read again and made shorter.
//!
//! ```text
//!  1205 receive 1:statsd 2:keyed
//!  1206 pass 3500
//!  1207 rival receive 2:keyed
//!  # batch up to 4: Ok(())
//!  1208 power cut after 5
//! ```
//!
//! An event has a number, from which everything comes that it leaves to chance: what a power cut
//! leaves of a write, which call fails. So an event does the same when others are left out. Lines
//! that begin with `#` tell what came of it, and are skipped.

use std::fmt;

use super::messages::{Format, Given};
use crate::random::Random;

/// Events of a run.
const EVENTS: u64 = 48;

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// Where its random numbers begin.
    pub(crate) number: u64,
    pub(crate) daemon: Daemon,
    pub(crate) what: What,
}

/// Which of the daemons that share the store an event happens to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Daemon {
    First,
    /// It gets nothing but requests with keys, some of which the first one gets as well.
    Rival,
}

impl Daemon {
    pub(crate) const ALL: [Daemon; 2] = [Daemon::First, Daemon::Rival];
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// Messages arrive.
    Receive(Vec<Given>),
    /// So many milliseconds pass.
    Pass(u64),
    /// The clock is so many seconds ahead from now on, or behind.
    Clock(i64),
    /// The store answers what it was asked, and writes the batch.
    Store(Answer),
    /// The batch of a dead process is committed.
    CommitLate,
    /// The journal begins a new file.
    NewFile,
    /// A successor is to take over, or does not.
    HandOver,
    /// No more messages come, for at most so many rounds.
    Stop(u64),
    /// The disk is in this condition from now on.
    Disk(Condition),
    /// The process is killed after so many calls of the disk; a power cut also loses what was not
    /// synced.
    Kill { calls: u64, is_power_cut: bool },
    /// A reader queries the store.
    Read,
}

/// What the store does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Answer {
    Given,
    Gone,
    /// It commits the batch, and its answer is lost.
    Lost,
}

/// The condition of the disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Condition {
    Healthy,
    /// So many bytes fit.
    Full(u64),
    ReadOnly,
    /// One call in so many fails.
    Errors(u64),
}

/// The events of a seed.
pub(crate) fn events(seed: u64) -> Vec<Event> {
    let mut random = Random::new(seed);
    // Few formats, so that most messages find their series known.
    let mut formats: Vec<Format> =
        (0..1 + random.below(3)).map(|_| Format::ALL[random.below(7) as usize]).collect();
    // In some runs nothing breaks, so that a process lives through changes of its clock.
    let is_calm = random.one_in(8);
    if is_calm || random.one_in(4) {
        formats.push(Format::Keyed);
    }
    let first = random.next() >> 40 << 8;
    let mut given = Vec::new();
    let has_rival = formats.contains(&Format::Keyed);
    let mut event = |number| {
        let (daemon, formats) = match has_rival && random.one_in(3) {
            true => (Daemon::Rival, &[Format::Keyed][..]),
            false => (Daemon::First, &formats[..]),
        };
        let kind = match random.below(24) {
            0..=3 | 14..=18 if is_calm => [4, 5, 19, 20][random.below(4) as usize],
            kind => kind,
        };
        Event { number, daemon, what: event(&mut random, kind, formats, &mut given) }
    };
    (first..first + EVENTS).map(&mut event).collect()
}

fn event(random: &mut Random, kind: u64, formats: &[Format], before: &mut Vec<Given>) -> What {
    match kind {
        0 | 1 => What::Disk(match random.below(8) {
            0 => Condition::Full(random.below(900)),
            1 => Condition::ReadOnly,
            2 => Condition::Errors(4 + random.below(20)),
            _ => Condition::Healthy,
        }),
        2 => What::Kill { calls: random.below(12), is_power_cut: random.one_in(2) },
        3 => What::Kill { calls: 0, is_power_cut: random.one_in(2) },
        4 if random.one_in(2) => What::Pass(60_000 * (1 + random.below(300))),
        4 => What::Pass(1_000 * (20 + random.below(200))),
        5..=7 => What::Pass(50 + random.below(6_000)),
        8..=13 => What::Store(match random.below(16) {
            0..=3 => Answer::Gone,
            4..=6 => Answer::Lost,
            _ => Answer::Given,
        }),
        14 => What::CommitLate,
        15 => What::NewFile,
        16 => What::HandOver,
        17 if random.one_in(4) => What::Stop(random.below(30)),
        18 if random.one_in(2) => What::Read,
        19 if random.one_in(2) => What::Clock(match random.below(10) {
            0..=3 => 0,
            // Before the epoch.
            4 => -1_100_000_000,
            kind => {
                let longest_s = [9, 11, 3_599, 86_400, 315_000_000][kind as usize - 5];
                let jump_s = 1 + random.below(longest_s) as i64;
                if random.one_in(2) { jump_s } else { -jump_s }
            }
        }),
        _ => {
            let count = 1 + random.below(3);
            What::Receive((0..count).map(|_| given(random, formats, before)).collect())
        }
    }
}

/// A new message, or one with a key again.
fn given(random: &mut Random, formats: &[Format], before: &mut Vec<Given>) -> Given {
    let format = formats[random.below(formats.len() as u64) as usize];
    if format == Format::Keyed && random.one_in(2) {
        // One of the latest, which the other daemon may not have written.
        let mut again = before.iter().rev().filter(|given| given.format == Format::Keyed);
        if let Some(again) = again.nth(random.below(4) as usize) {
            return *again;
        }
    }
    let given = Given { number: before.len() as u64 + 1, format };
    before.push(given);
    given
}

/// A script of events that fails like a longer one, as `fails` tells, and from which nothing can be
/// taken away.
pub(crate) fn shrink(events: Vec<Event>, fails: impl Fn(&[Event]) -> bool) -> Vec<Event> {
    let mut events = crate::shrink::shrink(events, &fails);
    for at in 0..events.len() {
        while let Some(candidate) = shorter(&events, at).find(|candidate| fails(candidate)) {
            events = candidate;
        }
    }
    events
}

/// The same events with one message less in this one.
fn shorter(events: &[Event], at: usize) -> impl Iterator<Item = Vec<Event>> + use<> {
    let messages = match &events[at].what {
        What::Receive(messages) if messages.len() > 1 => messages.clone(),
        _ => Vec::new(),
    };
    let events = events.to_vec();
    (0..messages.len()).map(move |left_out| {
        let (mut fewer, mut events) = (messages.clone(), events.clone());
        fewer.remove(left_out);
        events[at].what = What::Receive(fewer);
        events
    })
}

/// Reads a script.
///
/// # Errors
/// The line that is not an event.
pub(crate) fn read(text: &str) -> Result<Vec<Event>, String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| read_event(line).ok_or_else(|| line.to_owned())).collect()
}

fn read_event(line: &str) -> Option<Event> {
    let (number, rest) = line.split_once(' ')?;
    let (daemon, rest) = match rest.strip_prefix("rival ") {
        Some(rest) => (Daemon::Rival, rest),
        None => (Daemon::First, rest),
    };
    let words: Vec<&str> = rest.split(' ').collect();
    let what = match words.as_slice() {
        ["receive", messages @ ..] => {
            let messages = messages.iter().map(|message| Given::read(message));
            What::Receive(messages.collect::<Option<_>>()?)
        }
        ["pass", ms] => What::Pass(ms.parse().ok()?),
        ["clock", ahead_s] => What::Clock(ahead_s.parse().ok()?),
        ["store", "answers"] => What::Store(Answer::Given),
        ["store", "gone"] => What::Store(Answer::Gone),
        ["store", "answer", "lost"] => What::Store(Answer::Lost),
        ["commit", "late"] => What::CommitLate,
        ["new", "file"] => What::NewFile,
        ["hand", "over"] => What::HandOver,
        ["stop", rounds] => What::Stop(rounds.parse().ok()?),
        ["disk", "healthy"] => What::Disk(Condition::Healthy),
        ["disk", "full", room] => What::Disk(Condition::Full(room.parse().ok()?)),
        ["disk", "read-only"] => What::Disk(Condition::ReadOnly),
        ["disk", "errors", each] => What::Disk(Condition::Errors(each.parse().ok()?)),
        ["kill", "after", calls] => What::Kill { calls: calls.parse().ok()?, is_power_cut: false },
        ["power", "cut", "after", calls] => {
            What::Kill { calls: calls.parse().ok()?, is_power_cut: true }
        }
        ["read"] => What::Read,
        _ => return None,
    };
    Some(Event { number: number.parse().ok()?, daemon, what })
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rival = if self.daemon == Daemon::Rival { "rival " } else { "" };
        write!(f, "{} {rival}", self.number)?;
        match &self.what {
            What::Receive(messages) => {
                f.write_str("receive")?;
                messages.iter().try_for_each(|message| write!(f, " {message}"))
            }
            What::Pass(ms) => write!(f, "pass {ms}"),
            What::Clock(ahead_s) => write!(f, "clock {ahead_s}"),
            What::Store(Answer::Given) => f.write_str("store answers"),
            What::Store(Answer::Gone) => f.write_str("store gone"),
            What::Store(Answer::Lost) => f.write_str("store answer lost"),
            What::CommitLate => f.write_str("commit late"),
            What::NewFile => f.write_str("new file"),
            What::HandOver => f.write_str("hand over"),
            What::Stop(rounds) => write!(f, "stop {rounds}"),
            What::Disk(Condition::Healthy) => f.write_str("disk healthy"),
            What::Disk(Condition::Full(room)) => write!(f, "disk full {room}"),
            What::Disk(Condition::ReadOnly) => f.write_str("disk read-only"),
            What::Disk(Condition::Errors(each)) => write!(f, "disk errors {each}"),
            What::Kill { calls, is_power_cut: false } => write!(f, "kill after {calls}"),
            What::Kill { calls, is_power_cut: true } => write!(f, "power cut after {calls}"),
            What::Read => f.write_str("read"),
        }
    }
}
