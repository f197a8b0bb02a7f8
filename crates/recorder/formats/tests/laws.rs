//! Properties of every text format: no panics, nothing lost silently, and what is written is read.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use std::io::BufReader;

use formats::text::{Columns, Csv, Graphite, Influx, ParsedLine, Parser, Reader, Statsd};
use formats::{Arrival, LINE_MAX, Lines, Precision, SeriesName, UpdateContent};
use proptest::prelude::*;
use series::{Kind, Limits, Point, Reading, Step};

const NOW_US: i64 = 1_767_225_600_000_000;

fn parsers() -> [Box<dyn Parser>; 4] {
    [
        Box::new(Graphite::new(Kind::Gauge)),
        Box::new(Influx::new(Kind::Gauge, Precision::Seconds)),
        Box::new(Statsd::new(Step::from_secs(10).unwrap())),
        Box::new(Csv::new(Columns::default(), "m", None, Precision::Seconds)),
    ]
}

/// Reads a stream; returns the content of each line by its number, and the names.
fn read(parser: Box<dyn Parser>, bytes: &[u8]) -> (Vec<(u64, ParsedLine)>, Vec<SeriesName>) {
    let mut reader = Reader::new(parser, Limits::DEFAULT, 1000);
    let mut lines = Lines::quoted(BufReader::with_capacity(64, bytes), reader.quotes(), true);
    let mut all = Vec::new();
    while let Some(line) = lines.next().unwrap() {
        let number = line.number;
        // An unusable header ends the reading of a CSV file.
        let Ok(parsed) = reader.line(line, Arrival::live(NOW_US)) else { break };
        all.push((number, parsed.clone()));
    }
    all.push((0, reader.flush().clone()));
    let book = reader.book();
    let names = (0..book.len() as u32).map(|n| book.name(formats::Series(n)).clone());
    let names = names.collect();
    (all, names)
}

/// Text similar to lines of these formats, to reach deep parts of the parsers.
fn likely_line() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "m.b",
        ";k=v",
        ",t=v",
        " ",
        "f=1",
        "f=1i",
        ",g=2u",
        "s=\"x\"",
        "=",
        "\\",
        "\\,",
        "\"",
        "1430701282",
        "-1",
        "nan",
        "inf",
        "1e9",
        ":",
        "|c",
        "|g",
        "|ms",
        "|s",
        "|@0.1",
        "|#k:v",
        "|T1",
        "+4",
        "é",
        "\t",
        "_start=1i",
        "_end=",
        ",",
        "start,end,value",
        "#",
        "0,1,5",
        "\u{1}",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Any printable text, including separators. A backslash is followed by a character that it does
/// not escape.
fn name_part() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec!["a", "é", " ", ",", "=", "\"", ".", "\\x", "\\\\x", "#"]);
    prop::collection::vec(piece, 0..8).prop_map(|pieces| format!("m{}", pieces.concat()))
}

fn escaped(text: &str, special: &str) -> String {
    let mut written = String::new();
    for c in text.chars() {
        if special.contains(c) {
            written.push('\\');
        }
        written.push(c);
    }
    written
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for parser in parsers() {
            read(parser, &bytes);
        }
    }

    #[test]
    fn every_line_is_taken_or_has_a_reason(lines in prop::collection::vec(likely_line(), 1..8)) {
        // StatsD holds counts back, and CSV skips empty cells; the others return everything at
        // once.
        for parser in parsers().into_iter().take(2) {
            for (number, parsed) in read(parser, lines.join("\n").as_bytes()).0 {
                let Some(line) = (number as usize).checked_sub(1).map(|at| &lines[at]) else { continue };
                let nothing = parsed.updates.is_empty() && parsed.reasons.is_empty();
                let only_times = line.contains("_start") || line.contains("_end");
                prop_assert!(
                    !nothing || parsed.comment || line.trim_ascii().is_empty() || only_times,
                    "{:?}", line
                );
            }
        }
        for parser in parsers().into_iter().skip(2) {
            read(parser, lines.join("\n").as_bytes());
        }
    }

    #[test]
    fn counts_of_statsd_are_kept_to_the_last(
        lines in prop::collection::vec((0_i64..100, 0_i64..1_000_000, prop::option::of(1_u32..10)), 1..50),
    ) {
        let mut lines = lines;
        lines.sort_unstable();
        let mut text = String::new();
        let mut total = 0.0;
        for (at_s, count, tenths) in &lines {
            let rate = tenths.map_or(1.0, |tenths| f64::from(tenths) / 10.0);
            text += &match tenths {
                Some(_) => format!("{at_s} k:{count}|c|@{rate}\n"),
                None => format!("{at_s} k:{count}|c\n"),
            };
            total += *count as f64 / rate;
        }
        let (parsed, _) = read(Box::new(Statsd::new(Step::from_secs(10).unwrap())), text.as_bytes());
        let windows = parsed.iter().flat_map(|(_, parsed)| &parsed.windows);
        let counted: f64 = windows.filter_map(|windowed| windowed.update).map(|update| match update.what {
            UpdateContent::Interval(interval) => interval.cover().amount.as_f64(),
            UpdateContent::Point(_) => panic!("a count is an interval"),
        }).sum();
        prop_assert!((counted - total).abs() <= 0.5 + total * 1e-12, "{} of {}", counted, total);
    }

    #[test]
    fn graphite_lines_are_read_as_they_were_written(
        path in "[a-z.]{1,20}",
        tags in prop::collection::btree_map("[a-z]{1,5}", "[a-zA-Z0-9=]{1,5}", 0..4),
        value in any::<f64>().prop_filter("levels are limited", |v| v.abs() < 1e200),
        at_us in 0_i64..NOW_US,
    ) {
        let mut line = path.clone();
        for (key, value) in &tags {
            line += &format!(";{key}={value}");
        }
        line += &format!(" {value} {}.{:06}", at_us / 1_000_000, at_us % 1_000_000);
        let (parsed, names) = read(Box::new(Graphite::new(Kind::Gauge)), line.as_bytes());
        prop_assert_eq!(&names, &[SeriesName::new(path, tags, "value").unwrap()]);
        let reading = Reading::Level(value);
        prop_assert_eq!(parsed[0].1.updates[0].1.what, UpdateContent::Point(Point { at_us, reading }));
    }

    #[test]
    fn influx_lines_are_read_as_they_were_written(
        measurement in name_part(),
        tags in prop::collection::btree_map(name_part(), name_part(), 0..4),
        field in name_part(),
        value in any::<i64>(),
        at_us in 0_i64..NOW_US,
    ) {
        // A measurement has no escape for an equals sign, and needs none.
        let measurement = measurement.replace('=', "");
        let mut line = escaped(&measurement, ", ");
        for (key, value) in &tags {
            line += &format!(",{}={}", escaped(key, ", ="), escaped(value, ", ="));
        }
        line += &format!(" {}={value}i {at_us}", escaped(&field, ", ="));
        let influx = Influx::new(Kind::Derive, Precision::Microseconds);
        let (parsed, names) = read(Box::new(influx), line.as_bytes());
        prop_assert_eq!(&parsed[0].1.reasons, &[], "{}", line);
        prop_assert_eq!(&names, &[SeriesName::new(measurement, tags, field).unwrap()]);
        let reading = Reading::Signed(value);
        prop_assert_eq!(parsed[0].1.updates[0].1.what, UpdateContent::Point(Point { at_us, reading }));
    }

    #[test]
    fn lines_put_together_are_the_stream(bytes in prop::collection::vec(prop::sample::select(vec![b'a', b'\n', b'\r']), 0..100), buffer in 1_usize..20) {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, &bytes[..]));
        let mut again: Vec<u8> = Vec::new();
        let mut expected = 0;
        while let Some(line) = lines.next().unwrap() {
            expected += 1;
            prop_assert_eq!(line.number, expected);
            prop_assert!(line.bytes.len() <= LINE_MAX);
            again.extend_from_slice(line.bytes);
            again.push(b'\n');
        }
        let plain = String::from_utf8(bytes).unwrap().replace("\r\n", "\n");
        let plain = plain.strip_suffix('\r').unwrap_or(&plain);
        let again = String::from_utf8(again).unwrap();
        prop_assert_eq!(again.trim_end_matches('\n'), plain.trim_end_matches('\n'));
    }
}
