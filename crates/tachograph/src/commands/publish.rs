//! `tachograph publish`: a table in Hive or Spark over exported Parquet files.

use std::collections::BTreeMap;
use std::path::Path;

use base::format_count;
use export::{FileState, Partition, Totals, table};
use hive::{Column, Session, Table, TableChanges, TablePartition, Value};

use super::door;
use crate::failure::{Failure, Outcome, Status};
use crate::flags::hive::PublishFlags;
use crate::output;

/// What is in each partition, by step and day.
type Contents = BTreeMap<Vec<String>, Totals>;

/// How often the files are read at most, if exports change them meanwhile.
const READINGS: u32 = 5;

/// What one reading of the files and of the table has found.
struct FilesRead {
    changes: TableChanges,
    /// Partitions that pointed to another folder.
    moved: usize,
    files: Contents,
    /// The first difference between the files and the table.
    difference: Option<String>,
}

pub(crate) fn run(flags: &PublishFlags) -> Outcome {
    partitions(&flags.folder)?;
    let location = match &flags.location {
        Some(location) => location.trim_end_matches('/').to_owned(),
        None => file_url(&flags.folder)?,
    };
    let mut session = door::open(&flags.url, &flags.door)?;
    let (mut readings, mut added) = (1, 0);
    let mut reading = loop {
        let partitions = partitions(&flags.folder)?;
        let before = states(&partitions)?;
        let result = read(&mut session, flags, &location, &partitions);
        let is_equal = matches!(&result, Ok(FilesRead { difference: None, .. }));
        // An export may have changed what the server was reading.
        if is_equal || before == states(&self::partitions(&flags.folder)?)? {
            break result?;
        }
        if readings == READINGS {
            return Err(Failure::new(format!(
                "exports changed the files during each of {READINGS} readings: publish again when \
                 they have ended"
            )));
        }
        readings += 1;
        added += result.map_or(0, |reading| reading.changes.added);
        output::note("note: an export changed the files meanwhile; they are read again");
    };
    session.close()?;
    reading.changes.added += added;
    output::print(&text(flags, &reading))?;
    match reading.difference {
        None => {
            output::print("the server's totals are those of the files\n")?;
            Ok(Status::Well)
        }
        Some(difference) => {
            output::error(&difference);
            Ok(Status::VerdictFailed)
        }
    }
}

/// Gives the table its partitions, and compares its totals with those of the files.
fn read(
    session: &mut Session,
    flags: &PublishFlags,
    location: &str,
    partitions: &[Partition],
) -> Result<FilesRead, Failure> {
    let parts: Vec<TablePartition> = partitions.iter().map(|found| part(found, location)).collect();
    let columns = table::COLUMNS.map(column);
    let keys = table::PARTITION_COLUMNS.map(column);
    let table = Table {
        database: &flags.url.database,
        name: &flags.door.table,
        columns: &columns,
        keys: &keys,
        location,
    };
    let files = in_files(partitions)?;
    let changes = table.publish(session, &parts)?;
    let mut found = in_table(session, &table)?;
    let mut moved = 0;
    if changes.present > 0 {
        // A partition that was there may have pointed to another folder.
        for part in parts.iter().filter(|part| !is_equal(part, &files, &found)) {
            table.relocate(session, part)?;
            moved += 1;
        }
        if moved > 0 {
            table.refresh(session);
            found = in_table(session, &table)?;
        }
    }
    let other = parts.iter().find(|part| !is_equal(part, &files, &found));
    let difference = other.map(|part| difference(part, &files, &found));
    Ok(FilesRead { changes, moved, files, difference })
}

fn states(partitions: &[Partition]) -> Result<Vec<FileState>, Failure> {
    export::file_states(partitions).map_err(Failure::new)
}

fn partitions(folder: &Path) -> Result<Vec<Partition>, Failure> {
    let unreadable = |error| Failure::new(format!("cannot read {}: {error}", folder.display()));
    let found = export::partitions(folder).map_err(unreadable)?;
    if found.is_empty() {
        return Err(Failure::new(format!(
            "{} has no exported files; 'tachograph export --parquet {}' writes them",
            folder.display(),
            folder.display()
        )));
    }
    Ok(found)
}

/// The folder as a URL, for a server on this machine.
fn file_url(folder: &Path) -> Result<String, Failure> {
    let path = folder
        .canonicalize()
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", folder.display())))?;
    let path = path.to_str().filter(|path| !path.contains(['%', '#', '?', ' ']));
    path.map(|path| format!("file://{}", path.trim_end_matches('/'))).ok_or_else(|| {
        Failure::new(format!(
            "the path {} has characters that a URL cannot have as they are; add --location",
            folder.display()
        ))
    })
}

fn part(found: &Partition, location: &str) -> TablePartition {
    let Partition { step, day, .. } = found;
    TablePartition {
        values: vec![step.clone(), day.clone()],
        location: format!("{location}/step={step}/day={day}"),
    }
}

fn column(column: table::Column) -> Column<'static> {
    Column { name: column.name, kind: column.hive, comment: column.meaning }
}

/// What the files hold.
fn in_files(partitions: &[Partition]) -> Result<Contents, Failure> {
    let each = partitions.iter().map(|found| {
        Ok((vec![found.step.clone(), found.day.clone()], export::totals(&found.path)?))
    });
    each.collect()
}

/// What the server reads in them.
fn in_table(session: &mut Session, table: &Table<'_>) -> Result<Contents, Failure> {
    let statement = format!(
        "SELECT `step`, `day`, count(*), sum(CASE WHEN `flow` THEN `total` ELSE 0 END), \
         sum(CASE WHEN `flow` THEN 0 ELSE `total` END) FROM {} GROUP BY `step`, `day`",
        table.quoted()
    );
    let rows = session.execute(&statement)?;
    let read = |row: &[Value]| {
        let [step, day, rows, counts, levels] = row else { return None };
        let key = vec![step.as_text()?.to_owned(), day.as_text()?.to_owned()];
        let rows = u64::try_from(rows.as_i64()?).ok()?;
        Some((key, Totals { rows, counts: counts.as_f64()?, levels: levels.as_f64()? }))
    };
    let each = rows.iter().map(|row| {
        read(row).ok_or_else(|| {
            Failure::new(format!("the server sent a row that cannot be read: {row:?}"))
        })
    });
    each.collect()
}

fn is_equal(part: &TablePartition, files: &Contents, found: &Contents) -> bool {
    let pair = files.get(&part.values).zip(found.get(&part.values));
    pair.is_some_and(|(file, found)| {
        // Counts are exact in any order. Levels are rounded differently in another order.
        let near = (file.levels - found.levels).abs() <= 1e-9 * file.levels.abs();
        file.rows == found.rows && file.counts == found.counts && near
    })
}

fn difference(part: &TablePartition, files: &Contents, found: &Contents) -> String {
    let shown = |totals: Option<&Totals>| match totals {
        Some(Totals { rows, counts, .. }) => {
            format!("{} rows with a total count of {counts}", format_count(*rows))
        }
        None => "no rows".to_owned(),
    };
    format!(
        "in step {} of {} the server finds {}, but the files have {}; check that it can read {}",
        part.values[0],
        part.values[1],
        shown(found.get(&part.values)),
        shown(files.get(&part.values)),
        part.location
    )
}

fn text(flags: &PublishFlags, reading: &FilesRead) -> String {
    let FilesRead { changes, moved, files, .. } = reading;
    let counted = |count: usize| {
        let s = if count == 1 { "" } else { "s" };
        format!("{} partition{s}", format_count(count as u64))
    };
    let verb = if changes.is_created { "created" } else { "found" };
    let mut text = format!(
        "{verb} the table {}.{} at {}\n  added {}",
        flags.url.database,
        flags.door.table,
        flags.url,
        counted(changes.added)
    );
    for (count, what) in [
        (changes.present, "already there"),
        (*moved, "moved to this folder"),
        (changes.other, "not in this folder and left as before"),
    ] {
        if count > 0 {
            text += &format!("; {} {what}", counted(count));
        }
    }
    text.push('\n');
    let mut steps: BTreeMap<&str, (usize, Totals)> = BTreeMap::new();
    for (key, totals) in files {
        let (days, sum) = steps.entry(&key[0]).or_default();
        *days += 1;
        sum.rows += totals.rows;
        sum.counts += totals.counts;
    }
    for (step, (days, sum)) in steps {
        let s = if days == 1 { "" } else { "s" };
        text += &format!(
            "  step {step}: {days} day{s}, {} rows, total of counts {}\n",
            format_count(sum.rows),
            sum.counts
        );
    }
    text
}
