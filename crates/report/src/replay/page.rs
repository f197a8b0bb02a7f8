//! A replay on a terminal and in Markdown.

use base::format_count;
use record::{DifferenceGroup, DifferenceKind, FailureCause, Replay, Side};

use super::words;
use crate::markdown::{escape, list};
use crate::page::{LABEL, Page};
use crate::text::{Style, Tone, fit, right};

/// Groups of differences that are shown.
const GROUPS_SHOWN: usize = 20;

/// A replay as text for a terminal or a pipe.
pub fn replay_terminal(replay: &Replay, style: &Style) -> String {
    let mut page = Page::new(style);
    let is_well = replay.different + replay.failed.sum() == 0 && replay.same > 0;
    let tone = if is_well { Tone::Good } else { Tone::Bad };
    page.paragraph(tone, 2, words::headline(replay));
    if let Some(end) = words::end(replay) {
        page.paragraph(Tone::Warn, 2, end);
    }
    page.paragraph(Tone::Dim, 2, words::setting(replay));
    for side in Side::BOTH {
        page.beside(LABEL, side.word(), Tone::Plain, &replay.servers.of(side).to_string());
    }
    let counts = replay.groups.iter().map(|group| group.requests);
    let counts = counts.chain(replay.failures.iter().map(|failure| failure.requests));
    let margin = counts.map(|count| format_count(count).len()).max().unwrap_or(0).max(LABEL - 2);
    if !replay.groups.is_empty() {
        page.blank();
        page.line(
            page.style.paint(Tone::Dim, &format!("{}  difference", right("requests", margin))),
        );
        for group in replay.groups.iter().take(GROUPS_SHOWN) {
            group_lines(&mut page, margin, group);
        }
        if let Some(more) = words::more(replay, GROUPS_SHOWN) {
            page.beside(margin + 2, "", Tone::Plain, &more);
        }
    }
    if !replay.failures.is_empty() {
        page.blank();
        page.line(page.style.paint(Tone::Dim, &format!("{}  failure", right("requests", margin))));
        for failure in &replay.failures {
            let what = format!("{}: {}", failure.side.word(), failure.cause);
            counted_line(&mut page, margin, failure.requests, &what);
            place_line(&mut page, margin, failure.line, &failure.request);
        }
    }
    page.blank();
    for account in words::accounts(replay) {
        let tone = if account.is_broken() { Tone::Bad } else { Tone::Plain };
        page.beside(LABEL, account.label, tone, &account.line());
    }
    if let Some(left_out) = words::left_out(replay) {
        page.beside(LABEL, "left out", Tone::Plain, &left_out);
    }
    page.finish()
}

fn counted_line(page: &mut Page<'_>, margin: usize, count: u64, what: &str) {
    let room = page.style.columns().saturating_sub(margin + 2);
    let count = right(&format_count(count), margin);
    page.line(format!("{count}  {}", page.style.paint(Tone::Bold, &fit(what, room))));
}

fn place_line(page: &mut Page<'_>, margin: usize, line: u64, request: &str) {
    let room = page.style.columns().saturating_sub(margin + 4);
    let place = fit(&format!("line {line}: {request}"), room);
    page.line(format!("{}{place}", " ".repeat(margin + 4)));
}

fn group_lines(page: &mut Page<'_>, margin: usize, group: &DifferenceGroup) {
    counted_line(page, margin, group.requests, &words::difference(&group.kind));
    place_line(page, margin, group.example.line, &request(group));
    if !matches!(group.kind, DifferenceKind::Status { .. }) {
        for side in Side::BOTH {
            let indent = margin + 4;
            let room = page.style.columns().saturating_sub(indent + 4);
            let value = fit(group.example.values.of(side), room);
            let label = page.style.paint(Tone::Dim, side.word());
            page.line(format!("{}{label} {value}", " ".repeat(indent)));
        }
    }
}

fn request(group: &DifferenceGroup) -> String {
    format!("{} {}", group.example.method, group.example.path)
}

/// A replay as Markdown, for a comment on a pull request.
pub fn replay_markdown(replay: &Replay) -> String {
    let mut out = format!("**{}**\n\n", escape(&words::headline(replay)));
    if let Some(end) = words::end(replay) {
        out += &format!("{}\n\n", escape(&end));
    }
    out += &format!("{}\n\n", escape(&words::setting(replay)));
    let servers = Side::BOTH
        .iter()
        .map(|side| format!("{}: {}", side.word(), escape(&replay.servers.of(*side).to_string())));
    out += &list(servers);
    if !replay.groups.is_empty() {
        out += "| requests | difference | example | old | new |\n| --: | --- | --- | --- | --- |\n";
        out.extend(replay.groups.iter().take(GROUPS_SHOWN).map(group_row));
        out.push('\n');
        if let Some(more) = words::more(replay, GROUPS_SHOWN) {
            out += &format!("{}\n\n", escape(&more));
        }
    }
    if !replay.failures.is_empty() {
        out += "| requests | failure | example |\n| --: | --- | --- |\n";
        out.extend(replay.failures.iter().map(failure_row));
        out.push('\n');
    }
    let accounts = words::accounts(replay);
    let lines = accounts.iter().map(|account| format!("{}: {}", account.label, account.line()));
    let left_out = words::left_out(replay).map(|reasons| format!("left out: {}", escape(&reasons)));
    out + &list(lines.chain(left_out))
}

fn group_row(group: &DifferenceGroup) -> String {
    let example = &group.example;
    let cells = [
        format_count(group.requests),
        escape(&words::difference(&group.kind)),
        format!("line {}: {}", example.line, escape(&request(group))),
        escape(&example.values.old),
        escape(&example.values.new),
    ];
    format!("| {} |\n", cells.join(" | "))
}

fn failure_row(failure: &FailureCause) -> String {
    let cells = [
        format_count(failure.requests),
        escape(&format!("{}: {}", failure.side.word(), failure.cause)),
        format!("line {}: {}", failure.line, escape(&failure.request)),
    ];
    format!("| {} |\n", cells.join(" | "))
}
