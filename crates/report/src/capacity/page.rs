//! A search for capacities on a terminal and in Markdown.

use record::{CapacityOutcome, Offer, Part};

use super::groups::{Group, groups, heads};
use super::words;
use crate::page::{Page, TableRow};
use crate::setting;
use crate::text::Tone;
use crate::view;

/// Load, layout and blocks in a line.
pub(crate) fn setting(part: &Part) -> String {
    let load = setting::load(&part.load, &[(Offer::Open, None)]);
    format!("{load}; {}; {}", setting::part_layout(part), setting::blocks(part))
}

/// The capacities and the trials.
pub(crate) fn on_page(page: &mut Page<'_>, part: &Part) {
    let Some(capacity) = &part.capacity else { return };
    for (found, sentence) in capacity.variants.iter().zip(words::sentences(part)) {
        let tone = match found.outcome {
            CapacityOutcome::Found { .. } | CapacityOutcome::AtLeast { .. } => Tone::Bold,
            _ => Tone::Warn,
        };
        page.paragraph(tone, 2, sentence);
    }
    for note in words::notes(part) {
        page.paragraph(Tone::Warn, 2, format!("note: {note}"));
    }
    for variant in part.variants.iter() {
        if let Some(reason) = &variant.skipped {
            page.paragraph(Tone::Plain, 2, format!("{} was skipped: {reason}", variant.name));
        }
    }
    let [rate, heads @ ..] = &heads(&words::tail(capacity));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    for found in &capacity.variants {
        page.blank();
        if part.variants.len() > 1 {
            page.line(page.style.paint(Tone::Bold, view::name(part, found.variant)));
        }
        let row = |group: Group<'_>| {
            let [rate, cells @ ..] = group.cells();
            TableRow { name: rate, cells: cells.to_vec(), is_bad: !group.holds() }
        };
        let rows: Vec<TableRow> = groups(part, found.variant).into_iter().map(row).collect();
        page.table(rate, &heads, &rows);
    }
    page.paragraph(Tone::Dim, 2, LEGEND);
}

/// Explains the tables.
pub(crate) const LEGEND: &str = "latency from the instant at which a request was due; slower: than the \
    limit, or without a right answer; rows put trials of about the same rate together, including those \
    of the first, rough search";

/// The same in Markdown.
pub(crate) fn markdown(part: &Part, escape: fn(&str) -> String) -> String {
    let Some(capacity) = &part.capacity else { return String::new() };
    let mut out = String::new();
    for sentence in words::sentences(part) {
        out += &format!("**{}**\n\n", escape(&sentence));
    }
    for note in words::notes(part) {
        out += &format!("{}\n\n", escape(&note));
    }
    for found in &capacity.variants {
        if part.variants.len() > 1 {
            out += &format!("{}:\n\n", escape(view::name(part, found.variant)));
        }
        out += &format!("| {} |\n", heads(&words::tail(capacity)).join(" | "));
        out += "| --: | --: | --: | --: | --: | --: | --: |\n";
        for group in groups(part, found.variant) {
            out += &format!("| {} |\n", group.cells().join(" | "));
        }
        out.push('\n');
    }
    out
}
