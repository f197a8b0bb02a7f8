//! The totals of a partition's files, for comparison with what another program reads in them.

use std::fs::File;
use std::io;
use std::path::Path;

use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{BoolType, DataType, DoubleType};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};

use crate::table::files;

/// Rows that are read at once.
const RECORDS: usize = 1 << 16;

/// The totals of some rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Number of rows.
    pub rows: u64,
    /// Σ `total` of the rows that are counts. It is exact in any order, up to 2^53.
    pub counts: f64,
    /// Σ `total` of the other rows: level × seconds.
    pub levels: f64,
}

/// Adds up the exported files in the folder of a partition.
///
/// # Errors
/// A folder or a file that cannot be read; the text names it.
pub fn totals(partition: &Path) -> io::Result<Totals> {
    let mut totals = Totals::default();
    for path in files(partition).map_err(|error| unreadable(partition, &error))? {
        let file = File::open(&path).map_err(|error| unreadable(&path, &error))?;
        add(file, &mut totals).map_err(|error| unreadable(&path, &error))?;
    }
    Ok(totals)
}

fn unreadable(path: &Path, error: &dyn std::error::Error) -> io::Error {
    io::Error::other(format!("cannot read {}: {error}", path.display()))
}

fn add(file: File, totals: &mut Totals) -> Result<()> {
    let reader = SerializedFileReader::new(file)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let place = |name: &str| {
        let place = schema.columns().iter().position(|column| column.path().string() == name);
        place.ok_or_else(|| ParquetError::General(format!("it has no column {name}")))
    };
    let (flow, total) = (place("flow")?, place("total")?);
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        let flows = values::<BoolType>(&*group, flow)?;
        let sums = values::<DoubleType>(&*group, total)?;
        totals.rows += flows.len() as u64;
        for (is_flow, sum) in flows.into_iter().zip(sums) {
            *(if is_flow { &mut totals.counts } else { &mut totals.levels }) += sum;
        }
    }
    Ok(())
}

/// The values of a required column.
fn values<T: DataType>(group: &dyn RowGroupReader, place: usize) -> Result<Vec<T::T>> {
    let mut values = Vec::new();
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(place)?);
    while reader.read_records(RECORDS, None, None, &mut values)?.0 > 0 {}
    Ok(values)
}
