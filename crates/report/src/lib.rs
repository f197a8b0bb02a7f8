//! Terminal, Markdown, CSV, JSON and HTML from a recorded run.
//!
//! Every exporter reads a [`record::Run`], or a [`record::Replay`], and nothing else, so a report made a year later equals
//! the one printed at the end of the run. A run contains facts; all sentences are made here: about
//! verdicts in `verdict`, about checks in `fact`, about the ledger in `ledger`, about load, layout
//! and the machine in `setting`. [`chart`] draws all charts as SVG text. `gate` decides the conditions
//! of `--fail-if` on a run.
//!
//! Not here: measuring, statistics beyond a mean, I/O. A figure that is not in the run is not in
//! the report.

mod beside;
mod capacity;
mod caveat;
mod changes;
pub mod chart;
mod csv;
mod diff;
mod disruption;
mod fact;
mod figures;
mod finding_lines;
mod gate;
mod handshakes;
mod html;
mod json;
mod json_parts;
mod kinds;
mod ledger;
mod line;
mod load;
mod machine;
mod markdown;
mod means;
mod page;
mod place;
mod replay;
mod setting;
mod streams;
mod terminal;
mod text;
mod validity;
mod verdict;
mod view;
mod why;

pub use beside::beside;
pub use csv::csv;
pub use diff::{
    Direction, diff_failure_markdown, diff_json, diff_markdown, diff_sentence, diff_variables,
    metric_format, tracked,
};
pub use fact::words as note;
pub use gate::{decide_conditions, gate, outcome_of_diff};
pub use html::{Picture, html, pictures};
pub use json::json;
pub use line::outcome;
pub use load::LoadReport;
pub use markdown::{markdown, markdown_with_pictures};
pub use replay::{replay_json, replay_markdown, replay_terminal};
pub use terminal::terminal;
pub use text::{Style, indented};
pub use validity::{RunVerdict, is_invalid, reasons, shortfalls};
pub use verdict::first_verdict;
pub use why::folded;
