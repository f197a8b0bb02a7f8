//! Rounds: every tool in turn, each on a fresh server of the same behaviour.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fixture::{RunningFixture, Tally};
use spec::Endpoint;

use super::Options;
use super::results::{MissingTool, Run, ScenarioResults, Truth};
use super::scenarios::{Scenario, TIMEOUT_S};
use crate::process::{self, PinnedProcess};
use crate::tools::load::{Load, OUT, SCRIPT, SOCKET};
use crate::tools::report::ToolOutput;
use crate::tools::rounds::Rounds;
use crate::tools::{self, Tool};
use crate::{binary, pages};

/// Additional time for a tool.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long the server must have received nothing to be done.
const SETTLED: Duration = Duration::from_millis(100);

/// What the scenarios share.
pub(super) struct Turns<'o> {
    options: &'o Options,
    rounds: Rounds,
    /// The tools that are there, with their programs.
    here: Vec<(&'static Tool, PathBuf)>,
    pub(super) missing: Vec<MissingTool>,
}

impl<'o> Turns<'o> {
    pub(super) fn new(options: &'o Options) -> Result<Turns<'o>, String> {
        let Options { rounds, seed, .. } = *options;
        let rounds = Rounds::new("xtask truth", rounds, seed)?;
        // The servers are threads of this program.
        process::stay_on(rounds.server_cpu)?;
        let (here, missing) = find(options);
        Ok(Turns { options, rounds, here, missing })
    }

    /// The versions of the tools that are there.
    pub(super) fn versions(&self) -> BTreeMap<String, String> {
        let version = |(tool, program): &(&Tool, PathBuf)| {
            let version = match tool.version {
                Some(argument) => short(&tools::version(program, &[argument])),
                None => installed_version(&self.options.installed, tool),
            };
            (tool.name.to_owned(), version)
        };
        self.here.iter().map(version).collect()
    }

    /// Runs every tool in every round.
    pub(super) fn measure(&self, scenario: &Scenario) -> Result<ScenarioResults, String> {
        let mut measured = ScenarioResults {
            date: pages::now(),
            machine: self.rounds.machine.clone(),
            note: self.options.note.clone(),
            rounds: self.options.rounds,
            seed: self.options.seed.0,
            runs: Vec::new(),
        };
        for (round, tools) in self.rounds.of(scenario.id, &self.here) {
            for (tool, program) in tools {
                measured.runs.extend(self.turn(round, scenario, tool, program)?);
            }
        }
        Ok(measured)
    }

    /// Runs one tool on a fresh server; `None` if it cannot do this load.
    fn turn(
        &self,
        round: u32,
        scenario: &Scenario,
        tool: &Tool,
        program: &Path,
    ) -> Result<Option<Run>, String> {
        let words = |error: std::io::Error| error.to_string();
        let folder = tempfile::tempdir().map_err(words)?;
        let listen = match scenario.unix {
            true => Endpoint::Unix(folder.path().join(SOCKET)),
            false => Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: 0 },
        };
        let server = fixture::spawn(scenario.config(listen)).map_err(|error| error.to_string())?;
        let port = match server.endpoint() {
            Endpoint::Tcp { port, .. } => *port,
            // Tools want a URL also with a Unix socket.
            _ => 80,
        };
        let Scenario { unix, protocol, work, .. } = *scenario;
        let load = Load { port, unix, protocol, work, timeout_s: TIMEOUT_S };
        let Some(arguments) = (tool.arguments)(&load) else { return Ok(None) };
        let script = tool.script.map(|script| script(&load));
        if let Some(script) = &script {
            std::fs::write(folder.path().join(SCRIPT), script).map_err(words)?;
        }
        let cpu = self.rounds.tool_cpu;
        let mut process = PinnedProcess::start(cpu, program, arguments.split(' '), folder.path())?;
        let limit = Duration::from_secs(load.seconds().into()) + PATIENCE;
        let status = process.wait(limit, &self.rounds.stop)?;
        let mut text = process.printed();
        // Ends the tool if it is still running.
        drop(process);
        let tally = self.settled(&server)?;
        if let Some(then) = tool.then {
            let mut command = Command::new(program);
            command.args(then.split(' ')).current_dir(folder.path());
            // One that fails prints no report.
            text = process::output(&mut command).unwrap_or_default();
        }
        let printed = ToolOutput::new(text, Some(&folder.path().join(OUT)));
        let report = (tool.read)(&printed);
        let command = format!("{} {arguments}", tool.name);
        Ok(Some(Run {
            round,
            tool: tool.name.to_owned(),
            command: match tool.then {
                None => command,
                Some(then) => format!("{command} && {} {then}", tool.name),
            },
            script,
            end: match status {
                None => "did not end".to_owned(),
                Some(status) => status.to_string().replace("exit status: ", "exit "),
            },
            said: report.is_none().then(|| ending(&printed.text)),
            report,
            truth: Truth::of(tally),
        }))
    }

    /// The server's tally once it receives no more.
    fn settled(&self, server: &RunningFixture) -> Result<Tally, String> {
        let tally = || server.tally().ok_or("the server keeps no tally");
        let mut before = tally()?;
        loop {
            std::thread::sleep(SETTLED);
            let now = tally()?;
            if now == before {
                return Ok(now);
            }
            if self.rounds.stop.load(Ordering::Relaxed) {
                return Err("stopped".to_owned());
            }
            before = now;
        }
    }
}

/// The requested tools that are there, and those that are not.
fn find(options: &Options) -> (Vec<(&'static Tool, PathBuf)>, Vec<MissingTool>) {
    let failed = std::fs::read_to_string(options.installed.join("missing.tsv")).unwrap_or_default();
    let failed = missing(&failed);
    let (mut here, mut absent) = (Vec::new(), Vec::new());
    for tool in options.tools() {
        let installed = options.installed.join("bin").join(tool.name);
        let program = match tool.name {
            "tachograph" => binary::path().ok(),
            _ => installed.canonicalize().ok().or_else(|| tools::on_path(tool.name)),
        };
        match program {
            Some(program) => here.push((tool, program)),
            None => absent.push(
                failed.iter().find(|row| row.tool == tool.name).cloned().unwrap_or(MissingTool {
                    tool: tool.name.to_owned(),
                    command: "scripts/truth-tools.sh".to_owned(),
                    reason: "not installed".to_owned(),
                }),
            ),
        }
    }
    (here, absent)
}

/// The lines of `missing.tsv`: tool, command, reason.
fn missing(text: &str) -> Vec<MissingTool> {
    let row = |line: &str| {
        let mut cells = line.splitn(3, '\t').map(str::to_owned);
        Some(MissingTool { tool: cells.next()?, command: cells.next()?, reason: cells.next()? })
    };
    text.lines().filter_map(row).collect()
}

/// The version of a tool that does not print it.
fn installed_version(folder: &Path, tool: &Tool) -> String {
    let file = folder.join(format!("{}.version", tool.name));
    let version = std::fs::read_to_string(file);
    version.map_or_else(|_| "version unknown".to_owned(), |text| text.trim().to_owned())
}

/// A version without the words around it that some tools print.
fn short(version: &str) -> String {
    version.trim_start_matches("This is ").replace(" <$Revision$>", "")
}

/// The end of a text.
fn ending(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_short() {
        let ab = "This is ApacheBench, Version 2.3 <$Revision$>";
        assert_eq!([ab, "oha 1.16.0"].map(short), ["ApacheBench, Version 2.3", "oha 1.16.0"]);
    }

    #[test]
    fn tools_that_could_not_be_installed_are_read() {
        let rows = missing("hey\tgo install hey@v1\tno route\nbroken line\n");
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].tool.as_str(), rows[0].reason.as_str()), ("hey", "no route"));
    }
}
