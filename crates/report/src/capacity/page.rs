//! A search for capacities on a terminal and in Markdown.

use record::{CapacityOutcome, Part};

use super::groups::{groups, heads};
use super::words;
use crate::page::Page;
use crate::setting;
use crate::text::{Tone, right, width};
use crate::view;

/// Load, layout and blocks in a line.
pub(crate) fn setting(part: &Part) -> String {
    let load = setting::load(&part.load, &[]);
    format!("{load}, open loop; {}; {}", setting::part_layout(part), setting::blocks(part))
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
    let heads = heads(&words::tail(capacity));
    for found in &capacity.variants {
        page.blank();
        if part.variants.len() > 1 {
            page.line(page.style.paint(Tone::Bold, view::name(part, found.variant)));
        }
        let groups = groups(part, found.variant);
        let rows: Vec<[String; 7]> = groups.iter().map(|group| group.cells()).collect();
        let line = |cells: &[String; 7]| -> String {
            let column = |at: usize| {
                let widest = rows.iter().map(|row| width(&row[at])).max().unwrap_or(0);
                right(&cells[at], widest.max(width(&heads[at])) + 2)
            };
            (0..7).map(column).collect()
        };
        page.line(page.style.paint(Tone::Dim, &line(&heads)));
        for (group, row) in groups.iter().zip(&rows) {
            let tone = if group.holds() { Tone::Plain } else { Tone::Warn };
            page.line(page.style.paint(tone, &line(row)));
        }
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
