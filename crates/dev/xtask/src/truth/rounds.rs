//! Rounds: every tool in turn, each on a fresh server of the same behaviour.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fixture::{RunningFixture, Tally};
use spec::Endpoint;

use super::Options;
use super::results::{Run, ScenarioResults, Truth};
use super::scenarios::{Scenario, TIMEOUT_S};
use crate::pages;
use crate::process::{self, PinnedProcess};
use crate::tools::Tool;
use crate::tools::installed::InstalledTools;
use crate::tools::load::{Load, OUT, SCRIPT, SOCKET};
use crate::tools::report::ToolOutput;
use crate::tools::rounds::Rounds;

/// How long the server must have received nothing to be done.
const SETTLED: Duration = Duration::from_millis(100);

/// What the scenarios share.
pub(super) struct Turns<'o> {
    options: &'o Options,
    rounds: Rounds,
    pub(super) tools: InstalledTools,
}

impl<'o> Turns<'o> {
    pub(super) fn new(options: &'o Options) -> Result<Turns<'o>, String> {
        let Options { rounds, seed, .. } = *options;
        let rounds = Rounds::new("xtask truth", rounds, seed)?;
        // The servers are threads of this program.
        process::stay_on(rounds.server_cpu)?;
        let tools = InstalledTools::find(&options.tools(), &options.installed);
        Ok(Turns { options, rounds, tools })
    }

    /// Runs every tool in every round.
    pub(super) fn measure(&self, scenario: &Scenario) -> Result<ScenarioResults, String> {
        let mut measured = ScenarioResults {
            date: pages::now(),
            machine: self.rounds.machine.clone(),
            note: self.options.note.clone(),
            rounds: self.options.rounds,
            seed: self.options.seed.0,
            ..ScenarioResults::default()
        };
        for (round, tools) in self.rounds.of(scenario.id, &self.tools.here) {
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
        let load = Load { unix, protocol, timeout_s: TIMEOUT_S, ..Load::of(port, work) };
        let Some(arguments) = (tool.arguments)(&load) else { return Ok(None) };
        let script = tool.script.map(|script| script(&load));
        if let Some(script) = &script {
            std::fs::write(folder.path().join(SCRIPT), script).map_err(words)?;
        }
        let cpu = self.rounds.tool_cpu;
        let mut process = PinnedProcess::start(cpu, program, arguments.split(' '), folder.path())?;
        let limit = Duration::from_secs(u64::from(load.seconds()) + self.options.patience);
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
            said: report.is_none().then(|| pages::ending(&printed.text)),
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
