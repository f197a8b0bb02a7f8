//! `import`, `query` and `series` from the command line.

use crate::support::{Place, gzip};

const UPDATES: &str = "sold 0 1430701270\nsold 50 1430701282\nsold 10 1430701288\nsold 30 1430701293\nsold 30 1430701301\n";

#[test]
fn what_is_imported_is_queried_with_its_total() {
    let place = Place::new();
    place.write("sold.txt", UPDATES);
    let ended = place.run(&["import", "sold.txt", "--format", "graphite"]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert_eq!(
        ended.out,
        "sold.txt\n  lines 5, updates 5, series 1\n  from 2015-05-04T01:01:10Z to 2015-05-04T01:01:41Z\n"
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
    std::fs::write(place.path("sold.txt.gz"), gzip(UPDATES.as_bytes())).unwrap();
    let again = place.run(&["import", "sold.txt.gz", "-f", "graphite"]);
    assert_eq!(
        again.out,
        "sold.txt.gz\n  lines 5, updates 0, series 1\n  lines already imported: 5\n"
    );
    assert_eq!(total(), 1050.0);
    place.write("sold.txt", &format!("{UPDATES}sold 7 1430701311\n"));
    let grown = place.run(&["import", "sold.txt", "-f", "graphite"]);
    assert!(grown.out.contains("lines 6, updates 1, "), "{}", grown.out);
    assert_eq!(total(), 1120.0);
}

#[test]
fn refused_lines_are_shown_and_kept_and_can_be_corrected() {
    let place = Place::new();
    place.write("sold.csv", "start,end,value,shop\n0,10,75,a\n10,20,7.5,a\n20,30,x,b\n");
    let ended = place.run(&["import", "sold.csv"]);
    assert_eq!(ended.status, Some(1));
    assert_eq!(
        ended.out,
        "sold.csv\n  lines 4, updates 1, series 1\n  from 1970-01-01T00:00:00Z to 1970-01-01T00:00:10Z\n  \
           refused: 2 (1 bad_number, 1 fraction)\n    \
             line 3: 10,20,7.5,a\n      a count must be a whole number; use a level or a rate for fractions\n    \
             line 4: 20,30,x,b\n      the value is not a number in this format\n  \
           kept in sold.csv.refused\n"
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
    place.write("sold.txt", "");
    for (args, text) in [
        (&["query", "sold"][..], "yet; 'tachograph import' and every run create it"),
        (
            &["import", "sold.txt"],
            "the format of sold.txt is unknown: add --format graphite, influx, statsd, csv, rrd or whisper",
        ),
        (&["import", "nowhere.csv"], "nowhere.csv: cannot be read: No such file"),
        (&["import", "nowhere"], "nowhere: cannot be read: No such file"),
        (&["import", "x.txt", "--retention", "10s"], "use STEP:AGE, e.g. 10s:1d"),
        (&["query", "a{b}"], "write series as measurement:field{tag=value,tag=value}"),
    ] {
        let ended = place.run(args);
        assert_eq!(ended.status, Some(2), "{args:?}: {}", ended.out);
        assert!(ended.err.contains(text), "{args:?}: {}", ended.err);
    }
    place.write("bad.wsp", "this is not a whisper file, although it is long enough");
    let ended = place.run(&["import", "bad.wsp"]);
    assert_eq!(ended.status, Some(2));
    assert_eq!(ended.err, "error: bad.wsp: it is not a whisper file: its aggregation is unknown\n");
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
    // The second copy of the file has more rows, which are added to those of the first.
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

/// The same updates through rrdtool and through `import --rrd`, and the output of both.
#[test]
fn text_that_is_imported_as_rrdtool_would_keep_it_shows_what_rrdtool_shows() {
    let place = Place::new();
    let archives = ["AVERAGE:0.5:1:40", "MAX:0.3:3:20", "LAST:0.5:6:10"];
    let rras = archives.map(|archive| format!("RRA:{archive}")).join(" ");
    for (kind, values) in [
        ("gauge", &["50", "10", "30", "30", "7.25", "0", "3", "0.001", "8", "1e3"][..]),
        ("counter", &["5", "90", "4294967290", "12", "400", "401", "401", "9000", "9001", "9009"]),
        ("derive", &["5", "90", "88", "12", "400", "401", "407", "-20", "-21", "-9009"]),
        ("absolute", &["5", "90", "0", "12", "400", "401", "7", "9000", "9001", "9009"]),
    ] {
        // The eighth comes after a gap longer than the heartbeat.
        let times = [1282, 1288, 1293, 1301, 1307, 1319, 1325, 1371, 1379, 1400];
        let updates: Vec<(String, &str)> =
            times.iter().map(|at| format!("143070{at}")).zip(values.iter().copied()).collect();
        let source = kind.to_uppercase();
        rrdtool(
            &place,
            &format!(
                "create {kind}.rrd --start 1430701270 --step 10 DS:value:{source}:20:U:U {rras}"
            ),
        );
        let all: Vec<String> = updates.iter().map(|(at, value)| format!("{at}:{value}")).collect();
        rrdtool(&place, &format!("update {kind}.rrd {}", all.join(" ")));
        // In two parts, so that the stored state is continued.
        let lines: Vec<String> =
            updates.iter().map(|(at, value)| format!("{kind} {value} {at}\n")).collect();
        for part in [&lines[..4], &lines[..]] {
            place.write("sold.txt", &part.concat());
            let mut args = vec!["import", "sold.txt", "-f", "graphite", "--kind", kind, "--rrd"];
            args.extend(archives.iter().flat_map(|archive| ["--rra", archive]));
            args.extend(["--rrd-start", "1430701270", "--heartbeat", "20s"]);
            let ended = place.run(&args);
            assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
        }
        for (cf, resolution) in [("AVERAGE", "10"), ("MAX", "30"), ("LAST", "60")] {
            let span = "--start 1430701200 --end 1430701400";
            let theirs =
                rrdtool(&place, &format!("fetch {kind}.rrd {cf} --resolution {resolution} {span}"));
            let step = format!("{resolution}s");
            let mut args = vec!["query", kind, "--rrd", "--cf", cf, "--step", &step];
            args.extend(["--from", "1430701200", "--until", "1430701400"]);
            let ours = place.run(&args);
            let rows = |text: &str| -> Vec<String> {
                text.lines().skip(2).map(|row| row.replace("-nan", "nan")).collect()
            };
            assert!(rows(&theirs).iter().any(|row| !row.contains("nan")), "{kind} {cf}: {theirs}");
            assert_eq!(rows(&ours.out), rows(&theirs), "{kind} {cf}: {}", ours.err);
        }
    }
}

#[test]
fn a_series_keeps_the_mode_that_it_was_made_in() {
    let place = Place::new();
    place.write("sold.txt", UPDATES);
    place.write("late.txt", "made 1 1430701290\nmade 2 1430701280\n");
    let import = |file: &str, further: &[&str]| {
        place.run(&[&["import", file, "-f", "graphite"], further].concat())
    };
    assert_eq!(import("sold.txt", &[]).status, Some(0));
    let ended = import("sold.txt", &["--rrd"]);
    assert_eq!(ended.status, Some(2), "{}", ended.out);
    assert_eq!(
        ended.err,
        "error: sold.txt: sold exists without RRDtool's state: omit --rrd, or import under \
         another name\n"
    );
    let ended = place.run(&["query", "", "--rrd", "--format", "csv"]);
    ended.status(2).says("error: --rrd has the format of rrdtool fetch: omit --format, or omit");
    let ended = import("late.txt", &["--rrd"]);
    assert!(ended.out.contains("refused: 1 (1 not_after)"), "{}", ended.out);
    place.write("more.txt", "made 3 1430701300\n");
    let ended = import("more.txt", &[]);
    assert_eq!(
        ended.err,
        "error: more.txt: made was created with --rrd: add --rrd, or import under another name\n"
    );
    assert_eq!(place.run(&["series", "made"]).out, "made  gauge, every 10 s, as rrdtool\n");
    place.write("i.csv", "start,end,value\n0,10,75\n");
    let ended = place.run(&["import", "i.csv", "--rrd"]);
    assert!(ended.err.contains("i has intervals, which rrdtool does not support"), "{}", ended.err);
    let ended = place.run(&["import", "x.wsp", "--rrd"]);
    assert!(ended.err.contains("omit --rrd"), "{}", ended.err);
}

#[test]
fn a_postgresql_database_serves_as_well() {
    let place = Place::new();
    let server = throwaway::Throwaway::start(&[]).unwrap_or_else(|error| panic!("{error}"));
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
    assert!(again.out.ends_with("already imported: 5\n"), "{}", again.out);
    let queried = run(&["query", "sold", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&queried.out).unwrap();
    assert_eq!(json["series"][0]["total"], 1050.0, "{}", queried.err);
    assert_eq!(run(&["series"]).out, "sold  gauge, every 10 s\n");
}
