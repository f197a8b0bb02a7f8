use std::collections::BTreeMap;

use super::super::tests::{read, read_at};
use super::*;
use crate::text::{Reader, WindowResult};

fn statsd() -> Statsd {
    Statsd::new(Step::from_secs(10).unwrap())
}

fn at(text: &str) -> String {
    let arrival = Arrival { now_us: 1_767_225_600_000_000, at_us: Some(1_430_701_282_000_000) };
    read_at(statsd(), text, arrival).join(", ")
}

#[test]
fn metrics_of_the_documentation() {
    for (text, shown) in [
        ("gorets:1|c", "gorets:count Count 1 1430701280..1430701290"),
        ("gorets:1|c|@0.1", "gorets:count Count 10 1430701280..1430701290"),
        ("gorets:1|c:2|c|@0.5:3|c", "gorets:count Count 8 1430701280..1430701290"),
        ("gaugor:333|g", "gaugor Gauge 333 @1430701282"),
        (
            "gaugor:333|g\ngaugor:-10|g\ngaugor:+4|g",
            "gaugor Gauge 333 @1430701282, gaugor Gauge 323 @1430701282, \
             gaugor Gauge 327 @1430701282",
        ),
        ("fresh:+4|g", "fresh Gauge 4 @1430701282"),
        (
            "uniques:765|s\nuniques:765|s\nuniques:1|s",
            "uniques:distinct Level 2 1430701280..1430701290",
        ),
        (
            "page.views:1:2:32|d|#env:dev,new|c:ci-83",
            "page.views:n{env=dev,new=true} Count 3 1430701280..1430701290, \
             page.views:mean{env=dev,new=true} Level 11.666666666666666 1430701280..1430701290, \
             page.views:min{env=dev,new=true} Level 1 1430701280..1430701290, \
             page.views:max{env=dev,new=true} Level 32 1430701280..1430701290, \
             page.views:p50{env=dev,new=true} Level 2 1430701280..1430701290, \
             page.views:p90{env=dev,new=true} Level 32 1430701280..1430701290, \
             page.views:p99{env=dev,new=true} Level 32 1430701280..1430701290",
        ),
        (
            "page.views:15|c|#env:dev|T1430701299",
            "page.views:count{env=dev} Count 15 1430701290..1430701300",
        ),
        ("hits;zone=b:2|c|#host:a", "hits:count{host=a,zone=b} Count 2 1430701280..1430701290"),
        ("1430701305.25 hits:2|c", "hits:count Count 2 1430701300..1430701310"),
    ] {
        assert_eq!(at(text), shown, "{text}");
    }
}

#[test]
fn malformed_lines_have_their_reason() {
    for (text, shown) in [
        ("gorets", "! not_statsd"),
        ("gorets:1", "! not_statsd"),
        ("gorets:|c", "! no_value"),
        (":1|c", "! empty_name"),
        ("gorets:1|x", "! unknown_type"),
        ("_e{5,4}:title|text", "! not_a_metric"),
        ("_sc|web|0|m:fine", "! not_a_metric"),
        ("gorets:one|c", "! bad_number"),
        ("gorets:-1|c", "! negative_counter"),
        ("gorets:nan|c", "! not_a_number"),
        ("gorets:inf|g", "! infinite"),
        ("gorets:1e300|c", "! too_large"),
        ("gorets:1|c|@0", "! bad_rate"),
        ("gorets:1|c|@1.5", "! bad_rate"),
        ("gorets:1|c|@nan", "! bad_rate"),
        ("gorets:1|c|what", "! not_statsd"),
        ("gorets:1|c|Tnow", "! bad_time"),
        ("gorets:1|c|#a:1,a:2", "! duplicate_tag"),
    ] {
        assert_eq!(at(text), shown, "{text}");
    }
    assert_eq!(read(statsd(), "gorets:1|c"), ["! no_time"]);
}

#[test]
fn a_line_with_one_bad_value_is_refused_whole() {
    assert_eq!(at("a:1:x:2|c"), "! bad_number");
    assert_eq!(at("a:1:|c"), "! no_value");
    assert_eq!(at("a:1|c:2|c|@7"), "! bad_rate");
    assert_eq!(at("a:1|c:2|g"), "! mixed_types");
    assert_eq!(
        at("a:1:9007199254740992|c\na:3|c"),
        "! too_large, a:count Count 3 1430701280..1430701290"
    );
    assert_eq!(at("a:+1e200:+1e200|g\na:+1|g"), "! too_large, a Gauge 1 @1430701282");
}

#[test]
fn counts_are_whole_and_fractions_are_owed_to_the_next_window() {
    // A rate of 0.3 makes 3.33 of each: after three windows, 10.
    let lines = "0 a:1|c|@0.3\n10 a:1|c|@0.3\n20 a:1|c|@0.3";
    assert_eq!(
        read(statsd(), lines),
        ["a:count Count 3 0..10", "a:count Count 4 10..20", "a:count Count 3 20..30"]
    );
    let tenth = "0 a:0.1|c\n".repeat(10);
    assert_eq!(read(statsd(), &tenth), ["a:count Count 1 0..10"]);
}

#[test]
fn windows_close_as_time_passes() {
    let lines = "5 a:1|c\n15 a:2|c\n9 a:4|c\n31 a:8|c\n45 a:16|c";
    assert_eq!(
        read(statsd(), lines),
        [
            "a:count Count 5 0..10",
            "a:count Count 2 10..20",
            "a:count Count 8 30..40",
            "a:count Count 16 40..50"
        ]
    );
}

#[test]
fn a_line_from_the_far_future_closes_no_window() {
    let lines = "5 a:1|c\n99999999999 a:1|c\n6 a:2|c";
    assert_eq!(read(statsd(), lines), ["! future", "a:count Count 3 0..10"]);
}

#[test]
fn the_window_of_a_line_may_end_beyond_the_horizon() {
    let arrival = Arrival { now_us: 1_000_000_000, at_us: None };
    let hours = || Statsd::new(Step::from_secs(3_600).unwrap());
    assert_eq!(read_at(hours(), "1600 a:1|c", arrival), ["a:count Count 1 0..3600"]);
    assert_eq!(read_at(hours(), "1601 a:1|c", arrival), ["! future"]);
}

#[test]
fn a_count_that_passes_what_a_slot_holds_is_refused_with_its_line() {
    let lines = "5 a:9007199254740000|c\n6 a:9007199254740000|c\n7 a:1|c";
    assert_eq!(read(statsd(), lines), ["! too_large", "a:count Count 9007199254740001 0..10"]);
}

#[test]
fn lines_of_very_many_windows_do_not_fill_the_memory() {
    let mut lines = String::new();
    lines.extend((0..3_000).map(|i| format!("{} a:1|c\n", i * 10)));
    let mut reader = Reader::new(Box::new(statsd()), series::Limits::DEFAULT, 10);
    let mut stream = crate::Lines::new(lines.as_bytes());
    let mut closed = 0;
    while let Some(line) = stream.next().unwrap() {
        let arrival = Arrival { now_us: i64::MAX / 2, at_us: None };
        closed += reader.line(line, arrival).unwrap().windows.len();
    }
    assert_eq!((closed, reader.flush().windows.len()), (2_937, 63));
}

#[test]
fn a_line_whose_window_has_closed_is_refused() {
    let lines = "5 a:1|c\n635 a:2|c\n5 a:4|c\n15 a:8|c";
    assert_eq!(
        read(statsd(), lines),
        [
            "a:count Count 1 0..10",
            "! window_closed",
            "a:count Count 8 10..20",
            "a:count Count 2 630..640"
        ]
    );
}

#[test]
fn what_was_given_out_of_an_open_window_is_taken_back_for_what_it_holds_in_the_end() {
    let mut reader = Reader::new(Box::new(statsd()), series::Limits::DEFAULT, 100);
    let arrival = Arrival { now_us: i64::MAX / 2, at_us: None };
    let mut line = |text: &str| {
        let mut lines = crate::Lines::new(text.as_bytes());
        let line = lines.next().unwrap().unwrap();
        reader.line(line, arrival).unwrap();
        let counts = |update: Option<crate::Update>| match update?.what {
            crate::UpdateContent::Interval(interval) => Some(interval.cover().amount.as_f64()),
            crate::UpdateContent::Point(_) => None,
        };
        let windows = reader.flush().windows.clone();
        let given = windows.iter().map(|w| (counts(w.instead), counts(w.update)));
        given.collect::<Vec<_>>()
    };
    assert_eq!(line("5 a:1|c|@0.3"), [(None, Some(3.0))]);
    assert_eq!(line("6 a:1|c|@0.3"), [(Some(3.0), Some(7.0))]);
    assert_eq!(line("15 b:1|s"), [(None, Some(1.0))]);
    assert_eq!(line("15 b:1|s"), []);
    assert_eq!(line("16 b:2|s"), [(Some(1.0), Some(2.0))]);
    let timed = line("16 c:5|ms");
    assert_eq!(timed.len(), 7);
    assert_eq!(line("16 c:5|ms"), [(Some(1.0), Some(2.0))], "five twice is five");
}

#[test]
fn sampled_times_weigh_as_what_they_stand_for() {
    let shown = at("t:10|ms|@0.1\nt:100|ms");
    assert!(shown.starts_with("t:n Count 11 "), "{shown}");
    assert!(shown.contains("t:p50 Level 10 "), "{shown}");
    assert!(shown.contains("t:p99 Level 100 "), "{shown}");
}

/// Lines at a daemon: each with its arrival in seconds.
fn live(lines: &[(i64, &str)]) -> Vec<String> {
    let mut reader = Reader::new(
        Box::new(Statsd::live(Step::from_secs(10).unwrap())),
        series::Limits { earliest_us: i64::MIN / 4, ..series::Limits::DEFAULT },
        100,
    );
    let mut shown = Vec::new();
    let mut show = |parsed: &ParsedLine| {
        shown.extend(parsed.reasons.iter().map(|reason| format!("! {}", reason.name())));
        for windowed in &parsed.windows {
            let count = |update: crate::Update| match update.what {
                crate::UpdateContent::Interval(interval) => interval.cover().amount.as_f64(),
                crate::UpdateContent::Point(_) => f64::NAN,
            };
            let (from, _) = windowed.update.unwrap().times_us();
            let (update, instead) = (windowed.update.map(count), windowed.instead.map(count));
            shown.push(format!("{} {:?} {:?}", from / 1_000_000, update.unwrap(), instead));
        }
    };
    for (position, (at, text)) in (1..).zip(lines) {
        let arrival = Arrival::live(at * 1_000_000);
        let (windows, _) = reader.windows().unwrap();
        windows.mark(position);
        show(reader.pass(arrival.now_us));
        let mut stream = crate::Lines::new(text.as_bytes());
        while let Some(line) = stream.next().unwrap() {
            show(reader.line(line, arrival).unwrap());
        }
    }
    shown
}

#[test]
fn at_a_daemon_a_window_closes_once_the_one_after_it_is_over() {
    assert_eq!(live(&[(5, "a:1|c"), (12, "a:2|c"), (19, "a:4|c")]), Vec::<String>::new());
    assert_eq!(live(&[(5, "a:1|c"), (6, "a:2|c"), (20, "")]), ["0 3.0 None"]);
    // The clock was set back: the line counts in the oldest window that is open.
    assert_eq!(
        live(&[(5, "a:1|c"), (25, "a:2|c"), (3, "a:4|c"), (40, "")]),
        ["0 1.0 None", "10 4.0 None", "20 2.0 None"]
    );
}

#[test]
fn a_clock_that_is_set_right_after_a_year_leaves_no_window_in_that_year() {
    let year = 365 * 86_400;
    // What arrived at the wrong time stays there, and what follows is at the right one.
    assert_eq!(
        live(&[
            (5, "a:1|c"),
            (year + 5, "a:2|c"),
            (year + 9, "a:4|c"),
            (100, "a:8|c"),
            (111, "a:16|c"),
            (130, "")
        ]),
        ["0 1.0 None", "31536000 6.0 None", "100 8.0 None", "110 16.0 None"]
    );
    // A message that was delayed is no wrong clock: it counts in the oldest open window.
    assert_eq!(live(&[(105, "a:1|c"), (55, "a:2|c"), (119, "a:4|c")]), ["90 2.0 None"]);
}

#[test]
fn windows_that_are_cut_go_on_in_the_same_time() {
    let mut reader = Reader::new(
        Box::new(Statsd::live(Step::from_secs(10).unwrap())),
        series::Limits { earliest_us: i64::MIN / 4, ..series::Limits::DEFAULT },
        100,
    );
    let mut counted = 0.0;
    for (position, text) in (1..).zip(["a:1|c|@0.4", "a:2|c|@0.4", "a:4|c|@0.4"]) {
        reader.windows().unwrap().0.mark(position);
        let line = crate::Line {
            number: 1,
            bytes: text.as_bytes(),
            too_long: false,
            first: true,
            last: true,
            torn: false,
        };
        reader.line(line, Arrival::live(5_000_000)).unwrap();
        assert_eq!(reader.windows().unwrap().0.first(), Some(position), "only its own lines count");
        for windowed in reader.cut().windows.clone() {
            assert_eq!(windowed.instead, None);
            let crate::UpdateContent::Interval(interval) = windowed.update.unwrap().what else {
                panic!("a count is an interval")
            };
            assert_eq!(interval.cover().span.start_us(), 0);
            counted += interval.cover().amount.as_f64();
        }
        assert_eq!(reader.windows().unwrap().0.first(), None);
    }
    // 7 ÷ 0.4 is 17.5, of which half a count is owed to the next window.
    assert!((17.0..=18.0).contains(&counted), "{counted}");
}

#[test]
fn times_at_a_daemon_are_those_of_open_windows() {
    assert_eq!(
        live(&[(5, "a:1|c"), (15, "a:2|c|T6"), (20, "a:2|c|T9"), (20, "a:2|c|T30")]),
        ["0 3.0 None", "! window_closed", "! future"]
    );
    // A time before a line is one of a file.
    assert_eq!(live(&[(5, "4 a:1|c"), (20, "")]), ["0 1.0 None"]);
    assert_eq!(live(&[(5, "a:1099511627776|c"), (5, "a:1|ms|@1e-13")]), ["! too_large"; 2]);
}

#[test]
fn the_windows_of_a_daemon_are_rebuilt_from_their_messages() {
    let reader = || {
        let parser = Box::new(Statsd::live(Step::from_secs(10).unwrap()));
        let earliest_us = i64::MIN / 4;
        Reader::new(parser, series::Limits { earliest_us, ..series::Limits::DEFAULT }, 100)
    };
    let read = |reader: &mut Reader, position: u64, at: i64, text: &str| {
        reader.windows().unwrap().0.mark(position);
        let mut given = reader.pass(at * 1_000_000).windows.clone();
        let line = crate::Line {
            number: 1,
            bytes: text.as_bytes(),
            too_long: false,
            first: true,
            last: true,
            torn: false,
        };
        given.extend(reader.line(line, Arrival::live(at * 1_000_000)).unwrap().windows.clone());
        given
    };
    let messages =
        [(5, "a:1|c|@0.3"), (9, "b:1|c|@0.3"), (12, "a:1|c|@0.3"), (21, "a:1|c|@0.3:7|ms")];
    let mut first = reader();
    for (position, (at, text)) in (1..).zip(messages) {
        read(&mut first, position, at, text);
    }
    first.flush();
    let (windows, book) = first.windows().unwrap();
    let names: Vec<_> = (0..book.len()).map(|i| book.name(Series(i as u32)).clone()).collect();
    let carried = windows.carried(5, usize::MAX, |_| 1);
    assert_eq!((carried.from, carried.closed_us), (3, -10_000_000));
    let mut second = reader();
    let (windows, book) = second.windows().unwrap();
    for name in names {
        book.number(name).unwrap();
    }
    windows.go_back(&carried);
    for (position, (at, text)) in (1..).zip(messages).skip(2) {
        read(&mut second, position, at, text);
    }
    second.windows().unwrap().0.owe(carried.owed);
    second.flush();
    let last = [(25, "a:1|c|@0.3"), (32, "a:2|c|@0.7"), (60, "a:1|c")];
    for (position, (at, text)) in (5..).zip(last) {
        let (ours, theirs) =
            (read(&mut second, position, at, text), read(&mut first, position, at, text));
        assert_eq!(ours, theirs, "{text}");
    }
}

#[test]
fn what_is_emitted_at_any_moment_is_what_one_who_reads_all_at_once_emits() {
    let reader = || {
        let parser = Box::new(Statsd::live(Step::from_secs(10).unwrap()));
        let earliest_us = i64::MIN / 4;
        Reader::new(parser, series::Limits { earliest_us, ..series::Limits::DEFAULT }, 100)
    };
    // A generator of Knuth (MMIX); fractions of counts go from window to window.
    let mut state = 25_u64;
    let mut draw = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut flushed, mut lines) = (reader(), Vec::new());
    let mut total: BTreeMap<(Series, i64), Update> = BTreeMap::new();
    for second in 0..400_i64 {
        for _ in 0..draw(3) {
            // Also for the window before.
            let at = second - draw(10) as i64;
            let kind = ["c", "ms"][draw(2) as usize];
            let name = ["a", "b", "d"][draw(3) as usize];
            lines.push((second, format!("{name}.{kind}:{}|{kind}|@0.3|T{at}", 1 + draw(9))));
        }
        let from = lines.partition_point(|(at, _)| *at < second);
        let mut given = Vec::new();
        for (at, text) in &lines[from..] {
            given.extend(given_by(&mut flushed, *at, text));
        }
        if draw(4) == 0 {
            flushed.flush();
            given.extend(flushed.take_windows());
            for windowed in given.drain(..) {
                put(&mut total, windowed);
            }
            let (mut whole, mut expected) = (reader(), BTreeMap::new());
            for (at, text) in &lines {
                for windowed in given_by(&mut whole, *at, text) {
                    put(&mut expected, windowed);
                }
            }
            whole.flush();
            for windowed in whole.take_windows() {
                put(&mut expected, windowed);
            }
            assert_eq!(total, expected, "after {second} s");
        }
        for windowed in given {
            put(&mut total, windowed);
        }
    }
    assert!(total.len() > 100, "{}", total.len());
}

#[test]
fn a_window_that_closes_may_leave_another_fraction_to_one_that_has_not_changed() {
    let parser = Box::new(Statsd::live(Step::from_secs(10).unwrap()));
    let limits = series::Limits { earliest_us: i64::MIN / 4, ..series::Limits::DEFAULT };
    let mut reader = Reader::new(parser, limits, 100);
    let mut total = BTreeMap::new();
    let mut after = |lines: [(i64, &str); 2]| {
        let given = lines.iter().flat_map(|(at, text)| given_by(&mut reader, *at, text));
        given.collect::<Vec<_>>().into_iter().for_each(|windowed| put(&mut total, windowed));
        reader.flush();
        reader.take_windows().into_iter().for_each(|windowed| put(&mut total, windowed));
        let counts = total.iter().filter(|((series, _), _)| *series == Series(0));
        counts.map(|(_, update)| amount(*update)).collect::<Vec<f64>>()
    };
    assert_eq!(after([(5, "a:1|c|@0.3"), (15, "a:1|c|@0.3")]), [3.0, 4.0]);
    assert_eq!(after([(16, "a:1|c|@0.3|T6"), (25, "b:1|c")]), [7.0, 3.0]);
}

fn amount(update: Update) -> f64 {
    match update.what {
        crate::UpdateContent::Interval(interval) => interval.cover().amount.as_f64(),
        crate::UpdateContent::Point(point) => point.reading.as_f64(),
    }
}

/// The results of windows that a line closes at a second.
fn given_by(reader: &mut Reader, second: i64, text: &str) -> Vec<WindowResult> {
    let arrival = Arrival::live(second * 1_000_000);
    reader.pass(second * 1_000_000);
    let mut given = reader.take_windows();
    let (number, too_long, first, last, torn) = (1, false, true, true, false);
    let bytes = text.as_bytes();
    reader.line(crate::Line { number, bytes, too_long, first, last, torn }, arrival).unwrap();
    given.extend(reader.take_windows());
    given
}

/// Puts the result of a window in the place of its earlier one.
fn put(total: &mut BTreeMap<(Series, i64), Update>, windowed: WindowResult) {
    let start_us = |update: Update| update.times_us().0;
    if let Some(instead) = windowed.instead {
        let known = total.remove(&(windowed.series, start_us(instead)));
        assert_eq!(known, Some(instead), "it takes back what was emitted");
    }
    if let Some(update) = windowed.update {
        total.insert((windowed.series, start_us(update)), update);
    }
}
