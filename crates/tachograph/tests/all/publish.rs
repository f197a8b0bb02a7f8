//! `publish` and `query --hive`: a table over exported files, through a server of other parts that
//! reads the files by DuckDB.

use std::path::Path;

use throwaway::hive::HiveServer;

use crate::support::{Ended, Place, eventually};

/// Three series over two days: counts of 10 s that are all 7 or 9, and a level.
fn import(place: &Place, name: &str, start_s: i64) {
    let mut lines = String::new();
    for i in 0..120 {
        let (from_s, until_s) = (start_s + i * 10, start_s + i * 10 + 10);
        lines += &format!("orders,shop=it's n=7i,_start={from_s}i,_end={until_s}i\n");
        lines += &format!("orders,shop=b n=9i,_start={from_s}i,_end={until_s}i\n");
        lines += &format!("load value={}.5 {until_s}\n", i % 5);
    }
    let path = place.write(name, &lines);
    let args = ["import", "--format", "influx", "--precision", "s", path.to_str().unwrap()];
    place.run(&args).status(0);
}

/// Ten minutes before midnight, 2026-03-01.
const START_S: i64 = 1_772_409_000;

fn exported() -> Place {
    let place = Place::new();
    import(&place, "a", START_S);
    place.run(&["export", "--parquet", "slots"]).status(0);
    place
}

fn publish(place: &Place, server: &HiveServer, options: &[&str]) -> Ended {
    let url = format!("hive://localhost:{}/metrics", server.port());
    place.run(&[&["publish", url.as_str(), "--folder", "slots"], options].concat())
}

fn plain() -> HiveServer {
    HiveServer::start(&[], None, None).unwrap()
}

#[test]
fn a_table_is_created_then_updated_and_its_totals_are_those_of_the_files() {
    let (place, server) = (exported(), plain());
    let steps = "  step 10s: 2 days, 360 rows, total of counts 1920\n  \
                 step 1h: 2 days, 6 rows, total of counts 1920\n  \
                 step 1m: 2 days, 60 rows, total of counts 1920\n\
                 the server's totals are those of the files\n";
    let at = format!("the table metrics.tachograph at localhost:{}\n", server.port());
    let first = publish(&place, &server, &[]);
    assert_eq!(first.status(0).out, format!("created {at}  added 6 partitions\n{steps}"));
    let again = publish(&place, &server, &[]);
    let there = "  added 0 partitions; 6 partitions already there\n";
    assert_eq!(again.status(0).out, format!("found {at}{there}{steps}"));
    import(&place, "b", START_S + 86_400);
    place.run(&["export", "--parquet", "slots"]).status(0);
    let more = publish(&place, &server, &[]);
    more.status(0).prints("  added 3 partitions; 6 partitions already there\n");
    more.prints("step 1h: 3 days, 12 rows, total of counts 3840\n");
}

#[test]
fn a_folder_that_was_moved_is_found_again() {
    let (place, server) = (exported(), plain());
    publish(&place, &server, &[]).status(0);
    std::fs::rename(place.path("slots"), place.path("moved")).unwrap();
    let url = format!("hive://localhost:{}/metrics", server.port());
    let ended = place.run(&["publish", &url, "--folder", "moved"]);
    ended.status(0).prints("; 6 partitions already there; 6 partitions moved to this folder\n");
}

#[test]
fn the_table_has_the_same_figures_as_the_record() {
    let (place, server) = (exported(), plain());
    publish(&place, &server, &[]).status(0);
    let url = format!("hive://localhost:{}/metrics", server.port());
    let same = |args: &[&str]| {
        let local = place.run(&[&["query"], args].concat());
        let there = place.run(&[&["query", "--hive", url.as_str()], args].concat());
        local.status(0);
        assert_eq!(there.status(0).out, local.out);
        local.out
    };
    let table = same(&["orders", "load", "--step", "1m"]);
    assert!(table.contains("orders:n{shop=it's}") && table.contains("total 840"), "{table}");
    same(&["orders{shop=it's}"]);
    same(&["orders", "--step", "10s", "--format", "csv"]);
    same(&["load", "--format", "plot"]);
    same(&["orders", "--from", "2026-03-01T23:55:00Z", "--until", "2026-03-02T00:03:00Z"]);
    let none = place.run(&["query", "--hive", &url, "nothing"]);
    none.status(2).says("error: no such series in the table\n");
}

#[test]
fn what_cannot_be_published_is_refused_with_a_sentence() {
    let (place, server) = (exported(), plain());
    let url = |database: &str| format!("hive://localhost:{}/{database}", server.port());
    std::fs::create_dir(place.path("empty")).unwrap();
    let ended = place.run(&["publish", &url(""), "--folder", "empty"]);
    ended.status(2).says("empty has no exported files; 'tachograph export --parquet empty' writes");
    let ended = place.run(&["publish", &url("none"), "--folder", "slots"]);
    ended
        .status(2)
        .says("Database 'none' not found\n  in: SHOW TABLES IN `none` LIKE 'tachograph'");
    // A location that the server does not see.
    let ended = publish(&place, &server, &["--location", "file:///nowhere"]);
    ended.status(1).says("in step 10s of 2026-03-01 the server finds no rows, but the files have ");
    ended.says("check that it can read file:///nowhere/step=10s/day=2026-03-01\n");
    assert!(!ended.out.contains("the server's totals are"), "{}", ended.out);
    // A file that is none.
    let broken = first_file(&place.path("slots/step=1h/day=2026-03-01"));
    std::fs::write(&broken, "no Parquet").unwrap();
    let ended = publish(&place, &server, &[]);
    let name = broken.file_name().unwrap().to_str().unwrap();
    ended.status(2).says(&format!("cannot read slots/step=1h/day=2026-03-01/{name}: "));
}

#[test]
fn a_table_of_others_is_left_alone() {
    let place = exported();
    let columns =
        r#"{"metrics.tachograph": {"columns": [["slot", "date"]], "keys": [], "partitions": {}}}"#;
    let catalog = place.write("catalog", columns);
    let options = ["--catalog", catalog.to_str().unwrap()];
    let server = HiveServer::start(&options, None, None).unwrap();
    let ended = publish(&place, &server, &[]);
    ended.status(2).says(
        "error: the table metrics.tachograph exists with other columns (slot is date instead of \
         timestamp); choose another --table, or drop that one",
    );
    publish(&place, &server, &["--table", "other"]).status(0).prints("created the table");
}

#[test]
fn a_slow_statement_is_cancelled() {
    let place = exported();
    let server = HiveServer::start(&["--fault", "slow"], None, None).unwrap();
    let ended = publish(&place, &server, &["--statement-timeout", "100ms"]);
    ended.status(2).says("a statement took longer than 0.1 s and was cancelled; raise");
    // The client ends without the server's answer to that.
    eventually("the server has cancelled it", || server.said().contains("cancelled\n"));
}

fn first_file(folder: &Path) -> std::path::PathBuf {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|e| e == "parquet")).unwrap()
}
