//! The tools: how each is called for a load, and how its report is read.

mod ab;
mod fortio;
mod h2load;
mod hey;
mod k6;
mod oha;
mod ours;
mod vegeta;
mod wrk;

use super::load::Load;
use super::report::{Printed, Report};

/// A load generator.
#[derive(Debug)]
pub(super) struct Tool {
    /// Its program.
    pub(super) name: &'static str,
    /// Where `scripts/truth-tools.sh` gets it.
    pub(super) source: &'static str,
    /// The arguments that print its version; for a Go program without one, the version that was
    /// installed is used.
    pub(super) version: Option<&'static str>,
    /// What the report of one run says about its uncertainty.
    pub(super) uncertainty: &'static str,
    /// Its load on the stalling server.
    pub(super) rate: &'static str,
    /// Its arguments for a load, separated by spaces; `None` if it has no options for it.
    pub(super) arguments: fn(&Load) -> Option<String>,
    /// Content of the file [`SCRIPT`](super::load::SCRIPT), which its arguments name.
    pub(super) script: Option<fn(&Load) -> String>,
    /// Arguments of a second call, whose output is read.
    pub(super) then: Option<&'static str>,
    /// Reads its report; `None` if it printed none.
    pub(super) read: fn(&Printed) -> Option<Report>,
}

/// All tools, in the order of the page.
pub(super) const TOOLS: [&Tool; 9] = [
    &wrk::TOOL,
    &ab::TOOL,
    &h2load::TOOL,
    &hey::TOOL,
    &oha::TOOL,
    &vegeta::TOOL,
    &k6::TOOL,
    &fortio::TOOL,
    &ours::TOOL,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::load::Work;

    /// Reads a tool's report from text and JSON.
    pub(super) fn read(tool: &Tool, text: &str, json: &str) -> Report {
        let json = serde_json::from_str(json).ok();
        (tool.read)(&Printed { text: text.to_owned(), json }).expect("a report")
    }

    /// A tool's arguments for each kind of work, and for a Unix socket.
    pub(super) fn calls(tool: &Tool) -> [String; 4] {
        let load = |work, unix| Load { port: 80, unix, work, timeout_s: 1 };
        let number = Work::Number { requests: 2000, or_seconds: 1 };
        [
            load(Work::Closed { seconds: 3 }, false),
            load(number, false),
            load(Work::Rate { per_s: 200, seconds: 10 }, false),
            load(number, true),
        ]
        .map(|load| (tool.arguments)(&load).unwrap_or_else(|| "–".to_owned()))
    }

    #[test]
    fn no_report_is_read_from_nothing() {
        for tool in TOOLS {
            assert_eq!((tool.read)(&Printed::default()), None, "{}", tool.name);
        }
    }
}
