//! Reads exported files, with another reader than the export itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The name of its file.
    pub(crate) file: String,
    pub(crate) step: String,
    pub(crate) day: String,
    /// As `requests:count{host=a}`.
    pub(crate) series: String,
    pub(crate) flow: bool,
    pub(crate) total: f64,
    pub(crate) covered_us: i64,
    pub(crate) n: i64,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
}

/// Sums by step, day and series.
pub(crate) type Totals = BTreeMap<String, Sums>;

/// Sums of some slots.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    pub(crate) total: f64,
    pub(crate) covered_us: i64,
    pub(crate) n: i64,
    pub(crate) slots: u64,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
}

impl Sums {
    pub(crate) fn add(&mut self, row: &Row) {
        let Row { total, covered_us, n, min, max, .. } = *row;
        self.merge(&Sums { total, covered_us, n, slots: 1, min, max });
    }

    pub(crate) fn merge(&mut self, other: &Sums) {
        self.total += other.total;
        self.covered_us += other.covered_us;
        self.n += other.n;
        self.slots += other.slots;
        self.min = self.min.into_iter().chain(other.min).reduce(f64::min);
        self.max = self.max.into_iter().chain(other.max).reduce(f64::max);
    }
}

impl Row {
    pub(crate) fn key(&self) -> String {
        format!("{} {} {}", self.step, self.day, self.series)
    }
}

/// All rows below a folder, file by file in the order in which they are there.
pub(crate) fn read_all(folder: &Path) -> Vec<Row> {
    let mut rows = Vec::new();
    for partition in export::partitions(folder).unwrap() {
        for entry in std::fs::read_dir(&partition.path).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "parquet") {
                read(&path, &partition, &mut rows);
            }
        }
    }
    rows
}

/// Adds the rows of a file.
pub(crate) fn read(path: &Path, partition: &export::Partition, rows: &mut Vec<Row>) {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let mut last = (String::new(), i64::MIN);
    let mut seen = std::collections::BTreeSet::new();
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let fields: BTreeMap<&str, &Field> =
            row.get_column_iter().map(|(name, field)| (name.as_str(), field)).collect();
        let names: Vec<&str> = row.get_column_iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, export::table::COLUMNS.map(|column| column.name));
        let double = |name: &str| match fields[name] {
            Field::Double(value) => Some(*value),
            Field::Null => None,
            other => panic!("{name}: {other}"),
        };
        let long = |name: &str| match fields[name] {
            Field::Long(value) => *value,
            other => panic!("{name}: {other}"),
        };
        let text = |field: &Field| match field {
            Field::Str(text) => text.clone(),
            other => panic!("{other}"),
        };
        let Field::MapInternal(tags) = fields["tags"] else { panic!("{}", fields["tags"]) };
        let tags = tags.entries().iter().map(|(key, value)| (text(key), text(value))).collect();
        let (measurement, field) = (text(fields["measurement"]), text(fields["field"]));
        let series = store::Identity { measurement, field, tags }.to_string();
        let slot_ms = match fields["slot"] {
            Field::TimestampMillis(ms) => *ms,
            Field::TimestampMicros(us) => us / 1_000,
            other => panic!("{other}"),
        };
        let day = export::Day::parse(&partition.day).unwrap();
        let day_ms = crate::recorder::at(&day.to_string()) / 1_000;
        assert!((day_ms..day_ms + 86_400_000).contains(&slot_ms), "{slot_ms} on {day}");
        if last.0 == series {
            assert!(slot_ms > last.1, "the slots of a series are in order of time");
        } else {
            assert!(seen.insert(series.clone()), "the slots of a series are together");
        }
        last = (series.clone(), slot_ms);
        rows.push(Row {
            file: path.file_name().unwrap().display().to_string(),
            step: partition.step.clone(),
            day: partition.day.clone(),
            series,
            flow: *fields["flow"] == Field::Bool(true),
            total: double("total").unwrap(),
            covered_us: long("covered_us"),
            n: long("n"),
            min: double("min"),
            max: double("max"),
        });
    }
}
