//! The recent points of lanes, many series per row.
//!
//! They change with every batch. With one row per series they would be a large table that is
//! rewritten again and again, including index entries; so the states of up to 128 series with
//! adjacent numbers are one value, a *run*: for each of them the last seven bits of its number, the
//! length of its state as a varint (seven bits per byte, low ones first), and the state.

use std::collections::BTreeMap;

use series::Lane;

use super::link::{OpenTransaction, TransactionFailure};
use crate::LaneChange;

/// The table of runs.
pub(super) const TABLE: &str = "lane_run";

/// Number of series in a run.
const SERIES: i64 = 128;

/// Bytes of states to write at once.
const WRITTEN_AT_ONCE: usize = 4 << 20;

/// The first series of a run, and the lane.
type RunKey = (i64, i32);

/// The states of a run, by series.
type RunStates = BTreeMap<i64, Vec<u8>>;

/// Changes that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    runs: BTreeMap<RunKey, BTreeMap<i64, StateChange>>,
    bytes: usize,
    /// The lanes that were not as they were when the batch was computed, as they are.
    pub(super) stale: Vec<((i64, i32), Lane)>,
}

/// The states of a lane before and after a batch.
#[derive(Debug)]
struct StateChange {
    before: Vec<u8>,
    after: Vec<u8>,
}

fn run_of(series: i64, lane: i32) -> RunKey {
    (series - series.rem_euclid(SERIES), lane)
}

impl Lanes {
    /// Adds the change of a lane.
    pub(super) fn add(&mut self, series: i64, lane: i32, change: &LaneChange) {
        let change =
            StateChange { before: change.before.to_bytes(), after: change.after.to_bytes() };
        self.bytes += change.before.len() + change.after.len();
        self.runs.entry(run_of(series, lane)).or_default().insert(series, change);
    }

    /// Whether there are enough to write.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= WRITTEN_AT_ONCE
    }

    /// Writes the states of the lanes that are as they were when the batch was computed; others in
    /// the same runs stay. Returns the number of series in the replaced runs.
    pub(super) fn write(
        &mut self,
        session: &mut OpenTransaction<'_>,
    ) -> Result<u64, TransactionFailure> {
        if self.runs.is_empty() {
            return Ok(0);
        }
        self.bytes = 0;
        let runs = std::mem::take(&mut self.runs);
        let (firsts, lanes): (Vec<i64>, Vec<i32>) = runs.keys().copied().unzip();
        // A missing run is created first, so that concurrent creators wait here and then see its
        // content.
        let made = session.execute(
            "INSERT INTO lane_run SELECT first, lane, ''
             FROM unnest($1::bigint[], $2::integer[]) AS w (first, lane)
             WHERE NOT EXISTS (SELECT FROM lane_run r WHERE r.first = w.first AND r.lane = w.lane)
             ORDER BY first, lane
             ON CONFLICT DO NOTHING",
            &[&firsts, &lanes],
        )?;
        let known = find(session, &firsts, &lanes, true)?;
        let mut merged: BTreeMap<RunKey, RunStates> = known.into_iter().collect();
        for ((first, lane), changes) in runs {
            let run = merged.entry((first, lane)).or_default();
            for (series, change) in changes {
                match stale(run.get(&series), &change.before)? {
                    Some(now) => self.stale.push(((series, lane), now)),
                    None => _ = run.insert(series, change.after),
                }
            }
        }
        let replaced = (merged.len() as u64).saturating_sub(made) * SERIES as u64;
        let (firsts, lanes): (Vec<i64>, Vec<i32>) = merged.keys().copied().unzip();
        let states: Vec<Vec<u8>> = merged.values().map(bytes_of).collect();
        session.execute(
            "UPDATE lane_run r SET states = w.states
             FROM unnest($1::bigint[], $2::integer[], $3::bytea[]) AS w (first, lane, states)
             WHERE r.first = w.first AND r.lane = w.lane",
            &[&firsts, &lanes, &states],
        )?;
        Ok(replaced)
    }
}

/// The stored lane, if it is not the one `before`.
fn stale(stored: Option<&Vec<u8>>, before: &Vec<u8>) -> Result<Option<Lane>, TransactionFailure> {
    if stored == Some(before) {
        return Ok(None);
    }
    // A new lane, or points that an earlier version wrote in another form.
    let now = match stored {
        Some(bytes) => Lane::from_bytes(bytes).ok_or_else(broken)?,
        None => Lane::default(),
    };
    Ok(Some(now).filter(|now| Lane::from_bytes(before).as_ref() != Some(now)))
}

/// The states of lanes, by series and lane; a new one for each that was never saved.
pub(super) fn states(
    session: &mut OpenTransaction<'_>,
    wanted: &[(i64, i32)],
) -> Result<Vec<Lane>, TransactionFailure> {
    let keys: std::collections::BTreeSet<RunKey> =
        wanted.iter().map(|(series, lane)| run_of(*series, *lane)).collect();
    let (firsts, lanes): (Vec<i64>, Vec<i32>) = keys.into_iter().unzip();
    let runs: BTreeMap<RunKey, RunStates> =
        find(session, &firsts, &lanes, false)?.into_iter().collect();
    let state = |(series, lane): &(i64, i32)| {
        let run = runs.get(&run_of(*series, *lane));
        let Some(bytes) = run.and_then(|run| run.get(series)) else { return Ok(Lane::default()) };
        Lane::from_bytes(bytes).ok_or_else(broken)
    };
    wanted.iter().map(state).collect()
}

/// The existing runs of these.
fn find(
    session: &mut OpenTransaction<'_>,
    firsts: &[i64],
    lanes: &[i32],
    change: bool,
) -> Result<Vec<(RunKey, RunStates)>, TransactionFailure> {
    let sql = format!(
        "SELECT r.first, r.lane, r.states
         FROM unnest($1::bigint[], $2::integer[]) AS w (first, lane)
         JOIN lane_run r ON r.first = w.first AND r.lane = w.lane
         ORDER BY r.first, r.lane {}",
        if change { "FOR UPDATE OF r" } else { "" }
    );
    let rows = session.query(&sql, &[&firsts, &lanes])?;
    let run = |row: &postgres::Row| {
        let first: i64 = row.try_get(0)?;
        let run = run_from(first, row.try_get(2)?).ok_or_else(broken)?;
        Ok(((first, row.try_get(1)?), run))
    };
    rows.iter().map(run).collect()
}

fn broken() -> TransactionFailure {
    TransactionFailure::Value("the points of a lane".to_owned())
}

fn bytes_of(run: &RunStates) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(run.values().map(|state| state.len() + 3).sum());
    for (series, state) in run {
        bytes.push(series.rem_euclid(SERIES) as u8);
        let mut length = state.len();
        while length >= 0x80 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend_from_slice(state);
    }
    bytes
}

/// The inverse of [`bytes_of`]; `None` for invalid bytes.
fn run_from(first: i64, mut bytes: &[u8]) -> Option<RunStates> {
    let mut run = RunStates::new();
    while let [series, rest @ ..] = bytes {
        let (mut length, mut shift) = (0_usize, 0);
        bytes = rest;
        loop {
            let [byte, rest @ ..] = bytes else { return None };
            bytes = rest;
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 28 {
                return None;
            }
        }
        let (state, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        run.insert(first + i64::from(*series), state.to_vec());
    }
    Some(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_comes_back_from_its_bytes_and_nothing_else_does() {
        let states = [(128, vec![]), (130, vec![1]), (255, vec![7; 300])];
        let run: RunStates = states.into_iter().collect();
        let bytes = bytes_of(&run);
        assert_eq!(run_from(128, &bytes), Some(run));
        assert_eq!(run_from(128, &bytes[..bytes.len() - 1]), None);
        assert_eq!(run_from(0, &[3]), None, "a length is missing");
        assert_eq!(run_from(0, &[3, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), None);
        assert_eq!(run_from(0, &[]), Some(RunStates::new()));
    }

    #[test]
    fn series_of_one_run_adjoin() {
        assert_eq!(run_of(1, 7), (0, 7));
        assert_eq!(run_of(127, 7), (0, 7));
        assert_eq!(run_of(128, 7), (128, 7));
    }
}
