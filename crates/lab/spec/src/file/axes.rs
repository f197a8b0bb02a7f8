//! `each`: a part or variant is written once and repeated for every combination of values.
//!
//! An axis is a list of values (`SIZE = ["1KiB", "1MiB"]`) for one variable, or a table of labels,
//! each of which sets several variables (`TRANSPORT.tcp = { BIND = "127.0.0.1:$PORT" }`).

use toml::de::DeValue;

use super::reader::{Table, Vars};
use super::{File, vars_of};
use crate::error::SpecError;

/// More combinations than this are taken for a mistake.
const COMBINATIONS_MAX: usize = 100;

/// One combination: its variables and its position on every axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Combination {
    pub(super) vars: Vars,
    /// Axis and label, in the file's order.
    pub(super) at: Vec<(String, String)>,
}

/// All combinations of a table's `each`, with the variables of `start` in each; just `start` if
/// there is no `each`.
pub(super) fn combinations(
    file: &File<'_>,
    table: &Table<'_>,
    start: Vars,
    what: &str,
) -> Result<Vec<Combination>, SpecError> {
    let mut all = vec![Combination { vars: start, at: Vec::new() }];
    let Some(each) = table.free_table("each")? else { return Ok(all) };
    for (name, span, _) in each.entries() {
        let values = axis(file, &each, name)?;
        if values.is_empty() {
            return Err(file.source.error(span, format!("${name} has no values")));
        }
        if all.len() * values.len() > COMBINATIONS_MAX {
            let message = format!("these are more than {COMBINATIONS_MAX} {what}");
            return Err(file.source.error(span, message));
        }
        let with = |before: &Combination, (label, vars): &(String, Vars)| {
            let mut after = before.clone();
            after.vars.extend(vars.clone());
            after.vars.insert(name.to_owned(), label.clone());
            after.at.push((name.to_owned(), label.clone()));
            after
        };
        all = all
            .iter()
            .flat_map(|before| values.iter().map(move |value| with(before, value)))
            .collect();
    }
    Ok(all)
}

/// The labels of an axis with the variables that each sets.
fn axis(file: &File<'_>, each: &Table<'_>, name: &str) -> Result<Vec<(String, Vars)>, SpecError> {
    let is_table = each.get(name).is_some_and(|value| matches!(value.get_ref(), DeValue::Table(_)));
    if !is_table {
        return Ok(each.words(name)?.into_iter().map(|(word, _)| (word, Vars::new())).collect());
    }
    let labels = each.free_table(name)?;
    let labels = labels.iter().flat_map(Table::entries);
    labels
        .map(|(label, _, value)| {
            let inner = Table::open_free(file.source, value, format!("{name}.{label}"))?;
            Ok((label.to_owned(), vars_of(&inner, &file.declared)?))
        })
        .collect()
}

/// Every variable set by a table's `each`, with its position in the file.
pub(super) fn declares<'a>(
    table: &Table<'a>,
) -> Result<Vec<(&'a str, std::ops::Range<usize>)>, SpecError> {
    let mut names = Vec::new();
    for (name, span, value) in table.free_table("each")?.iter().flat_map(Table::entries) {
        names.push((name, span));
        if let DeValue::Table(labels) = value.get_ref() {
            for value in labels.values() {
                let inner = Table::open_free(table.source, value, format!("a value of {name}"))?;
                names.extend(inner.entries().map(|(name, span, _)| (name, span)));
            }
        }
    }
    Ok(names)
}
