//! A run's trials and their series: every count once, and the report reads them again.

use std::path::Path;
use std::process::Stdio;

use crate::support::{Place, Server, TACHOGRAPH, eventually};

/// Checks that the series of completed requests of every block agree exactly with its trials; returns
/// the number of blocks of all variants and offers.
fn agreeing_blocks(record: &Path) -> i64 {
    let db = recordfile::open(record).unwrap();
    // A variant that is calibrated twice has two trials of block 0, and one series for both. A trial
    // that failed in its first slice, as on a machine that is too busy, has completed nothing; one that
    // takes four seconds has packed slots.
    let both = "WITH sums AS (
        SELECT tags ->> 'run' AS run, tags ->> 'part' AS part, tags ->> 'variant' AS variant,
               tags ->> 'offer' AS offer, lane AS block, sum(integral) AS total
        FROM stored_1s JOIN series ON id = series
        WHERE measurement = 'requests' AND field = 'completed' GROUP BY 1, 2, 3, 4, 5),
    counts AS (
        SELECT run, part, variant, offer, block, sum(completed) AS completed
        FROM trials GROUP BY 1, 2, 3, 4, 5 HAVING sum(completed) > 0),
    agreement AS (
        SELECT *, coalesce(total = completed, 0) AS agrees
        FROM counts FULL JOIN sums USING (run, part, variant, offer, block))";
    let differing = "SELECT coalesce(group_concat(format('%s %s %s %s: %s completed, %s in series',
        part, variant, offer, block, completed, total), '; '), '') FROM agreement WHERE NOT agrees";
    let differing: String =
        db.query_row(&format!("{both} {differing}"), (), |row| row.get(0)).unwrap();
    assert_eq!(differing, "");
    db.query_row(&format!("{both} SELECT count(*) FROM agreement"), (), |row| row.get(0)).unwrap()
}

#[test]
fn a_run_is_queried_and_a_changed_slot_is_caught() {
    let place = Place::new();
    let server = format!("{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT");
    let names = ["--quick", "--closed-only", "--max-time", "6s", "-n", "a", "-n", "b"];
    let ran = place.run(&[&["compare", &server, &server, "--json"], &names[..]].concat()).json();
    let run = ran["run"].as_str().unwrap();

    let blocks = agreeing_blocks(&place.path("record.sqlite"));
    assert!(blocks >= 6, "{blocks} blocks");

    // The ledger contains every block except the calibration, which has lane 0.
    let completed = ran["variants"][0]["ledger"]["completed"].as_u64().unwrap();
    assert_eq!(ran["variants"][0]["ledger"]["series"], completed);
    let select = format!("requests:completed{{run={run},variant=a,offer=closed}}");
    let queried = place.run(&["query", &select, "--format", "json"]).json();
    let total = queried["series"][0]["total"].as_f64().unwrap();
    assert!(total > 0.0 && total < completed as f64, "the warm-up is a series of its own");
    let slots = queried["series"][0]["slots"].as_array().unwrap();
    assert!(slots.iter().any(|slot| slot["rate"].as_f64().is_some_and(|rate| rate > 100.0)));

    let db = recordfile::open(&place.path("record.sqlite")).unwrap();
    let partition = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'slot#_1s#_%' ESCAPE '#'";
    let table: String = db.query_row(partition, (), |row| row.get(0)).unwrap();
    let changed = db.execute(
        &format!(
            "INSERT INTO {table} (slot_us, series, lane, integral, covered_us, n, approximate)
             SELECT slot_us, series, lane, -1, 0, 0, 0 FROM stored_1s JOIN series ON id = series
             WHERE field = 'completed' AND tags ->> 'variant' = 'b' AND lane = 1 AND integral > 0
             LIMIT 1
             ON CONFLICT DO UPDATE SET integral = integral - 1"
        ),
        (),
    );
    assert_eq!(changed.unwrap(), 1);
    drop(db);
    let report = place.run(&["report", "last"]);
    report.status(1).prints("INVALID").prints("b: the recorded series of its ");
    let words = report.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("its slots were changed afterwards"), "{}", report.out);
    let json = place.run(&["report", "last", "--json"]).json();
    assert_eq!(json["variants"][1]["ledger"]["series"], completed_of(&ran, 1) - 1);
}

fn completed_of(json: &serde_json::Value, variant: usize) -> u64 {
    json["variants"][variant]["ledger"]["completed"].as_u64().unwrap()
}

#[test]
fn a_load_is_a_series_too() {
    let place = Place::new();
    let (_server, target) = Server::http(&[]);
    let ran = place.run(&["load", &target, "-d", "500ms", "--rate", "200", "--json"]).json();
    // The probes are a separate trial.
    assert_eq!(agreeing_blocks(&place.path("record.sqlite")), 2, "{ran}");
    let queried = place.run(&["query", "latency:p99_ns{experiment=load}", "--format", "json"]);
    assert!(queried.json()["series"][0]["slots"][0]["rate"].as_f64().unwrap() > 1e3);
    place.run(&["report", "last"]).prints("200 requests/s");
}

#[test]
fn a_run_is_shown_beside_series_of_a_newer_version() {
    let place = Place::new();
    let (_server, target) = Server::http(&[]);
    place.run(&["load", &target, "-d", "500ms", "--rate", "200"]).measured();
    let db = recordfile::open(&place.path("record.sqlite")).unwrap();
    db.execute("UPDATE slots_schema SET version = version + 100", ()).unwrap();
    place.run(&["list"]).status(0).prints("load");
    let report = place.run(&["report", "last"]);
    report.prints("200 requests/s");
    report.says("the ledgers are shown without the recorded series: the series in ");
    place.run(&["query", "requests"]).status(2).says("were written by a newer tachograph");
    // And the other way round.
    db.execute("UPDATE slots_schema SET version = version - 100", ()).unwrap();
    db.pragma_update(None, "user_version", 1).unwrap();
    place.run(&["query", "requests:completed"]).status(0).prints("requests:completed");
    let points = place.write("points.txt", "a 1 1700000000\n");
    place.run(&["import", "--format", "graphite", points.to_str().unwrap()]).status(0);
    place.run(&["list"]).status(2).says("were written by an older tachograph");
    place.run(&["load", &target, "-d", "500ms"]).status(2).says("to another file for runs");
}

#[test]
fn kill_9_leaves_trials_and_series_that_agree() {
    let place = Place::new();
    let server = format!("{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT");
    // As soon as this many trials of all runs are recorded.
    for trials_before in [1, 2, 4] {
        let names = ["-n", "a", "-n", "b"];
        let mut child = place
            .command(
                &[&["compare", "--quick", "--closed-only", &server, &server], &names[..]].concat(),
            )
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let before = place.rows("trial");
        eventually("the trials", || place.rows("trial") >= before + trials_before);
        child.kill().unwrap();
        child.wait().unwrap();
        agreeing_blocks(&place.path("record.sqlite"));
        let killed = place.run(&["report", "last"]);
        assert!(!killed.out.contains("were changed"), "{}", killed.out);
    }
}
