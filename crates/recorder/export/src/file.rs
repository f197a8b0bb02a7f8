//! A file of the table: its schema, and how rows are written to it.
//!
//! What is in a file depends on its rows alone: no times, no random numbers, row groups of a fixed
//! size, and pages that are cut after a fixed number of bytes.

use std::io::Write;
use std::sync::{Arc, LazyLock};

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type, Int96Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{Type, TypePtr};
use store::{Identity, SlotSum};

use crate::rows::{ROWS_MAX, Rows, SeriesRun};

/// The version of the table: of its columns, and of how they are written.
pub(crate) const TABLE: u32 = 1;

/// The schema of the files; [`crate::table::COLUMNS`] are the same columns in Hive's words.
///
/// Times are INT96, which is deprecated, because Hive reads no others before version 4. No column is
/// optional but the two that can be NULL.
const SCHEMA: &str = "
message slots {
  required int96 slot;
  required binary measurement (STRING);
  required binary field (STRING);
  required group tags (MAP) {
    repeated group key_value {
      required binary key (STRING);
      required binary value (STRING);
    }
  }
  required boolean flow;
  required double total;
  required int64 covered_us;
  required int64 n;
  optional double min;
  optional double max;
  required boolean approximate;
}";

/// Rows of a series that are handed to a column at once.
const BLOCK: usize = 1_024;

/// Bytes of a page before compression.
const PAGE_BYTES: usize = 1 << 20;

static TYPE: LazyLock<TypePtr> = LazyLock::new(|| {
    let parsed = parse_message_type(SCHEMA);
    Arc::new(parsed.unwrap_or_else(|error| unreachable!("the schema is a constant: {error}")))
});

/// The schema of the files.
pub(crate) fn schema() -> &'static Type {
    &TYPE
}

/// What a file says about itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileMetadata<'a> {
    pub(crate) recorder: &'a str,
    pub(crate) step: &'a str,
    pub(crate) day: &'a str,
}

/// A file that is being written.
pub(crate) struct TableFile<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    rows: Rows,
    written: u64,
}

impl<W: Write + Send> TableFile<W> {
    /// Begins a file.
    pub(crate) fn new(to: W, about: &FileMetadata<'_>) -> Result<TableFile<W>> {
        let writer = SerializedFileWriter::new(to, TYPE.clone(), Arc::new(properties(about)))?;
        Ok(TableFile { writer, rows: Rows::default(), written: 0 })
    }

    /// Adds slots of a series, in order of time; those of which nothing is known are left out.
    pub(crate) fn push(
        &mut self,
        identity: &Identity,
        flow: bool,
        slots: &[SlotSum],
    ) -> Result<()> {
        let mut known = slots.iter().filter(|slot| !slot.is_void()).peekable();
        while known.peek().is_some() {
            if self.rows.len() == ROWS_MAX {
                self.write_group()?;
            }
            self.rows.begin(identity, flow);
            let free = ROWS_MAX - self.rows.len();
            known.by_ref().take(free).for_each(|slot| self.rows.push(slot));
        }
        Ok(())
    }

    /// Number of rows so far.
    pub(crate) fn len(&self) -> u64 {
        self.written + self.rows.len() as u64
    }

    /// Writes what is left, and the footer.
    pub(crate) fn finish(mut self) -> Result<()> {
        if self.rows.len() > 0 {
            self.write_group()?;
        }
        self.writer.finish()?;
        Ok(())
    }

    fn write_group(&mut self) -> Result<()> {
        let rows = &self.rows;
        let mut group = self.writer.next_row_group()?;
        let mut place = 0;
        while let Some(mut column) = group.next_column()? {
            match place {
                0 => drop(column.typed::<Int96Type>().write_batch(&rows.slot, None, None)?),
                1 => strings(&mut column, &rows.runs, |run| &run.identity.measurement)?,
                2 => strings(&mut column, &rows.runs, |run| &run.identity.field)?,
                3 => tags(&mut column, &rows.runs, |(key, _)| key)?,
                4 => tags(&mut column, &rows.runs, |(_, value)| value)?,
                5 => flows(&mut column, &rows.runs)?,
                6 => drop(column.typed::<DoubleType>().write_batch(&rows.total, None, None)?),
                7 => drop(column.typed::<Int64Type>().write_batch(&rows.covered_us, None, None)?),
                8 => drop(column.typed::<Int64Type>().write_batch(&rows.n, None, None)?),
                9 => bounds(&mut column, &rows.min, &rows.has_bounds)?,
                10 => bounds(&mut column, &rows.max, &rows.has_bounds)?,
                _ => drop(column.typed::<BoolType>().write_batch(&rows.approximate, None, None)?),
            }
            column.close()?;
            place += 1;
        }
        group.close()?;
        self.written += self.rows.len() as u64;
        self.rows.clear();
        Ok(())
    }
}

fn properties(about: &FileMetadata<'_>) -> WriterProperties {
    let says = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(format!("tachograph version {TABLE}.0.0"))
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_data_page_size_limit(PAGE_BYTES)
        .set_data_page_row_count_limit(ROWS_MAX)
        .set_key_value_metadata(Some(vec![
            says("tachograph.table", &TABLE.to_string()),
            says("tachograph.recorder", about.recorder),
            says("tachograph.step", about.step),
            says("tachograph.day", about.day),
        ]))
        .build()
}

/// The parts of a number of rows that are written at once.
fn blocks(rows: usize) -> impl Iterator<Item = usize> {
    (0..rows).step_by(BLOCK).map(move |from| (rows - from).min(BLOCK))
}

fn bytes(text: &str) -> ByteArray {
    ByteArray::from(text.as_bytes().to_vec())
}

/// Writes a text of each run once for each of its rows.
fn strings(
    column: &mut SerializedColumnWriter<'_>,
    runs: &[SeriesRun],
    text: impl Fn(&SeriesRun) -> &String,
) -> Result<()> {
    let column = column.typed::<ByteArrayType>();
    for run in runs {
        let one = bytes(text(run));
        let block = vec![one.clone(); run.rows.min(BLOCK)];
        for rows in blocks(run.rows) {
            let (least, greatest) = (Some(&one), Some(&one));
            let block = &block[..rows];
            column.write_batch_with_statistics(block, None, None, least, greatest, None)?;
        }
    }
    Ok(())
}

/// Writes the keys or the values of the tags of each run once for each of its rows.
fn tags<'r>(
    column: &mut SerializedColumnWriter<'_>,
    runs: &'r [SeriesRun],
    text: impl Fn((&'r String, &'r String)) -> &'r String,
) -> Result<()> {
    let column = column.typed::<ByteArrayType>();
    for run in runs {
        let texts: Vec<&String> = run.identity.tags.iter().map(&text).collect();
        let each: Vec<ByteArray> = texts.iter().map(|text| bytes(text)).collect();
        let least = texts.iter().min().map(|text| bytes(text));
        let greatest = texts.iter().max().map(|text| bytes(text));
        // A row without tags has one place without a value.
        let places = each.len().max(1);
        let known = i16::from(!each.is_empty());
        let rows = run.rows.min(BLOCK);
        let values: Vec<ByteArray> = each.iter().cycle().take(rows * each.len()).cloned().collect();
        let defined = vec![known; rows * places];
        let repeated: Vec<i16> = (0..rows * places).map(|at| (at % places > 0).into()).collect();
        let (least, greatest) = (least.as_ref(), greatest.as_ref());
        for rows in blocks(run.rows) {
            let (values, places) = (&values[..rows * each.len()], ..rows * places);
            let (defined, repeated) = (Some(&defined[places]), Some(&repeated[places]));
            column.write_batch_with_statistics(values, defined, repeated, least, greatest, None)?;
        }
    }
    Ok(())
}

fn flows(column: &mut SerializedColumnWriter<'_>, runs: &[SeriesRun]) -> Result<()> {
    let column = column.typed::<BoolType>();
    for run in runs {
        let block = vec![run.flow; run.rows.min(BLOCK)];
        for rows in blocks(run.rows) {
            column.write_batch(&block[..rows], None, None)?;
        }
    }
    Ok(())
}

fn bounds(column: &mut SerializedColumnWriter<'_>, values: &[f64], defined: &[i16]) -> Result<()> {
    column.typed::<DoubleType>().write_batch(values, Some(defined), None)?;
    Ok(())
}

/// The system's error in an error of Parquet, or what it says.
pub(crate) fn io_error(error: ParquetError) -> std::io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(error) => *error,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    }
}
