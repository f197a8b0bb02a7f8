//! Our side: lines through the importer into a record on disk.

use formats::text::{Influx, Reader};
use formats::{Arrival, Precision};
use import::{LineStream, Options, RefusedLine, Watch, import};
use series::{Kind, Limits, SECOND_US, Step, combine};
use store::{Retention, Selector, Sqlite, Store as _};

use crate::{AccuracyError, Rates, Updates};

/// A record in its own folder.
pub(crate) struct Record {
    store: Sqlite,
    step: Step,
    start: i64,
    _folder: tempfile::TempDir,
}

/// Counts refused lines: there should be none.
struct Watcher(u64);

impl Watch for Watcher {
    fn refused(&mut self, _: RefusedLine<'_>) -> std::io::Result<()> {
        self.0 += 1;
        Ok(())
    }
}

fn step(seconds: i64) -> Result<Step, AccuracyError> {
    Step::from_secs(seconds).ok_or_else(|| AccuracyError(format!("{seconds} s is no step")))
}

/// The resolutions in seconds: the step, and 2, 6 and 360 times as long.
pub(crate) fn steps(series: &Updates) -> [i64; 4] {
    [1, 2, 6, 360].map(|times| times * series.step)
}

impl Record {
    /// A new record.
    pub(crate) fn new(series: &Updates) -> Result<Record, AccuracyError> {
        let folder = tempfile::tempdir().map_err(AccuracyError::new)?;
        let mut store =
            Sqlite::open(folder.path().join("record.sqlite")).map_err(AccuracyError::new)?;
        let retentions: Option<Vec<_>> =
            steps(series).into_iter().map(|s| Retention::from_secs(s, None)).collect();
        store.retain(&retentions.unwrap_or_default()).map_err(AccuracyError::new)?;
        Ok(Record { store, step: step(series.step)?, start: series.start, _folder: folder })
    }

    /// Points, preceded by one at the start, which corresponds to RRDtool's --start.
    pub(crate) fn points(
        &mut self,
        name: &str,
        updates: &[(i64, f64)],
    ) -> Result<(), AccuracyError> {
        let start = [(self.start, 0.0)];
        let all: Vec<_> = start.iter().chain(updates).copied().collect();
        self.points_only(name, &all)
    }

    /// Points.
    pub(crate) fn points_only(
        &mut self,
        name: &str,
        updates: &[(i64, f64)],
    ) -> Result<(), AccuracyError> {
        let lines: String =
            updates.iter().map(|(at_s, value)| format!("{name} value={value} {at_s}\n")).collect();
        self.lines(&lines)
    }

    /// Counts over intervals.
    pub(crate) fn counts(
        &mut self,
        name: &str,
        intervals: &[(i64, i64, i64)],
    ) -> Result<(), AccuracyError> {
        let line = |(start_s, end_s, count): &(i64, i64, i64)| {
            format!("{name} value={count}i,_start={start_s}i,_end={end_s}i\n")
        };
        self.lines(&intervals.iter().map(line).collect::<String>())
    }

    fn lines(&mut self, lines: &str) -> Result<(), AccuracyError> {
        let parser = Influx::new(Kind::Gauge, Precision::Seconds);
        let lines = LineStream {
            input: lines.as_bytes(),
            reader: Reader::new(Box::new(parser), Limits::DEFAULT, 100),
            arrival: Arrival { now_us: i64::MAX / 2, at_us: None },
            meaning: "influx".to_owned(),
        };
        let mut watcher = Watcher(0);
        let options = Options::new(self.step);
        import(&mut self.store, lines, &options, &mut watcher).map_err(AccuracyError::new)?;
        match watcher.0 {
            0 => Ok(()),
            refused => Err(AccuracyError(format!("{refused} lines were refused"))),
        }
    }

    /// The rates by slot of this step.
    pub(crate) fn rates(&mut self, name: &str, step_s: i64) -> Result<Rates, AccuracyError> {
        let selector = Selector { measurement: Some(name.to_owned()), ..Selector::default() };
        let found = self.store.find(&selector).map_err(AccuracyError::new)?;
        let one = found.first().ok_or_else(|| AccuracyError::new("the series is not there"))?;
        let step = step(step_s)?;
        let rows =
            self.store.slots(step, &[one.id], i64::MIN, i64::MAX).map_err(AccuracyError::new)?;
        let rate = |row| combine(one.spec.kind.flavor(), step, one.xff, [row]).rate;
        Ok(rows.iter().map(|(key, row)| (key.slot_us / SECOND_US, rate(row))).collect())
    }

    /// The total over all slots of this step.
    pub(crate) fn total(&mut self, name: &str, step_s: i64) -> Result<f64, AccuracyError> {
        let selector = Selector { measurement: Some(name.to_owned()), ..Selector::default() };
        let found = self.store.find(&selector).map_err(AccuracyError::new)?;
        let one = found.first().ok_or_else(|| AccuracyError::new("the series is not there"))?;
        let rows = self.store.slots(step(step_s)?, &[one.id], i64::MIN, i64::MAX);
        Ok(rows.map_err(AccuracyError::new)?.iter().map(|(_, row)| row.integral.as_f64()).sum())
    }
}
