//! DuckDB: a table of events in a file, written by its Python package.

use std::path::PathBuf;
use std::process::Command;

use super::pipe::{Lines, Pipe};
use super::{AskedTime, Message, Quantity, Reply, Slots, Store, StoreKind, name};
use crate::process::output;
use crate::truth_stores::history::SLOT_S;

pub(super) const DUCKDB: StoreKind = StoreKind {
    name: "DuckDB",
    protocol: "`INSERT` of a row for each message (series, end, count), one transaction each",
    settings: "the defaults",
    query: "`SELECT sum(count)`",
    install: "pip install duckdb",
    is_in_folder: true,
    version: || {
        let python = python().ok()?;
        let print = "import duckdb; print(duckdb.__version__)";
        output(Command::new(python).args(["-c", print])).ok().map(|v| v.trim().to_owned())
    },
    open: |folder, _: Quantity| {
        let file = folder.join("events.duckdb");
        Ok(Box::new(Events { python: python()?, file, running: None }))
    },
};

/// Reads statements, and answers each with `done`, `error …`, or its rows and `done`.
const PROGRAM: &str = "
import sys, duckdb
events = duckdb.connect(sys.argv[1])
events.execute('CREATE TABLE IF NOT EXISTS event (series text, at_s bigint, count bigint)')
for line in sys.stdin:
    try:
        for row in events.execute(line).fetchall():
            print(*row)
        print('done', flush=True)
    except Exception as error:
        print('error', str(error).splitlines()[0], flush=True)
";

fn python() -> Result<PathBuf, String> {
    let requirements = ["duckdb==1.4.2".to_owned()];
    let bin = stage::python::ensure_env(&requirements, None, &mut |_| {});
    bin.map(|bin| bin.join("python")).map_err(|error| error.to_string())
}

struct Events {
    python: PathBuf,
    file: PathBuf,
    running: Option<Pipe>,
}

impl Events {
    fn ask(&mut self, statement: &str) -> Result<Lines, String> {
        self.running.as_mut().ok_or("it does not run")?.ask(statement)
    }
}

fn last(line: &str) -> Option<Result<(), String>> {
    match line {
        "done" => Some(Ok(())),
        line => line.strip_prefix("error ").map(|error| Err(error.to_owned())),
    }
}

impl Store for Events {
    fn start(&mut self) -> Result<(), String> {
        if self.running.as_mut().is_some_and(Pipe::is_running) {
            return Ok(());
        }
        let mut command = Command::new(&self.python);
        command.args(["-c", PROGRAM]).arg(&self.file);
        self.running = Some(Pipe::start(command, last)?);
        self.ask("SELECT 1")?.map(drop)
    }

    fn stop(&mut self) -> Result<(), String> {
        self.running.take().map_or(Ok(()), Pipe::stop)
    }

    fn process(&self) -> Option<u32> {
        self.running.as_ref().map(Pipe::id)
    }

    fn send(&mut self, message: &Message) -> Result<Reply, String> {
        let (at_s, count) = (message.at_s(), message.count);
        let insert =
            format!("INSERT INTO event VALUES ('{}', {at_s}, {count})", name(message.series));
        Ok(match self.ask(&insert)? {
            Ok(_) => Reply::Acknowledged,
            Err(why) => Reply::Refused(why),
        })
    }

    fn finish(&mut self) -> Result<(), String> {
        self.start()
    }

    fn slots(&mut self, AskedTime { series, from_s, to_s }: AskedTime) -> Result<Slots, String> {
        let rows = self.ask(&format!(
            "SELECT at_s // {SLOT_S} * {SLOT_S}, sum(count) FROM event WHERE series = '{}' \
             AND at_s >= {from_s} AND at_s < {to_s} GROUP BY 1",
            name(series)
        ))??;
        let row = |line: &String| {
            let (slot_s, total) = line.split_once(' ')?;
            Some((slot_s.parse().ok()?, total.parse().ok()?))
        };
        rows.iter().map(|line| row(line).ok_or_else(|| line.clone())).collect()
    }

    fn total(&mut self, AskedTime { series, from_s, to_s }: AskedTime) -> Result<f64, String> {
        let rows = self.ask(&format!(
            "SELECT coalesce(sum(count), 0) FROM event WHERE series = '{}' \
             AND at_s >= {from_s} AND at_s < {to_s}",
            name(series)
        ))??;
        let total = rows.first().and_then(|total| total.parse().ok());
        total.ok_or_else(|| format!("{rows:?}"))
    }
}
