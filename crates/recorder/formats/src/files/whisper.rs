//! Whisper, the files of Graphite.
//!
//! Their form, from the head of Graphite's `whisper.py`; all numbers big-endian:
//!
//! ```text
//!  file      = header, archive…
//!  header    = aggregation u32, longest retention u32, xFilesFactor f32, archives u32,
//!              (offset u32, seconds per point u32, points u32)…      finest first
//!  archive   = (time u32, value f64)…                                a ring
//! ```
//!
//! A point's position in its ring follows from its time and that of the ring's first point. A point
//! at another position, or older than the ring's length, has expired and is not imported. A point
//! covers the time until the next one.

use std::io::{self, Read};

use series::SECOND_US;

use super::{Archive, Stretch, finest};
use crate::FileError;

/// Limit on the size of a file: one point per second for a year is 378 MB.
const FILE_MAX: u64 = 1 << 30;

/// Limit on the known points of a file: one per second for six weeks. They are kept in memory while
/// the file is read.
const POINTS_MAX: usize = 4_000_000;

/// Limit on the archives of a file.
const ARCHIVES_MAX: usize = 64;

const HEADER: usize = 16;
const ARCHIVE: usize = 12;
const POINT: usize = 12;

/// How points become coarser points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// Their mean.
    Average,
    /// Their sum: they are counts, not levels.
    Sum,
    /// The last one.
    Last,
    /// The maximum.
    Max,
    /// The minimum.
    Min,
    /// Their mean, counting unknown points as 0.
    AvgZero,
    /// The one farthest from 0.
    AbsMax,
    /// The one nearest to 0.
    AbsMin,
}

impl Aggregation {
    fn from_number(number: u32) -> Option<Aggregation> {
        Some(match number {
            1 => Aggregation::Average,
            2 => Aggregation::Sum,
            3 => Aggregation::Last,
            4 => Aggregation::Max,
            5 => Aggregation::Min,
            6 => Aggregation::AvgZero,
            7 => Aggregation::AbsMax,
            8 => Aggregation::AbsMin,
            _ => return None,
        })
    }
}

/// The content of a whisper file.
#[derive(Clone, Debug, PartialEq)]
pub struct Whisper {
    /// How points become coarser ones.
    pub aggregation: Aggregation,
    /// Fraction of a coarse point's time that must be known.
    pub xff: f32,
    /// The archives, the finest first.
    pub archives: Vec<WhisperArchive>,
    /// Expired points: older than their ring is long.
    pub expired: u64,
    /// Points whose value is NaN or infinite.
    pub not_numbers: u64,
}

/// An archive.
#[derive(Clone, Debug, PartialEq)]
pub struct WhisperArchive {
    /// Seconds per point.
    pub step_s: u32,
    /// Its capacity in points.
    pub room: u32,
    /// Time (seconds since the epoch) and value of each known point, in order of time.
    pub points: Vec<(u32, f64)>,
}

impl Whisper {
    /// Reads a file.
    ///
    /// # Errors
    /// [`FileError::NotWhisper`] with the reason; [`FileError::Io`].
    pub fn read(mut input: impl Read) -> Result<Whisper, FileError> {
        let mut header = [0; HEADER];
        fill(&mut input, &mut header, "it has no header")?;
        let aggregation = Aggregation::from_number(u32_at(&header, 0))
            .ok_or_else(|| damaged("its aggregation is unknown"))?;
        let xff = f32::from_bits(u32_at(&header, 8));
        if !(0.0..=1.0).contains(&xff) {
            return Err(damaged("its xFilesFactor is not from 0 to 1"));
        }
        let count = u32_at(&header, 12) as usize;
        if !(1..=ARCHIVES_MAX).contains(&count) {
            return Err(damaged("it has no archive, or more than 64"));
        }
        let mut infos = vec![0; count * ARCHIVE];
        fill(&mut input, &mut infos, "its header is incomplete")?;
        let mut end = (HEADER + infos.len()) as u64;
        for info in infos.chunks_exact(ARCHIVE) {
            let (offset, step_s, room) = (u32_at(info, 0), u32_at(info, 4), u32_at(info, 8));
            if u64::from(offset) != end || step_s == 0 || room == 0 {
                return Err(damaged("its archives are not contiguous"));
            }
            end += u64::from(room) * POINT as u64;
            if end > FILE_MAX {
                return Err(damaged("its archives are larger than 1 GiB"));
            }
        }
        let mut whisper =
            Whisper { aggregation, xff, archives: Vec::new(), expired: 0, not_numbers: 0 };
        for info in infos.chunks_exact(ARCHIVE) {
            whisper.ring(&mut input, u32_at(info, 4), u32_at(info, 8))?;
        }
        if input.read(&mut [0])? > 0 {
            return Err(damaged("data follows its archives"));
        }
        Ok(whisper)
    }

    /// Parses the bytes of a file.
    ///
    /// # Errors
    /// [`FileError::NotWhisper`] with the reason.
    pub fn parse(bytes: &[u8]) -> Result<Whisper, FileError> {
        Whisper::read(bytes)
    }

    /// Reads a ring into an archive.
    fn ring(&mut self, input: &mut impl Read, step_s: u32, room: u32) -> Result<(), FileError> {
        let known: usize = self.archives.iter().map(|archive| archive.points.len()).sum();
        let mut base = None;
        let mut points: Vec<(u32, f64)> = Vec::new();
        let mut buffer = [0; 1024 * POINT];
        let mut index = 0;
        while index < room {
            let count = (room - index).min(1024) as usize;
            let part = &mut buffer[..count * POINT];
            fill(input, part, "it ends before its archives do")?;
            for (index, point) in (index..).zip(part.chunks_exact(POINT)) {
                let (time, high, low) = (u32_at(point, 0), u32_at(point, 4), u32_at(point, 8));
                let value = f64::from_bits(u64::from(high) << 32 | u64::from(low));
                let base = *base.get_or_insert(time / step_s);
                if time == 0 {
                    continue;
                }
                let distance = i64::from(time / step_s) - i64::from(base);
                let place = distance.rem_euclid(i64::from(room));
                if !time.is_multiple_of(step_s) || place != i64::from(index) {
                    self.expired += 1;
                } else if !value.is_finite() {
                    self.not_numbers += 1;
                } else if known + points.len() >= POINTS_MAX {
                    return Err(damaged("it has more than 4000000 known points"));
                } else {
                    points.push((time, value));
                }
            }
            index += count as u32;
        }
        points.sort_unstable_by_key(|(time, _)| *time);
        let newest = points.last().map_or(0, |(time, _)| *time);
        let oldest = i64::from(newest) - i64::from(step_s) * (i64::from(room) - 1);
        let expired = points.partition_point(|(time, _)| i64::from(*time) < oldest);
        self.expired += expired as u64;
        points.drain(..expired);
        points.shrink_to_fit();
        self.archives.push(WhisperArchive { step_s, room, points });
        Ok(())
    }

    /// Everything known, each instant once, in order of time.
    ///
    /// Values are as in the file: where [`Aggregation::Sum`] makes them counts, a stretch cut from
    /// a longer row has its share of the count.
    pub fn extract(&self) -> Vec<Stretch> {
        let mut stretches = finest(self.archives.iter().map(WhisperArchive::archive));
        if self.aggregation == Aggregation::Sum {
            for stretch in &mut stretches {
                let us = stretch.end_us - stretch.start_us;
                if us != stretch.row_us {
                    stretch.value *= us as f64 / stretch.row_us as f64;
                }
            }
        }
        stretches
    }

    /// Whether the values are whole counts.
    pub fn holds_counts(&self) -> bool {
        let whole = |value: f64| value.fract() == 0.0 && value >= 0.0;
        let mut values = self.archives.iter().flat_map(|archive| &archive.points);
        self.aggregation == Aggregation::Sum && values.all(|(_, value)| whole(*value))
    }
}

impl WhisperArchive {
    fn archive(&self) -> Archive {
        let row_us = i64::from(self.step_s) * SECOND_US;
        let us = |time: u32| i64::from(time) * SECOND_US;
        let rows: Vec<_> = self.points.iter().map(|(time, value)| (us(*time), *value)).collect();
        let newest_us = rows.last().map_or(0, |(start_us, _)| *start_us);
        let begins_us = newest_us - row_us * (i64::from(self.room) - 1);
        Archive { row_us, begins_us, rows }
    }
}

/// Fills a buffer; if the file ends before, it is damaged as `what` says.
fn fill(input: &mut impl Read, buffer: &mut [u8], what: &str) -> Result<(), FileError> {
    input.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged(what),
        _ => error.into(),
    })
}

/// The big-endian number at a position that must exist.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn damaged(what: &str) -> FileError {
    FileError::NotWhisper(what.to_owned())
}

#[cfg(test)]
#[path = "whisper_tests.rs"]
mod tests;
