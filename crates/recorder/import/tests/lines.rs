//! The same lines twice, in parts, grown, interrupted: the store has them once.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use std::io;

use formats::text::{Columns, Csv, Graphite, Influx, Parser, Reader, Statsd};
use formats::{Arrival, Precision};
use import::{
    BackfillError, HEAD_BYTES, LineStream, Options, RefusedLine, RrdMode, Summary, Watch, import,
};
use proptest::prelude::*;
use series::{Accumulator, Kind, Limits, SlotKey, Step, rrd};
use store::{Memory, Retention, Selector, Store, StoreError};

const NOW_US: i64 = 1_767_225_600_000_000;

/// Stores refused lines as text, and stops after this many calls.
#[derive(Default)]
struct Watcher {
    kept: Vec<String>,
    /// The same complete, as a file to import.
    whole: String,
    stop_after: Option<usize>,
}

impl Watch for Watcher {
    fn refused(&mut self, refused: RefusedLine<'_>) -> io::Result<()> {
        let reasons: Vec<_> = refused.reasons.iter().map(|reason| reason.name()).collect();
        let text = String::from_utf8_lossy(refused.line.bytes);
        self.whole.push_str(&text);
        self.whole.push('\n');
        let start: String = text.chars().take(40).collect();
        self.kept.push(format!("{} {}: {start}", refused.line.number, reasons.join(" ")));
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
    run_at(store, parser, text, watch, NOW_US)
}

fn run_at(
    store: &mut dyn Store,
    parser: Box<dyn Parser>,
    text: &str,
    watch: &mut Watcher,
    now_us: i64,
) -> Summary {
    try_run(store, parser, text, watch, now_us, HEAD_BYTES).unwrap()
}

fn try_run(
    store: &mut dyn Store,
    parser: Box<dyn Parser>,
    text: &str,
    watch: &mut Watcher,
    now_us: i64,
    head_bytes: usize,
) -> Result<Summary, BackfillError> {
    let lines = LineStream {
        input: text.as_bytes(),
        reader: Reader::new(parser, Limits::DEFAULT, 1000),
        arrival: Arrival { now_us, at_us: None },
        meaning: "test".to_owned(),
    };
    import(store, lines, &Options { head_bytes, ..Options::new(step()) }, watch)
}

/// The content of the store: names, and slots of every step.
fn contents(store: &mut dyn Store) -> Vec<(String, i64, SlotKey, Accumulator)> {
    let series = store.find(&Selector::default()).unwrap();
    let mut all = Vec::new();
    for step in [10, 60, 3600].map(|s| Step::from_secs(s).unwrap()) {
        for one in &series {
            let rows = store.slots(step, &[one.id], i64::MIN, i64::MAX).unwrap();
            // Numbers of series depend on the order of first appearance.
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
        let lines = LineStream {
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
         a 1 99999999999\na 7 1430600000\na 1 1430701290\n"
    );
    let (mut store, mut watch) = (store(), Watcher::default());
    let summary = run(&mut store, graphite(), &text, &mut watch);
    let (long, short): (Vec<_>, Vec<_>) = watch.kept.iter().partition(|line| line.contains("xxx"));
    assert_eq!(
        short,
        [
            "4 not_a_number: a nan 1430701283",
            "5 not_three_fields: b",
            "8 future: a 1 99999999999",
            "9 late: a 7 1430600000",
        ]
    );
    assert_eq!(long.len(), 16, "its parts");
    assert_eq!(long.iter().filter(|line| line.starts_with("6 line_too_long:")).count(), 1);
    assert_eq!((summary.lines, summary.updates, summary.comments), (10, 3, 2));
    assert_eq!((summary.refused_lines, summary.refused.total()), (5, 5));
    assert_eq!(
        summary.refused.to_string(),
        "1 line_too_long, 1 not_three_fields, 1 future, 1 late, 1 not_a_number"
    );
}

#[test]
fn one_series_of_two_kinds_is_refused_where_it_differs() {
    let text = "m v=1 5\nm v=2i,_start=0 10\n";
    let (mut store, mut watch) = (store(), Watcher::default());
    let influx = Influx::new(Kind::Gauge, Precision::Seconds);
    let summary = run(&mut store, Box::new(influx), text, &mut watch);
    assert_eq!(summary.updates, 1);
    assert_eq!(watch.kept, ["2 wrong_kind: m v=2i,_start=0 10"]);
}

#[test]
fn counts_beyond_what_a_slot_can_hold_are_refused_and_the_others_stay() {
    let most = (1_i64 << 53) - 2;
    let text = format!("m a={most}i,_start=0 10\nm a=5i,b=2i,_start=0 10\n");
    let (mut store, mut watch) = (store(), Watcher::default());
    let influx = || Box::new(Influx::new(Kind::Gauge, Precision::Seconds));
    let summary = run(&mut store, influx(), &format!("m a={most}i,_start=0 10\n"), &mut watch);
    assert_eq!(summary.updates, 1);
    // In a batch of many pieces it is unknown which lines to refuse; in a single piece it is known.
    let before = contents(&mut store);
    let error = try_run(&mut store, influx(), &text, &mut watch, NOW_US, HEAD_BYTES).unwrap_err();
    assert!(matches!(error, BackfillError::Store(StoreError::Overflow { .. })), "{error}");
    assert_eq!((contents(&mut store), watch.kept.len()), (before, 0));
    let summary = try_run(&mut store, influx(), &text, &mut watch, NOW_US, 0).unwrap();
    assert_eq!((summary.known, summary.updates), (1, 0), "a line is taken whole or refused whole");
    assert_eq!(watch.kept, ["2 too_large: m a=5i,b=2i,_start=0 10"]);
}

/// A format with lines generated from numbers.
#[derive(Clone, Copy, Debug)]
struct Format {
    name: &'static str,
}

const FORMATS: [Format; 6] = [
    Format { name: "graphite" },
    Format { name: "graphite counters" },
    Format { name: "influx" },
    Format { name: "statsd" },
    Format { name: "csv" },
    Format { name: "csv points" },
];

impl Format {
    fn parser(self) -> Box<dyn Parser> {
        match self.name {
            "graphite" => graphite(),
            "graphite counters" => Box::new(Graphite::new(Kind::Counter)),
            "influx" => Box::new(Influx::new(Kind::Gauge, Precision::Seconds)),
            "statsd" => statsd(),
            _ => {
                let values = vec!["in".to_owned(), "out".to_owned()];
                let columns = Columns { values, ..Columns::default() };
                Box::new(Csv::new(columns, "m", None, Precision::Seconds))
            }
        }
    }

    fn header(self) -> String {
        match self.name {
            "csv" => "start,end,in,out,host\n".to_owned(),
            "csv points" => "time,in,out,host\n".to_owned(),
            _ => String::new(),
        }
    }

    fn text(self, seeds: &[u32], bad: bool) -> String {
        self.header() + &self.lines(seeds, bad).concat()
    }

    /// A line for each number; an `x` makes it invalid.
    fn lines(self, seeds: &[u32], bad: bool) -> Vec<String> {
        let mut at_s = 1_430_701_200;
        let line = |seed: &u32| {
            let seed = *seed as usize;
            at_s += 1 + seed % 6;
            let (a, b) = (seed / 7 % 100, seed / 700 % 100);
            let b = if bad && seed.is_multiple_of(5) { "x".to_owned() } else { b.to_string() };
            let end = if seed.is_multiple_of(3) { "\r\n" } else { "\n" };
            let line = match (self.name, seed % 4) {
                (_, 0) if seed.is_multiple_of(11) => "# é, a comment".to_owned(),
                ("graphite" | "graphite counters", _) => format!("é.{} {a}{b} {at_s}", seed % 3),
                ("influx", 0) => {
                    format!("m,h=é a={a},s=\"two\nlines, a=5 \\\" and more\",b={b} {at_s}")
                }
                ("influx", 1) => format!("m a={a},b={b} {at_s}"),
                ("influx", _) => format!("n a={a}i,b={b}i,_start={}i {at_s}", at_s - 5 - seed % 20),
                ("statsd", 0) => format!("{at_s} c:{a}:{b}|c|@0.3"),
                ("statsd", 1) => format!("{at_s} t:{a}:{b}|ms|#é:{}", seed % 2),
                ("statsd", 2) => format!("{at_s} s:{a}|s:{b}|c"),
                ("statsd", _) => format!("{at_s} c:{a}|c:{b}|c"),
                ("csv points", 0) => format!("{at_s},{a},{b},\"é, \"\"two\"\"\""),
                ("csv points", _) => format!("{at_s},{a},{b},"),
                (_, 0) => format!("{},{at_s},{a},{b},\"é, \"\"two\"\"\"", at_s - 5 - seed % 20),
                (_, _) => format!("{},{at_s},{a},{b},", at_s - 5 - seed % 20),
            };
            line + end
        };
        seeds.iter().map(line).collect()
    }
}

type Contents = Vec<(String, i64, SlotKey, Accumulator)>;

/// Compares the content of stores: everything except the value of the last update, and areas to 1
/// in 10^9.
fn same(ours: &Contents, theirs: &Contents) -> Result<(), TestCaseError> {
    let plain = |contents: &Contents| -> Vec<_> {
        let rows = contents.iter().filter(|(.., row)| !row.is_void());
        let mut rows: Vec<_> = rows
            .map(|(name, step_us, key, row)| {
                let (integral, last_val) = (series::Integral::ZERO, 0.0);
                (name.clone(), *step_us, *key, Accumulator { integral, last_val, ..*row })
            })
            .collect();
        rows.sort_by(|a, b| (&a.0, a.1, a.2).cmp(&(&b.0, b.1, b.2)));
        rows
    };
    prop_assert_eq!(plain(ours), plain(theirs));
    let areas = |contents: &Contents| {
        let rows = contents.iter().filter(|(.., row)| !row.is_void());
        let mut rows: Vec<_> = rows
            .map(|(name, step_us, key, row)| (name.clone(), *step_us, *key, row.integral.as_f64()))
            .collect();
        rows.sort_by(|a, b| (&a.0, a.1, a.2).cmp(&(&b.0, b.1, b.2)));
        rows
    };
    for (a, b) in areas(ours).into_iter().zip(areas(theirs)) {
        prop_assert!((a.3 - b.3).abs() <= 1e-9 * a.3.abs().max(1.0), "{a:?} and {b:?}");
    }
    Ok(())
}

/// Imports a file into series in RRD mode.
fn run_as_rrd(store: &mut dyn Store, format: Format, text: &[u8]) {
    let archive = |cf, steps| rrd::Archive { consolidation: cf, xff: 0.5, steps, rows: 40 };
    let archives =
        vec![archive(rrd::Consolidation::Average, 1), archive(rrd::Consolidation::Max, 3)];
    let lines = LineStream {
        input: text,
        reader: Reader::new(format.parser(), Limits::DEFAULT, 1000),
        arrival: Arrival { now_us: NOW_US, at_us: None },
        meaning: "test".to_owned(),
    };
    let mode = RrdMode { archives, start_us: None };
    let options = Options { rrd: Some(mode), ..Options::new(step()) };
    import(store, lines, &options, &mut Watcher::default()).unwrap();
}

/// What is counted of each series.
fn counts(store: &mut dyn Store) -> Vec<(String, i64)> {
    let mut counts = std::collections::BTreeMap::new();
    for (name, step_us, _, row) in contents(store) {
        if let (series::Integral::Count(count), 10_000_000) = (row.integral, step_us) {
            *counts.entry(name).or_default() += count;
        }
    }
    counts.into_iter().collect()
}

#[test]
fn a_statsd_file_that_grew_after_a_torn_last_line_counts_every_line_once() {
    let (mut store, mut watch) = (store(), Watcher::default());
    let torn = run(&mut store, statsd(), "1000 a:5|c\n1001 a:7|c\n1012 a:1", &mut watch);
    assert_eq!((torn.lines, torn.torn), (2, Some(3)));
    let grown = run(&mut store, statsd(), "1000 a:5|c\n1001 a:7|c\n1012 a:13|c\n", &mut watch);
    assert_eq!((grown.known, grown.torn), (2, None));
    assert_eq!(counts(&mut store), [("a:count".to_owned(), 25)]);
    assert!(watch.kept.is_empty());
}

#[test]
fn windows_that_were_given_out_are_replaced_after_an_import_that_was_cut_off_within_new_lines() {
    let text = |count: usize| -> String {
        (0..count).map(|i| format!("{} a:1:2|ms\n", 1000 + i / 4)).collect()
    };
    let (mut parts, mut whole) = (store(), store());
    run(&mut whole, statsd(), &text(25), &mut Watcher::default());
    run(&mut parts, statsd(), &text(13), &mut Watcher::default());
    let mut watch = Watcher { stop_after: Some(1), ..Watcher::default() };
    assert!(run(&mut parts, statsd(), &text(25), &mut watch).stopped);
    assert!(!run(&mut parts, statsd(), &text(25), &mut Watcher::default()).stopped);
    same(&contents(&mut parts), &contents(&mut whole)).unwrap();
}

#[test]
fn a_line_that_came_from_the_future_is_not_taken_later_although_it_was_kept_aside() {
    let (mut store, mut watch) = (store(), Watcher::default());
    let (text, now_us) = ("1000 a:1|c\n1700 a:2|c\n1001 a:4|c\n", 1_005_000_000);
    run_at(&mut store, statsd(), text, &mut watch, now_us);
    assert_eq!(watch.kept, ["2 future: 1700 a:2|c"]);
    let grown = format!("{text}1002 a:8|c\n");
    run_at(&mut store, statsd(), &grown, &mut watch, 2 * now_us);
    assert_eq!(watch.kept.len(), 1);
    assert_eq!(counts(&mut store), [("a:count".to_owned(), 13)]);
}

#[test]
fn a_line_of_a_series_of_another_kind_is_kept_aside_and_not_lost_in_a_window() {
    let (mut store, mut watch) = (store(), Watcher::default());
    run(
        &mut store,
        Box::new(Influx::new(Kind::Gauge, Precision::Seconds)),
        "a count=5 1000\n",
        &mut watch,
    );
    let summary = run(&mut store, statsd(), "1000 b:1|c\n1000 a:1|c\n", &mut watch);
    assert_eq!(watch.kept, ["2 wrong_kind: 1000 a:1|c"]);
    assert_eq!((summary.refused_lines, summary.updates), (1, 1));
}

#[test]
fn a_window_that_a_slot_cannot_hold_is_kept_aside_as_a_line() {
    let most = (1_i64 << 53) - 2;
    let (mut store, mut watch) = (store(), Watcher::default());
    let line = |count: i64| format!("1000.5 a:{count}|c|#host:b\n");
    run(&mut store, statsd(), &line(most), &mut watch);
    let text = line(3) + &line(4);
    // In a batch of many pieces it is unknown which window to refuse.
    let summary = try_run(&mut store, statsd(), &text, &mut watch, NOW_US, 0).unwrap();
    assert_eq!(watch.kept, ["2 too_large: 1000 a:7|c|#host:b"]);
    assert_eq!((summary.refused_lines, summary.updates), (1, 0));
}

#[test]
fn a_last_line_without_its_end_is_taken_where_the_file_is_complete() {
    let (mut store, mut watch) = (store(), Watcher::default());
    let lines = || LineStream {
        input: &b"a 1 1430701282\na 2 1430701290"[..],
        reader: Reader::new(graphite(), Limits::DEFAULT, 10),
        arrival: Arrival { now_us: NOW_US, at_us: None },
        meaning: String::new(),
    };
    let options = Options::new(step());
    let summary = import(&mut store, lines(), &options, &mut watch).unwrap();
    assert_eq!((summary.updates, summary.torn), (1, Some(2)));
    let options = Options { whole: true, ..options };
    let summary = import(&mut store, lines(), &options, &mut watch).unwrap();
    assert_eq!((summary.known, summary.updates, summary.torn), (1, 1, None));
}

#[test]
fn a_count_that_alone_may_be_too_large_is_refused_at_once() {
    let most = (1_i64 << 53) - 2;
    let text =
        format!("m a={most}i,_start=0 10\nm a={most}i,b=2i,_start=0 10\nm c=1i,_start=0 10\n");
    let (mut store, mut watch) = (store(), Watcher::default());
    let influx = Influx::new(Kind::Gauge, Precision::Seconds);
    let summary = run(&mut store, Box::new(influx), &text, &mut watch);
    assert_eq!(summary.updates, 2, "a line is taken whole or refused whole");
    assert_eq!(watch.kept, [format!("2 too_large: m a={most}i,b=2i,_start=0 10")]);
}

/// A stream that fails at the end of its text.
struct Failing<'t>(&'t [u8]);

impl io::Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::other("the stream broke")),
            read => Ok(read),
        }
    }
}

#[test]
fn what_came_before_a_stream_broke_is_in_the_store() {
    let text = lines(25_000);
    let (mut broken, mut whole) = (store(), store());
    let of = |input| LineStream {
        input,
        reader: Reader::new(graphite(), Limits::DEFAULT, 1000),
        arrival: Arrival { now_us: NOW_US, at_us: None },
        meaning: "test".to_owned(),
    };
    let input = io::BufReader::new(Failing(text.as_bytes()));
    let options = Options::new(step());
    import(&mut broken, of(input), &options, &mut Watcher::default()).unwrap_err();
    run(&mut whole, graphite(), &lines(20_000), &mut Watcher::default());
    assert!(contents(&mut broken) == contents(&mut whole), "two whole blocks");
    let summary = run(&mut broken, graphite(), &text, &mut Watcher::default());
    assert_eq!((summary.known, summary.updates), (20_000, 5_000));
}

/// Cannot store refused lines.
struct Full;

impl Watch for Full {
    fn refused(&mut self, _: RefusedLine<'_>) -> io::Result<()> {
        Err(io::Error::other("full"))
    }
}

#[test]
fn a_piece_whose_refused_lines_cannot_be_kept_is_not_written() {
    let text = lines(10_000) + &lines(10_000).replace("m3 ", "m3 x");
    let mut half = store();
    let of = || LineStream {
        input: text.as_bytes(),
        reader: Reader::new(graphite(), Limits::DEFAULT, 1000),
        arrival: Arrival { now_us: NOW_US, at_us: None },
        meaning: "test".to_owned(),
    };
    let options = Options::new(step());
    let error = import(&mut half, of(), &options, &mut Full).unwrap_err();
    assert!(matches!(error, BackfillError::KeepRefused(_)), "{error}");
    let mut whole = store();
    let wanted = run(&mut whole, graphite(), &text, &mut Watcher::default());
    let mut watch = Watcher::default();
    let found = run(&mut half, graphite(), &text, &mut watch);
    assert!(wanted.refused_lines > 0 && watch.kept.len() as u64 == wanted.refused_lines);
    assert_eq!(found.known + found.updates + found.refused_lines, found.lines);
    assert!(contents(&mut half) == contents(&mut whole), "the half that was taken left no trace");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_file_that_is_cut_anywhere_and_grows_gives_the_totals_of_the_whole_at_once(
        format in prop::sample::select(&FORMATS[..]),
        seeds in prop::collection::vec(any::<u32>(), 1..50),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let text = format.text(&seeds, true);
        let (mut whole, mut of_whole) = (store(), Watcher::default());
        run(&mut whole, format.parser(), &text, &mut of_whole);
        let (mut grown, mut of_grown) = (store(), Watcher::default());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.push(text.len());
        cuts.sort_unstable();
        for cut in cuts {
            // A character may be cut as well; the rest of it has no end then.
            let text = String::from_utf8_lossy(&text.as_bytes()[..cut]);
            run(&mut grown, format.parser(), &text, &mut of_grown);
        }
        same(&contents(&mut grown), &contents(&mut whole))?;
        let numbers = |watch: &Watcher| watch.kept.clone();
        prop_assert_eq!(numbers(&of_grown), numbers(&of_whole), "each refused line once");
    }

    #[test]
    fn a_file_that_is_cut_anywhere_and_grows_shows_what_rrdtool_would_show_of_the_whole(
        counters in any::<bool>(),
        seeds in prop::collection::vec(any::<u32>(), 1..50),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let format = Format { name: if counters { "graphite counters" } else { "graphite" } };
        let text = format.text(&seeds, true);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.push(text.len());
        cuts.sort_unstable();
        let (mut whole, mut grown) = (store(), store());
        run_as_rrd(&mut whole, format, text.as_bytes());
        for cut in cuts {
            run_as_rrd(&mut grown, format, &text.as_bytes()[..cut]);
        }
        for series in whole.find(&Selector::default()).unwrap() {
            let selector = Selector { measurement: Some(series.identity.measurement.clone()), ..Selector::default() };
            let known = grown.find(&selector).unwrap()[0].id;
            // As text, in which NaN equals itself.
            let shown = |rrd: Option<rrd::Rrd>| format!("{rrd:?}");
            prop_assert_eq!(shown(grown.rrd(known).unwrap()), shown(whole.rrd(series.id).unwrap()));
        }
    }

    #[test]
    fn a_corrected_line_counts_once(
        format in prop::sample::select(&FORMATS[..]),
        seeds in prop::collection::vec(any::<u32>(), 1..50),
    ) {
        // The fraction from a rate of 0.3 is rounded once in each file.
        let text = format.text(&seeds, true).replace("@0.3", "@0.5");
        let right = text.replace('x', "1");
        let (mut once, mut repaired) = (store(), store());
        let mut watch = Watcher::default();
        run(&mut once, format.parser(), &right, &mut watch);
        prop_assert_eq!(&watch.kept, &Vec::<String>::new());
        run(&mut repaired, format.parser(), &text, &mut watch);
        let kept = format.header() + &watch.whole.replace('x', "1");
        let mut again = Watcher::default();
        run(&mut repaired, format.parser(), &kept, &mut again);
        prop_assert_eq!(&again.kept, &Vec::<String>::new());
        if format.name == "statsd" {
            // A window's counts add up; its durations are known for two parts of it.
            prop_assert_eq!(counts(&mut repaired), counts(&mut once));
        } else {
            same(&contents(&mut repaired), &contents(&mut once))?;
        }
    }

    #[test]
    fn a_line_is_taken_whole_or_refused_whole(
        format in prop::sample::select(&FORMATS[..]),
        seeds in prop::collection::vec(any::<u32>(), 1..50),
    ) {
        // Without the refused lines the same is written.
        let text = format.text(&seeds, true);
        let without: String = format.lines(&seeds, true).into_iter().filter(|line| !line.contains('x')).collect();
        let (mut all, mut good) = (store(), store());
        run(&mut all, format.parser(), &text, &mut Watcher::default());
        run(&mut good, format.parser(), &(format.header() + &without), &mut Watcher::default());
        same(&contents(&mut all), &contents(&mut good))?;
    }

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
