//! Terminal, Markdown, CSV, JSON and HTML from a recorded run.
//!
//! Every exporter reads a [`record::Run`] and nothing else, so a report made a
//! year later says the same as the one printed at the end of the run. Charts
//! are drawn in one place, [`chart`], as SVG text.
//!
//! Not here: any measuring, any statistics, any I/O. A figure that is not in
//! the run is not in the report.

mod answer;
pub mod chart;
mod csv;
mod html;
mod json;
mod load;
mod markdown;
mod terminal;
mod text;
mod view;

pub use csv::csv;
pub use html::{Picture, html, pictures};
pub use json::json;
pub use load::{CLIENT_ENGINE, CLIENT_THREAD_CPU, CLIENT_THREADS, LoadReport};
pub use markdown::{markdown, markdown_with_pictures};
pub use terminal::terminal;
pub use text::Style;
