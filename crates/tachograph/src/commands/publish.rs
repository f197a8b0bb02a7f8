//! `tachograph publish`: a table in Hive or Spark over exported Parquet files.

use std::collections::BTreeMap;
use std::path::Path;

use base::format_count;
use export::{Partition, Totals, table};
use hive::{Column, Session, Table, TableChanges, TablePartition, Value};

use super::door;
use crate::failure::{Failure, Outcome, Status};
use crate::flags::hive::PublishFlags;
use crate::output;

/// What is in each partition, by step and day.
type Contents = BTreeMap<Vec<String>, Totals>;

pub(crate) fn run(flags: &PublishFlags) -> Outcome {
    let partitions = partitions(&flags.folder)?;
    let location = match &flags.location {
        Some(location) => location.trim_end_matches('/').to_owned(),
        None => file_url(&flags.folder)?,
    };
    let parts: Vec<TablePartition> =
        partitions.iter().map(|found| part(found, &location)).collect();
    let columns = table::COLUMNS.map(column);
    let keys = table::PARTITION_COLUMNS.map(column);
    let table = Table {
        database: &flags.url.database,
        name: &flags.door.table,
        columns: &columns,
        keys: &keys,
        location: &location,
    };
    let files = in_files(&partitions)?;
    let mut session = door::open(&flags.url, &flags.door)?;
    let published = table.publish(&mut session, &parts)?;
    let mut found = in_table(&mut session, &table)?;
    let mut moved = 0;
    if published.present > 0 {
        // A partition that was there may have pointed to another folder.
        for part in parts.iter().filter(|part| !is_equal(part, &files, &found)) {
            table.relocate(&mut session, part)?;
            moved += 1;
        }
        if moved > 0 {
            table.refresh(&mut session);
            found = in_table(&mut session, &table)?;
        }
    }
    session.close()?;
    output::print(&text(flags, &published, moved, &files))?;
    match parts.iter().find(|part| !is_equal(part, &files, &found)) {
        None => {
            output::print("the server's totals are those of the files\n")?;
            Ok(Status::Well)
        }
        Some(part) => {
            output::error(&difference(part, &files, &found));
            Ok(Status::VerdictFailed)
        }
    }
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

fn text(flags: &PublishFlags, published: &TableChanges, moved: usize, files: &Contents) -> String {
    let counted = |count: usize| {
        let s = if count == 1 { "" } else { "s" };
        format!("{} partition{s}", format_count(count as u64))
    };
    let verb = if published.is_created { "created" } else { "found" };
    let mut text = format!(
        "{verb} the table {}.{} at {}\n  added {}",
        flags.url.database,
        flags.door.table,
        flags.url,
        counted(published.added)
    );
    for (count, what) in [
        (published.present, "already there"),
        (moved, "moved to this folder"),
        (published.other, "not in this folder and left as before"),
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
