//! A search for capacities: the capacities first, then the picture and the trials.

use maud::{Markup, html};
use record::{CapacityOutcome, Condition, Part};

use super::{charted, note, section};
use crate::capacity::groups::{groups, heads};
use crate::capacity::{page, words};
use crate::chart::{Knee, KneeCurve, KneePoint, knee};
use crate::view;

/// Caption of latency over rate.
pub(super) const KNEE: &str = "Each mark is a trial at one rate; hollow ones only looked for the right \
    range. The line goes through medians. A vertical line is a capacity, the band around it its \
    interval; both axes are logarithmic.";

/// The capacities and the conditions.
pub(super) fn headline(part: &Part) -> Markup {
    html! {
        section.verdicts {
            @for sentence in words::sentences(part) { p { (sentence) } }
            @for words in words::notes(part) { p.warned { (words) } }
            @for variant in &part.variants {
                @if let Some(reason) = &variant.skipped {
                    p.warned { (variant.name) " was skipped: " (reason) }
                }
            }
        }
    }
}

/// The picture and the tables of trials.
pub(super) fn trials(part: &Part) -> Markup {
    let Some(capacity) = &part.capacity else { return html! {} };
    html! {
        @if let Some(data) = knee_of(part) {
            (charted(data.title.clone(), |width| knee(&data, width), KNEE))
        }
        (section("Trials by rate", html! {
            @for found in &capacity.variants {
                @if part.variants.len() > 1 { p { b { (view::name(part, found.variant)) } } }
                (super::tables::table(
                    html! { @for head in heads(&words::tail(capacity)) { th { (head) } } },
                    html! {
                        @for group in groups(part, found.variant) {
                            tr { @for cell in group.cells() { td { (cell) } } }
                        }
                    },
                ))
            }
            (note(page::LEGEND))
        }))
    }
}

/// Latency over rate; `None` without any trial.
pub(super) fn knee_of(part: &Part) -> Option<Knee> {
    let capacity = part.capacity.as_ref()?;
    let limit_ns = capacity.conditions.iter().find_map(|condition| match condition {
        Condition::Latency { limit, .. } => Some(limit.0 as f64),
        _ => None,
    });
    let tail = words::tail(capacity);
    let curve = |found: &record::VariantCapacity| {
        let trials = capacity.trials.iter().filter(|trial| trial.variant == found.variant);
        let point = |trial: &record::CapacityTrial| KneePoint {
            rate_per_s: trial.offered_per_s,
            latency_ns: trial.tail_ns as f64,
            is_rough: trial.block == 0,
        };
        KneeCurve {
            name: view::name(part, found.variant).to_owned(),
            series: found.variant as usize,
            points: trials.map(point).collect(),
            capacity: match found.outcome {
                CapacityOutcome::Found { per_s, .. } => Some(per_s),
                _ => None,
            },
        }
    };
    (!capacity.trials.is_empty()).then(|| Knee {
        title: format!("{tail} over rate"),
        description: words::sentences(part).join(" "),
        unit: format!("{tail} of latency"),
        limit_ns,
        curves: capacity.variants.iter().map(curve).collect(),
    })
}
