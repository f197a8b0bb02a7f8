//! Writes the model into the tables. Every function runs inside the caller's transaction.

use base::{Nanos, RunId, Timestamp};
use ledger::Ledger;
use rusqlite::types::Value;
use rusqlite::{Connection, Result, params, params_from_iter};
use serde::Serialize;
use stats::Estimate;

use crate::{
    Block, BlockState, Comparison, Disruption, Distribution, Finding, Part, Run, Slice, Summary,
    Trial, Variant,
};

/// A row to be written: column names with values.
struct Row(Vec<(&'static str, Value)>);

impl Row {
    fn new() -> Row {
        Row(Vec::new())
    }

    fn set(mut self, column: &'static str, value: impl Into<Value>) -> Row {
        self.0.push((column, value.into()));
        self
    }

    /// An unsigned number in SQLite's signed integer, bit for bit.
    fn count(self, column: &'static str, value: u64) -> Row {
        self.set(column, value as i64)
    }

    fn maybe_count(self, column: &'static str, value: Option<u64>) -> Row {
        self.set(column, value.map(|value| value as i64))
    }

    /// Lists and maps as JSON text.
    fn json(self, column: &'static str, value: &impl Serialize) -> Result<Row> {
        Ok(self.set(column, json(value)?))
    }

    /// The word of an enumeration.
    fn word(self, column: &'static str, word: &'static str) -> Row {
        self.set(column, word.to_owned())
    }

    fn time(self, column: &'static str, at: Timestamp) -> Row {
        self.set(column, time(at))
    }

    fn key(self, run: &RunId, part: usize) -> Row {
        self.set("run", run.0.clone()).count("part", part as u64)
    }

    fn estimate(self, columns: [&'static str; 3], estimate: Estimate) -> Row {
        let [value, low, high] = columns;
        self.set(value, estimate.value).set(low, estimate.low).set(high, estimate.high)
    }

    fn maybe_estimate(self, columns: [&'static str; 3], estimate: Option<Estimate>) -> Row {
        match estimate {
            Some(estimate) => self.estimate(columns, estimate),
            None => self,
        }
    }

    fn ledger(self, ledger: &Ledger) -> Result<Row> {
        let c = &ledger.counts;
        self.count("offered", c.offered)
            .count("dropped", c.dropped)
            .count("sent", c.sent)
            .count("completed", c.completed)
            .count("failed", c.failed)
            .count("in_flight", c.in_flight)
            .count("reconnected", c.reconnected)
            .maybe_count("served", ledger.served)
            .maybe_count("discarded", ledger.discarded)
            .maybe_count("series", ledger.series)
            .json("errors", &ledger.errors)
    }

    fn names(&self) -> String {
        self.0.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    fn execute(self, db: &Connection, sql: &str) -> Result<()> {
        db.prepare_cached(sql)?
            .execute(params_from_iter(self.0.into_iter().map(|(_, value)| value)))
            .map(drop)
    }

    fn insert(self, db: &Connection, table: &str) -> Result<()> {
        let places = vec!["?"; self.0.len()].join(", ");
        let sql = format!("INSERT INTO {table} ({}) VALUES ({places})", self.names());
        self.execute(db, &sql)
    }

    /// Inserts, or updates the row whose key is the first `key` columns; rows that refer to it
    /// stay.
    fn put(self, db: &Connection, table: &str, key: usize) -> Result<()> {
        let places = vec!["?"; self.0.len()].join(", ");
        let keys: Vec<&str> = self.0[..key].iter().map(|(name, _)| *name).collect();
        let updates: Vec<String> =
            self.0[key..].iter().map(|(name, _)| format!("{name} = excluded.{name}")).collect();
        let sql = format!(
            "INSERT INTO {table} ({}) VALUES ({places}) ON CONFLICT ({}) DO UPDATE SET {}",
            self.names(),
            keys.join(", "),
            updates.join(", ")
        );
        self.execute(db, &sql)
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))
}

/// RFC 3339 with nine decimals, so that text order is time order.
fn time(at: Timestamp) -> String {
    format!("{at:.9}")
}

fn nanos(value: Option<Nanos>) -> Option<u64> {
    value.map(|value| value.0)
}

fn run_row(run: &Run) -> Result<Row> {
    let row = Row::new()
        .set("id", run.id.0.clone())
        .word("kind", run.kind.word())
        .word("state", run.state.word())
        .set("name", run.name.clone())
        .set("title", run.title.clone())
        .set("question", run.question.clone())
        .time("started", run.started)
        .set("finished", run.finished.map(time))
        .json("command_line", &run.command_line)?
        .set("version", run.version.clone())
        .count("seed", run.seed.0)
        .set("plan", run.plan.clone());
    Ok(row.json("machine", &run.machine)?.set("error", run.error.clone()))
}

/// Writes a new run.
pub(crate) fn insert_run(db: &Connection, run: &Run) -> Result<()> {
    run_row(run)?.insert(db, "run")
}

/// Overwrites the properties of the run itself.
pub(crate) fn update_run(db: &Connection, run: &Run) -> Result<()> {
    run_row(run)?.put(db, "run", 1)
}

/// Writes a part without its blocks.
pub(crate) fn put_part(db: &Connection, run: &RunId, index: usize, part: &Part) -> Result<()> {
    Row::new()
        .key(run, index)
        .set("name", part.name.clone())
        .set("question", part.question.clone())
        .json("layout", &part.layout)?
        .json("load", &part.load)?
        .set("precision", part.precision)
        .set("quick", part.quick)
        .set("independent_starts", part.independent_starts)
        .json("published", &part.published)?
        .json("changes", &part.changes)?
        .json("disturbance", &part.disturbance)?
        .put(db, "part", 2)?;
    for table in ["summary", "comparison", "finding"] {
        let sql = format!("DELETE FROM {table} WHERE run = ?1 AND part = ?2");
        db.prepare_cached(&sql)?.execute(params![run.as_str(), index as i64])?;
    }
    for (number, variant) in part.variants.iter().enumerate() {
        put_variant(db, run, index, number, variant)?;
    }
    for (ordinal, comparison) in part.comparisons.iter().enumerate() {
        insert_comparison(db, run, index, ordinal, comparison)?;
    }
    for (ordinal, finding) in part.findings.iter().enumerate() {
        insert_finding(db, run, index, ordinal, finding)?;
    }
    Ok(())
}

fn put_variant(
    db: &Connection,
    run: &RunId,
    part: usize,
    number: usize,
    variant: &Variant,
) -> Result<()> {
    Row::new()
        .key(run, part)
        .count("variant", number as u64)
        .set("name", variant.name.clone())
        .json("commands", &variant.commands)?
        .set("target", variant.target.clone())
        .json("served_by", &variant.served_by)?
        .set("skipped", variant.skipped.clone())
        .set("ceiling", variant.ceiling)
        .ledger(&variant.ledger)?
        .put(db, "variant", 3)?;
    for (ordinal, summary) in variant.summaries.iter().enumerate() {
        insert_summary(db, run, part, number, ordinal, summary)?;
    }
    Ok(())
}

fn insert_summary(
    db: &Connection,
    run: &RunId,
    part: usize,
    variant: usize,
    ordinal: usize,
    summary: &Summary,
) -> Result<()> {
    Row::new()
        .key(run, part)
        .count("variant", variant as u64)
        .count("ordinal", ordinal as u64)
        .word("offer", summary.offer.word())
        .set("offered_per_s", summary.offered_per_s)
        .estimate(
            ["throughput_per_s", "throughput_per_s_low", "throughput_per_s_high"],
            summary.throughput_per_s,
        )
        .set("bytes_per_s", summary.bytes_per_s)
        .estimate(["p50_ns", "p50_ns_low", "p50_ns_high"], summary.p50_ns)
        .estimate(["p90_ns", "p90_ns_low", "p90_ns_high"], summary.p90_ns)
        .estimate(["p99_ns", "p99_ns_low", "p99_ns_high"], summary.p99_ns)
        .set("cpu_known", summary.cpu_ns_per_request.is_some())
        .maybe_estimate(
            ["cpu_ns_per_request", "cpu_ns_per_request_low", "cpu_ns_per_request_high"],
            summary.cpu_ns_per_request,
        )
        .set("machine_known", summary.machine_ns_per_request.is_some())
        .maybe_estimate(
            ["machine_ns_per_request", "machine_ns_per_request_low", "machine_ns_per_request_high"],
            summary.machine_ns_per_request,
        )
        .maybe_count("peak_memory_bytes", summary.peak_memory_bytes)
        .insert(db, "summary")
}

fn insert_comparison(
    db: &Connection,
    run: &RunId,
    part: usize,
    ordinal: usize,
    comparison: &Comparison,
) -> Result<()> {
    Row::new()
        .key(run, part)
        .count("ordinal", ordinal as u64)
        .set("baseline", comparison.baseline)
        .set("variant", comparison.variant)
        .word("metric", comparison.metric.word())
        .word("offer", comparison.offer.word())
        .set("is_primary", comparison.primary)
        .estimate(["ratio", "ratio_low", "ratio_high"], comparison.judgement.ratio)
        .word("verdict", comparison.judgement.verdict.word())
        .json("judgement", &comparison.judgement)?
        .json("because", &comparison.because)?
        .insert(db, "comparison")
}

fn insert_finding(
    db: &Connection,
    run: &RunId,
    part: usize,
    ordinal: usize,
    finding: &Finding,
) -> Result<()> {
    Row::new()
        .key(run, part)
        .count("ordinal", ordinal as u64)
        .set("check_name", finding.fact.check().to_owned())
        .word("severity", finding.severity.word())
        .set("block", finding.block)
        .set("variant", finding.variant)
        .json("fact", &finding.fact)?
        .insert(db, "finding")
}

/// Writes a whole block, replacing an earlier version of it.
pub(crate) fn put_block(db: &Connection, run: &RunId, part: usize, block: &Block) -> Result<()> {
    Row::new()
        .key(run, part)
        .set("block", block.index)
        .time("started", block.started)
        .count("elapsed_ns", block.elapsed.0)
        .json("slice_order", &block.order)?
        .word("state", block.state.word())
        .count("canary_before_ns", block.canary[0].0)
        .count("canary_after_ns", block.canary[1].0)
        .set("steal", block.steal)
        .put(db, "block", 3)?;
    db.prepare_cached("DELETE FROM trial WHERE run = ?1 AND part = ?2 AND block = ?3")?
        .execute(params![run.as_str(), part as i64, block.index])?;
    db.prepare_cached("DELETE FROM life WHERE run = ?1 AND part = ?2 AND block = ?3")?
        .execute(params![run.as_str(), part as i64, block.index])?;
    for (ordinal, life) in block.lives.iter().enumerate() {
        Row::new()
            .key(run, part)
            .set("block", block.index)
            .count("ordinal", ordinal as u64)
            .set("variant", life.variant)
            .ledger(&life.ledger)?
            .insert(db, "life")?;
    }
    for (ordinal, trial) in block.trials.iter().enumerate() {
        insert_trial(db, run, part, block.index, ordinal as u64, trial)?;
    }
    Ok(())
}

/// Adds one trial to a block that may not have been written yet, inside the caller's transaction on
/// a record's connection. [`crate::Store::save_trial`] does the same in its own transaction.
///
/// # Errors
/// Those of SQLite, after which the transaction must not be committed.
pub fn add_trial(
    db: &Connection,
    run: &RunId,
    part: usize,
    block: u32,
    trial: &Trial,
) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO block (run, part, block, started, elapsed_ns, slice_order, state, canary_before_ns, canary_after_ns, steal)
         VALUES (?1, ?2, ?3, ?4, 0, '[]', ?5, 0, 0, NULL) ON CONFLICT DO NOTHING",
    )?
    .execute(params![
        run.as_str(),
        part as i64,
        block,
        time(trial.started),
        BlockState::Unfinished.word()
    ])?;
    db.prepare_cached(
        "DELETE FROM trial WHERE run = ?1 AND part = ?2 AND block = ?3
         AND variant = ?4 AND offer = ?5 AND offered_per_s IS ?6",
    )?
    .execute(params![
        run.as_str(),
        part as i64,
        block,
        trial.variant,
        trial.offer.word(),
        trial.offered_per_s
    ])?;
    let ordinal: i64 = db
        .prepare_cached(
            "SELECT coalesce(max(ordinal) + 1, 0) FROM trial WHERE run = ?1 AND part = ?2 AND block = ?3",
        )?
        .query_row(params![run.as_str(), part as i64, block], |row| row.get(0))?;
    insert_trial(db, run, part, block, ordinal as u64, trial)
}

fn insert_trial(
    db: &Connection,
    run: &RunId,
    part: usize,
    block: u32,
    ordinal: u64,
    trial: &Trial,
) -> Result<()> {
    Row::new()
        .key(run, part)
        .set("block", block)
        .count("ordinal", ordinal)
        .set("variant", trial.variant)
        .word("offer", trial.offer.word())
        .set("offered_per_s", trial.offered_per_s)
        .time("started", trial.started)
        .count("window_ns", trial.window.0)
        .count("completed_in_window", trial.completed_in_window)
        .count("payload_bytes", trial.payload_bytes)
        .ledger(&trial.ledger)?
        .maybe_count("stack_cpu_ns", nanos(trial.stack_cpu))
        .maybe_count("machine_busy_ns", nanos(trial.machine_busy))
        .count("client_cpu_ns", trial.client_cpu().0)
        .json("client_threads", &trial.client)?
        .maybe_count("peak_memory_bytes", trial.peak_memory_bytes)
        .count("step_ns", trial.step.0)
        .count("steps", trial.completed_by_step.len() as u64)
        .set("env_padding_bytes", trial.env_padding_bytes)
        .insert(db, "trial")?;
    let id = db.last_insert_rowid();
    insert_slices(db, id, &trial.slices)?;
    insert_series(db, id, trial)?;
    if let Some(disruption) = &trial.disruption {
        insert_disruption(db, id, disruption)?;
    }
    let distributions = [
        ("latency", trial.latency.as_ref()),
        ("service_time", Some(&trial.service_time)),
        ("lateness", trial.lateness.as_ref()),
    ];
    for (kind, distribution) in distributions {
        if let Some(distribution) = distribution {
            insert_distribution(db, id, kind, distribution)?;
        }
    }
    Ok(())
}

fn insert_slices(db: &Connection, trial: i64, slices: &[Slice]) -> Result<()> {
    let mut insert = db.prepare_cached(
        "INSERT INTO slice (trial, ordinal, round, window_ns, completed, other_cpus, stolen, kept)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for (ordinal, slice) in slices.iter().enumerate() {
        insert.execute(params![
            trial,
            ordinal as i64,
            slice.round,
            slice.window.0 as i64,
            slice.completed as i64,
            slice.other_cpus,
            slice.stolen,
            slice.kept
        ])?;
    }
    Ok(())
}

fn insert_series(db: &Connection, trial_id: i64, trial: &Trial) -> Result<()> {
    let mut insert = db.prepare_cached(
        "INSERT INTO trial_series (trial, step_ns, slot, completed) VALUES (?1, ?2, ?3, ?4)",
    )?;
    let step = trial.step.0 as i64;
    for (slot, completed) in trial.completed_by_step.iter().enumerate() {
        if *completed > 0 {
            insert.execute(params![trial_id, step, slot as i64, *completed as i64])?;
        }
    }
    Ok(())
}

fn insert_disruption(db: &Connection, trial: i64, disruption: &Disruption) -> Result<()> {
    Row::new()
        .set("trial", trial)
        .count("longest_wait_ns", disruption.longest_wait.0)
        .count("failed_before", disruption.failed_before)
        .set("new_processes", disruption.new_processes)
        .insert(db, "disruption")?;
    for (ordinal, action) in disruption.actions.iter().enumerate() {
        Row::new()
            .set("trial", trial)
            .count("ordinal", ordinal as u64)
            .set("name", action.name.clone())
            .time("started", action.started)
            .count("at_ns", action.at.0)
            .count("took_ns", action.took.0)
            .count("failed", action.failed)
            .json("steps", &action.steps)?
            .insert(db, "action")?;
    }
    Ok(())
}

fn insert_distribution(
    db: &Connection,
    trial: i64,
    kind: &'static str,
    distribution: &Distribution,
) -> Result<()> {
    Row::new()
        .set("trial", trial)
        .set("kind", kind.to_owned())
        .count("count", distribution.count)
        .count("min_ns", distribution.min_ns)
        .count("p50_ns", distribution.p50_ns)
        .count("p90_ns", distribution.p90_ns)
        .count("p99_ns", distribution.p99_ns)
        .count("p99_9_ns", distribution.p99_9_ns)
        .count("p99_99_ns", distribution.p99_99_ns)
        .count("max_ns", distribution.max_ns)
        .set("mean_ns", distribution.mean_ns)
        .set("hdr_v2", distribution.hdr_v2.clone())
        .insert(db, "distribution")
}
