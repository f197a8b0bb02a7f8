//! Disturbed imports: killed, on a full disk, without a database, with bad lines.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use base::Seed;
use proofs::imports::{self as proof, Size};

use crate::support::{self, Ended, Place, TACHOGRAPH};

fn killed_often(record: &str, place: &Place) {
    let size = Size { least: 3_000, most: 9_000 };
    let proof = proof::prove(record, place.dir.path(), Seed(1), 6, size, |file| {
        let mut command = place.command(&["import", "-f", "influx", "--precision", "s", "--quiet"]);
        // A small head, so that much is written before the kill.
        command.args(["--head-memory", "16KiB"]).arg(file).env("TACHOGRAPH_RECORD", record);
        command
    });
    let proof = proof.unwrap();
    assert!(proof.holds() && proof.kills == 6, "{proof:?}");
}

#[test]
fn an_import_that_is_killed_again_and_again_has_every_line_once_in_sqlite() {
    let place = Place::new();
    killed_often(&place.path("record.sqlite").display().to_string(), &place);
}

#[test]
fn an_import_that_is_killed_again_and_again_has_every_line_once_in_postgresql() {
    let place = Place::new();
    let server = throwaway::Throwaway::start(&["fsync=off"]).unwrap();
    killed_often(&server.database("record").unwrap(), &place);
}

/// Lines of 200 series, one point per second.
fn many(lines: usize) -> String {
    (0..lines).map(|i| format!("m.{} {} {}\n", i % 200, i % 977, 1_430_701_200 + i / 200)).collect()
}

/// Every slot of every series.
fn contents(place: &Place, record: &Path) -> String {
    let mut query = place.command(&["query", "", "--step", "10s", "--format", "csv"]);
    query.env("TACHOGRAPH_RECORD", record);
    let ended = place.finish(query);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    ended.out
}

#[test]
fn a_full_disk_is_reported_and_the_import_continues_once_there_is_room() {
    let place = Place::new();
    let file = place.write("m.txt", &many(300_000));
    let whole = place.path("whole.sqlite");
    let mut import = place.command(&["import", "m.txt", "-f", "graphite"]);
    import.env("TACHOGRAPH_RECORD", &whole);
    assert_eq!(place.finish(import).status, Some(0));
    let disk = place.path("disk");
    std::fs::create_dir(&disk).unwrap();
    // A small disk, visible only to these commands, which grows later.
    let script = r#"
        mount -t tmpfs -o size=700k none "$1" || exit 77
        export TACHOGRAPH_RECORD="$1/record.sqlite"
        "$2" import "$3" -f graphite --head-memory 1MiB; echo "first: $?"
        mount -o remount,size=200m none "$1"
        "$2" import "$3" -f graphite; echo "then: $?"
        cp "$1"/record.sqlite* "$4"
    "#;
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    command.arg(&disk).arg(TACHOGRAPH).arg(&file).arg(place.dir.path());
    let ended = place.finish(command);
    assert_ne!(ended.status, Some(77), "no disk of one's own can be made here: {}", ended.err);
    assert!(ended.out.contains("first: 2\n"), "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("no space left for the record"), "{}", ended.err);
    assert!(
        ended.err.contains("record.sqlite: free some space, or set TACHOGRAPH_RECORD"),
        "{}",
        ended.err
    );
    assert!(ended.out.contains("then: 0\n"), "{}{}", ended.out, ended.err);
    assert_eq!(contents(&place, &place.path("record.sqlite")), contents(&place, &whole));
}

#[test]
fn a_lost_database_is_reported_and_the_import_continues_once_it_is_back() {
    let place = Place::new();
    let mut server = throwaway::Throwaway::start(&[]).unwrap();
    let url = server.database("record").unwrap();
    let text = many(60_000);
    place.write("m.txt", &text);
    let import = || {
        let mut command = place.command(&["import", "-", "-f", "graphite", "--head-memory", "0"]);
        command.stdin(std::fs::File::open(place.path("m.txt")).unwrap());
        command.env("TACHOGRAPH_RECORD", &url);
        command
    };
    let mut command = import();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // What was read from the pipe is in the database, except for a piece and the pipe's buffer.
    let (before, after) = text.as_bytes().split_at(text.len() / 2);
    pipe.write_all(before).unwrap();
    server.crash();
    // The import ends without reading the rest.
    let _closed = pipe.write_all(after);
    drop(pipe);
    let ended = support::wait(child, Duration::from_secs(60));
    assert_eq!(ended.status, Some(2), "{}{}", ended.out, ended.err);
    let wanted = "error: standard input: the connection to PostgreSQL at ";
    assert!(ended.err.starts_with(wanted), "{}", ended.err);
    assert!(ended.err.contains("run the same command to resume"), "{}", ended.err);
    let gone = place.finish(import());
    assert_eq!(gone.status, Some(2));
    assert!(gone.err.contains("does not answer"), "{}", gone.err);
    server.resume().unwrap();
    let ended = place.finish(import());
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(ended.out.contains("already imported: "), "{}", ended.out);
    let whole = place.path("whole.sqlite");
    let mut command = import();
    command.env("TACHOGRAPH_RECORD", &whole);
    assert_eq!(place.finish(command).status, Some(0));
    assert_eq!(contents(&place, Path::new(&url)), contents(&place, &whole));
}

/// Imports this text; returns the output and the refused lines.
fn refused(place: &Place, name: &str, text: &[u8], further: &[&str]) -> (Ended, Vec<u8>) {
    std::fs::write(place.path(name), text).unwrap();
    let ended = place.run(&[&["import", name], further].concat());
    let refused_file = std::fs::read(place.path(&format!("{name}.refused"))).unwrap_or_default();
    (ended, refused_file)
}

#[test]
fn every_bad_line_is_refused_with_its_reason_and_kept_in_a_file() {
    let place = Place::new();
    let text = b"good 1 1430701200\nnan nan 1430701200\ninf inf 1430701200\nbad\xff 1 1430701200\n\
        future 1 99999999999\nwords one two\nmany 1 2 3\nold 1 -62135596801\n";
    let (ended, refused_file) = refused(&place, "a.txt", text, &["-f", "graphite"]);
    assert_eq!(ended.status, Some(1), "{}", ended.err);
    let refused_file = String::from_utf8_lossy(&refused_file).into_owned();
    for (line, reason, kept) in [
        (2, "the value is NaN", "nan nan 1430701200"),
        (3, "the value is infinite", "inf inf 1430701200"),
        (4, "the line is not UTF-8", "bad\u{fffd} 1 1430701200"),
        (5, "further in the future", "future 1 99999999999"),
        (6, "the value is not a number", "words one two"),
        (7, "exactly three fields", "many 1 2 3"),
        (8, "further in the past", "old 1 -62135596801"),
    ] {
        let at = refused_file
            .find(&format!("# line {line}: "))
            .unwrap_or_else(|| panic!("{line}: {refused_file}"));
        let mut lines = refused_file[at..].lines();
        assert!(lines.next().unwrap().contains(reason), "{line}: {refused_file}");
        assert_eq!(lines.next(), Some(kept));
    }
    assert!(ended.out.contains("kept in a.txt.refused"), "{}", ended.out);
    assert!(ended.out.lines().all(|line| line.chars().count() <= 80), "{}", ended.out);

    let (ended, _) =
        refused(&place, "c.txt", b"c -5 1430701200\n", &["-f", "graphite", "--kind", "counter"]);
    assert!(ended.out.contains("1 negative_counter"), "{}", ended.out);
    let long = [b"x".repeat(1 << 20), b" 1 1430701200\ngood 2 1430701210\n".to_vec()].concat();
    let (ended, refused_file) = refused(&place, "l.txt", &long, &["-f", "graphite"]);
    assert!(ended.out.contains("1 line_too_long"), "{}", ended.out);
    assert!(ended.out.contains("updates 1"), "{}", ended.out);
    assert_eq!(
        refused_file.len(),
        "# line 1: the line is longer than 65536 bytes\n".len() + (1 << 20) + 14
    );
    let five: String = (0..5).map(|i| format!("s{i} 1 1430701200\n")).collect();
    let limit = ["-f", "graphite", "--max-series", "3"];
    let (ended, refused_file) = refused(&place, "s.txt", five.as_bytes(), &limit);
    assert!(ended.out.contains("2 too_many_series"), "{}", ended.out);
    assert!(
        String::from_utf8_lossy(&refused_file).contains("# line 4: the limit on series is reached")
    );
    let (ended, _) =
        refused(&place, "i.txt", b"i a=1 1\ni b=\"text\" 1\ni,=x a=1 1\n", &["-f", "influx"]);
    assert!(ended.out.contains("1 text_value"), "{}", ended.out);
}

#[test]
fn standard_input_is_a_file_like_any_other() {
    let place = Place::new();
    let text = "sold 0 1430701270\nsold 50 1430701282\nsold x 1430701283\n";
    let import = || {
        let mut command = place.command(&["import", "-", "-f", "graphite", "--head-memory", "0"]);
        command.stdin(std::fs::File::open(place.write("in.txt", text)).unwrap());
        place.finish(command)
    };
    let ended = import();
    assert_eq!(ended.status, Some(1), "{}", ended.err);
    assert!(ended.out.starts_with("standard input\n"), "{}", ended.out);
    assert!(std::fs::read_to_string(place.path("stdin.refused")).unwrap().contains("sold x"));
    let again = import();
    assert_eq!(
        again.status,
        Some(0),
        "what was refused before is not reported again: {}",
        again.out
    );
    assert!(again.out.contains("already imported: 3"), "{}", again.out);
}

#[test]
fn a_secret_in_the_url_is_never_shown_and_runs_are_refused_there() {
    let place = Place::new();
    let url = "postgres://ada:s3cret@127.0.0.1:1/metrics?password=s3cret&connect_timeout=1";
    for args in [
        &["import", "x.csv"][..],
        &["query", "x"],
        &["series"],
        &["list"],
        &["report"],
        &["compare", "true", "false"],
        &["run", "raw-sockets"],
        &["load", "http://127.0.0.1:1/"],
        &["doctor", "raw-sockets"],
        &["doctor"],
    ] {
        let mut command = place.command(args);
        command.env("TACHOGRAPH_RECORD", url);
        let ended = place.finish(command);
        let said = format!("{}{}", ended.out, ended.err);
        assert!(!said.contains("s3cret"), "{args:?}: {said}");
        let refuses = ["report", "compare", "run", "load"].contains(&args[0]);
        assert_eq!(
            said.contains("in a SQLite file, but the record is PostgreSQL"),
            refuses,
            "{args:?}: {said}"
        );
        if refuses {
            assert_eq!(ended.status, Some(2), "{args:?}");
            assert!(said.contains("add --record FILE"), "{said}");
        }
    }
    let other = "mysql://ada:s3cret@db/metrics";
    let mut command = place.command(&["series"]);
    command.env("TACHOGRAPH_RECORD", other);
    let ended = place.finish(command);
    assert_eq!(
        ended.err,
        "error: mysql:// is not supported for the record: use the path of a SQLite file, or \
         postgres://user@host/database\n"
    );
    assert!(!place.path("mysql:").exists());
}

#[test]
fn lines_without_a_time_on_a_clock_that_is_far_ahead_of_the_record_are_imported_with_a_warning() {
    let place = Place::new();
    place.write("old.txt", "m 1 1609459200\nm 2 1609459210\n");
    place.write("now.txt", "m 3 -1\n");
    place.write("again.txt", "m 4 -1\n");
    let import = |file: &str| place.run(&["import", file, "-f", "graphite", "--quiet"]);
    let ended = import("old.txt");
    ended.status(0);
    assert_eq!(ended.err, "");
    let ended = import("now.txt");
    ended.status(0);
    let said = "lines without a time got this machine's time; if its clock is wrong, set it, or";
    assert!(ended.err.contains(said), "{}", ended.err);
    let ended = import("again.txt");
    ended.status(0);
    assert_eq!(ended.err, "", "the record has the time of this clock now");
}
