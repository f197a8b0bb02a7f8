//! What actions during the load cost: a table and its words.

use base::{Nanos, format_count};
use record::{ActionTaken, Disruption, Part, StepOutcome, Trial};

use crate::text::{listed, plural};

/// The losses of one variant over its measured trials with actions.
#[derive(Default)]
pub(crate) struct Losses<'a> {
    /// The variant's index.
    pub(crate) variant: usize,
    /// Requests of these trials.
    pub(crate) sent: u64,
    /// Those without a complete and expected response: failed, or never answered.
    pub(crate) lost: u64,
    /// Requests that were due but not sent before the trial ended.
    pub(crate) not_sent: u64,
    /// Requests sent over a new connection because the server had closed an idle one.
    pub(crate) reconnected: u64,
    /// The longest wait of any request.
    pub(crate) longest_wait: Nanos,
    /// Processes that replaced others.
    pub(crate) new_processes: u32,
    /// Requests lost before the first action of a trial.
    pub(crate) lost_before: u64,
    /// Requests lost per action, in order.
    pub(crate) per_action: Vec<u64>,
    /// The actions of one trial, for their description.
    first: &'a [ActionTaken],
}

/// The losses of every variant with actions; empty for a part without any.
pub(crate) fn losses(part: &Part) -> Vec<Losses<'_>> {
    (0..part.variants.len()).filter_map(|index| of_variant(part, index)).collect()
}

/// Whether a variant was acted on while it was loaded.
pub(crate) fn is_disrupted(part: &Part, variant: usize) -> bool {
    trials(part, variant).next().is_some()
}

fn trials(part: &Part, variant: usize) -> impl Iterator<Item = (&Trial, &Disruption)> {
    // Also those of failed blocks: the stack of another variant failed in them.
    let trials = part.measured_blocks().flat_map(|block| block.measured_trials());
    let mine = trials.filter(move |trial| trial.variant as usize == variant);
    mine.filter_map(|trial| Some((trial, trial.disruption.as_ref()?)))
}

fn of_variant(part: &Part, variant: usize) -> Option<Losses<'_>> {
    let (_, first) = trials(part, variant).next()?;
    let mut losses = Losses { variant, first: &first.actions, ..Losses::default() };
    for (trial, disruption) in trials(part, variant) {
        let counts = &trial.ledger.counts;
        losses.sent += counts.sent;
        losses.lost += counts.failed + counts.in_flight;
        losses.not_sent += counts.dropped;
        losses.reconnected += counts.reconnected;
        losses.longest_wait = losses.longest_wait.max(disruption.longest_wait);
        losses.new_processes += disruption.new_processes;
        losses.lost_before += disruption.failed_before;
        losses.per_action.extend(disruption.actions.iter().map(|action| action.failed));
    }
    Some(losses)
}

/// Heads of the table, after the variant's name.
pub(crate) const HEADS: [&str; 7] =
    ["actions", "sent", "lost", "per action", "not sent", "reconnected", "longest wait"];

impl Losses<'_> {
    /// The cells below [`HEADS`].
    pub(crate) fn cells(&self) -> [String; 7] {
        [
            format_count(self.per_action.len() as u64),
            format_count(self.sent),
            format_count(self.lost),
            self.per_action_in_words(),
            format_count(self.not_sent),
            format_count(self.reconnected),
            self.longest_wait.to_string(),
        ]
    }

    /// `0`, or mean and range: `2.3 (0–9)`.
    fn per_action_in_words(&self) -> String {
        let all = &self.per_action;
        let (Some(fewest), Some(most)) = (all.iter().min(), all.iter().max()) else {
            return "–".to_owned();
        };
        if fewest == most {
            return format_count(*most);
        }
        let mean = all.iter().sum::<u64>() as f64 / all.len() as f64;
        let mean =
            if mean < 10.0 { format!("{mean:.1}") } else { format_count(mean.round() as u64) };
        format!("{mean} ({}–{})", format_count(*fewest), format_count(*most))
    }

    /// What the actions of a trial were: `reload (SIGHUP) at 1.0 s, 4.0 s and 7.0 s`.
    pub(crate) fn actions_in_words(&self) -> String {
        let alike = |one: &ActionTaken, other: &ActionTaken| {
            let steps = other.steps.iter().map(|step| &step.what);
            one.name == other.name && one.steps.iter().map(|step| &step.what).eq(steps)
        };
        let mut kinds: Vec<Vec<&ActionTaken>> = Vec::new();
        for action in self.first {
            match kinds.iter_mut().find(|kind| alike(kind[0], action)) {
                Some(kind) => kind.push(action),
                None => kinds.push(vec![action]),
            }
        }
        let words = kinds.iter().map(|kind| {
            let (name, steps) = (&kind[0].name, steps_in_words(kind));
            let what = if steps == *name { steps } else { format!("{name} ({steps})") };
            let moments: Vec<_> = kind.iter().map(|action| seconds(action.at)).collect();
            format!("{what} at {}", listed(&moments))
        });
        let new = format_count(u64::from(self.new_processes));
        let mut words = format!("{}; new processes: {new}", words.collect::<Vec<_>>().join("; "));
        if self.lost_before > 0 {
            let before = plural(self.lost_before, "request");
            words += &format!("; {before} lost before the first action of a trial");
        }
        words
    }
}

/// The steps of occurrences of one action: `SIGUSR2, then SIGQUIT 1.0–1.2 s later`.
fn steps_in_words(kind: &[&ActionTaken]) -> String {
    let word = |index: usize| {
        let what = &kind[0].steps[index].what;
        let Some(before) = index.checked_sub(1) else { return what.clone() };
        let pauses = kind.iter().map(|of| of.steps[index].at.saturating_sub(of.steps[before].at));
        let least = pauses.clone().min().map(seconds).unwrap_or_default();
        match pauses.max().map(seconds).unwrap_or_default() {
            most if most == "0.0 s" => what.clone(),
            most if most == least => format!("{what} {most} later"),
            most => format!("{what} {}–{most} later", least.trim_end_matches(" s")),
        }
    };
    (0..kind[0].steps.len()).map(word).collect::<Vec<_>>().join(", then ")
}

/// A moment to a tenth of a second: the exact one is in the record.
fn seconds(at: Nanos) -> String {
    format!("{:.1} s", at.as_secs_f64())
}

/// The explanation below the table.
pub(crate) const LEGEND: &str = "lost: sent requests without a complete and correct response; per \
    action: mean (fewest–most) until the next action or the end of the trial; not sent: due, but \
    not sent within the trial; longest wait: of any request, from when it was due until its response \
    or failure";

/// The answer of a part whose variants were acted on: which lost nothing, and what the others lost.
pub(crate) fn answer(part: &Part) -> Option<String> {
    let losses = losses(part);
    let name = |losses: &Losses<'_>| part.variants[losses.variant].name.clone();
    let (none, some): (Vec<_>, Vec<_>) = losses.iter().partition(|losses| losses.lost == 0);
    let mut words = Vec::new();
    if !none.is_empty() {
        let names: Vec<String> = none.iter().map(|losses| name(losses)).collect();
        words.push(format!("{} lost no request", listed(&names)));
    }
    let mut some = some;
    some.sort_by_key(|losses| losses.lost / losses.per_action.len().max(1) as u64);
    words.extend(some.iter().map(|losses| {
        let actions = plural(losses.per_action.len() as u64, "action");
        format!("{} lost {} in {actions}", name(losses), plural(losses.lost, "request"))
    }));
    (!words.is_empty()).then(|| words.join("; "))
}

/// The outcome of a failed step in words.
pub(crate) fn outcome(outcome: StepOutcome) -> String {
    match outcome {
        StepOutcome::Signalled { pid } => format!("was sent to process {pid}"),
        StepOutcome::NoProcess => "found no process".to_owned(),
        StepOutcome::Exited { status } => format!("ended with status {status}"),
        StepOutcome::Killed { signal } => format!("was killed by signal {signal}"),
        StepOutcome::Unfinished => "had not ended when the trial did".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::StepTaken;

    fn reload(at_ms: u64, steps: &[(&str, u64)]) -> ActionTaken {
        let step = |(what, after_ms): &(&str, u64)| StepTaken {
            what: (*what).to_owned(),
            at: Nanos::from_millis(at_ms + after_ms),
            outcome: StepOutcome::Signalled { pid: 1 },
        };
        ActionTaken {
            name: "reload".to_owned(),
            started: base::Timestamp::UNIX_EPOCH,
            at: Nanos::from_millis(at_ms),
            took: Nanos::ZERO,
            failed: 0,
            steps: steps.iter().map(step).collect(),
        }
    }

    #[test]
    fn occurrences_of_one_action_are_told_together() {
        let usual = |at_ms, after_ms| reload(at_ms, &[("HUP", 0), ("ls", 20), ("QUIT", after_ms)]);
        let cases: [(&[ActionTaken], &str); 4] = [
            (&[usual(500, 1_000)], "reload (HUP, then ls, then QUIT 1.0 s later) at 0.5 s"),
            (
                &[usual(500, 1_000), usual(3_000, 1_300)],
                "reload (HUP, then ls, then QUIT 1.0–1.3 s later) at 0.5 s and 3.0 s",
            ),
            (
                &[usual(500, 1_000), reload(3_000, &[("HUP", 0)])],
                "reload (HUP, then ls, then QUIT 1.0 s later) at 0.5 s; reload (HUP) at 3.0 s",
            ),
            (&[reload(500, &[("reload", 0)])], "reload at 0.5 s"),
        ];
        for (first, words) in cases {
            let losses = Losses { first, ..Losses::default() };
            assert_eq!(losses.actions_in_words(), format!("{words}; new processes: 0"));
        }
    }
}
