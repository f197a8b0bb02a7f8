//! Reads the slots of an exported file that the store no longer has.
//!
//! Of a day of which the record has dropped a part, the old slots come from the exported file and the
//! others from the record, which alone would give less. Which days have changed is told by digests of
//! the stored rows, not by counters that writers keep: writers pay nothing, and a repair by hand is
//! noticed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type, Int96Type,
};
use parquet::errors::Result;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use series::{Accumulator, Integral};
use store::{Identity, SlotSum};

use crate::ExportError;
use crate::file::schema;
use crate::rows::us_of;

/// The slots of an exported file that are earlier than the horizon, series by series in the order
/// of their numbers, as [`store::Store::scan`] gives them.
pub(crate) struct EarlierSlots {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    /// The next row group.
    group: usize,
    horizon_us: i64,
    ready: VecDeque<(Identity, Vec<SlotSum>)>,
}

/// The numbers of all series.
pub(crate) type Numbers = HashMap<Identity, i64>;

impl EarlierSlots {
    /// Opens a file; `None` if there is none.
    pub(crate) fn open(
        path: &Path,
        horizon_us: i64,
    ) -> std::result::Result<Option<EarlierSlots>, ExportError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ExportError::file("read", path)(error)),
        };
        let foreign = |cause: String| ExportError::Foreign { path: path.to_owned(), cause };
        let reader = SerializedFileReader::new(file).map_err(|error| foreign(error.to_string()))?;
        if reader.metadata().file_metadata().schema() != schema() {
            return Err(foreign("it has other columns".to_owned()));
        }
        let ready = VecDeque::new();
        Ok(Some(EarlierSlots { path: path.to_owned(), reader, group: 0, horizon_us, ready }))
    }

    /// The number of the next series; `None` after the last one.
    pub(crate) fn next_number(
        &mut self,
        numbers: &Numbers,
    ) -> std::result::Result<Option<i64>, ExportError> {
        while self.ready.is_empty() && self.group < self.reader.num_row_groups() {
            let read = self.reader.get_row_group(self.group).and_then(|group| slots(&*group));
            let read = read.map_err(|error| ExportError::Foreign {
                path: self.path.clone(),
                cause: error.to_string(),
            })?;
            self.group += 1;
            for (identity, mut slots) in read {
                slots.retain(|slot| slot.slot_us < self.horizon_us);
                if !slots.is_empty() {
                    self.ready.push_back((identity, slots));
                }
            }
        }
        let Some((identity, _)) = self.ready.front() else { return Ok(None) };
        match numbers.get(identity) {
            Some(number) => Ok(Some(*number)),
            None => {
                Err(ExportError::Older { path: self.path.clone(), series: identity.to_string() })
            }
        }
    }

    /// The slots of the series that [`EarlierSlots::next_number`] has found.
    pub(crate) fn pop(&mut self) -> Option<(Identity, Vec<SlotSum>)> {
        self.ready.pop_front()
    }
}

/// A column of a row group: the values, and the levels of the places for them.
struct ColumnValues<T: DataType> {
    values: Vec<T::T>,
    defined: Vec<i16>,
    repeated: Vec<i16>,
}

fn column<T: DataType>(group: &dyn RowGroupReader, at: usize) -> Result<ColumnValues<T>> {
    let mut column = ColumnValues { values: Vec::new(), defined: Vec::new(), repeated: Vec::new() };
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(at)?);
    let ColumnValues { values, defined, repeated } = &mut column;
    while reader.read_records(usize::MAX, Some(defined), Some(repeated), values)?.0 > 0 {}
    Ok(column)
}

/// The slots of a row group, series by series.
fn slots(group: &dyn RowGroupReader) -> Result<Vec<(Identity, Vec<SlotSum>)>> {
    let slot = column::<Int96Type>(group, 0)?.values;
    let mut identities = Identities::new(group)?;
    let total = column::<DoubleType>(group, 6)?.values;
    let covered_us = column::<Int64Type>(group, 7)?.values;
    let n = column::<Int64Type>(group, 8)?.values;
    let (min, max) = (column::<DoubleType>(group, 9)?, column::<DoubleType>(group, 10)?.values);
    let approximate = column::<BoolType>(group, 11)?.values;
    let mut bounds = min.values.into_iter().zip(max);
    let mut found: Vec<(Identity, Vec<SlotSum>)> = Vec::new();
    for row in 0..slot.len() {
        if identities.advance(row) {
            found.push((identities.identity(row), Vec::new()));
        }
        let known = min.defined.get(row) == Some(&1);
        let (vmin, vmax) = known.then(|| bounds.next()).flatten().unwrap_or(NO_BOUNDS);
        let sums = Accumulator {
            integral: Integral::Area(total[row]),
            covered_us: covered_us[row],
            vmin,
            vmax,
            n: n[row],
            approximate: approximate[row],
            ..Accumulator::EMPTY
        };
        if let Some((_, slots)) = found.last_mut() {
            slots.push(SlotSum::new(us_of(&slot[row]), 0, &sums));
        }
    }
    Ok(found)
}

/// Of a slot in which no value was seen.
const NO_BOUNDS: (f64, f64) = (f64::INFINITY, f64::NEG_INFINITY);

/// The names of the series of each row.
struct Identities {
    measurement: Vec<ByteArray>,
    field: Vec<ByteArray>,
    /// The tags of each row, as a range of the keys and values.
    tags: Vec<std::ops::Range<usize>>,
    keys: Vec<ByteArray>,
    values: Vec<ByteArray>,
}

impl Identities {
    fn new(group: &dyn RowGroupReader) -> Result<Identities> {
        let keys = column::<ByteArrayType>(group, 3)?;
        let mut tags: Vec<std::ops::Range<usize>> = Vec::new();
        let mut at = 0;
        for (defined, repeated) in keys.defined.iter().zip(&keys.repeated) {
            let end = at + usize::from(*defined == 1);
            match tags.last_mut() {
                Some(last) if *repeated == 1 => last.end = end,
                _ => tags.push(at..end),
            }
            at = end;
        }
        Ok(Identities {
            measurement: column::<ByteArrayType>(group, 1)?.values,
            field: column::<ByteArrayType>(group, 2)?.values,
            tags,
            keys: keys.values,
            values: column::<ByteArrayType>(group, 4)?.values,
        })
    }

    /// Whether a row is of another series than the one before.
    fn advance(&mut self, row: usize) -> bool {
        let Some(before) = row.checked_sub(1) else { return true };
        let tags = |row: usize, of: &[ByteArray]| of[self.tags[row].clone()].to_vec();
        self.measurement[row] != self.measurement[before]
            || self.field[row] != self.field[before]
            || tags(row, &self.keys) != tags(before, &self.keys)
            || tags(row, &self.values) != tags(before, &self.values)
    }

    fn identity(&self, row: usize) -> Identity {
        let text = |bytes: &ByteArray| String::from_utf8_lossy(bytes.data()).into_owned();
        let tags = self.tags[row].clone();
        let tags: BTreeMap<String, String> =
            tags.map(|at| (text(&self.keys[at]), text(&self.values[at]))).collect();
        let (measurement, field) = (text(&self.measurement[row]), text(&self.field[row]));
        Identity { measurement, field, tags }
    }
}
