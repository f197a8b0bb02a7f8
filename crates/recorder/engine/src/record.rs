//! The records of the journal.
//!
//! ```text
//!  lines    kind (u8) · arrival (i64, µs) · [clock (i64, µs)] · [key (u128)] · lines, or a message
//!  windows  254 (u8) · from (u64) · newest (i64, µs) · closed (i64, µs) · fractions (JSON)
//!  batch    255 (u8) · writer (u128) · number (u64) · position (u64)              little-endian
//! ```
//!
//! The kind of lines with a key, by which their sender names the request, is larger by 128. That of lines
//! which arrived while the clock showed a later time than was believed is larger by 64.
//!
//! A batch record precedes every batch that is written to the store. It says up to which position
//! the batch and its predecessors contain the journal. After a crash the store knows which batches
//! it has, so the latest of their records tells where to continue.
//!
//! Once StatsD lines have arrived, a windows record precedes each batch record. The batch has the
//! open windows as they were then; to continue them, the lines from an earlier position on are read
//! again ([`CarriedWindows`]).

use formats::text::CarriedWindows;
use formats::{Book, Precision, Protocol, SeriesName};
use store::Writer;

use crate::clock::ArrivalTimes;
use crate::journal::RECORD_MAX;

/// How lines are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Graphite plaintext.
    Graphite,
    /// Influx line protocol with times of a precision.
    Influx(Precision),
    /// StatsD and DogStatsD.
    Statsd,
    /// One binary message.
    Message(Protocol),
}

/// All formats, in the order of their codes.
pub const FORMATS: [Format; 9] = [
    Format::Graphite,
    Format::Influx(Precision::Nanoseconds),
    Format::Influx(Precision::Microseconds),
    Format::Influx(Precision::Milliseconds),
    Format::Influx(Precision::Seconds),
    Format::Statsd,
    Format::Message(Protocol::RemoteWrite1),
    Format::Message(Protocol::RemoteWrite2),
    Format::Message(Protocol::Otlp),
];

/// Marks the kind of lines with a key.
const KEYED: u8 = 128;

/// Marks the kind of lines with what the clock showed.
const LATER: u8 = 64;

const WINDOWS: u8 = 254;

const BATCH: u8 = 255;

/// Limit on the fractions in a record, in bytes of JSON.
const OWED_MAX: usize = RECORD_MAX - 1024;

/// Length of what precedes the lines at most.
pub const LINES_HEAD: usize = 33;

impl Format {
    /// Its index in [`FORMATS`].
    pub fn code(self) -> usize {
        FORMATS.iter().position(|format| *format == self).unwrap_or_default()
    }
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Lines with their arrival.
    Lines {
        /// How they are to be read.
        format: Format,
        /// When they arrived.
        arrived: ArrivalTimes,
        /// The name of their request.
        key: Option<Writer>,
        /// The lines, or a message.
        lines: &'a [u8],
    },
    /// What must be known to continue the windows of the next batch, besides lines.
    Windows {
        /// [`CarriedWindows::from`].
        from: u64,
        /// [`CarriedWindows::newest_us`].
        newest_us: i64,
        /// [`CarriedWindows::closed_us`].
        closed_us: i64,
        /// [`CarriedWindows::owed`], as JSON.
        owed: &'a [u8],
    },
    /// A batch that contains everything up to a position.
    Batch {
        /// Who writes it.
        writer: Writer,
        /// Its number.
        number: u64,
        /// The position.
        upto: u64,
    },
}

impl Record<'_> {
    /// Writes it into an empty buffer.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.clear();
        match self {
            Record::Lines { format, arrived: ArrivalTimes { at_us, latest_us }, key, lines } => {
                let is_later = latest_us > at_us;
                let marks = [(key.is_some(), KEYED), (is_later, LATER)];
                let marks = marks.iter().filter(|(is_marked, _)| *is_marked).map(|(_, mark)| mark);
                to.push(format.code() as u8 | marks.sum::<u8>());
                to.extend(at_us.to_le_bytes());
                if is_later {
                    to.extend(latest_us.to_le_bytes());
                }
                to.extend(key.iter().flat_map(|key| key.0.to_le_bytes()));
                to.extend_from_slice(lines);
            }
            Record::Windows { from, newest_us, closed_us, owed } => {
                to.push(WINDOWS);
                to.extend(from.to_le_bytes());
                to.extend(newest_us.to_le_bytes());
                to.extend(closed_us.to_le_bytes());
                to.extend_from_slice(owed);
            }
            Record::Batch { writer, number, upto } => {
                to.push(BATCH);
                to.extend(writer.0.to_le_bytes());
                to.extend(number.to_le_bytes());
                to.extend(upto.to_le_bytes());
            }
        }
    }

    /// Reads it; `None` for one that this version does not know.
    pub fn read(bytes: &[u8]) -> Option<Record<'_>> {
        let (kind, mut rest) = bytes.split_first()?;
        if *kind == BATCH {
            let writer = Writer(u128::from_le_bytes(take(&mut rest)?));
            let number = u64::from_le_bytes(take(&mut rest)?);
            let upto = u64::from_le_bytes(take(&mut rest)?);
            return rest.is_empty().then_some(Record::Batch { writer, number, upto });
        }
        if *kind == WINDOWS {
            let from = u64::from_le_bytes(take(&mut rest)?);
            let newest_us = i64::from_le_bytes(take(&mut rest)?);
            let closed_us = i64::from_le_bytes(take(&mut rest)?);
            return Some(Record::Windows { from, newest_us, closed_us, owed: rest });
        }
        let format = *FORMATS.get(usize::from(kind & !(KEYED | LATER)))?;
        let (mut arrived, mut key) = (ArrivalTimes::at(i64::from_le_bytes(take(&mut rest)?)), None);
        if kind & LATER != 0 {
            arrived.latest_us = i64::from_le_bytes(take(&mut rest)?);
        }
        if kind & KEYED != 0 {
            key = Some(Writer(u128::from_le_bytes(take(&mut rest)?)));
        }
        Some(Record::Lines { format, arrived, key, lines: rest })
    }
}

/// Takes bytes from the beginning.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*taken)
}

/// A fraction that is owed to a series: measurement, tags, field, and the bits of the number,
/// because JSON's numbers are decimal.
type OwedFraction = (String, Vec<(String, String)>, String, u64);

/// Writes what windows carry over a restart as a record; `next` is the position of the next
/// message. Fractions that do not fit are dropped.
pub fn write_windows(windows: &mut formats::text::Windows, book: &Book, next: u64) -> Vec<u8> {
    // Names have no control characters, so an escape is one more byte.
    let bytes_of = |series| 2 * book.name(series).to_string().len() + 64;
    let CarriedWindows { from, newest_us, closed_us, owed } =
        windows.carried(next, OWED_MAX, bytes_of);
    let owed = owed.into_iter().map(|(series, part)| {
        let name = book.name(series);
        (name.measurement(), name.tags(), name.field(), part.to_bits())
    });
    // Texts and numbers can always be written.
    let owed = serde_json::to_vec(&owed.collect::<Vec<_>>()).unwrap_or_default();
    let mut bytes = Vec::new();
    Record::Windows { from, newest_us, closed_us, owed: &owed }.write(&mut bytes);
    bytes
}

/// Reads such a record; `None` for another one.
pub fn read_windows(bytes: &[u8], book: &mut Book) -> Option<CarriedWindows> {
    let Some(Record::Windows { from, newest_us, closed_us, owed }) = Record::read(bytes) else {
        return None;
    };
    let owed: Vec<OwedFraction> = serde_json::from_slice(owed).ok()?;
    let owed = owed.into_iter().filter_map(|(measurement, tags, field, part)| {
        // Beyond the limit on series, a fraction has no series any more.
        let name = SeriesName::new(measurement, tags, field).ok()?;
        Some((book.number(name).ok()?, f64::from_bits(part)))
    });
    Some(CarriedWindows { from, newest_us, closed_us, owed: owed.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        let mut bytes = vec![1, 2, 3];
        let batch = Record::Batch { writer: Writer(u128::MAX - 5), number: 7, upto: u64::MAX };
        batch.write(&mut bytes);
        assert_eq!(Record::read(&bytes), Some(batch));
        for format in FORMATS {
            let (now, later) = (ArrivalTimes::at(-5), ArrivalTimes { at_us: -5, latest_us: 7 });
            let key = Some(Writer(7));
            let lengths = [(now, None, 15), (later, None, 23), (now, key, 31), (later, key, 39)];
            for (arrived, key, length) in lengths {
                let lines = Record::Lines { format, arrived, key, lines: b"a 1 2\n" };
                lines.write(&mut bytes);
                assert_eq!(Record::read(&bytes), Some(lines));
                assert_eq!(bytes.len(), length);
            }
        }
        let windows = Record::Windows { from: 3, newest_us: i64::MIN, closed_us: -7, owed: b"[]" };
        windows.write(&mut bytes);
        assert_eq!(Record::read(&bytes), Some(windows));
        for unknown in
            [&b""[..], &[254, 0], &[200, 0, 0], &[0, 1], &[128; 24], &[64; 16], &[255, 1]]
        {
            assert_eq!(Record::read(unknown), None);
        }
    }
}
