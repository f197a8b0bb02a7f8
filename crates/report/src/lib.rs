//! Terminal, Markdown, CSV, JSON and HTML from a recorded run.
//!
//! Every exporter reads a [`record::Run`] and nothing else, so a report made a
//! year later says the same as the one printed at the end of the run. A run
//! holds facts; every sentence about them is made here and nowhere else: those
//! about verdicts in `verdict`, about checks in `fact`, about the ledger in
//! `ledger`, about load, layout and the machine in `setting`. Charts are drawn
//! in one place, [`chart`], as SVG text.
//!
//! Not here: any measuring, any statistics beyond a mean, any I/O. A figure
//! that is not in the run is not in the report.

mod beside;
pub mod chart;
mod csv;
mod fact;
mod gate;
mod html;
mod json;
mod ledger;
mod load;
mod markdown;
mod setting;
mod terminal;
mod text;
mod validity;
mod verdict;
mod view;

pub use beside::beside;
pub use csv::csv;
pub use fact::note;
pub use gate::gate;
pub use html::{Picture, html, pictures};
pub use json::json;
pub use load::LoadReport;
pub use markdown::{markdown, markdown_with_pictures};
pub use terminal::terminal;
pub use text::Style;
pub use validity::{is_invalid, is_void, reasons};
pub use verdict::first_verdict;
