//! `tachograph query`: slots of series as a table, chart, CSV or JSON.

mod dialect;
mod published;
mod show;
mod slots_of;

use series::rrd::format_value;
use store::{Series, Store};

use crate::failure::{Failure, Outcome, Status};
use crate::flags::GlobalFlags;
use crate::flags::series::{OutputFormat, QueryFlags};
use crate::{output, stores};
use published::PublishedTable;
use slots_of::{QueryResult, SlotSource, SlotsRequest};

pub(crate) fn run(flags: &QueryFlags, global: &GlobalFlags) -> Outcome {
    if flags.xff.is_some_and(|xff| !(0.0..=1.0).contains(&xff)) {
        return Err(Failure::new("--xff must be from 0 to 1"));
    }
    if flags.rrd && flags.format != OutputFormat::Table {
        return Err(Failure::new(
            "--rrd has the format of rrdtool fetch: omit --format, or omit --rrd for CSV, JSON and \
             charts",
        ));
    }
    if let Some(url) = &flags.hive {
        let mut table = PublishedTable::open(url, &flags.door, &flags.selectors)?;
        let wanted = table.find([flags.from, flags.until])?;
        if wanted.is_empty() {
            return Err(Failure::new("no such series in the table"));
        }
        let status = print(&mut table, &wanted, flags, global)?;
        table.close()?;
        return Ok(status);
    }
    let mut store = stores::open_read_only(global)?;
    let mut wanted: Vec<Series> = Vec::new();
    for selector in &flags.selectors {
        for series in store.find(selector)? {
            if wanted.iter().all(|known| known.id != series.id) {
                wanted.push(series);
            }
        }
    }
    if wanted.is_empty() {
        return Err(Failure::new("no such series; 'tachograph series' lists all series"));
    }
    if flags.rrd {
        return rrd(&mut *store, &wanted, flags);
    }
    print(&mut *store, &wanted, flags, global)
}

/// Prints the slots of the wanted series.
fn print(
    source: &mut (impl SlotSource + ?Sized),
    wanted: &[Series],
    flags: &QueryFlags,
    global: &GlobalFlags,
) -> Outcome {
    let width = output::style(global.color).width;
    let mut request = SlotsRequest::of(flags);
    let fits = (width.saturating_sub(show::MARGIN)).max(1);
    if flags.format == OutputFormat::Plot {
        request.points = request.points.min(fits as i64);
        request.at_most = true;
    }
    let found = slots_of::read(source, wanted, &request)?;
    let columns = found.series.iter().map(|(_, slots)| slots.len()).max().unwrap_or(0);
    if flags.format == OutputFormat::Plot && columns > fits {
        return Err(Failure::new(format!(
            "the chart would be {columns} columns wide, but only {fits} fit: use a longer --step, \
             a shorter range, or --format table"
        )));
    }
    output::print(&text(&found, flags.format))?;
    Ok(Status::Well)
}

fn text(found: &QueryResult, format: OutputFormat) -> String {
    match format {
        OutputFormat::Table => show::table(found),
        OutputFormat::Plot => show::plot(found),
        OutputFormat::Csv => show::csv(found),
        OutputFormat::Json => show::json(found),
    }
}

/// What `rrdtool fetch` would print.
fn rrd(store: &mut dyn Store, wanted: &[Series], flags: &QueryFlags) -> Outcome {
    let mut text = String::new();
    for series in wanted {
        let Some(rrd) = store.rrd(series.id)? else {
            return Err(Failure::new(format!(
                "{} was imported without --rrd; omit --rrd",
                series.identity
            )));
        };
        let until_us = flags.until.unwrap_or(rrd.last_us());
        let from_us = flags.from.unwrap_or(until_us - 86_400_000_000);
        let resolution_us = flags.step.map_or(1_000_000, |step| (step.0 / 1_000) as i64);
        let fetched =
            rrd.fetch(flags.cf, from_us, until_us, resolution_us).map_err(Failure::new)?;
        text += &format!("{:>24}\n\n", series.identity.field);
        for (end_us, value) in &fetched.rows {
            text += &format!("{:>10}: {}\n", end_us / 1_000_000, format_value(*value));
        }
    }
    output::print(&text)?;
    Ok(Status::Well)
}
