//! `tachograph series`: lists the recorded series.

use std::collections::{BTreeMap, BTreeSet};

use store::{Identity, Selector, Series};

use crate::failure::{Outcome, Status};
use crate::flags::GlobalFlags;
use crate::flags::series::SeriesFlags;
use crate::{output, stores};

pub(crate) fn run(flags: &SeriesFlags, global: &GlobalFlags) -> Outcome {
    let found = stores::open_read_only(global)?.find(&flags.selector)?;
    let lines = if flags.measurements {
        measurements(&found)
    } else if flags.tags {
        tags(&found)
    } else {
        let width = output::style(global.color).width;
        found.iter().map(|series| one(series, width)).collect()
    };
    let mut text: String = lines.iter().take(flags.limit).map(|line| format!("{line}\n")).collect();
    if lines.is_empty() {
        let none = flags.selector == Selector::default();
        text += if none {
            "no series yet; 'tachograph import' and every run add some\n"
        } else {
            "no such series; 'tachograph series' lists all series\n"
        };
    }
    if lines.len() > flags.limit {
        text += &format!("and {} more (--limit)\n", lines.len() - flags.limit);
    }
    output::print(&text)?;
    Ok(Status::Well)
}

/// A series in one line, or with its tags below it if they do not fit.
fn one(series: &Series, width: usize) -> String {
    let step_s = series.spec.step.us() as f64 / 1e6;
    let kind = format!("{:?}", series.spec.kind).to_lowercase();
    let rrd = if series.rrd.is_some() { ", as rrdtool" } else { "" };
    let how = format!("{kind}, every {step_s} s{rrd}");
    let line = format!("{}  {how}", series.identity);
    if line.chars().count() <= width {
        return line;
    }
    let named = Identity { tags: BTreeMap::new(), ..series.identity.clone() };
    let tags = series.identity.tags.iter().map(|(key, value)| format!("{key}={value}"));
    let tags = tags.collect::<Vec<_>>().join(", ");
    format!("{named}  {how}\n{}", report::indented(&tags, 4, width).trim_end())
}

fn measurements(found: &[Series]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for series in found {
        *counts.entry(&series.identity.measurement).or_default() += 1;
    }
    counts.iter().map(|(name, count)| format!("{name}  {count} series")).collect()
}

fn tags(found: &[Series]) -> Vec<String> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, value) in found.iter().flat_map(|series| &series.identity.tags) {
        values.entry(key).or_default().insert(value);
    }
    let line = |(key, values): (&&str, &BTreeSet<&str>)| {
        let some: Vec<&str> = values.iter().take(10).copied().collect();
        let more = if values.len() > some.len() { ", …" } else { "" };
        format!("{key}  {} values: {}{more}", values.len(), some.join(", "))
    };
    values.iter().map(line).collect()
}
