//! `tachograph completions`: shell completions.

use crate::failure::{Outcome, Status};
use crate::flags::definition;
use crate::flags::doctor::CompletionsFlags;
use crate::output;

pub(crate) fn run(flags: &CompletionsFlags) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(flags.shell, &mut definition(), "tachograph", &mut text);
    output::print(&String::from_utf8_lossy(&text))?;
    Ok(Status::Well)
}
