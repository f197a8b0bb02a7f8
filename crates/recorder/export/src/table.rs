//! The table that the files of a folder make up: its columns, and its partitions on disk.
//!
//! ```text
//! FOLDER/step=10s/day=2026-11-22/tachograph-RECORDER.parquet
//! ```

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, in lower case, as Hive has them all.
    pub name: &'static str,
    /// Its type in Hive and Spark.
    pub hive: &'static str,
    /// Its meaning, in one line.
    pub meaning: &'static str,
}

const fn column(name: &'static str, hive: &'static str, meaning: &'static str) -> Column {
    Column { name, hive, meaning }
}

/// The columns in the files, in their order.
///
/// A row is a slot of a series, all lanes added. Nothing is NULL but `min` and `max` where no value
/// was seen.
pub const COLUMNS: [Column; 11] = [
    column("slot", "timestamp", "start of the slot, UTC"),
    column("measurement", "string", "measurement of the series"),
    column("field", "string", "field of the series"),
    column("tags", "map<string,string>", "tags of the series"),
    column("flow", "boolean", "true: total is a count; false: total is level x seconds"),
    column("total", "double", "count, or level x seconds"),
    column("covered_us", "bigint", "microseconds for which something is known, added over lanes"),
    column("n", "bigint", "updates that ended in the slot"),
    column("min", "double", "least value, or rate per second, of any update"),
    column("max", "double", "greatest value, or rate per second, of any update"),
    column("approximate", "boolean", "min and max may be those of a removed update"),
];

/// The columns in the names of the folders, outermost first.
///
/// Days are text, because every version of Hive prunes partitions by text, and days in this form
/// compare as dates do.
pub const PARTITION_COLUMNS: [Column; 2] = [
    column("step", "string", "length of a slot: 10s, 1m, 1h"),
    column("day", "string", "day of the slot's start, UTC: 2026-11-22"),
];

/// The folder with the commits of a table of Delta Lake.
pub(crate) const DELTA_LOG: &str = "_delta_log";

/// How the names of the exported files begin. Readers ignore names that begin with `_` or `.`.
pub(crate) const FILE_PREFIX: &str = "tachograph-";

/// How the names of the exported files end.
pub(crate) const FILE_SUFFIX: &str = ".parquet";

/// A folder of the table with at least one exported file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition {
    /// The value of the column `step`: `10s`.
    pub step: String,
    /// The value of the column `day`: `2026-11-22`.
    pub day: String,
    /// The folder.
    pub path: PathBuf,
}

/// The partitions in a folder, ordered by step and day. What has another name is ignored.
///
/// # Errors
/// Those of reading the folder and the folders in it; a table of Delta Lake, whose files must not be
/// read without its log.
pub fn partitions(folder: &Path) -> io::Result<Vec<Partition>> {
    if folder.join(DELTA_LOG).exists() {
        return Err(io::Error::other(
            "it is a table of Delta Lake: name a folder of export --parquet",
        ));
    }
    let mut found = Vec::new();
    for (step, of_step) in folders(folder, "step=")? {
        for (day, path) in folders(&of_step, "day=")? {
            if is_day(&day) && has_file(&path)? {
                found.push(Partition { step: step.clone(), day, path });
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The folder of a partition.
pub fn partition_path(folder: &Path, step: &str, day: &str) -> PathBuf {
    folder.join(format!("step={step}")).join(format!("day={day}"))
}

/// The folders in a folder whose names begin with `key`, with the rest of their names.
pub(crate) fn folders(folder: &Path, key: &str) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let value = name.to_str().and_then(|name| name.strip_prefix(key));
        if let Some(value) = value.filter(|value| !value.is_empty())
            && entry.path().is_dir()
        {
            found.push((value.to_owned(), entry.path()));
        }
    }
    Ok(found)
}

fn has_file(folder: &Path) -> io::Result<bool> {
    Ok(!files(folder)?.is_empty())
}

/// The exported files in the folder of a partition.
pub(crate) fn files(partition: &Path) -> io::Result<Vec<PathBuf>> {
    let is_ours = |name: &str| name.starts_with(FILE_PREFIX) && name.ends_with(FILE_SUFFIX);
    let mut found = names(partition)?;
    found.retain(|name| name.to_str().is_some_and(is_ours));
    Ok(found.into_iter().map(|name| partition.join(name)).collect())
}

/// The names in the folder of a partition; none if another recorder has just removed it, because it
/// was empty.
pub(crate) fn names(partition: &Path) -> io::Result<Vec<OsString>> {
    match std::fs::read_dir(partition) {
        Ok(entries) => entries.map(|entry| Ok(entry?.file_name())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// An exported file as it is now. Another one in its place has another time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileState {
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
}

/// All exported files of the partitions, in order.
///
/// # Errors
/// Those of reading the folders; a file that is removed meanwhile is not listed.
pub fn file_states(partitions: &[Partition]) -> io::Result<Vec<FileState>> {
    let mut states = Vec::new();
    for partition in partitions {
        for path in files(&partition.path)? {
            if let Ok(about) = path.metadata() {
                states.push(FileState { path, bytes: about.len(), modified: about.modified()? });
            }
        }
    }
    states.sort();
    Ok(states)
}

/// Whether a text has the form of a day: `2026-11-22`.
fn is_day(text: &str) -> bool {
    let places = text.bytes().enumerate();
    text.len() == 10
        && places.into_iter().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_the_folders_with_files_of_ours() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        put("step=1m/day=2026-11-22/tachograph-a.parquet");
        put("step=10s/day=2026-11-23/tachograph-a.parquet");
        put("step=10s/day=2026-11-22/tachograph-b.parquet");
        put("step=10s/day=2026-11-21/_tachograph-b.json");
        put("step=10s/day=today/tachograph-a.parquet");
        put("step=10s/readme/tachograph-a.parquet");
        put("_SUCCESS");
        put("step=5m");
        let found = partitions(folder.path()).unwrap();
        let named: Vec<_> = found.iter().map(|p| (p.step.as_str(), p.day.as_str())).collect();
        assert_eq!(named, [("10s", "2026-11-22"), ("10s", "2026-11-23"), ("1m", "2026-11-22")]);
        assert_eq!(found[0].path, partition_path(folder.path(), "10s", "2026-11-22"));
        assert!(partitions(&folder.path().join("none")).is_err());
    }

    #[test]
    fn names_of_columns_need_no_quotes_in_any_case() {
        let names: Vec<&str> =
            COLUMNS.iter().chain(&PARTITION_COLUMNS).map(|column| column.name).collect();
        for name in &names {
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
    }
}
