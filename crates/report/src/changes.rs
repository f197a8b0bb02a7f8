//! What one change does: the same ratio in two parts that differ in one thing.
//!
//! A part declares what it changes; nothing is derived from the differences between two parts, which
//! may concern load, layout, variables and variants at once. The effect is computed from two recorded
//! comparisons.

use record::{Comparison, Metric, Part, Run};
use serde_json::{Value, json};
use stats::Estimate;

use crate::text::ratio;
use crate::{setting, validity, verdict, view};

/// The section's heading.
pub(crate) const TITLE: &str = "What each change does";

/// The columns' headings.
pub(crate) const HEADS: [&str; 5] = ["change", "compared", "before", "after", "effect"];

/// Explains the columns.
pub(crate) const LEGEND: &str = "Effect: the ratio after the change ÷ the ratio before; its \
    interval follows from theirs. If it contains 1, no effect was detected";

/// A ratio before and after a change.
pub(crate) struct Effect<'a> {
    /// The part with the change.
    part: &'a Part,
    /// The part without it.
    from: &'a Part,
    /// What is different.
    what: &'a str,
    before: &'a Comparison,
    after: &'a Comparison,
}

/// Every primary ratio that both parts of a change have, in the order of the parts; changes from
/// parts that were not selected are left out.
pub(crate) fn effects(run: &Run) -> Vec<Effect<'_>> {
    let mut effects = Vec::new();
    for part in &run.parts {
        for change in &part.changes {
            let Some(from) = run.parts.iter().find(|from| from.name == change.from) else {
                continue;
            };
            for after in view::split_comparisons(part).0 {
                let same = |before: &&Comparison| {
                    (before.metric, before.offer) == (after.metric, after.offer)
                        && view::sides(from, before) == view::sides(part, after)
                };
                if let Some(before) = view::split_comparisons(from).0.into_iter().find(same) {
                    effects.push(Effect { part, from, what: &change.what, before, after });
                }
            }
        }
    }
    effects
}

impl Effect<'_> {
    /// The ratio after the change ÷ the ratio before; `None` if one of them is INVALID or has too
    /// few blocks.
    pub(crate) fn estimate(&self) -> Option<Estimate> {
        let known = |c: &Comparison| !validity::is_refused(c) && !verdict::too_few(c);
        (known(self.before) && known(self.after))
            .then(|| self.after.judgement.relative_to(&self.before.judgement))
            .filter(Estimate::is_bounded)
    }

    /// The change: `one client thread (as-published → one-thread)`.
    pub(crate) fn what(&self) -> String {
        format!("{} ({} → {})", self.what, self.from.name, self.part.name)
    }

    /// The ratio: `unix ÷ tcp`, with its metric unless that is the throughput.
    pub(crate) fn compared(&self) -> String {
        let sides = view::sides(self.part, self.after);
        match self.after.metric {
            Metric::Throughput => sides,
            metric => format!("{sides}, {}", setting::metric(metric, self.part.is_bulk())),
        }
    }

    /// The ratio before, the ratio after and the effect, each with its interval.
    pub(crate) fn ratios(&self) -> [String; 3] {
        let effect = match self.estimate() {
            Some(estimate) => {
                let (value, interval) = ratio(&estimate);
                format!("{value} ({interval})")
            }
            None => "–".to_owned(),
        };
        [verdict::ratio_in_words(self.before), verdict::ratio_in_words(self.after), effect]
    }

    /// The effect in JSON, with nulls for unknown values.
    pub(crate) fn json(&self) -> Value {
        let estimate = self.estimate();
        let of = |pick: fn(&Estimate) -> f64| estimate.as_ref().map(pick);
        json!({
            "part": self.part.name,
            "from": self.from.name,
            "what": self.what,
            "baseline": view::name(self.part, self.after.baseline),
            "variant": view::name(self.part, self.after.variant),
            "metric": self.after.metric,
            "offer": self.after.offer,
            "effect": of(|e| e.value),
            "low": of(|e| e.low),
            "high": of(|e| e.high),
        })
    }

    /// Whether its interval excludes 1.
    pub(crate) fn is_detected(&self) -> bool {
        self.estimate().is_some_and(|estimate| !estimate.holds(1.0))
    }
}
