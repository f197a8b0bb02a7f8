//! `import`, `query` and `series` from the command line.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod support;

use support::Place;

const UPDATES: &str = "sold 0 1430701270\nsold 50 1430701282\nsold 10 1430701288\nsold 30 1430701293\nsold 30 1430701301\n";

fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn what_is_imported_is_queried_with_its_total() {
    let place = Place::new();
    place.write("sold.txt", UPDATES);
    let ended = place.run(&["import", "sold.txt", "--format", "graphite"]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert_eq!(
        ended.out,
        "sold.txt: lines 5, updates 5, series 1, 2015-05-04T01:01:10Z to 2015-05-04T01:01:41Z\n"
    );
    let ended = place.run(&["query", "sold", "--step", "10s", "--format", "csv"]);
    assert_eq!(
        ended.out,
        "series,start,end,rate,total,min,max,covered_s,updates\n\
         sold,2015-05-04T01:01:00Z,2015-05-04T01:01:10Z,,,,,0,1\n\
         sold,2015-05-04T01:01:10Z,2015-05-04T01:01:20Z,50,500,50,50,10,0\n\
         sold,2015-05-04T01:01:20Z,2015-05-04T01:01:30Z,22,220,10,50,10,2\n\
         sold,2015-05-04T01:01:30Z,2015-05-04T01:01:40Z,30,300,30,30,10,1\n\
         sold,2015-05-04T01:01:40Z,2015-05-04T01:01:50Z,,30,30,30,1,1\n"
    );
    let ended = place.run(&["series"]);
    assert_eq!(ended.out, "sold  gauge, every 10 s\n");
}

#[test]
fn the_same_file_again_changes_nothing_compressed_or_grown() {
    let place = Place::new();
    place.write("sold.txt", UPDATES);
    let total = || {
        let ended = place.run(&["query", "sold", "--format", "json"]);
        let json: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        json["series"][0]["total"].as_f64().unwrap()
    };
    assert_eq!(place.run(&["import", "sold.txt", "-f", "graphite"]).status, Some(0));
    assert_eq!(total(), 1050.0);
    std::fs::write(place.path("sold.txt.gz"), gzip(UPDATES)).unwrap();
    let again = place.run(&["import", "sold.txt.gz", "-f", "graphite"]);
    assert_eq!(again.out, "sold.txt.gz: lines 5, updates 0, series 1; there already: 5\n");
    assert_eq!(total(), 1050.0);
    place.write("sold.txt", &format!("{UPDATES}sold 7 1430701311\n"));
    let grown = place.run(&["import", "sold.txt", "-f", "graphite"]);
    assert!(grown.out.contains("lines 6, updates 1, "), "{}", grown.out);
    assert_eq!(total(), 1120.0);
}

#[test]
fn refused_lines_are_shown_and_kept_and_can_be_put_right() {
    let place = Place::new();
    place.write("sold.csv", "start,end,value,shop\n0,10,75,a\n10,20,7.5,a\n20,30,x,b\n");
    let ended = place.run(&["import", "sold.csv"]);
    assert_eq!(ended.status, Some(1));
    assert_eq!(
        ended.out,
        "sold.csv: lines 4, updates 1, series 1, 1970-01-01T00:00:00Z to 1970-01-01T00:00:10Z\n\
         refused in whole or in part: 2 (1 bad_number, 1 fraction), kept aside in sold.csv.refused\n  \
           line 3: 10,20,7.5,a\n    a count must be a whole number; use a level or a rate for fractions\n  \
           line 4: 20,30,x,b\n    the value is not a number as this format writes one\n"
    );
    let kept = std::fs::read_to_string(place.path("sold.csv.refused")).unwrap();
    let right = kept.replace("7.5", "7").replace(",x,", ",8,");
    place.write("right.csv", &right);
    let ended = place.run(&["import", "right.csv", "--measurement", "sold"]);
    assert_eq!(ended.status, Some(0), "{}", ended.out);
    let ended = place.run(&["query", "sold", "--format", "table", "--step", "1h"]);
    assert!(ended.out.contains("sold{shop=a}"), "{}", ended.out);
    assert!(ended.out.contains("total 82\n"), "{}", ended.out);
    assert!(ended.out.contains("total 8\n"), "{}", ended.out);
}

#[test]
fn what_cannot_be_done_says_what_to_do() {
    let place = Place::new();
    for (args, text) in [
        (&["query", "sold"][..], "yet; 'tachograph import' makes one"),
        (
            &["import", "sold.txt"],
            "the name of sold.txt does not say what is in it: give --format graphite, influx, statsd, csv, rrd or whisper",
        ),
        (&["import", "nowhere.csv"], "nowhere.csv: it cannot be read: No such file"),
        (&["import", "x.txt", "--retention", "10s"], "give a step and an age, as 10s:1d"),
        (&["query", "a{b}"], "name series as measurement:field{tag=value,tag=value}"),
    ] {
        let ended = place.run(args);
        assert_eq!(ended.status, Some(2), "{args:?}: {}", ended.out);
        assert!(ended.err.contains(text), "{args:?}: {}", ended.err);
    }
    place.write("bad.wsp", "this is not a whisper file, although it is long enough");
    let ended = place.run(&["import", "bad.wsp"]);
    assert_eq!(ended.status, Some(2));
    assert_eq!(
        ended.err,
        "tachograph: bad.wsp: it is not a whisper file: its aggregation is not known\n"
    );
}

fn rrdtool(place: &Place, args: &str) -> String {
    let output = std::process::Command::new("rrdtool")
        .args(args.split(' '))
        .current_dir(place.dir.path())
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .output()
        .expect("rrdtool is needed: apt install rrdtool");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_rrd_that_was_imported_shows_what_rrdtool_shows() {
    let place = Place::new();
    rrdtool(
        &place,
        "create a.rrd --start 1430701270 --step 10 DS:sold:GAUGE:20:U:U RRA:AVERAGE:0.5:1:50 RRA:MAX:0.5:3:20",
    );
    // The second copy of the file has gone on; its rows are added to those of the first.
    for updates in [
        "1430701282:50 1430701288:10 1430701293:30 1430701301:30",
        "1430701307:7.25 1430701319:U 1430701325:3 1430701331:1e-3 1430701342:8",
    ] {
        rrdtool(&place, &format!("update a.rrd {updates}"));
        place.write("a.xml", &rrdtool(&place, "dump a.rrd"));
        let ended = place.run(&["import", "a.xml", "--rrd"]);
        assert_eq!(ended.status, Some(0), "{}", ended.err);
        for (cf, resolution) in [("AVERAGE", 10), ("MAX", 30)] {
            let times = "--start 1430701200 --end 1430701340";
            let theirs =
                rrdtool(&place, &format!("fetch a.rrd {cf} --resolution {resolution} {times}"));
            let step = format!("{resolution}s");
            let ours = place.run(&[
                "query",
                "a:sold",
                "--rrd",
                "--cf",
                cf,
                "--step",
                &step,
                "--from",
                "1430701200",
                "--until",
                "1430701340",
            ]);
            let rows = |text: &str| -> Vec<String> {
                text.lines().skip(2).map(|row| row.replace("-nan", "nan")).collect()
            };
            assert!(rows(&theirs).len() > 4);
            assert_eq!(rows(&ours.out), rows(&theirs), "{}", ours.err);
        }
    }
}

#[test]
fn an_import_that_is_killed_again_and_again_ends_with_every_line_once() {
    let place = Place::new();
    let lines: String = (0..40_000)
        .map(|i| format!("web.{}.requests {} {}\n", i % 20, i % 977, 1_430_701_200 + i / 20))
        .collect();
    place.write("web.txt", &lines);
    let import = ["import", "web.txt", "--format", "graphite", "--quiet"];
    let contents = |record: &str| {
        let mut query = place.command(&["query", "", "--step", "10s", "--format", "csv"]);
        query.env("TACHOGRAPH_RECORD", place.path(record));
        place.finish(query).out
    };
    let mut whole = place.command(&import);
    whole.env("TACHOGRAPH_RECORD", place.path("whole.sqlite"));
    assert_eq!(place.finish(whole).status, Some(0));
    // Each life is a little longer than the one before, so that the last one is long enough.
    let (mut lives, mut kills) = (0, 0);
    loop {
        let mut command = place.command(&import);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20 + 37 * lives));
        lives += 1;
        if child.try_wait().unwrap().is_none() {
            child.kill().unwrap();
            kills += 1;
            child.wait().unwrap();
        } else if child.wait().unwrap().success() {
            break;
        }
        assert!(lives < 1_000, "it never ends");
    }
    assert!(kills > 0, "it was never killed");
    let expected = contents("whole.sqlite");
    assert!(expected.lines().count() > 1_000);
    assert_eq!(contents("record.sqlite"), expected);
}

#[test]
fn a_postgresql_database_serves_as_well() {
    let place = Place::new();
    let server = slots::throwaway::Throwaway::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let url = server.database("record").unwrap();
    place.write("sold.txt", UPDATES);
    let run = |args: &[&str]| {
        let mut command = place.command(args);
        command.env("TACHOGRAPH_RECORD", &url);
        place.finish(command)
    };
    let ended = run(&["import", "sold.txt", "--format", "graphite"]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let again = run(&["import", "sold.txt", "--format", "graphite"]);
    assert!(again.out.ends_with("there already: 5\n"), "{}", again.out);
    let queried = run(&["query", "sold", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&queried.out).unwrap();
    assert_eq!(json["series"][0]["total"], 1050.0, "{}", queried.err);
    assert_eq!(run(&["series"]).out, "sold  gauge, every 10 s\n");
}
