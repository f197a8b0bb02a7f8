//! The load generators that are measured: how each is found, how it is called for a load, and how
//! its report is read.

pub(crate) mod ab;
mod fortio;
pub(crate) mod h2load;
pub(crate) mod hey;
pub(crate) mod httperf;
pub(crate) mod httpress;
pub(crate) mod installed;
mod k6;
pub(crate) mod load;
pub(crate) mod oha;
pub(crate) mod ours;
pub(crate) mod report;
pub(crate) mod rounds;
mod vegeta;
pub(crate) mod weighttp;
pub(crate) mod wrk;

use std::path::{Path, PathBuf};
use std::process::Command;

use load::Load;
use report::{Report, ToolOutput};

/// A load generator.
#[derive(Debug)]
pub(crate) struct Tool {
    /// Its program.
    pub(crate) name: &'static str,
    /// Where `scripts/truth-tools.sh` gets it.
    pub(crate) source: &'static str,
    /// The arguments that print its version; for a Go program without one, the version that was
    /// installed is used.
    pub(crate) version: Option<&'static str>,
    /// What the report of one run says about its uncertainty.
    pub(crate) uncertainty: &'static str,
    /// Its load on the stalling server.
    pub(crate) rate: &'static str,
    /// Its arguments for a load, separated by spaces; `None` if it cannot do it.
    pub(crate) arguments: fn(&Load) -> Option<String>,
    /// Content of the file [`SCRIPT`](load::SCRIPT), which its arguments name.
    pub(crate) script: Option<fn(&Load) -> String>,
    /// Arguments of a second call, whose output is read.
    pub(crate) then: Option<&'static str>,
    /// Reads its report; `None` if it printed none.
    pub(crate) read: fn(&ToolOutput) -> Option<Report>,
}

/// All tools, in the order of the page.
pub(crate) const TOOLS: [&Tool; 12] = [
    &wrk::TOOL,
    &ab::TOOL,
    &h2load::TOOL,
    &hey::TOOL,
    &oha::TOOL,
    &vegeta::TOOL,
    &k6::TOOL,
    &fortio::TOOL,
    &httperf::TOOL,
    &httpress::TOOL,
    &weighttp::TOOL,
    &ours::TOOL,
];

/// The file of a program on PATH.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The first line of a program's version output that contains a digit.
pub(crate) fn version(path: &Path, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(path).args(arguments).output() else {
        return "version unknown".to_owned();
    };
    // httperf prints its version to stderr, and the report of a request to stdout.
    let text = [output.stderr, output.stdout].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|line| line.contains(|c: char| c.is_ascii_digit()));
    let line = line.unwrap_or("version unknown");
    line.split(" Copyright").next().unwrap_or(line).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::load::{Protocol, Work};

    /// Reads a tool's report from text and JSON.
    pub(crate) fn read(tool: &Tool, text: &str, json: &str) -> Report {
        let json = serde_json::from_str(json).ok();
        (tool.read)(&ToolOutput { text: text.to_owned(), json }).expect("a report")
    }

    /// A load over TCP.
    pub(crate) fn load(work: Work) -> Load {
        Load::of(80, work)
    }

    /// A tool's arguments for 2,000 requests with a connection each, from four threads.
    pub(crate) fn published(tool: &Tool) -> String {
        let number = Work::Number { requests: 2000, or_seconds: 5 };
        let load = Load { connections: 20, threads: 4, new_connection: true, ..load(number) };
        (tool.arguments)(&load).unwrap()
    }

    /// A tool's arguments for each kind of work, and for a Unix socket.
    pub(crate) fn calls(tool: &Tool) -> [String; 4] {
        let load = |work, unix| Load { unix, ..load(work) };
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
    fn protocols_that_a_tool_speaks_have_their_options() {
        let number = Work::Number { requests: 7, or_seconds: 1 };
        let word = |tool: &Tool, protocol| {
            let load = Load { protocol, ..load(number) };
            let arguments = (tool.arguments)(&load)?;
            let scheme = if protocol.is_tls() { "https://" } else { "http://" };
            let script = tool.script.map(|script| script(&load)).unwrap_or_default();
            assert!(arguments.contains(scheme) || script.contains(scheme), "{arguments}");
            // What it says otherwise than without TLS and HTTP/2.
            let plain = (tool.arguments)(&tests::load(number)).unwrap_or_default();
            let plain: Vec<&str> = plain.split(' ').collect();
            let new = arguments.split(' ').filter(|word| !plain.contains(word));
            Some(new.filter(|word| !word.contains("://")).collect::<Vec<_>>().join(" "))
        };
        let words: Vec<_> = TOOLS
            .iter()
            .map(|tool| {
                let of = |protocol| word(tool, protocol).unwrap_or_else(|| "–".to_owned());
                let all = [Protocol::Https, Protocol::H2c, Protocol::H2].map(of);
                format!("{}: {}", tool.name, all.join(" | "))
            })
            .collect();
        assert_eq!(
            words,
            [
                "wrk:  | – | –",
                "ab:  | – | –",
                "h2load:  | -c2 -m5 | -c2 -m5",
                "hey: -host localhost | – | -h2 -host localhost",
                "oha: --insecure | --http2 2 -p 5 | --http2 2 -p 5 --insecure",
                "vegeta: -insecure -http2=false | -h2c | -insecure",
                "k6:  | – | ",
                "fortio: -https-insecure | -h2 -stdclient | -https-insecure -h2 -stdclient",
                "httperf: – | – | –",
                "httpress: – | – | –",
                "weighttp: – | – | –",
                "tachograph: --insecure | --http2 --streams 5 2 | --http2 --streams 5 2 --insecure",
            ]
        );
    }

    #[test]
    fn no_report_is_read_from_nothing() {
        for tool in TOOLS {
            assert_eq!((tool.read)(&ToolOutput::default()), None, "{}", tool.name);
        }
    }
}
