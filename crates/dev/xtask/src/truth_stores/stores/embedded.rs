//! DuckDB and chDB: a table of events in a file or folder, written by their Python packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::pipe::{Lines, Pipe};
use super::{AskedTime, Message, Quantity, Reply, Slots, Store, StoreKind, Times, name};
use crate::process::output;
use crate::truth_stores::history::SLOT_S;

pub(super) const DUCKDB: StoreKind = StoreKind {
    name: "DuckDB",
    protocol: "`INSERT` of a row for each message (series, end, count), one transaction each",
    settings: "the defaults",
    query: "`SELECT sum(count)`",
    install: "pip install duckdb",
    times: Times::Message,
    version: || Engine::DuckDb.version(),
    open: |folder, _: Quantity| Engine::DuckDb.open(folder),
};

pub(super) const CHDB: StoreKind = StoreKind {
    name: "chDB (ClickHouse)",
    protocol: "`INSERT` of a row for each message (series, end, count), with an `insert_deduplication_token`",
    settings: "`MergeTree` with `non_replicated_deduplication_window = 10000`, `fsync_after_insert = 1`, `fsync_part_directory = 1`, `parts_to_delay_insert`, `parts_to_throw_insert` and `max_suspicious_broken_parts = 100000`, since each message is a part (with the default of the last, it did not start again after power cuts in 4 of 6 rounds: it found more than 100 parts broken, without which every total is true)",
    install: "pip install chdb",
    version: || Engine::ChDb.version(),
    open: |folder, _: Quantity| Engine::ChDb.open(folder),
    ..DUCKDB
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    DuckDb,
    ChDb,
}

/// Reads statements, and answers each with `done`, `error …`, or its rows and `done`.
const LOOP: &str = "
for line in sys.stdin:
    try:
        for row in rows(line):
            print(*row)
        print('done', flush=True)
    except Exception as error:
        print('error', str(error).splitlines()[0], flush=True)
";

const DUCKDB_PROGRAM: &str = "
import sys, duckdb
events = duckdb.connect(sys.argv[1])
events.execute('CREATE SCHEMA IF NOT EXISTS truth')
events.execute('CREATE TABLE IF NOT EXISTS truth.event (series text, at_s bigint, count bigint)')
rows = lambda line: events.execute(line).fetchall()
";

const CHDB_PROGRAM: &str = "
import sys, chdb.session
events = chdb.session.Session(sys.argv[1])
rows = lambda line: [row.split() for row in str(events.query(line, 'TSV')).splitlines()]
rows('CREATE DATABASE IF NOT EXISTS truth ENGINE = Atomic')
rows('CREATE TABLE IF NOT EXISTS truth.event (series String, at_s Int64, count Int64) '
     'ENGINE = MergeTree ORDER BY (series, at_s) SETTINGS fsync_after_insert = 1, '
     'fsync_part_directory = 1, non_replicated_deduplication_window = 10000, '
     'parts_to_delay_insert = 100000, parts_to_throw_insert = 100000, '
     'max_suspicious_broken_parts = 100000')
";

impl Engine {
    fn python(self) -> Result<PathBuf, String> {
        let requirements = [match self {
            Engine::DuckDb => "duckdb==1.4.2".to_owned(),
            Engine::ChDb => "chdb==4.4.0".to_owned(),
        }];
        let bin = stage::python::ensure_env(&requirements, None, &mut |_| {});
        bin.map(|bin| bin.join("python")).map_err(|error| error.to_string())
    }

    fn version(self) -> Option<String> {
        let print = match self {
            Engine::DuckDb => "import duckdb; print(duckdb.__version__)",
            Engine::ChDb => {
                "import chdb; print(chdb.__version__, 'with ClickHouse', chdb.engine_version)"
            }
        };
        let python = self.python().ok()?;
        output(Command::new(python).args(["-c", print])).ok().map(|v| v.trim().to_owned())
    }

    fn open(self, folder: &Path) -> Result<Box<dyn Store>, String> {
        let place = folder.join("events");
        Ok(Box::new(Events { engine: self, python: self.python()?, place, running: None }))
    }
}

struct Events {
    engine: Engine,
    python: PathBuf,
    place: PathBuf,
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
        let program = match self.engine {
            Engine::DuckDb => DUCKDB_PROGRAM,
            Engine::ChDb => CHDB_PROGRAM,
        };
        let mut command = Command::new(&self.python);
        command.args(["-c", &format!("{program}{LOOP}")]).arg(&self.place);
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
        // A repetition of this message is known by its token.
        let known = match self.engine {
            Engine::DuckDb => String::new(),
            Engine::ChDb => format!("SETTINGS insert_deduplication_token = '{}' ", message.id),
        };
        let insert = format!(
            "INSERT INTO truth.event {known}VALUES ('{}', {at_s}, {count})",
            name(message.series)
        );
        Ok(match self.ask(&insert)? {
            Ok(_) => Reply::Acknowledged,
            Err(why) => Reply::Refused(why),
        })
    }

    fn finish(&mut self) -> Result<(), String> {
        self.start()
    }

    fn slots(&mut self, AskedTime { series, from_s, to_s }: AskedTime) -> Result<Slots, String> {
        let slot_s = match self.engine {
            Engine::DuckDb => format!("at_s // {SLOT_S} * {SLOT_S}"),
            Engine::ChDb => format!("intDiv(at_s, {SLOT_S}) * {SLOT_S}"),
        };
        let rows = self.ask(&format!(
            "SELECT {slot_s}, sum(count) FROM truth.event WHERE series = '{}' \
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
            "SELECT coalesce(sum(count), 0) FROM truth.event WHERE series = '{}' \
             AND at_s >= {from_s} AND at_s < {to_s}",
            name(series)
        ))??;
        let total = rows.first().and_then(|total| total.parse().ok());
        total.ok_or_else(|| format!("{rows:?}"))
    }
}
