//! The record as seen by a run, a report and a person with SQL.

#![allow(clippy::unwrap_used)] // a test may fail anywhere, its helpers included

mod support;

use archive::Store;
use base::RunId;
use proptest::prelude::*;
use record::*;
use rusqlite::Connection;
use rusqlite::types::Value;
use support::Draw;
use tempfile::TempDir;

fn fresh() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("deep/er/record.sqlite")).unwrap();
    (folder, store)
}

/// A random run with a part, a variant and a block with a trial.
fn rich(seed: u64) -> Run {
    (seed..seed + 10_000)
        .map(|seed| Draw::new(seed).run())
        .find(|run| run.parts.iter().any(|p| p.blocks.iter().any(|b| b.trials.len() > 2)))
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn what_is_saved_is_what_is_loaded(seed: u64) {
        let (_folder, mut store) = fresh();
        let run = Draw::new(seed).run();
        store.begin(&run).unwrap();
        prop_assert_eq!(store.load(run.id.as_str()).unwrap(), run);
    }

    #[test]
    fn a_run_written_piece_by_piece_is_the_same(seed: u64) {
        let (_folder, mut store) = fresh();
        let run = Draw::new(seed).run();
        let bare = Run { state: RunState::Running, finished: None, error: None, parts: vec![], ..run.clone() };
        store.begin(&bare).unwrap();
        for (index, part) in run.parts.iter().enumerate() {
            let mut before = Part { comparisons: vec![], findings: vec![], blocks: vec![], ..part.clone() };
            for variant in &mut before.variants {
                variant.summaries.clear();
            }
            store.save_part(&run.id, index, &before).unwrap();
            for block in &part.blocks {
                for trial in &block.trials {
                    store.save_trial(&run.id, index, block.index, trial).unwrap();
                }
                store.save_block(&run.id, index, block).unwrap();
            }
            store.save_part(&run.id, index, part).unwrap();
        }
        store.finish(&run).unwrap();
        prop_assert_eq!(store.list(1).unwrap(), [RunLine::of(&run)]);
        prop_assert_eq!(store.load("last").unwrap(), run);
    }
}

#[test]
fn a_run_that_was_killed_keeps_its_trials_but_not_half_a_block() {
    let (folder, mut store) = fresh();
    let mut run = rich(1);
    run.state = RunState::Running;
    let at = run.parts.iter().position(|p| p.blocks.iter().any(|b| b.trials.len() > 2)).unwrap();
    let block = run.parts[at].blocks.iter().find(|b| b.trials.len() > 2).unwrap().clone();
    for part in &mut run.parts {
        part.blocks.clear();
    }
    store.begin(&run).unwrap();
    store.save_trial(&run.id, at, block.index, &block.trials[0]).unwrap();
    store.save_trial(&run.id, at, block.index, &block.trials[1]).unwrap();
    store.save_trial(&run.id, at, block.index, &block.trials[1]).unwrap();
    let path = store.path().to_owned();
    std::mem::forget(store);

    let read = Store::open_read_only(&path).unwrap().load("last").unwrap();
    assert_eq!(read.state, RunState::Running);
    let kept = &read.parts[at].blocks[0];
    assert_eq!(kept.state, BlockState::Unfinished);
    assert!(read.parts[at].complete_blocks().all(|block| block.index != kept.index));
    assert_eq!(kept.trials, block.trials[..2]);
    drop(folder);
}

#[test]
fn a_trial_replaces_only_that_of_the_same_rate() {
    let (_folder, mut store) = fresh();
    let mut run = compared();
    let mut block = run.parts[0].blocks.remove(0);
    let draft = block.trials.remove(0);
    store.begin(&run).unwrap();
    let rates = [None, Some(0.1 + 0.2), Some(0.3), Some(1e300), Some(5e-324), Some(7.0)];
    let trial = |rate, env_padding_bytes| Trial {
        offer: Offer::Open,
        offered_per_s: rate,
        env_padding_bytes,
        ..draft.clone()
    };
    for time in 1..=2 {
        for rate in rates {
            store.save_trial(&run.id, 0, block.index, &trial(rate, time)).unwrap();
        }
    }
    let read = store.load("last").unwrap();
    assert_eq!(read.parts[0].blocks[0].trials, rates.map(|rate| trial(rate, 2)));
}

#[test]
fn the_second_calibration_of_a_killed_run_replaced_the_first_whose_series_stayed() {
    let (_folder, mut store) = fresh();
    let mut run = compared();
    let block = run.parts[0].blocks.remove(0);
    let first = block.trials[0].clone();
    let second = Trial { started: base::Timestamp::UNIX_EPOCH, ..first.clone() };
    assert_ne!(first.started, second.started);
    store.begin(&run).unwrap();
    for trial in [&first, &second] {
        store.save_trial(&run.id, 0, block.index, trial).unwrap();
    }
    assert_eq!(store.load("last").unwrap().parts[0].blocks[0].trials, [first, second]);
}

#[test]
fn numbers_that_json_lacks_are_read_as_they_were_written() {
    let (_folder, mut store) = fresh();
    let mut run = compared();
    let nothing = stats::Estimate { value: f64::NAN, low: 0.0, high: f64::INFINITY };
    let unknown = stats::Estimate { low: f64::NAN, ..nothing };
    let part = &mut run.parts[0];
    part.precision = f64::NAN;
    part.comparisons[0].judgement.ratio = unknown;
    part.blocks[0].trials[0].service_time.mean_ns = f64::NAN;
    part.variants[0].summaries = vec![Summary {
        offer: Offer::Closed,
        offered_per_s: None,
        throughput_per_s: nothing,
        bytes_per_s: f64::NAN,
        p50_ns: unknown,
        p90_ns: unknown,
        p99_ns: unknown,
        cpu_ns_per_request: Some(unknown),
        machine_ns_per_request: Some(nothing),
        peak_memory_bytes: None,
    }];
    store.begin(&run).unwrap();
    // NaN does not equal itself.
    assert_eq!(format!("{:?}", store.load("last").unwrap()), format!("{run:?}"));
}

#[test]
fn what_an_older_version_did_not_know_has_its_default() {
    let (_folder, mut store) = fresh();
    let mut run = rich(5);
    run.parts[0].changes = vec![Change { from: "before".to_owned(), what: "a CPU".to_owned() }];
    run.parts[0].independent_starts = true;
    store.begin(&run).unwrap();
    let db = Connection::open(store.path()).unwrap();
    db.execute_batch(
        "UPDATE part SET json = json_remove(json, '$.changes', '$.independent_starts')",
    )
    .unwrap();
    for part in &mut run.parts {
        part.changes.clear();
        part.independent_starts = false;
    }
    assert_eq!(store.load("last").unwrap(), run);
}

#[test]
fn runs_are_found_by_name_by_prefix_and_as_last() {
    let (_folder, mut store) = fresh();
    let mut run = rich(2);
    for (id, started) in [
        ("20261121-071530-aaaa", "2026-11-21T07:15:30Z"),
        ("20261121-071530-aabb", "2026-11-21T07:15:30.5Z"),
        ("20261122-000000-aaaa", "2026-11-22T00:00:00Z"),
    ] {
        run.id = RunId(id.to_owned());
        run.started = started.parse().unwrap();
        store.begin(&run).unwrap();
    }
    let found = |name: &str| store.load(name).map(|run| run.id.0).map_err(|e| e.to_string());
    assert_eq!(found("last").unwrap(), "20261122-000000-aaaa");
    assert_eq!(found("20261122").unwrap(), "20261122-000000-aaaa");
    assert_eq!(found("20261121-071530-aabb").unwrap(), "20261121-071530-aabb");
    assert_eq!(
        found("20261121").unwrap_err(),
        "'20261121' matches 2 runs (20261121-071530-aabb, 20261121-071530-aaaa): use more of the \
         name"
    );
    let path = store.path().display();
    assert_eq!(
        found("2027").unwrap_err(),
        format!("no run named '2027' in {path}: `tachograph list` shows all runs")
    );
    assert!(found("").is_err());
    assert!(found("%").is_err());
}

#[test]
fn the_list_is_newest_first_and_has_the_results() {
    let (_folder, mut store) = fresh();
    let mut run = rich(3);
    for day in 1..=5 {
        run.id = RunId(format!("2026110{day}-000000-aaaa"));
        run.started = format!("2026-11-0{day}T00:00:00Z").parse().unwrap();
        store.begin(&run).unwrap();
    }
    let lines = store.list(3).unwrap();
    let ids: Vec<&str> = lines.iter().map(|line| line.id.as_str()).collect();
    assert_eq!(ids, ["20261105-000000-aaaa", "20261104-000000-aaaa", "20261103-000000-aaaa"]);
    let complete = run.parts.iter().flat_map(|p| &p.blocks).filter(|b| b.is_complete()).count();
    assert_eq!(lines[0].blocks, complete as u64);
    assert_eq!(lines[0].question, run.question);
}

#[test]
fn the_list_reads_no_parts_of_runs_that_have_ended() {
    let (_folder, mut store) = fresh();
    let run = rich(3);
    store.begin(&run).unwrap();
    let before = store.list(1).unwrap();
    store.finish(&run).unwrap();
    let db = Connection::open(store.path()).unwrap();
    db.execute_batch("UPDATE part SET json = '{}'; UPDATE block SET json = '{}'").unwrap();
    assert_eq!(store.list(1).unwrap(), before);
    assert!(store.load("last").is_err());
}

#[test]
fn a_variant_that_the_part_does_not_have_is_refused() {
    let (_folder, mut store) = fresh();
    let mut run = compared();
    run.parts[0].blocks[0].lives.truncate(1);
    store.begin(&run).unwrap();
    let db = Connection::open(store.path()).unwrap();
    for (table, field) in [
        ("part", "$.comparisons[0].variant"),
        ("block", "$.lives[0].variant"),
        ("trial", "$.variant"),
    ] {
        let set = |variant| {
            let sql = format!("UPDATE {table} SET json = json_set(json, '{field}', {variant})");
            db.execute_batch(&sql).unwrap();
        };
        set(2);
        let refusal = store.load("last").unwrap_err().to_string();
        let wanted = format!("{table}.json: variant 2 is unknown, the part has 2 (from 0))");
        assert!(refusal.contains(&wanted), "{refusal}");
        set(0);
    }
    store.load("last").unwrap();
}

/// A run with one part of two variants, one primary comparison and one block.
fn compared() -> Run {
    // What a seed draws changes with every new field of a record.
    let suits = |block: &Block| {
        let is_calibration = block.index == 0;
        !is_calibration
            && !block.lives.is_empty()
            && block.trials.iter().any(|trial| trial.variant == 0)
    };
    let found = (8..9_999).map(|seed| Draw::new(seed).run()).find_map(|run| {
        let at = run.parts.iter().position(|part| part.blocks.iter().any(suits))?;
        Some((run, at))
    });
    let (mut run, at) = found.unwrap();
    let mut part = run.parts.remove(at);
    let comparison = (9..9_999)
        .flat_map(|seed| Draw::new(seed).run().parts)
        .find_map(|part| part.comparisons.into_iter().next())
        .unwrap();
    part.variants.truncate(1);
    part.variants.push(Variant { name: "b".to_owned(), ..part.variants[0].clone() });
    part.variants[0].name = "a".to_owned();
    part.blocks.retain(suits);
    part.blocks.truncate(1);
    for block in &mut part.blocks {
        block.trials.retain(|trial| trial.variant == 0);
        block.trials.truncate(1);
        block.lives.retain(|life| life.variant == 0);
    }
    part.comparisons =
        vec![Comparison { baseline: 0, variant: 1, primary: true, because: vec![], ..comparison }];
    part.comparisons[0].judgement.verdict = stats::Verdict::Faster;
    part.findings.clear();
    Run { kind: RunKind::Compare, state: RunState::Done, error: None, parts: vec![part], ..run }
}

#[test]
fn the_list_has_the_first_primary_verdict_and_its_validity() {
    let forbidding = Finding {
        severity: Severity::Invalid,
        block: None,
        variant: Some(1),
        fact: Fact::BodyVaries { length: false },
    };
    let line = |run: &Run| {
        let (_folder, mut store) = fresh();
        store.begin(run).unwrap();
        store.list(1).unwrap().remove(0)
    };
    let run = compared();
    let comparison = &run.parts[0].comparisons[0];
    let first = line(&run).first.unwrap();
    assert_eq!((first.variant.as_str(), first.baseline.as_str()), ("b", "a"));
    assert_eq!((first.metric, &first.judgement), (comparison.metric, &comparison.judgement));
    assert!(line(&run).valid);

    let failed = Run { error: Some("no space is left".to_owned()), ..run.clone() };
    assert!(!line(&failed).valid);

    let mut secondary = run.clone();
    secondary.parts[0].findings.push(forbidding);
    let touched = Comparison { primary: false, because: vec![0], ..comparison.clone() };
    secondary.parts[0].comparisons.push(touched);
    secondary.parts[0].comparisons[1].judgement.verdict = stats::Verdict::Invalid;
    assert!(line(&secondary).valid, "a secondary metric does not spoil the run");

    let mut primary = secondary.clone();
    primary.parts[0].comparisons[0].judgement.verdict = stats::Verdict::Invalid;
    assert!(!line(&primary).valid);

    let mut alone = secondary;
    alone.parts[0].comparisons.clear();
    assert_eq!((line(&alone).valid, line(&alone).first), (false, None));
}

#[test]
fn the_list_has_the_throughput_of_a_load() {
    let (_folder, mut store) = fresh();
    let mut run = compared();
    assert_eq!(run.kind, RunKind::Compare);
    run.kind = RunKind::Load;
    for trial in &mut run.parts[0].blocks[0].trials {
        trial.window = base::Nanos::from_secs(2);
        trial.completed_in_window = 5_000;
    }
    store.begin(&run).unwrap();
    let measured = run.parts[0].blocks[0].measured_trials().count() > 0;
    assert_eq!(store.list(1).unwrap()[0].throughput_per_s, measured.then_some(2_500.0));
}

#[test]
fn a_deleted_run_leaves_nothing_behind() {
    let (_folder, mut store) = fresh();
    let run = rich(4);
    store.begin(&run).unwrap();
    assert_eq!(store.delete("last").unwrap(), run.id);
    assert!(store.list(9).unwrap().is_empty());
    let db = Connection::open(store.path()).unwrap();
    for table in ["part", "block", "trial", "histogram", "slice"] {
        let left: i64 =
            db.query_row(&format!("SELECT count(*) FROM {table}"), [], |r| r.get(0)).unwrap();
        assert_eq!(left, 0, "{table}");
    }
    assert_eq!(
        store.delete("last").unwrap_err().to_string(),
        format!(
            "no runs recorded in {} yet: start one with `tachograph compare` or `tachograph run`",
            store.path().display()
        )
    );
}

/// A count as SQL has it: exact up to 2^63 - 1, nearly beyond.
fn in_sql(count: u64) -> Value {
    i64::try_from(count).map_or(Value::Real(count as f64), Value::Integer)
}

/// The rows of a query.
fn ask(store: &Store, sql: &str) -> Vec<Vec<Value>> {
    let db = Connection::open(store.path()).unwrap();
    let mut query = db.prepare(sql).unwrap();
    let columns = query.column_count();
    let rows = query.query_map([], |row| (0..columns).map(|at| row.get(at)).collect()).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn a_person_with_sql_reads_one_row_per_trial() {
    for seed in 0..20 {
        let (_folder, mut store) = fresh();
        let run = rich(5_000_000 + seed);
        store.begin(&run).unwrap();
        let mut wanted = Vec::new();
        for part in &run.parts {
            for (block, trial) in
                part.blocks.iter().flat_map(|block| block.trials.iter().map(move |t| (block, t)))
            {
                wanted.push(vec![
                    Value::Text(run.name.clone()),
                    Value::Text(part.name.clone()),
                    Value::Integer(block.index.into()),
                    Value::Integer(block.is_complete().into()),
                    Value::Text(part.variants[trial.variant as usize].name.clone()),
                    Value::Text(trial.offer.word().to_owned()),
                    Value::Text(format!("{:.9}", trial.started)),
                    in_sql(trial.ledger.counts.completed),
                    trial.ledger.served.map_or(Value::Null, in_sql),
                    in_sql(trial.service_time.p99_ns),
                ]);
            }
        }
        let sql = "SELECT experiment, part, block, complete, variant, offer, started, completed,
            served, service_time_p99_ns FROM trials ORDER BY trial";
        assert_eq!(ask(&store, sql), wanted, "seed {seed}");
    }
}

#[test]
fn the_view_of_trials_computes_rates_and_costs() {
    let (_folder, mut store) = fresh();
    let mut run = rich(8);
    let mut blocks = run.parts.iter_mut().flat_map(|part| &mut part.blocks);
    let trial = blocks.find_map(|block| block.trials.first_mut()).unwrap();
    trial.window = base::Nanos::from_secs(2);
    (trial.completed_in_window, trial.payload_bytes) = (5_000, 80_000);
    trial.stack_cpu = Some(base::Nanos(700_000));
    (trial.ledger.counts.completed, trial.ledger.served) = (7_000, None);
    store.begin(&run).unwrap();
    let sql = "SELECT throughput_per_s, bytes_per_s, cpu_ns_per_request FROM trials ORDER BY trial
        LIMIT 1";
    let real = Value::Real;
    assert_eq!(ask(&store, sql), [[real(2_500.0), real(40_000.0), real(100.0)]]);
}

#[test]
fn what_was_done_to_a_stack_is_one_row_per_occurrence() {
    let (_folder, mut store) = fresh();
    let run = (0..)
        .map(|seed| Draw::new(seed).run())
        .find(|run| disruptions(run).any(|disruption| disruption.actions.len() > 1))
        .unwrap();
    store.begin(&run).unwrap();
    let whole: Vec<Vec<Value>> = disruptions(&run)
        .map(|d| {
            vec![in_sql(d.longest_wait.0), in_sql(d.failed_before), in_sql(d.new_processes.into())]
        })
        .collect();
    let sql = "SELECT longest_wait_ns, failed_before, new_processes FROM disruption ORDER BY trial";
    assert_eq!(ask(&store, sql), whole);
    let each: Vec<Vec<Value>> = disruptions(&run)
        .flat_map(|d| (0..).zip(&d.actions))
        .map(|(ordinal, action): (i64, _)| {
            vec![
                Value::Integer(ordinal),
                Value::Text(action.name.clone()),
                Value::Text(format!("{:.9}", action.started)),
                in_sql(action.at.0),
                in_sql(action.took.0),
                in_sql(action.failed),
                Value::Integer(action.steps.len() as i64),
            ]
        })
        .collect();
    let sql = "SELECT ordinal, name, started, at_ns, took_ns, failed, json_array_length(steps)
        FROM action JOIN disruption USING (trial) ORDER BY trial, ordinal";
    assert_eq!(ask(&store, sql), each);
}

fn disruptions(run: &Run) -> impl Iterator<Item = &Disruption> {
    let blocks = run.parts.iter().flat_map(|part| &part.blocks);
    blocks.flat_map(|block| &block.trials).filter_map(|trial| trial.disruption.as_ref())
}

#[test]
fn tables_are_strict_and_the_log_is_written_ahead() {
    let (_folder, store) = fresh();
    let db = Connection::open(store.path()).unwrap();
    let mode: String = db.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    let strict: i64 = db
        .query_row("SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND strict = 0 AND name NOT LIKE 'sqlite_%'", [], |r| r.get(0))
        .unwrap();
    assert_eq!(strict, 0);
}

#[test]
fn two_processes_may_record_at_once() {
    let (_folder, mut one) = fresh();
    let mut two = Store::open(one.path()).unwrap();
    let (a, b) = (rich(6), rich(7_000_000));
    one.begin(&a).unwrap();
    two.begin(&b).unwrap();
    assert_eq!(one.list(9).unwrap().len(), 2);
    assert_eq!(two.load(a.id.as_str()).unwrap(), a);
}
