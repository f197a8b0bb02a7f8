//! Reads the tables into the model.

use std::str::FromStr;

use base::{Nanos, RunId, Seed, Timestamp};
use ledger::{Counts, Ledger};
use record::{
    ActionTaken, Block, Comparison, Disruption, Distribution, Finding, FirstComparison, Life, Part,
    Run, RunLine, Slice, Summary, Trial, Variant,
};
use rusqlite::types::{FromSql, Type};
use rusqlite::{Connection, Error, OptionalExtension, Params, Result, Row, params};
use serde::de::DeserializeOwned;
use stats::Estimate;

/// Limit on the steps of a trial: four hours at 1 ms per step.
const STEPS_MAX: u32 = 1 << 24;

/// Reads columns by name and turns them into the model's types.
trait Columns {
    fn get_as<T: FromSql>(&self, column: &str) -> Result<T>;
    fn broken(&self, column: &str, cause: String) -> Error;

    fn text(&self, column: &str) -> Result<String> {
        self.get_as(column)
    }

    /// The unsigned number stored in SQLite's signed one.
    fn count(&self, column: &str) -> Result<u64> {
        self.get_as::<i64>(column).map(|value| value as u64)
    }

    fn maybe_count(&self, column: &str) -> Result<Option<u64>> {
        Ok(self.get_as::<Option<i64>>(column)?.map(|value| value as u64))
    }

    /// A count that files of earlier versions do not have.
    fn added_count(&self, column: &str) -> Result<Option<u64>> {
        match self.maybe_count(column) {
            Err(Error::InvalidColumnName(_)) => Ok(None),
            read => read,
        }
    }

    /// A flag in a column that files of earlier versions lack: there it was `before`.
    fn added_flag(&self, column: &str, before: bool) -> Result<bool> {
        match self.get_as::<bool>(column) {
            Err(Error::InvalidColumnName(_)) => Ok(before),
            read => read,
        }
    }

    fn nanos(&self, column: &str) -> Result<Nanos> {
        self.count(column).map(Nanos)
    }

    fn maybe_nanos(&self, column: &str) -> Result<Option<Nanos>> {
        Ok(self.maybe_count(column)?.map(Nanos))
    }

    /// A number; SQLite stores NaN as NULL.
    fn real(&self, column: &str) -> Result<f64> {
        Ok(self.get_as::<Option<f64>>(column)?.unwrap_or(f64::NAN))
    }

    fn time(&self, column: &str) -> Result<Timestamp> {
        let text = self.text(column)?;
        Timestamp::from_str(&text).map_err(|e| self.broken(column, e.to_string()))
    }

    fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T> {
        let text = self.text(column)?;
        serde_json::from_str(&text).map_err(|e| self.broken(column, e.to_string()))
    }

    /// JSON that files of earlier versions do not have.
    fn added_json<T: DeserializeOwned + Default>(&self, column: &str) -> Result<T> {
        match self.get_as::<Option<String>>(column) {
            Ok(Some(_)) => self.json(column),
            Ok(None) | Err(Error::InvalidColumnName(_)) => Ok(T::default()),
            Err(error) => Err(error),
        }
    }

    fn word<T: DeserializeOwned>(&self, column: &str) -> Result<T> {
        serde_json::from_value(serde_json::Value::String(self.text(column)?))
            .map_err(|e| self.broken(column, e.to_string()))
    }

    fn estimate(&self, column: &str) -> Result<Estimate> {
        Ok(Estimate {
            value: self.real(column)?,
            low: self.real(&format!("{column}_low"))?,
            high: self.real(&format!("{column}_high"))?,
        })
    }

    fn ledger(&self) -> Result<Ledger> {
        Ok(Ledger {
            counts: Counts {
                offered: self.count("offered")?,
                dropped: self.count("dropped")?,
                sent: self.count("sent")?,
                completed: self.count("completed")?,
                failed: self.count("failed")?,
                in_flight: self.count("in_flight")?,
                reconnected: self.count("reconnected")?,
            },
            served: self.maybe_count("served")?,
            discarded: self.added_count("discarded")?,
            series: self.maybe_count("series")?,
            errors: self.json("errors")?,
        })
    }
}

impl Columns for Row<'_> {
    fn get_as<T: FromSql>(&self, column: &str) -> Result<T> {
        self.get(column)
    }

    fn broken(&self, column: &str, cause: String) -> Error {
        let cause = format!("column {column}: {cause}");
        Error::FromSqlConversionFailure(0, Type::Text, cause.into())
    }
}

fn rows<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    db.prepare_cached(sql)?.query_map(params, read)?.collect()
}

/// The runs that a name can mean: `last`, an id, a prefix of ids (newest first), or the newest run
/// with this name.
pub(crate) fn names(db: &Connection, name: &str) -> Result<Vec<RunId>> {
    let id = |row: &Row<'_>| row.get(0).map(RunId);
    if name == "last" {
        return rows(db, "SELECT id FROM run ORDER BY started DESC, id DESC LIMIT 1", [], id);
    }
    let exact = rows(db, "SELECT id FROM run WHERE id = ?1", [name], id)?;
    if !exact.is_empty() || name.is_empty() {
        return Ok(exact);
    }
    let prefixed =
        "SELECT id FROM run WHERE substr(id, 1, length(?1)) = ?1 ORDER BY started DESC, id DESC";
    let prefixed = rows(db, prefixed, [name], id)?;
    if !prefixed.is_empty() {
        return Ok(prefixed);
    }
    // Runs of the same name differ in their start; take the newest.
    let named = "SELECT id FROM run WHERE name = ?1 ORDER BY started DESC, id DESC LIMIT 1";
    rows(db, named, [name], id)
}

pub(crate) fn list(db: &Connection, limit: usize) -> Result<Vec<RunLine>> {
    let sql = "
        SELECT r.id, r.kind, r.state, r.name, r.title, r.question, r.started, r.finished,
               (SELECT count(*) FROM block b WHERE b.run = r.id AND b.complete) AS blocks,
               last.started AS last_started, last.elapsed_ns AS last_elapsed_ns,
               (SELECT t.throughput_per_s FROM trial t WHERE t.run = r.id AND r.kind = 'load'
                   AND t.offer IN ('closed', 'open') ORDER BY t.part, t.block, t.ordinal LIMIT 1)
                   AS throughput_per_s,
               error IS NULL AND NOT EXISTS (
                   SELECT 1 FROM comparison c
                   WHERE c.run = r.id AND c.is_primary AND c.verdict = 'invalid')
               AND NOT EXISTS (
                   SELECT 1 FROM finding f
                   WHERE f.run = r.id AND f.severity = 'invalid' AND NOT EXISTS (
                       SELECT 1 FROM comparison c
                       WHERE c.run = f.run AND c.part = f.part AND c.is_primary)) AS valid
        FROM run r
        LEFT JOIN block last ON last.rowid = (
            SELECT b.rowid FROM block b WHERE b.run = r.id ORDER BY b.started DESC LIMIT 1)
        ORDER BY r.started DESC, r.id DESC LIMIT ?1";
    rows(db, sql, [i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
        let id = RunId(row.text("id")?);
        Ok(RunLine {
            first: first_comparison(db, &id)?,
            id,
            kind: row.word("kind")?,
            state: row.word("state")?,
            name: row.text("name")?,
            title: row.text("title")?,
            question: row.text("question")?,
            started: row.time("started")?,
            finished: finished(row)?,
            throughput_per_s: row.get("throughput_per_s")?,
            last_block: last_block(row)?,
            blocks: row.count("blocks")?,
            valid: row.get("valid")?,
        })
    })
}

fn last_block(row: &Row<'_>) -> Result<Option<Timestamp>> {
    if row.get_as::<Option<String>>("last_started")?.is_none() {
        return Ok(None);
    }
    let lasted = std::time::Duration::from_nanos(row.count("last_elapsed_ns")?);
    // A time that no calendar has is no time of a run.
    Ok(row.time("last_started")?.checked_add(lasted).ok())
}

fn first_comparison(db: &Connection, run: &RunId) -> Result<Option<FirstComparison>> {
    let sql = "
        SELECT v.name AS variant, b.name AS baseline, c.metric, c.judgement
        FROM comparison c
        JOIN variant v ON (v.run, v.part, v.variant) = (c.run, c.part, c.variant)
        JOIN variant b ON (b.run, b.part, b.variant) = (c.run, c.part, c.baseline)
        WHERE c.run = ?1 AND c.is_primary ORDER BY c.part, c.ordinal LIMIT 1";
    db.prepare_cached(sql)?
        .query_row([run.as_str()], |row| {
            Ok(FirstComparison {
                variant: row.text("variant")?,
                baseline: row.text("baseline")?,
                metric: row.word("metric")?,
                judgement: row.json("judgement")?,
            })
        })
        .optional()
}

fn finished(row: &Row<'_>) -> Result<Option<Timestamp>> {
    match row.get_as::<Option<String>>("finished")? {
        Some(_) => row.time("finished").map(Some),
        None => Ok(None),
    }
}

pub(crate) fn run(db: &Connection, id: &RunId) -> Result<Run> {
    // One transaction, so that a run that is being written is read consistently.
    let _one_moment = db.unchecked_transaction()?;
    let mut run = db.query_row("SELECT * FROM run WHERE id = ?1", [id.as_str()], |row| {
        Ok(Run {
            id: RunId(row.text("id")?),
            kind: row.word("kind")?,
            state: row.word("state")?,
            name: row.text("name")?,
            title: row.text("title")?,
            question: row.text("question")?,
            started: row.time("started")?,
            finished: finished(row)?,
            command_line: row.json("command_line")?,
            version: row.text("version")?,
            seed: Seed(row.count("seed")?),
            plan: row.text("plan")?,
            machine: row.json("machine")?,
            error: row.get("error")?,
            parts: Vec::new(),
        })
    })?;
    let numbers: Vec<i64> =
        rows(db, "SELECT part FROM part WHERE run = ?1 ORDER BY part", [id.as_str()], |row| {
            row.get(0)
        })?;
    for number in numbers {
        run.parts.push(part(db, id, number)?);
    }
    Ok(run)
}

fn part(db: &Connection, run: &RunId, number: i64) -> Result<Part> {
    let key = params![run.as_str(), number];
    let mut part = db.query_row("SELECT * FROM part WHERE run = ?1 AND part = ?2", key, |row| {
        Ok(Part {
            name: row.text("name")?,
            question: row.text("question")?,
            layout: row.json("layout")?,
            load: row.json("load")?,
            variants: Vec::new(),
            blocks: Vec::new(),
            comparisons: Vec::new(),
            findings: Vec::new(),
            published: row.json("published")?,
            changes: row.added_json("changes")?,
            precision: row.real("precision")?,
            quick: row.get("quick")?,
            independent_starts: row.added_flag("independent_starts", true)?,
            disturbance: row.json("disturbance")?,
        })
    })?;
    let of_part = |table: &str, order: &str| {
        format!("SELECT * FROM {table} WHERE run = ?1 AND part = ?2 ORDER BY {order}")
    };
    part.variants = rows(db, &of_part("variant", "variant"), key, variant)?;
    let summaries = rows(db, &of_part("summary", "variant, ordinal"), key, |row| {
        Ok((row.get::<_, u32>("variant")?, summary(row)?))
    })?;
    for (number, summary) in summaries {
        if let Some(variant) = part.variants.get_mut(number as usize) {
            variant.summaries.push(summary);
        }
    }
    part.comparisons = rows(db, &of_part("comparison", "ordinal"), key, comparison)?;
    part.findings = rows(db, &of_part("finding", "ordinal"), key, finding)?;
    part.blocks = rows(db, &of_part("block", "block"), key, block)?;
    for block in &mut part.blocks {
        block.trials = trials(db, run, number, block.index)?;
        block.lives = lives(db, run, number, block.index)?;
    }
    Ok(part)
}

fn variant(row: &Row<'_>) -> Result<Variant> {
    Ok(Variant {
        name: row.text("name")?,
        commands: row.json("commands")?,
        target: row.text("target")?,
        served_by: row.json("served_by")?,
        skipped: row.get("skipped")?,
        ceiling: row.get("ceiling")?,
        ledger: row.ledger()?,
        summaries: Vec::new(),
    })
}

fn summary(row: &Row<'_>) -> Result<Summary> {
    let known = |flag: &str, column: &str| -> Result<Option<Estimate>> {
        if row.get(flag)? { row.estimate(column).map(Some) } else { Ok(None) }
    };
    Ok(Summary {
        offer: row.word("offer")?,
        offered_per_s: row.get("offered_per_s")?,
        throughput_per_s: row.estimate("throughput_per_s")?,
        bytes_per_s: row.real("bytes_per_s")?,
        p50_ns: row.estimate("p50_ns")?,
        p90_ns: row.estimate("p90_ns")?,
        p99_ns: row.estimate("p99_ns")?,
        cpu_ns_per_request: known("cpu_known", "cpu_ns_per_request")?,
        machine_ns_per_request: known("machine_known", "machine_ns_per_request")?,
        peak_memory_bytes: row.maybe_count("peak_memory_bytes")?,
    })
}

fn comparison(row: &Row<'_>) -> Result<Comparison> {
    Ok(Comparison {
        baseline: row.get("baseline")?,
        variant: row.get("variant")?,
        metric: row.word("metric")?,
        offer: row.word("offer")?,
        primary: row.get("is_primary")?,
        judgement: row.json("judgement")?,
        because: row.json("because")?,
    })
}

fn finding(row: &Row<'_>) -> Result<Finding> {
    Ok(Finding {
        severity: row.word("severity")?,
        block: row.get("block")?,
        variant: row.get("variant")?,
        fact: row.json("fact")?,
    })
}

fn block(row: &Row<'_>) -> Result<Block> {
    Ok(Block {
        index: row.get("block")?,
        started: row.time("started")?,
        elapsed: row.nanos("elapsed_ns")?,
        order: row.json("slice_order")?,
        state: row.word("state")?,
        canary: [row.nanos("canary_before_ns")?, row.nanos("canary_after_ns")?],
        steal: row.get("steal")?,
        trials: Vec::new(),
        lives: Vec::new(),
    })
}

fn lives(db: &Connection, run: &RunId, part: i64, block: u32) -> Result<Vec<Life>> {
    let sql = "SELECT * FROM life WHERE run = ?1 AND part = ?2 AND block = ?3 ORDER BY ordinal";
    rows(db, sql, params![run.as_str(), part, block], |row| {
        Ok(Life { variant: row.get("variant")?, ledger: row.ledger()? })
    })
}

fn trials(db: &Connection, run: &RunId, part: i64, block: u32) -> Result<Vec<Trial>> {
    let sql = "SELECT * FROM trial WHERE run = ?1 AND part = ?2 AND block = ?3 ORDER BY ordinal";
    rows(db, sql, params![run.as_str(), part, block], |row| trial(db, row))
}

fn trial(db: &Connection, row: &Row<'_>) -> Result<Trial> {
    let id: i64 = row.get("id")?;
    Ok(Trial {
        variant: row.get("variant")?,
        offer: row.word("offer")?,
        offered_per_s: row.get("offered_per_s")?,
        started: row.time("started")?,
        slices: slices(db, id)?,
        window: row.nanos("window_ns")?,
        completed_in_window: row.count("completed_in_window")?,
        payload_bytes: row.count("payload_bytes")?,
        ledger: row.ledger()?,
        latency: distribution(db, id, "latency")?,
        service_time: distribution(db, id, "service_time")?.unwrap_or_default(),
        lateness: distribution(db, id, "lateness")?,
        stack_cpu: row.maybe_nanos("stack_cpu_ns")?,
        machine_busy: row.maybe_nanos("machine_busy_ns")?,
        client: row.json("client_threads")?,
        peak_memory_bytes: row.maybe_count("peak_memory_bytes")?,
        completed_by_step: series(db, id, row.get("steps")?)?,
        step: row.nanos("step_ns")?,
        env_padding_bytes: row.get("env_padding_bytes")?,
        disruption: disruption(db, id)?,
    })
}

fn disruption(db: &Connection, trial: i64) -> Result<Option<Disruption>> {
    // A record that only an older version has written lacks the tables.
    let there = "SELECT 1 FROM sqlite_schema WHERE name = 'action'";
    if db.prepare_cached(there)?.query_row([], |_| Ok(())).optional()?.is_none() {
        return Ok(None);
    }
    let found = db
        .prepare_cached("SELECT * FROM disruption WHERE trial = ?1")?
        .query_row([trial], |row| {
            Ok(Disruption {
                actions: Vec::new(),
                longest_wait: row.nanos("longest_wait_ns")?,
                failed_before: row.count("failed_before")?,
                new_processes: row.get("new_processes")?,
            })
        })
        .optional()?;
    let Some(mut disruption) = found else { return Ok(None) };
    let sql = "SELECT * FROM action WHERE trial = ?1 ORDER BY ordinal";
    disruption.actions = rows(db, sql, [trial], |row| {
        Ok(ActionTaken {
            name: row.text("name")?,
            started: row.time("started")?,
            at: row.nanos("at_ns")?,
            took: row.nanos("took_ns")?,
            failed: row.count("failed")?,
            steps: row.json("steps")?,
        })
    })?;
    Ok(Some(disruption))
}

fn distribution(db: &Connection, trial: i64, kind: &str) -> Result<Option<Distribution>> {
    db.prepare_cached("SELECT * FROM distribution WHERE trial = ?1 AND kind = ?2")?
        .query_row(params![trial, kind], |row| {
            Ok(Distribution {
                count: row.count("count")?,
                min_ns: row.count("min_ns")?,
                p50_ns: row.count("p50_ns")?,
                p90_ns: row.count("p90_ns")?,
                p99_ns: row.count("p99_ns")?,
                p99_9_ns: row.count("p99_9_ns")?,
                p99_99_ns: row.count("p99_99_ns")?,
                max_ns: row.count("max_ns")?,
                mean_ns: row.real("mean_ns")?,
                hdr_v2: row.get("hdr_v2")?,
            })
        })
        .optional()
}

fn slices(db: &Connection, trial: i64) -> Result<Vec<Slice>> {
    rows(db, "SELECT * FROM slice WHERE trial = ?1 ORDER BY ordinal", [trial], |row| {
        Ok(Slice {
            round: row.get("round")?,
            window: row.nanos("window_ns")?,
            completed: row.count("completed")?,
            other_cpus: row.get("other_cpus")?,
            stolen: row.get("stolen")?,
            kept: row.get("kept")?,
        })
    })
}

fn series(db: &Connection, trial: i64, steps: u32) -> Result<Vec<u64>> {
    let mut completed = vec![0; steps.min(STEPS_MAX) as usize];
    let slots = rows(
        db,
        "SELECT slot, completed FROM trial_series WHERE trial = ?1 ORDER BY slot",
        [trial],
        |row| Ok((row.get::<_, u32>("slot")? as usize, row.count("completed")?)),
    )?;
    for (slot, count) in slots {
        // A slot beyond the series' length was added by hand; the total must show it.
        if slot >= completed.len() && slot < STEPS_MAX as usize {
            completed.resize(slot + 1, 0);
        }
        if let Some(place) = completed.get_mut(slot) {
            *place = count;
        }
    }
    Ok(completed)
}
