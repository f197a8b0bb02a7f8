//! Files made by the real rrdtool and the real whisper, read by them and by us.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use formats::files::{Aggregation, Rrd, Whisper};
use series::SECOND_US;

/// Time of the first update, in seconds since the epoch.
const START_S: i64 = 1_430_701_200;

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

fn rrdtool(args: &[String], folder: &Path) -> String {
    let output = Command::new("rrdtool")
        .args(args)
        .current_dir(folder)
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .output()
        .expect("rrdtool is needed: apt install rrdtool");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "rrdtool {args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The values that `rrdtool fetch` prints, by the end of their row.
///
/// The times are those of the archive: rrdtool chooses one that reaches back far enough.
fn fetched(
    folder: &Path,
    cf: &str,
    row_s: i64,
    from_s: i64,
    rows: i64,
) -> BTreeMap<i64, Vec<String>> {
    let until_s = from_s + (rows - 1) * row_s;
    let args = format!("fetch a.rrd {cf} --resolution {row_s} --start {from_s} --end {until_s}");
    let text = rrdtool(&words(&args), folder);
    let rows = text.lines().filter_map(|line| line.split_once(':'));
    rows.map(|(end, values)| (end.trim().parse().unwrap(), words(values))).collect()
}

#[test]
fn dumps_of_the_real_rrdtool_hold_what_it_fetches() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut compared = 0;
    for round in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let create = format!(
            "create a.rrd --start {START_S} --step 10 DS:level:GAUGE:25:U:U DS:bytes:COUNTER:60:0:1000 \
             RRA:AVERAGE:0.5:1:{} RRA:AVERAGE:0.5:6:{} RRA:MAX:0.3:6:12 RRA:AVERAGE:0.9:30:9",
            10 + numbers.next(20),
            5 + numbers.next(9),
        );
        rrdtool(&words(&create), folder.path());
        let (mut at_s, mut bytes) = (START_S, 0);
        let mut update = words("update a.rrd");
        for _ in 0..40 + round * 10 {
            let longest = if numbers.next(9) == 0 { 90 } else { 12 };
            at_s += 1 + numbers.next(longest) as i64;
            bytes += numbers.next(5_000);
            let level = match numbers.next(12) {
                0 => "U".to_owned(),
                _ => format!("{:.3}", numbers.next(1_000_000) as f64 / 999.0),
            };
            update.push(format!("{at_s}:{level}:{bytes}"));
        }
        rrdtool(&update, folder.path());

        let dump = rrdtool(&words("dump a.rrd"), folder.path());
        let rrd = Rrd::read(dump.as_bytes()).unwrap();
        assert_eq!(rrd.last_update_us, at_s * SECOND_US);
        assert_eq!(rrd.archives.len(), 4);
        for archive in &rrd.archives {
            let row_s = archive.steps * 10;
            let from_s = rrd.rows(archive, 0).begins_us / SECOND_US;
            let count = (archive.values.len() / 2) as i64;
            let rows = fetched(folder.path(), archive.consolidation.name(), row_s, from_s, count);
            assert_eq!(rows.len() as i64, count, "rrdtool fetches this very archive");
            for source in 0..2 {
                let ours = rrd.rows(archive, source);
                for (start_us, value) in ours.rows {
                    let end_s = start_us / SECOND_US + row_s;
                    assert_eq!(
                        series::rrd::format_value(value),
                        rows[&end_s][source],
                        "row {end_s}"
                    );
                    compared += 1;
                }
                let known = rows.values().filter(|values| !values[source].contains("nan")).count();
                assert_eq!(known, rrd.rows(archive, source).rows.len());
            }
        }
        let totals = rrd.extract();
        let names: Vec<_> = totals.iter().map(|field| field.field.as_str()).collect();
        assert_eq!(names, ["level", "level_max", "bytes", "bytes_max"]);
        for field in &totals {
            for pair in field.stretches.windows(2) {
                assert!(pair[0].end_us <= pair[1].start_us, "an instant is taken once");
            }
        }
    }
    assert!(compared > 500, "only {compared} rows were compared");
}

/// A Python interpreter with whisper, in an environment that is created once.
fn python_with_whisper() -> PathBuf {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let requirements = ["whisper==1.1.10".to_owned(), "six==1.17.0".to_owned()];
    let bin = stage::python::ensure_env_in(&cache, &requirements, None, &mut |_| {});
    bin.unwrap_or_else(|error| panic!("whisper is needed: {error}")).join("python")
}

/// Creates files with whisper itself, and prints what it fetches from each archive.
const WRITER: &str = r#"
import random, sys, warnings
warnings.simplefilter("ignore")
import whisper

folder, start = sys.argv[1], int(sys.argv[2])
random.seed(4)
for number, method in enumerate(["average", "sum", "last", "max", "min"] * 2):
    path = "%s/%d.wsp" % (folder, number)
    whisper.create(path, [(10, 30), (60, 20), (300, 20)], xFilesFactor=0.3, aggregationMethod=method)
    now = start
    for _ in range(60 + 20 * number):
        now += random.choice([5, 10, 10, 10, 20, 130])
        whisper.update(path, float(random.randrange(1000)), now, now=now)
    for step, points in [(10, 30), (60, 20), (300, 20)]:
        (begin, end, got), values = whisper.fetch(path, now - step * points, now, now=now, archiveToSelect=step)
        assert got == step
        for i, value in enumerate(values):
            if value is not None:
                print(number, method, step, begin + i * step, repr(value))
"#;

#[test]
fn files_of_the_real_whisper_hold_what_it_fetches() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(python_with_whisper())
        .args(["-c", WRITER, &folder.path().display().to_string(), &START_S.to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut fetched: BTreeMap<(u32, u32), Vec<(u32, f64)>> = BTreeMap::new();
    let mut methods = BTreeMap::new();
    for line in text.lines() {
        let [number, method, step, time, value] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let point = (time.parse().unwrap(), value.parse().unwrap());
        fetched.entry((number.parse().unwrap(), step.parse().unwrap())).or_default().push(point);
        methods.insert(number.parse::<u32>().unwrap(), method.to_owned());
    }
    assert_eq!(fetched.len(), 30);
    for (number, method) in methods {
        let file = std::fs::File::open(folder.path().join(format!("{number}.wsp"))).unwrap();
        let whisper = Whisper::read(file).unwrap();
        let expected = match method.as_str() {
            "average" => Aggregation::Average,
            "sum" => Aggregation::Sum,
            "last" => Aggregation::Last,
            "max" => Aggregation::Max,
            _ => Aggregation::Min,
        };
        assert_eq!((whisper.aggregation, whisper.xff), (expected, 0.3));
        for archive in &whisper.archives {
            let theirs = &fetched[&(number, archive.step_s)];
            // Whisper's fetch ends one row later than ours begins, so compare the common rows.
            let ours: Vec<_> =
                archive.points.iter().filter(|(time, _)| *time >= theirs[0].0).copied().collect();
            assert_eq!(&ours, theirs, "file {number}, step {}", archive.step_s);
            assert!(archive.points.len() <= theirs.len() + 1);
        }
    }
}
