//! Actions during the load: a thread beside the client does what the plan says, at its moments.
//!
//! Signals are sent by the guard: it is the reaper of the stack's processes, so a pid that it signals
//! cannot have been reused, and it adopts the new master of a binary upgrade, which then is the process
//! to signal. A trial with actions is one slice. Losses are attributed to an action by the client's
//! live counts at its beginning, so they always add up to the ledger.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use base::Nanos;
use drive::LiveCounts;
use record::{ActionTaken, Fact, StepOutcome, StepTaken};
use spec::Action;
use stage::{LiveStack, ProcessExit, StageError, StepResult};

/// The occurrences of all actions in a trial: their moments, and the index of the action.
fn moments(actions: &[Action]) -> Vec<(Nanos, usize)> {
    let of_action = |(index, action): (usize, &Action)| {
        let (at, every) = (action.at, action.every);
        (0..action.times).map(move |i| (at + every * u64::from(i), index)).collect::<Vec<_>>()
    };
    let mut moments: Vec<_> = actions.iter().enumerate().flat_map(of_action).collect();
    moments.sort_by_key(|(at, _)| *at);
    moments
}

/// The thread that carries out the actions on one stack during a slice.
pub(crate) struct Actor<'a> {
    pub(crate) actions: &'a [Action],
    pub(crate) stack: &'a LiveStack,
    /// Counts of the session during the slice.
    pub(crate) live: &'a LiveCounts,
    /// When the slice began.
    pub(crate) began: Instant,
    /// Its sender is dropped at the end of the slice.
    pub(crate) over: Receiver<()>,
    pub(crate) stop: &'a AtomicBool,
}

impl Actor<'_> {
    /// Does everything at its moment, until the slice is over. `failed` of each action is the number
    /// of requests that had failed when it began; see [`attribute`].
    pub(crate) fn act(self) -> Result<Vec<ActionTaken>, StageError> {
        let mut taken = Vec::new();
        for (at, index) in moments(self.actions) {
            if self.is_over_by(self.began + Duration::from(at)) {
                break;
            }
            taken.push(self.one(&self.actions[index])?);
        }
        Ok(taken)
    }

    fn one(&self, action: &Action) -> Result<ActionTaken, StageError> {
        let mut taken = ActionTaken {
            name: action.name.clone(),
            started: base::timestamp_now(),
            at: self.now(),
            took: Nanos::ZERO,
            failed: self.live.counts().1,
            steps: Vec::new(),
        };
        for step in &action.steps {
            if self.is_over_by(Instant::now() + Duration::from(step.after)) {
                break;
            }
            let at = self.now();
            let outcome = outcome(self.stack.act(&step.deed, &|| self.is_over())?);
            taken.steps.push(StepTaken { what: step.deed.in_words(), at, outcome });
        }
        taken.took = self.now().saturating_sub(taken.at);
        Ok(taken)
    }

    fn now(&self) -> Nanos {
        self.began.elapsed().into()
    }

    /// Waits until an instant; true if the slice ends before.
    fn is_over_by(&self, instant: Instant) -> bool {
        let left = instant.saturating_duration_since(Instant::now());
        matches!(self.over.recv_timeout(left), Err(RecvTimeoutError::Disconnected))
            || self.stop.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        matches!(self.over.try_recv(), Err(TryRecvError::Disconnected))
            || self.stop.load(Ordering::Relaxed)
    }
}

fn outcome(done: StepResult) -> StepOutcome {
    match done {
        StepResult::Signalled { pid } => StepOutcome::Signalled { pid },
        StepResult::NoProcess | StepResult::Ended(ProcessExit::Vanished) => StepOutcome::NoProcess,
        StepResult::Ended(ProcessExit::Exited(status)) => StepOutcome::Exited { status },
        StepResult::Ended(ProcessExit::Killed(signal)) => StepOutcome::Killed { signal },
        StepResult::Unfinished => StepOutcome::Unfinished,
    }
}

/// Replaces the number of requests that had failed when each action began, after `before` earlier
/// ones, by the number that failed from then until the next action, of `failed` in all. Returns the
/// number of those that failed before the first action.
pub(crate) fn attribute(taken: &mut [ActionTaken], before: u64, failed: u64) -> u64 {
    let begun: Vec<u64> = taken.iter().map(|action| action.failed.saturating_sub(before)).collect();
    for (index, action) in taken.iter_mut().enumerate() {
        let end = begun.get(index + 1).copied().unwrap_or(failed);
        action.failed = end.saturating_sub(begun[index]);
    }
    begun.first().copied().unwrap_or(failed)
}

/// The steps that did not do what they were to do.
pub(crate) fn failures<'a>(
    taken: &'a [ActionTaken],
    log: Option<&'a String>,
) -> impl Iterator<Item = Fact> + 'a {
    taken.iter().flat_map(move |action| {
        let failed = action.steps.iter().filter(|step| !step.outcome.is_ok());
        failed.map(move |step| Fact::ActionFailed {
            action: action.name.clone(),
            step: step.what.clone(),
            outcome: step.outcome,
            log: log.cloned(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use spec::{ActionStep, Deed};

    fn action(at_ms: u64, every_ms: u64, times: u32) -> Action {
        let deed = Deed::Command("true".to_owned());
        Action {
            name: "x".to_owned(),
            steps: vec![ActionStep { after: Nanos::ZERO, deed }],
            at: Nanos::from_millis(at_ms),
            every: Nanos::from_millis(every_ms),
            times,
        }
    }

    #[test]
    fn moments_of_several_actions_come_in_order() {
        let actions = [action(100, 300, 3), action(250, 0, 1)];
        let ms = |(at, index): &(Nanos, usize)| (at.0 / 1_000_000, *index);
        let all: Vec<_> = moments(&actions).iter().map(ms).collect();
        assert_eq!(all, [(100, 0), (250, 1), (400, 0), (700, 0)]);
        assert_eq!(moments(&[]), []);
    }

    #[test]
    fn every_failure_belongs_to_the_last_action_before_it() {
        let taken = |failed| ActionTaken {
            name: "x".to_owned(),
            started: base::Timestamp::UNIX_EPOCH,
            at: Nanos::ZERO,
            took: Nanos::ZERO,
            failed,
            steps: Vec::new(),
        };
        // Five had failed before the slice, and two more before the first action.
        let mut actions = [taken(7), taken(7), taken(11)];
        assert_eq!(attribute(&mut actions, 5, 9), 2);
        assert_eq!(actions.map(|action| action.failed), [0, 4, 3]);
        assert_eq!(attribute(&mut [], 5, 9), 9);
    }
}
