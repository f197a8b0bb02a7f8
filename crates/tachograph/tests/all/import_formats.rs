//! What an import once got wrong: each case with the command itself, read back by `query`.

use std::time::SystemTime;

use crate::support::{Ended, Place, gzip};

fn import(place: &Place, file: &str, text: impl AsRef<[u8]>, args: &[&str]) -> Ended {
    std::fs::write(place.path(file), text).unwrap();
    place.run(&[&["import", file], args].concat())
}

/// Rows of `query --format csv` without series and end: start, rate, total, min, max, covered, updates.
fn rows(place: &Place, series: &str, step: &str) -> Vec<String> {
    let ended = place.run(&["query", series, "--step", step, "--format", "csv"]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let row = |line: &str| line.splitn(4, ',').nth(3).unwrap().to_owned();
    ended.out.lines().skip(1).map(row).collect()
}

fn total(place: &Place, series: &str) -> f64 {
    let ended = place.run(&["query", series, "--format", "json"]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let json: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    json["series"][0]["total"].as_f64().unwrap()
}

fn series(place: &Place) -> String {
    place.run(&["series"]).out
}

#[test]
fn a_statsd_file_that_grew_after_a_torn_last_line_counted_its_windows_twice() {
    let place = Place::new();
    let torn = import(&place, "s.txt", "1000 a:5|c\n1001 a:7|c\n1012 a:1", &["-f", "statsd"]);
    assert_eq!(torn.status, Some(1), "{}", torn.err);
    assert!(
        torn.out.replace("\n  ", " ").contains(
            "line 3 has no line end and was left for the next import; if the file is complete, add --complete"
        ),
        "{}",
        torn.out
    );
    let grown = import(&place, "s.txt", "1000 a:5|c\n1001 a:7|c\n1012 a:13|c\n", &["-f", "statsd"]);
    assert_eq!(grown.status, Some(0), "{}", grown.err);
    assert_eq!(total(&place, "a:count"), 25.0);
}

#[test]
fn a_csv_file_that_grew_after_a_torn_last_line_counted_it_twice() {
    let place = Place::new();
    import(&place, "c.csv", "start,end,value\n0,10,12", &[]);
    let grown = import(&place, "c.csv", "start,end,value\n0,10,123\n10,20,4", &["--complete"]);
    assert_eq!(grown.status, Some(0), "{}", grown.err);
    assert_eq!(total(&place, "c"), 127.0);
}

#[test]
fn a_statsd_window_that_ends_far_ahead_was_lost() {
    let place = Place::new();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let text = format!("{now} a:5|c\n");
    let ended = import(&place, "s.txt", &text, &["-f", "statsd", "--step", "1d"]);
    assert_eq!(ended.status, Some(0), "{}", ended.out);
    assert_eq!(total(&place, "a:count"), 5.0);
}

#[test]
fn a_statsd_window_that_passed_two_to_the_53_was_lost() {
    let place = Place::new();
    let text = "1000 a:9007199254740000|c\n1001 a:9007199254740000|c\n1002 a:1|c\n";
    let ended = import(&place, "s.txt", text, &["-f", "statsd"]);
    assert_eq!(ended.status, Some(1), "{}", ended.err);
    assert_eq!(total(&place, "a:count"), 9_007_199_254_740_001.0);
    let kept = std::fs::read_to_string(place.path("s.txt.refused")).unwrap();
    assert!(kept.contains("# line 2: ") && kept.ends_with("1001 a:9007199254740000|c\n"), "{kept}");
}

#[test]
fn a_line_that_was_taken_in_part_counted_twice_once_it_was_put_right() {
    let csv: &[&str] = &["--measurement", "m", "--values", "in,out"];
    for (file, args, text, right, counts) in [
        ("s.txt", &["-f", "statsd"][..], "1000 a:1:x:3|c\n", ("x", "2"), &[("a:count", 6.0)][..]),
        (
            "c.csv",
            csv,
            "start,end,in,out\n0,10,5,x\n",
            ("x", "7"),
            &[("m:in", 5.0), ("m:out", 7.0)],
        ),
        (
            "i.txt",
            &["-f", "influx", "--precision", "s"],
            "n a=5i,b=xi,_start=0i 10\n",
            ("x", "7"),
            &[("n:a", 5.0), ("n:b", 7.0)],
        ),
    ] {
        let place = Place::new();
        let ended = import(&place, file, text, args);
        assert_eq!(ended.status, Some(1), "{file}: {}", ended.out);
        assert!(ended.out.contains("updates 0, "), "{file}: {}", ended.out);
        let kept = std::fs::read_to_string(place.path(&format!("{file}.refused"))).unwrap();
        let (_, end) = file.split_at(1);
        let ended = import(&place, &format!("right{end}"), kept.replace(right.0, right.1), args);
        assert_eq!(ended.status, Some(0), "{file}: {}", ended.out);
        for (series, count) in counts {
            assert_eq!(total(&place, series), *count, "{file} {series}");
        }
    }
}

#[test]
fn times_and_sets_of_a_window_that_was_written_twice_were_wrong() {
    let place = Place::new();
    let lines =
        ["1000 t:5|ms\n", "1001 t:1|ms\n1002 t:9|ms\n1003 s:a|s\n", "1645 s:x|s\n1004 s:b|s\n"];
    for until in 1..=3 {
        let ended = import(&place, "s.txt", lines[..until].concat(), &["-f", "statsd"]);
        assert_eq!(ended.status, Some(if until == 3 { 1 } else { 0 }), "{}", ended.out);
    }
    for (series, row) in [
        ("t:n", "0.3,3,0.3,0.3,10,1"),
        ("t:mean", "5,50,5,5,10,1"),
        ("t:min", "1,10,1,1,10,1"),
        ("t:max", "9,90,9,9,10,1"),
        ("t:p50", "5,50,5,5,10,1"),
        ("s:distinct", "1,10,1,1,10,1"),
    ] {
        assert_eq!(rows(&place, series, "10s")[0], row, "{series}");
        let minute = &rows(&place, series, "1m")[0];
        assert_eq!(
            minute.split_once(','),
            row.split_once(',').map(|(_, row)| ("", row)),
            "{series}"
        );
    }
    let kept = std::fs::read_to_string(place.path("s.txt.refused")).unwrap();
    assert!(kept.ends_with("1004 s:b|s\n"), "its window has closed: {kept}");
}

#[test]
fn of_two_points_at_the_same_instant_the_first_one_won() {
    let place = Place::new();
    let text = "a 1 1000\na 5 1010\na 7 1010\na 7 1010\n";
    let ended = import(&place, "g.txt", text, &["-f", "graphite"]);
    assert_eq!(ended.status, Some(0), "{}", ended.out);
    assert_eq!(rows(&place, "a", "10s")[1], "7,70,7,7,10,1");
    let text = "b v=1 1000\nb v=5,v=6 1010\nb v=7 1010\n";
    let ended = import(&place, "i.txt", text, &["-f", "influx", "--precision", "s"]);
    assert_eq!(ended.status, Some(0), "{}", ended.out);
    assert_eq!(rows(&place, "b:v", "10s")[1], "7,70,7,7,10,1");
}

#[test]
fn a_line_end_in_a_quoted_text_made_a_series_of_what_followed_it() {
    let place = Place::new();
    let text = "m v=1,s=\"x\ncpu,h=evil v=100\n\" 1000\nm v=2 1001\n";
    let ended = import(&place, "i.txt", text, &["-f", "influx", "--precision", "s"]);
    assert_eq!(ended.status, Some(0), "{}", ended.out);
    assert!(ended.out.contains("lines 2, updates 2, series 1"), "{}", ended.out);
    assert!(ended.out.contains("text values omitted: 1"), "{}", ended.out);
    let text = "time,value,h,\"a\nb\"\n5,1,\"x\n6,100,evil\",\n7,2,y,\n";
    let ended = import(&place, "c.csv", text, &[]);
    assert!(ended.out.contains("refused: 1 (1 control_character)"), "{}", ended.out);
    let kept = std::fs::read_to_string(place.path("c.csv.refused")).unwrap();
    let right = kept.replace("x\n6,100,evil", "y").replace("5,1,", "8,2,");
    let ended = import(&place, "right.csv", right, &["--measurement", "c"]);
    assert_eq!(ended.status, Some(0), "{}", ended.out);
    assert_eq!(series(&place), "c{h=y}  gauge, every 10 s\nm:v  gauge, every 10 s\n");
}

#[test]
fn what_is_not_line_protocol_was_taken_for_it() {
    let place = Place::new();
    let text = "m a,b=1 0\nm v=42i,fi,f=4\n  #m v=1\n";
    let ended = import(&place, "i.txt", text, &["-f", "influx"]);
    assert!(ended.out.contains("refused: 2 (2 not_line_protocol)"), "{}", ended.out);
    assert!(ended.out.contains("comments and empty lines: 1"), "{}", ended.out);
    assert!(series(&place).starts_with("no series yet"));
}

#[test]
fn an_indented_comment_was_refused() {
    for format in ["graphite", "influx", "statsd"] {
        let ended = import(&Place::new(), "x.txt", " \t# a comment\n", &["-f", format]);
        assert_eq!(ended.status, Some(0), "{format}: {}", ended.out);
    }
}

/// A whisper file of one archive with these values at these times.
fn whisper(points: &[(u32, f64)]) -> Vec<u8> {
    let (step, room) = (10_u32, 20_u32);
    let mut bytes = Vec::new();
    let header = [1, step * room, 0.5_f32.to_bits(), 1, 28, step, room];
    header.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
    let mut ring = vec![(0, 0.0); room as usize];
    for (time, value) in points {
        ring[((time - points[0].0) / step % room) as usize] = (*time, *value);
    }
    for (time, value) in ring {
        bytes.extend(time.to_be_bytes());
        bytes.extend(value.to_bits().to_be_bytes());
    }
    bytes
}

#[test]
fn a_later_whisper_copy_lost_the_slot_that_was_rewritten_and_the_gap_that_was_filled() {
    let place = Place::new();
    let first = [(1_000, 1.0), (1_010, 2.0), (1_030, 4.0)];
    let later = [(1_000, 1.0), (1_010, 9.0), (1_020, 3.0), (1_030, 4.5), (1_040, 5.0)];
    import(&place, "a.wsp", whisper(&first), &[]);
    for (updates, known) in [(4, 1), (0, 5)] {
        let ended = import(&place, "a.wsp", whisper(&later), &[]);
        let totals = format!("lines 5, updates {updates}, series 1\n");
        assert!(ended.out.contains(&totals), "{}", ended.out);
        assert!(ended.out.contains(&format!("already imported: {known}\n")), "{}", ended.out);
        assert_eq!(
            rows(&place, "a", "10s"),
            [
                "1,10,1,1,10,1",
                "9,90,9,9,10,1",
                "3,30,3,3,10,1",
                "4.5,45,4.5,4.5,10,1",
                "5,50,5,5,10,1"
            ]
        );
        assert_eq!(rows(&place, "a", "1m"), [",100,1,9,20,2", "4.166666666666667,125,3,5,30,3"]);
    }
}

#[test]
fn a_count_that_was_partly_taken_back_was_no_longer_shown() {
    let place = Place::new();
    let ended = import(&place, "c.csv", "start,end,value\n0,10,75\n0,10,-3\n", &[]);
    assert_eq!(ended.status, Some(0), "{}", ended.out);
    assert_eq!(rows(&place, "c", "10s"), ["7.2,72,7.5,7.5,10,1"]);
}

#[test]
fn gzip_with_zeros_behind_it_was_refused_and_a_damaged_one_was_taken_by_half() {
    let place = Place::new();
    let text: String = (0..40_000).map(|i| format!("a {} {}\n", i % 97, 1_000 + i)).collect();
    let sound = gzip(text.as_bytes());
    let mut damaged = sound.clone();
    let at = damaged.len() * 3 / 4;
    damaged[at] ^= 4;
    for (bytes, what) in [(&damaged[..], "it is damaged ("), (&sound[..at], "it is damaged (")] {
        let ended = import(&place, "a.gz", bytes, &["-f", "graphite"]);
        assert_eq!(ended.status, Some(2), "{}", ended.out);
        assert!(
            ended.err.contains(what) && ended.err.contains("nothing of it was imported"),
            "{}",
            ended.err
        );
        assert!(series(&place).starts_with("no series yet"));
    }
    let padded = [sound, vec![0; 512]].concat();
    let ended = import(&place, "a.gz", padded, &["-f", "graphite"]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(ended.out.contains("lines 40000, updates 40000, "), "{}", ended.out);
}

#[test]
fn a_gzip_file_beyond_the_limit_was_said_to_be_damaged() {
    let file = gzip(&vec![b'\n'; 3 << 20]);
    let ended = import(&Place::new(), "a.gz", file, &["-f", "graphite", "--max-unpacked", "2MiB"]);
    assert_eq!(ended.status, Some(2), "{}", ended.out);
    let why =
        "it unpacks to more than 2097152 bytes; raise --max-unpacked; nothing of it was imported";
    assert!(ended.err.contains(&format!("a.gz: {why}\n")), "{}", ended.err);
}

#[test]
fn a_gzip_file_that_is_cut_anywhere_and_grows_gives_the_total_of_the_whole() {
    let part = |from: u32| -> String {
        (from..from + 40).map(|i| format!("{},{},{i}\n", i * 10, i * 10 + 10)).collect()
    };
    let first = gzip(format!("start,end,value\n{}", part(0)).as_bytes());
    let whole = [first.clone(), gzip(part(40).as_bytes())].concat();
    let place = Place::new();
    for cut in [5, first.len() / 2, first.len(), first.len() + 9, whole.len() - 1, whole.len()] {
        let ended = import(&place, "c.csv.gz", &whole[..cut], &[]);
        let sound = cut == first.len() || cut == whole.len();
        assert_eq!(
            ended.status,
            Some(if sound { 0 } else { 2 }),
            "{cut}: {}{}",
            ended.out,
            ended.err
        );
        let sum: u32 = if cut < first.len() {
            0
        } else if cut < whole.len() {
            780
        } else {
            3_160
        };
        if sum > 0 {
            assert_eq!(total(&place, "c"), f64::from(sum), "{cut}");
        }
    }
}

#[test]
fn archives_of_predictions_were_left_out_without_a_word() {
    let archive = |cf: &str| {
        format!(
            "<rra><cf>{cf}</cf><pdp_per_row>1</pdp_per_row><params/><cdp_prep/>\
             <database><row><v>1.0</v></row></database></rra>"
        )
    };
    let dump = format!(
        "<rrd><version>0003</version><step>10</step><lastupdate>1430701300</lastupdate>\
         <ds><name>a</name><type>GAUGE</type><minimal_heartbeat>20</minimal_heartbeat></ds>{}{}{}{}</rrd>",
        archive("AVERAGE"),
        archive("HWPREDICT"),
        archive("FAILURES"),
        archive("HWPREDICT"),
    );
    let place = Place::new();
    let ended = import(&place, "a.xml", dump, &[]);
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(
        ended.err.contains("a.xml: omitted 1 archive of FAILURES, 2 archives of HWPREDICT: "),
        "{}",
        ended.err
    );
}

#[test]
fn refused_lines_of_a_file_of_another_format_filled_the_disk() {
    let place = Place::new();
    let text = "no such format\n".repeat(100_000);
    let args = ["-f", "graphite", "--max-refused", "64KiB"];
    let ended = import(&place, "x.gz", gzip(text.as_bytes()), &args);
    assert_eq!(ended.status, Some(2), "{}", ended.out);
    assert!(ended.err.contains("x.gz.refused: it would exceed 64.0 KiB"), "{}", ended.err);
    let size = std::fs::metadata(place.path("x.gz.refused")).unwrap().len();
    assert!(size <= 64 << 10, "{size}");
    let args = ["-f", "graphite", "--max-unpacked", "1MiB"];
    let ended = import(&place, "x.gz", gzip(text.as_bytes()), &args);
    assert!(ended.err.contains("it unpacks to more than 1048576 bytes"), "{}", ended.err);
}
