//! A replay on a terminal, in Markdown and as JSON.

mod json;
mod page;
mod words;

pub use json::replay_json;
pub use page::{replay_markdown, replay_terminal};
