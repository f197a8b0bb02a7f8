//! An external table over folders of Parquet files: created once, then given its partitions.

use std::collections::BTreeSet;

use crate::error::HiveError;
use crate::session::Session;
use crate::sql;
use crate::value::Value;

/// Partitions that one statement adds.
const ADD_MAX: usize = 200;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its type in Hive: `double`.
    pub kind: &'a str,
    /// Its meaning, in one line.
    pub comment: &'a str,
}

/// A table.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// Its database.
    pub database: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The columns in the files.
    pub columns: &'a [Column<'a>],
    /// The columns by which it is partitioned.
    pub keys: &'a [Column<'a>],
    /// Its folder, as the server sees it.
    pub location: &'a str,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePartition {
    /// The value of each key, in their order.
    pub values: Vec<String>,
    /// Its folder, as the server sees it.
    pub location: String,
}

/// What changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableChanges {
    /// The table was created.
    pub is_created: bool,
    /// Partitions that were added.
    pub added: usize,
    /// Partitions that were there.
    pub present: usize,
    /// Partitions of the table that were not among those given. They are left alone.
    pub other: usize,
}

/// Why a table could not be published.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The server or the connection.
    #[error(transparent)]
    Hive(#[from] HiveError),
    /// A table of this name has other columns.
    #[error(
        "the table {table} exists with other columns ({difference}); choose another --table, or drop \
         that one: dropping an external table keeps its files"
    )]
    Columns {
        /// Database and name.
        table: String,
        /// The first difference.
        difference: String,
    },
}

impl Table<'_> {
    /// Database and name, quoted for statements.
    pub fn quoted(&self) -> String {
        format!("{}.{}", sql::name(self.database), sql::name(self.name))
    }

    /// Creates the table if there is none, checks its columns, and adds the partitions that it
    /// lacks. To be repeated after any failure: what is done is not done again.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn publish(
        &self,
        session: &mut Session,
        parts: &[TablePartition],
    ) -> Result<TableChanges, TableError> {
        let found = session.execute(&format!(
            "SHOW TABLES IN {} LIKE {}",
            sql::name(self.database),
            sql::text(self.name)
        ))?;
        let is_created = found.is_empty();
        if is_created {
            session.execute(&self.create())?;
        }
        self.check(&session.execute(&format!("DESCRIBE {}", self.quoted()))?)?;
        let rows = session.execute(&format!("SHOW PARTITIONS {}", self.quoted()))?;
        let known: BTreeSet<&str> = rows.iter().filter_map(|row| row.first()?.as_text()).collect();
        let (old, new): (Vec<&TablePartition>, Vec<&TablePartition>) =
            parts.iter().partition(|part| known.contains(self.path(part).as_str()));
        for some in new.chunks(ADD_MAX) {
            session.execute(&self.add(some))?;
        }
        self.refresh(session);
        Ok(TableChanges {
            is_created,
            added: new.len(),
            present: old.len(),
            other: known.len() - old.len(),
        })
    }

    /// Gives a partition another folder.
    ///
    /// # Errors
    /// [`HiveError`].
    pub fn relocate(&self, session: &mut Session, part: &TablePartition) -> Result<(), HiveError> {
        session.execute(&format!(
            "ALTER TABLE {} PARTITION ({}) SET LOCATION {}",
            self.quoted(),
            self.spec(part),
            sql::text(&part.location)
        ))?;
        Ok(())
    }

    /// Makes Spark read the folders again, whose files it remembers. Hive remembers nothing and has
    /// no such statement, so an error is none.
    pub fn refresh(&self, session: &mut Session) {
        let _hive_has_none = session.execute(&format!("REFRESH TABLE {}", self.quoted()));
    }

    fn create(&self) -> String {
        let list = |columns: &[Column<'_>]| {
            let columns = columns.iter().map(|column| {
                let Column { name, kind, comment } = column;
                format!("{} {kind} COMMENT {}", sql::name(name), sql::text(comment))
            });
            columns.collect::<Vec<_>>().join(", ")
        };
        format!(
            "CREATE EXTERNAL TABLE IF NOT EXISTS {} ({}) PARTITIONED BY ({}) STORED AS PARQUET \
             LOCATION {}",
            self.quoted(),
            list(self.columns),
            list(self.keys),
            sql::text(self.location)
        )
    }

    fn add(&self, parts: &[&TablePartition]) -> String {
        let parts = parts.iter().map(|part| {
            format!("PARTITION ({}) LOCATION {}", self.spec(part), sql::text(&part.location))
        });
        let parts: Vec<String> = parts.collect();
        format!("ALTER TABLE {} ADD IF NOT EXISTS {}", self.quoted(), parts.join(" "))
    }

    fn spec(&self, part: &TablePartition) -> String {
        let pairs = self.keys.iter().zip(&part.values);
        let pairs =
            pairs.map(|(key, value)| format!("{}={}", sql::name(key.name), sql::text(value)));
        pairs.collect::<Vec<_>>().join(", ")
    }

    /// The partition as `SHOW PARTITIONS` prints it.
    fn path(&self, part: &TablePartition) -> String {
        let pairs = self.keys.iter().zip(&part.values);
        let pairs = pairs.map(|(key, value)| format!("{}={value}", key.name));
        pairs.collect::<Vec<_>>().join("/")
    }

    /// Compares the answer to DESCRIBE, in which a row without a name or with `#` ends the columns.
    fn check(&self, rows: &[Vec<Value>]) -> Result<(), TableError> {
        let text = |row: &[Value], at: usize| {
            row.get(at).and_then(Value::as_text).unwrap_or_default().trim().to_lowercase()
        };
        let columns = rows.iter().map(|row| (text(row, 0), text(row, 1)));
        let found: Vec<(String, String)> =
            columns.take_while(|(name, _)| !name.is_empty() && !name.starts_with('#')).collect();
        for Column { name, kind, .. } in self.columns.iter().chain(self.keys) {
            let other = match found.iter().find(|(known, _)| known == name) {
                Some((_, known)) if known == kind => continue,
                Some((_, known)) => format!("{name} is {known} instead of {kind}"),
                None => format!("{name} is missing"),
            };
            let table = format!("{}.{}", self.database, self.name);
            return Err(TableError::Columns { table, difference: other });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column<'_>; 2] = [
        Column { name: "slot", kind: "timestamp", comment: "start of the slot, UTC" },
        Column { name: "total", kind: "double", comment: "it's a count" },
    ];
    const KEYS: [Column<'_>; 2] = [
        Column { name: "step", kind: "string", comment: "10s" },
        Column { name: "day", kind: "string", comment: "day" },
    ];

    const TABLE: Table<'_> = Table {
        database: "metrics",
        name: "slots",
        columns: &COLUMNS,
        keys: &KEYS,
        location: "file:///srv/a'b",
    };

    fn part() -> TablePartition {
        let values = ["10s", "2026-11-22"].map(str::to_owned).to_vec();
        TablePartition { values, location: "file:///srv/x".to_owned() }
    }

    #[test]
    fn statements_quote_every_name_and_text() {
        assert_eq!(
            TABLE.create(),
            "CREATE EXTERNAL TABLE IF NOT EXISTS `metrics`.`slots` (`slot` timestamp COMMENT \
             'start of the slot, UTC', `total` double COMMENT 'it\\'s a count') PARTITIONED BY \
             (`step` string COMMENT '10s', `day` string COMMENT 'day') STORED AS PARQUET LOCATION \
             'file:///srv/a\\'b'"
        );
        assert_eq!(
            TABLE.add(&[&part()]),
            "ALTER TABLE `metrics`.`slots` ADD IF NOT EXISTS PARTITION (`step`='10s', \
             `day`='2026-11-22') LOCATION 'file:///srv/x'"
        );
        assert_eq!(TABLE.path(&part()), "step=10s/day=2026-11-22");
    }

    #[test]
    fn another_table_is_told_apart_by_its_columns() {
        let rows = |text: &str| {
            let cells = |line: &str| -> Vec<Value> {
                line.split(' ').map(|cell| Value::Text(cell.to_owned())).collect()
            };
            text.lines().map(cells).collect::<Vec<_>>()
        };
        let good = "slot timestamp\ntotal double\nmore int\nstep string\nday string\n# Partition\n";
        assert!(TABLE.check(&rows(good)).is_ok());
        let error = TABLE.check(&rows(&good.replace("double", "int"))).unwrap_err().to_string();
        assert!(error.starts_with(
            "the table metrics.slots exists with other columns (total is int instead of double);"
        ));
        let error = TABLE.check(&rows("slot timestamp\n# x\ntotal double")).unwrap_err();
        assert!(error.to_string().contains("(total is missing)"), "{error}");
    }
}
