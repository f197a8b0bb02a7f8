//! Copies of whisper files and RRDs made while the file was in use: importing an older copy and
//! then
//! a newer one gives the content of the newer one, and what only the older one still had.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;

use formats::files::{Rrd, Whisper};
use import::files::{Field, import, of_rrd, of_whisper};
use import::{Options, RefusedLine, Watch};
use proptest::prelude::*;
use series::{Accumulator, SECOND_US, Step};
use store::{Memory, Retention, Selector, Store};

const NOW_US: i64 = 1_767_225_600_000_000;

/// Start of the files, in seconds since the epoch: a whole hour.
const START_S: u32 = 1_430_701_200;

/// A watcher that expects no refusal.
struct Nothing;

impl Watch for Nothing {
    fn refused(&mut self, refused: RefusedLine<'_>) -> io::Result<()> {
        panic!("{:?}: {}", refused.reasons, String::from_utf8_lossy(refused.line.bytes));
    }
}

fn store() -> Memory {
    let mut store = Memory::new();
    let steps = [10, 60, 3_600].map(|seconds| Retention::from_secs(seconds, None).unwrap());
    store.retain(&steps).unwrap();
    store
}

/// Imports a copy; each is imported a moment after the previous one.
fn take(store: &mut dyn Store, fields: &[Field], copy: usize) -> u64 {
    let options = Options::new(Step::from_secs(10).unwrap());
    import(store, fields, &options, NOW_US + copy as i64, &mut Nothing).unwrap().updates
}

/// The slots of a step, by series and second.
fn slots(store: &mut dyn Store, step_s: i64) -> BTreeMap<(String, i64), Accumulator> {
    let step = Step::from_secs(step_s).unwrap();
    let mut all = BTreeMap::new();
    for series in store.find(&Selector::default()).unwrap() {
        for (key, row) in store.slots(step, &[series.id], i64::MIN, i64::MAX).unwrap() {
            if !row.is_void() {
                all.insert((series.identity.to_string(), key.slot_us / SECOND_US), row);
            }
        }
    }
    all
}

/// The content of a slot: its value, and the known time. The number of updates is omitted, because
/// a row that was written in two parts counts as two.
fn shown(row: &Accumulator) -> (f64, i64) {
    let seconds = row.covered_us as f64 / SECOND_US as f64;
    ((row.integral.as_f64() / seconds * 1e6).round() / 1e6, row.covered_us)
}

/// A whisper file as Graphite keeps one: rings of 10 s and of 60 s.
struct Rings {
    aggregation: u32,
    /// Seconds per point, and the points by their places.
    rings: [(u32, Vec<(u32, f64)>); 2],
    newest: u32,
}

impl Rings {
    fn new(aggregation: u32, fine: usize, coarse: usize) -> Rings {
        let rings = [(10, vec![(0, 0.0); fine]), (60, vec![(0, 0.0); coarse])];
        Rings { aggregation, rings, newest: 0 }
    }

    /// Start of the finest ring.
    fn fine_from(&self) -> u32 {
        self.newest.saturating_sub(10 * (self.rings[0].1.len() as u32 - 1))
    }

    /// Adds a point to the fine ring, and its aggregate to the coarse one.
    fn update(&mut self, at: u32, value: f64) {
        let at = at - at % 10;
        self.newest = self.newest.max(at);
        if at < self.fine_from() {
            return;
        }
        let fine = &mut self.rings[0].1;
        let room = fine.len();
        fine[(at / 10) as usize % room] = (at, value);
        let minute = at - at % 60;
        let values = (0..6).map(|i| minute + 10 * i);
        let values = values.filter_map(|at| {
            let (time, value) = fine[(at / 10) as usize % room];
            (time == at).then_some(value)
        });
        let values: Vec<f64> = values.collect();
        let sum: f64 = values.iter().sum();
        let value = if self.aggregation == 2 { sum } else { sum / values.len() as f64 };
        let coarse = &mut self.rings[1].1;
        let room = coarse.len();
        coarse[(minute / 60) as usize % room] = (minute, value);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let longest = 60 * self.rings[1].1.len() as u32;
        for number in [self.aggregation, longest, 0.0_f32.to_bits(), 2] {
            bytes.extend(number.to_be_bytes());
        }
        let mut offset = 16 + 2 * 12;
        for (step, ring) in &self.rings {
            for number in [offset, *step, ring.len() as u32] {
                bytes.extend(number.to_be_bytes());
            }
            offset += 12 * ring.len() as u32;
        }
        for (_, ring) in &self.rings {
            // A ring begins with the first point that was written to it.
            let first = ring.iter().position(|(time, _)| *time > 0).unwrap_or(0);
            for (time, value) in ring[first..].iter().chain(&ring[..first]) {
                bytes.extend(time.to_be_bytes());
                bytes.extend(value.to_bits().to_be_bytes());
            }
        }
        bytes
    }

    fn field(&self) -> Field {
        of_whisper(&Whisper::parse(&self.bytes()).unwrap(), "m", &[]).unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn older_copies_of_a_whisper_file_and_then_the_newest_give_what_the_newest_has(
        is_sum in any::<bool>(),
        (fine, coarse) in (12_usize..40, 10_usize..40),
        // Distance to the previous slot; occasionally a point is late, or is written again.
        points in prop::collection::vec((-4_i64..8, 0_u32..1_000), 1..120),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 1..5),
    ) {
        let mut rings = Rings::new(if is_sum { 2 } else { 1 }, fine, coarse);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(points.len())).collect();
        cuts.push(points.len() - 1);
        let mut grown = store();
        // By slot: the value in the last copy whose fine ring went back that far.
        let mut wanted: BTreeMap<i64, f64> = BTreeMap::new();
        let mut at = i64::from(START_S);
        for (place, (wait, value)) in points.iter().enumerate() {
            let late = at + wait * 10;
            at = at.max(late);
            rings.update(late as u32, f64::from(*value));
            for copy in cuts.iter().filter(|cut| **cut == place) {
                let from = i64::from(rings.fine_from());
                wanted.retain(|at, _| *at < from);
                let fine = &rings.rings[0].1;
                let known = fine.iter().map(|(at, value)| (i64::from(*at), *value));
                wanted.extend(known.filter(|(at, _)| *at >= from));
                take(&mut grown, &[rings.field()], *copy);
            }
        }
        let newest = [rings.field()];
        prop_assert_eq!(take(&mut grown, &newest, points.len()), 0, "the same copy again");
        let found = slots(&mut grown, 10);
        let per = if is_sum { 10.0 } else { 1.0 };
        for (at, value) in &wanted {
            let row = found.get(&("m".to_owned(), *at)).map(shown);
            prop_assert_eq!(row, Some((value / per, 10 * SECOND_US)), "slot {}", at);
        }
        // Coarser slots never cover more time than their length, and contain nothing that is not in
        // the file.
        let mut alone = store();
        take(&mut alone, &newest, 0);
        let alone = slots(&mut alone, 3_600);
        for (key, row) in slots(&mut grown, 3_600) {
            prop_assert!(row.covered_us <= 3_600 * SECOND_US);
            let least = alone.get(&key).map_or(0, |row| row.covered_us);
            prop_assert!(rings.fine_from() as i64 > key.1 || row.covered_us == least, "{key:?}");
        }
    }
}

/// A sequence that is the same in every run (xorshift: Marsaglia 2003).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

fn rrdtool(args: &str, folder: &Path) -> Vec<u8> {
    let output = Command::new("rrdtool")
        .args(args.split_whitespace())
        .current_dir(folder)
        .env("LC_ALL", "C")
        .output()
        .expect("rrdtool is needed: apt install rrdtool");
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn older_dumps_of_an_rrd_and_then_the_newest_give_what_the_newest_has() {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let mut compared = 0;
    for round in 0..16 {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let fine = 12 + numbers.next(30) as i64;
        rrdtool(
            &format!(
                "create a.rrd --start {START_S} --step 10 DS:level:GAUGE:25:U:U \
                 RRA:AVERAGE:0.5:1:{fine} RRA:AVERAGE:0.5:6:{} RRA:MAX:0.5:1:{fine}",
                10 + numbers.next(30)
            ),
            folder,
        );
        let mut grown = store();
        let mut at_s = i64::from(START_S);
        let mut copies = Vec::new();
        for copy in 0..4 {
            let mut updates = String::from("update a.rrd");
            for _ in 0..1 + numbers.next(40) {
                // An occasional unknown gap.
                let longest = if numbers.next(9) == 0 { 90 } else { 12 };
                at_s += 1 + numbers.next(longest) as i64;
                updates += &format!(" {at_s}:{}", numbers.next(1_000));
            }
            rrdtool(&updates, folder);
            let rrd = Rrd::read(rrdtool("dump a.rrd", folder).as_slice()).unwrap();
            let fields = of_rrd(&rrd, "m", &[], false).unwrap();
            take(&mut grown, &fields, copy);
            assert_eq!(take(&mut grown, &fields, copy), 0, "round {round}: the same copy again");
            let mut alone = store();
            take(&mut alone, &fields, copy);
            copies.push((at_s - at_s % 10 - 10 * fine, slots(&mut alone, 10)));
        }
        // Each slot has the value of the last copy whose finest archive goes back that far.
        let found = slots(&mut grown, 10);
        for (place, (from_s, alone)) in copies.iter().enumerate() {
            let later = copies.get(place + 1).map_or(i64::MAX, |(from_s, _)| *from_s);
            let within = |key: &&(String, i64)| key.1 >= *from_s && key.1 < later;
            for key in alone.keys().filter(within) {
                assert_eq!(found.get(key).map(shown), alone.get(key).map(shown), "{round} {key:?}");
                compared += 1;
            }
        }
        let (newest_s, newest) = &copies[3];
        let beyond = |key: &&(String, i64)| key.1 >= *newest_s && !newest.contains_key(*key);
        assert_eq!(found.keys().find(beyond), None, "round {round}: known to no copy");
    }
    assert!(compared > 500, "{compared} slots");
}
