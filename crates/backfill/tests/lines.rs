//! The same lines twice, in parts, grown, stopped: the store holds them once.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use std::io;

use backfill::{Lines, Options, Refused, Summary, Watch, import};
use ingest::text::{Graphite, Influx, Parser, Reader, Statsd};
use ingest::{Arrival, Precision};
use proptest::prelude::*;
use series::{Accumulator, Kind, Limits, SlotKey, Step};
use slots::{Memory, Retention, Selector, Store};
use tachograph_backfill as backfill;

const NOW_US: i64 = 1_767_225_600_000_000;

/// Keeps refused lines as text, and stops after so many questions.
#[derive(Default)]
struct Watcher {
    aside: Vec<String>,
    stop_after: Option<usize>,
}

impl Watch for Watcher {
    fn refused(&mut self, refused: Refused<'_>) -> io::Result<()> {
        let reasons: Vec<_> = refused.reasons.iter().map(|reason| reason.name()).collect();
        let text = String::from_utf8_lossy(refused.line.bytes);
        let start: String = text.chars().take(40).collect();
        self.aside.push(format!("{} {}: {start}", refused.line.number, reasons.join(" ")));
        Ok(())
    }

    fn stop(&mut self) -> bool {
        match &mut self.stop_after {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }
}

fn step() -> Step {
    Step::from_secs(10).unwrap()
}

fn store() -> Memory {
    let mut store = Memory::new();
    store.retain(&Retention::usual()).unwrap();
    store
}

fn graphite() -> Box<dyn Parser> {
    Box::new(Graphite::new(Kind::Gauge))
}

fn statsd() -> Box<dyn Parser> {
    Box::new(Statsd::new(step()))
}

fn run(store: &mut dyn Store, parser: Box<dyn Parser>, text: &str, watch: &mut Watcher) -> Summary {
    let lines = Lines {
        input: text.as_bytes(),
        reader: Reader::new(parser, Limits::DEFAULT, 1000),
        arrival: Arrival { now_us: NOW_US, at_us: None },
        meaning: "test".to_owned(),
    };
    import(store, lines, &Options::new(step()), watch).unwrap()
}

/// Everything the store has: names, and slots of every step.
fn contents(store: &mut dyn Store) -> Vec<(String, i64, SlotKey, Accumulator)> {
    let series = store.find(&Selector::default()).unwrap();
    let mut all = Vec::new();
    for step in [10, 60, 3600].map(|s| Step::from_secs(s).unwrap()) {
        for one in &series {
            let rows = store.slots(step, &[one.id], i64::MIN, i64::MAX).unwrap();
            // The numbers of series depend on the order of first sight.
            let rows = rows.into_iter().map(|(key, row)| {
                (one.identity.to_string(), step.us(), SlotKey { series: 0, ..key }, row)
            });
            all.extend(rows);
        }
    }
    all
}

fn lines(count: usize) -> String {
    (0..count).map(|i| format!("m{} {} {}\n", i % 7, i % 13, 1_430_701_200 + i)).collect()
}

#[test]
fn the_same_file_twice_changes_nothing() {
    for count in [1, 10, 999, 2_345, 10_000, 12_345] {
        let text = lines(count);
        let (mut store, mut watch) = (store(), Watcher::default());
        let first = run(&mut store, graphite(), &text, &mut watch);
        assert_eq!((first.lines, first.updates, first.known), (count as u64, count as u64, 0));
        let before = contents(&mut store);
        let second = run(&mut store, graphite(), &text, &mut watch);
        assert_eq!((second.updates, second.known), (0, count as u64));
        assert_eq!(contents(&mut store), before);
    }
}

#[test]
fn a_file_that_has_grown_adds_what_is_new() {
    let text = lines(12_500);
    let (mut whole, mut watch) = (store(), Watcher::default());
    run(&mut whole, graphite(), &text, &mut watch);
    let mut grown = store();
    let mut known = 0;
    for count in [3, 57, 1_234, 9_999, 10_000, 10_001, 11_111, 12_500] {
        let summary = run(&mut grown, graphite(), &lines(count), &mut watch);
        assert_eq!(summary.known, known);
        assert_eq!(summary.updates, count as u64 - known);
        known = count as u64;
    }
    assert_eq!(contents(&mut grown), contents(&mut whole));
}

#[test]
fn an_import_that_was_stopped_goes_on() {
    let text = lines(25_000);
    let (mut whole, mut parts) = (store(), store());
    run(&mut whole, graphite(), &text, &mut Watcher::default());
    let mut stops = 0;
    loop {
        let mut watch = Watcher { stop_after: Some(1), ..Watcher::default() };
        if !run(&mut parts, graphite(), &text, &mut watch).stopped {
            break;
        }
        stops += 1;
    }
    assert_eq!(stops, 6, "two blocks and five thousands, each in a run of its own");
    assert_eq!(contents(&mut parts), contents(&mut whole));
}

#[test]
fn another_meaning_of_the_same_lines_is_another_file() {
    let text = "m v=1i 5\n";
    let mut store = store();
    for (meaning, updates) in [("s", 1), ("s", 0), ("ms", 1)] {
        let parser = Influx::new(Kind::Gauge, Precision::parse(meaning).unwrap());
        let lines = Lines {
            input: text.as_bytes(),
            reader: Reader::new(Box::new(parser), Limits::DEFAULT, 10),
            arrival: Arrival { now_us: NOW_US, at_us: None },
            meaning: meaning.to_owned(),
        };
        let options = Options { lateness_us: 600_000_000, ..Options::new(step()) };
        let summary = import(&mut store, lines, &options, &mut Watcher::default()).unwrap();
        assert_eq!(summary.updates, updates, "{meaning}");
    }
}

#[test]
fn what_is_refused_is_kept_aside_whole_with_its_line_number() {
    let long = "x".repeat(1 << 20);
    let text = format!(
        "# a comment\n\na 1 1430701282\na nan 1430701283\nb\n{long}\na 5 1430701282\n\
         a 1 99999999999\na 7 1430600000\na 1 1430701290"
    );
    let (mut store, mut watch) = (store(), Watcher::default());
    let summary = run(&mut store, graphite(), &text, &mut watch);
    let (long, short): (Vec<_>, Vec<_>) = watch.aside.iter().partition(|line| line.contains("xxx"));
    assert_eq!(
        short,
        [
            "4 not_a_number: a nan 1430701283",
            "5 not_three_fields: b",
            "7 same_instant: a 5 1430701282",
            "8 future: a 1 99999999999",
            "9 late: a 7 1430600000",
        ]
    );
    assert_eq!(long.len(), 16, "its parts");
    assert_eq!(long.iter().filter(|line| line.starts_with("6 line_too_long:")).count(), 1);
    assert_eq!((summary.lines, summary.updates, summary.comments), (10, 2, 2));
    assert_eq!((summary.refused_lines, summary.refused.total()), (6, 6));
    assert_eq!(
        summary.refused.to_string(),
        "1 line_too_long, 1 not_three_fields, 1 future, 1 late, 1 same_instant, 1 not_a_number"
    );
}

#[test]
fn one_series_of_two_kinds_is_refused_where_it_differs() {
    let text = "m v=1 5\nm v=2i,_start=0 10\n";
    let (mut store, mut watch) = (store(), Watcher::default());
    let influx = Influx::new(Kind::Gauge, Precision::Seconds);
    let summary = run(&mut store, Box::new(influx), text, &mut watch);
    assert_eq!(summary.updates, 1);
    assert_eq!(watch.aside, ["2 wrong_kind: m v=2i,_start=0 10"]);
}

#[test]
fn counts_beyond_what_a_slot_can_hold_are_refused_and_the_others_stay() {
    let most = (1_i64 << 53) - 2;
    let text = format!("m a={most}i,_start=0 10\nm a=5i,b=2i,_start=0 10\n");
    let (mut store, mut watch) = (store(), Watcher::default());
    let influx = || Box::new(Influx::new(Kind::Gauge, Precision::Seconds));
    let summary = run(&mut store, influx(), &format!("m a={most}i,_start=0 10\n"), &mut watch);
    assert_eq!(summary.updates, 1);
    let summary = run(&mut store, influx(), &text, &mut watch);
    assert_eq!((summary.known, summary.updates), (1, 1));
    assert_eq!(watch.aside, ["2 too_large: m a=5i,b=2i,_start=0 10"]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn windows_that_were_open_at_the_end_are_counted_once_when_the_file_has_grown(
        counts in prop::collection::vec((0_i64..6, 1_i64..100), 1..60),
        cuts in prop::collection::vec(0_usize..60, 0..4),
    ) {
        let mut at_s = 1_430_701_200;
        let mut text = Vec::new();
        let mut total = 0;
        for (wait_s, count) in &counts {
            at_s += wait_s;
            total += count;
            text.push(format!("{at_s} k:{count}|c\n"));
        }
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.push(text.len());
        cuts.sort_unstable();
        let mut store = store();
        for cut in cuts {
            run(&mut store, statsd(), &text[..cut].concat(), &mut Watcher::default());
        }
        let rows = contents(&mut store);
        for step in [10_000_000, 3_600_000_000] {
            let of_step = rows.iter().filter(|(_, us, ..)| *us == step);
            let sum: f64 = of_step.map(|(.., row)| row.integral.as_f64()).sum();
            prop_assert_eq!(sum, total as f64);
        }
    }
}
