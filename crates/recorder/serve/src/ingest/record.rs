//! The records of the journal.
//!
//! ```text
//!  lines    kind (u8) · arrival (i64, µs) · lines                    little-endian
//!  batch    255 (u8) · writer (u128) · number (u64) · position (u64)
//! ```
//!
//! A batch record precedes every batch that is written to the store. It says up to which position
//! the batch and its predecessors contain the journal. After a crash the store knows which batches
//! it has, so the latest of their records tells where to continue.

use formats::Precision;
use store::Writer;

/// How lines are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    /// Graphite plaintext.
    Graphite,
    /// Influx line protocol with times of a precision.
    Influx(Precision),
}

/// All formats, in the order of their codes.
pub(super) const FORMATS: [Format; 5] = [
    Format::Graphite,
    Format::Influx(Precision::Nanoseconds),
    Format::Influx(Precision::Microseconds),
    Format::Influx(Precision::Milliseconds),
    Format::Influx(Precision::Seconds),
];

const BATCH: u8 = 255;

/// Length of what precedes the lines.
pub(super) const LINES_HEAD: usize = 9;

impl Format {
    /// Its index in [`FORMATS`].
    pub(super) fn code(self) -> usize {
        FORMATS.iter().position(|format| *format == self).unwrap_or_default()
    }
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    /// Lines with their arrival time in microseconds since the epoch.
    Lines { format: Format, arrival_us: i64, lines: &'a [u8] },
    /// A batch that contains everything up to a position.
    Batch { writer: Writer, number: u64, upto: u64 },
}

impl Record<'_> {
    /// Writes it into an empty buffer.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        to.clear();
        match self {
            Record::Lines { format, arrival_us, lines } => {
                to.push(format.code() as u8);
                to.extend(arrival_us.to_le_bytes());
                to.extend_from_slice(lines);
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
    pub(super) fn read(bytes: &[u8]) -> Option<Record<'_>> {
        let (kind, rest) = bytes.split_first()?;
        if *kind == BATCH {
            let (writer, rest) = rest.split_first_chunk()?;
            let (number, rest) = rest.split_first_chunk()?;
            let upto = rest.try_into().ok()?;
            let writer = Writer(u128::from_le_bytes(*writer));
            let (number, upto) = (u64::from_le_bytes(*number), u64::from_le_bytes(upto));
            return Some(Record::Batch { writer, number, upto });
        }
        let format = *FORMATS.get(usize::from(*kind))?;
        let (arrival_us, lines) = rest.split_first_chunk()?;
        Some(Record::Lines { format, arrival_us: i64::from_le_bytes(*arrival_us), lines })
    }
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
            let lines = Record::Lines { format, arrival_us: -5, lines: b"a 1 2\n" };
            lines.write(&mut bytes);
            assert_eq!(Record::read(&bytes), Some(lines));
            assert_eq!(bytes.len(), LINES_HEAD + 6);
        }
        for unknown in [&b""[..], &[200, 0, 0], &[0, 1], &[255, 1]] {
            assert_eq!(Record::read(unknown), None);
        }
    }
}
