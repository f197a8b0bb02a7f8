//! Rounds on a stack of an experiment: every tool in turn, between two readings of its count.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use base::{CpuSet, Nanos, RunId};
use spec::{Layout, ServedBy, Target};
use stage::server_count::CountReader;
use stage::{LiveStack, Stage, StageOptions, StartOptions};

use super::Options;
use super::results::{InstrumentRun, StackResults};
use super::tables::{self, ExperimentStack, PublishedTable};
use crate::process::PinnedProcess;
use crate::tools::installed::InstalledTools;
use crate::tools::load::{Load, OUT, Work};
use crate::tools::report::ToolOutput;
use crate::tools::rounds::Rounds;
use crate::tools::{TOOLS, Tool, ours};
use crate::{binary, pages};

/// Additional time for a tool.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a count must have stayed the same, and the longest wait for that.
const SETTLED: Nanos = Nanos::from_millis(200);
const SETTLING: Nanos = Nanos::from_secs(5);

/// A connection whose server does not answer fails after this many seconds, for tools that have a
/// timeout.
const TIMEOUT_S: u32 = 5;

/// What the tables share.
pub(super) struct Turns<'o> {
    options: &'o Options,
    rounds: Rounds,
    pub(super) tools: InstalledTools,
}

/// A running stack, and what is read about it.
struct MeasuredStack {
    live: LiveStack,
    load: Load,
    tool_cpus: CpuSet,
    count: CountReader,
    statuses: BTreeMap<String, u64>,
}

impl<'o> Turns<'o> {
    pub(super) fn new(options: &'o Options) -> Result<Turns<'o>, String> {
        let rounds = Rounds::new("xtask instruments", options.rounds, options.seed)?;
        let tools: Vec<_> = TOOLS.into_iter().filter(|tool| tables::has_tool(tool)).collect();
        let tools = InstalledTools::find(&tools, &options.installed);
        Ok(Turns { options, rounds, tools })
    }

    /// Runs every tool of the table in every round, each of which has a fresh stack.
    pub(super) fn measure(
        &self,
        table: &PublishedTable,
        name: &str,
    ) -> Result<StackResults, String> {
        let mut measured = StackResults {
            date: pages::now(),
            machine: self.rounds.machine.clone(),
            note: self.options.note.clone(),
            rounds: self.options.rounds,
            seed: self.options.seed.0,
            runs: Vec::new(),
        };
        let described = with_status_log(table, table.stack(name)?);
        let here = self.tools.here.iter();
        let here: Vec<_> =
            here.filter(|(tool, _)| table.tools.iter().any(|one| one.name == tool.name)).collect();
        let run = RunId::new(base::timestamp_now(), self.options.seed.0);
        let stage = Stage::new(StageOptions::new(binary::path()?, run));
        let stage = stage.map_err(|error| error.to_string())?;
        let mut requests = None;
        for (round, tools) in self.rounds.of(&format!("{}: {name}", table.id), &here) {
            let mut stack = self.start(&stage, &described, round)?;
            // Also the stack's warm-up.
            let per_s = self.trial(&mut stack)?;
            let requests =
                *requests.get_or_insert((per_s * f64::from(self.options.seconds)) as u32);
            stack.load.work = Work::Number { requests, or_seconds: self.options.seconds };
            for (tool, program) in tools {
                measured.runs.extend(self.turn(round, tool, program, &mut stack)?);
            }
            stack.live.stop();
        }
        Ok(measured)
    }

    fn start(
        &self,
        stage: &Stage,
        described: &ExperimentStack,
        round: u32,
    ) -> Result<MeasuredStack, String> {
        let ExperimentStack { plan, part, variant } = described;
        let all: CpuSet =
            std::iter::once(self.rounds.server_cpu).chain(self.rounds.other_cpus.iter()).collect();
        let (stack_cpus, tool_cpus) = match part.layout {
            Layout::Free => (CpuSet::default(), all),
            _ => (CpuSet::one(self.rounds.server_cpu), CpuSet::one(self.rounds.tool_cpu)),
        };
        let python =
            if variant.stack.python.is_empty() { &plan.python } else { &variant.stack.python };
        let words = |error: stage::StageError| error.to_string();
        let programs = match python.is_empty() {
            true => None,
            false => Some(stage::python::ensure_env(python, None, &mut |_| {}).map_err(words)?),
        };
        let counter = pages::docs().join("../python");
        let counter =
            counter.canonicalize().map_err(|error| format!("{}: {error}", counter.display()))?;
        let mut stack = variant.stack.clone();
        let counter = counter.display().to_string();
        let environment = [("PYTHONPATH", counter.as_str()), ("TACHOGRAPH_COUNTERS", "$COUNTERS")];
        for process in &mut stack.processes {
            process
                .env
                .extend(environment.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        let options = StartOptions {
            client_cpus: if stack_cpus.is_empty() { CpuSet::default() } else { tool_cpus.clone() },
            cpus: stack_cpus,
            files: plan.files.clone(),
            path_prepend: programs.into_iter().collect(),
            stop: self.rounds.stop.clone(),
            ..StartOptions::new(&variant.name, self.options.seed.derive("places", round.into()))
        };
        let live = stage.start(&stack, options).map_err(words)?;
        let target = live.expand(&variant.target);
        let target = Target::parse(&target).map_err(|error| error.to_string())?;
        let spec::Endpoint::Tcp { port, .. } = target.endpoint() else {
            return Err(format!("{} is not reached by TCP", variant.name));
        };
        let served_by = variant.served_by.as_ref().unwrap_or(&ServedBy::Wsgi);
        let count = CountReader::new(served_by, &live).map_err(words)?;
        let load = Load {
            connections: variant.load.connections,
            threads: variant.load.threads,
            new_connection: variant.load.new_connection,
            timeout_s: TIMEOUT_S,
            ..Load::of(*port, Work::Closed { seconds: 1 })
        };
        Ok(MeasuredStack { live, load, tool_cpus, count, statuses: BTreeMap::new() })
    }

    /// Requests per second in a second of our load.
    fn trial(&self, stack: &mut MeasuredStack) -> Result<f64, String> {
        let run = self.turn(0, &ours::TOOL, &binary::path()?, stack)?;
        let per_s = run.as_ref().and_then(|run| run.per_s).filter(|per_s| *per_s >= 1.0);
        let said = || run.map(|run| run.said).unwrap_or_default();
        per_s.ok_or_else(|| format!("the stack serves nothing: {}", said()))
    }

    /// Runs one tool; `None` if it cannot do this load.
    fn turn(
        &self,
        round: u32,
        tool: &Tool,
        program: &Path,
        stack: &mut MeasuredStack,
    ) -> Result<Option<InstrumentRun>, String> {
        let Some(arguments) = (tool.arguments)(&stack.load) else { return Ok(None) };
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let before = stack.count()?;
        let words = arguments.split(' ');
        let mut process = PinnedProcess::start_on(&stack.tool_cpus, program, words, folder.path())?;
        let limit = Duration::from_secs(stack.load.seconds().into()) + PATIENCE;
        process.wait(limit, &self.rounds.stop)?;
        let printed = ToolOutput::new(process.printed(), Some(&folder.path().join(OUT)));
        // Ends the tool if it is still running.
        drop(process);
        let served = stack.count()? - before;
        let report = (tool.read)(&printed);
        Ok(Some(InstrumentRun {
            round,
            tool: tool.name.to_owned(),
            command: format!("{} {arguments}", tool.name),
            per_s: report.as_ref().and_then(|report| report.per_s),
            report,
            said: pages::ending(&printed.text),
            served,
            statuses: stack.new_statuses(),
        }))
    }
}

impl MeasuredStack {
    /// What the stack has counted, once it counts no more.
    fn count(&mut self) -> Result<u64, String> {
        let count = self.count.read_settled(SETTLED, SETTLING);
        count.map(|count| count.served).map_err(|error| error.to_string())
    }

    /// Responses by status since the last look at nginx's log.
    fn new_statuses(&mut self) -> BTreeMap<String, u64> {
        let log = std::fs::read_to_string(self.live.dir().join(STATUS_LOG)).unwrap_or_default();
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        log.lines().for_each(|status| *all.entry(status.to_owned()).or_default() += 1);
        let earlier = std::mem::replace(&mut self.statuses, all.clone());
        let since = |status: &str| earlier.get(status).copied().unwrap_or(0);
        all.iter_mut().for_each(|(status, count)| *count -= since(status));
        all
    }
}

/// nginx's log of statuses, in the stack's folder.
const STATUS_LOG: &str = "statuses";

/// The stack, whose nginx logs the status of each response if the table has them.
fn with_status_log(table: &PublishedTable, mut described: ExperimentStack) -> ExperimentStack {
    if table.has_statuses {
        for file in &mut described.variant.stack.files {
            let log =
                format!("log_format statuses $status;\n    access_log $DIR/{STATUS_LOG} statuses;");
            file.text = file.text.replace("access_log off;", &log);
        }
    }
    described
}

#[cfg(test)]
mod tests {
    use super::super::tables::TABLES;
    use super::*;

    #[test]
    fn nginx_logs_statuses_where_the_table_has_them() {
        for table in &TABLES {
            let stack = with_status_log(table, table.stack(table.variants[0]).unwrap());
            let has_log = |text: &str| text.contains("access_log $DIR/statuses statuses;");
            let logs = stack.variant.stack.files.iter().filter(|file| has_log(&file.text)).count();
            assert_eq!(logs, usize::from(table.has_statuses), "{}", table.id);
        }
    }
}
