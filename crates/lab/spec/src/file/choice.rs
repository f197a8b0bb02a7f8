//! Selects the variants of a part: by name, by pattern, or by a group that the variant itself
//! names, so that adding a server means adding one file.

use super::File;
use super::reader::Table;
use super::variant::{Cell, cells};
use crate::error::{SpecError, suggestion};

/// The variants selected by `variants = […]`, each once: names, patterns in which a star matches
/// any text, and `@group` for all members of a group.
pub(super) fn chosen<'a>(file: &File<'a>, part: &Table<'a>) -> Result<Vec<Cell<'a>>, SpecError> {
    let known = known(file)?;
    let mut chosen: Vec<Cell<'a>> = Vec::new();
    for (wanted, span) in part.words("variants")? {
        let fitting = fitting(&wanted, &known)?;
        if fitting.is_empty() {
            let (kind, name, others) = match wanted.strip_prefix('@') {
                Some(group) => ("group", group, groups(&known)?),
                None => ("variant", &*wanted, known.iter().map(|cell| cell.name.clone()).collect()),
            };
            let error = file.source.error(span, format!("there is no {kind} '{name}'"));
            return Err(match others.is_empty() {
                true => error.help("a variant declares its groups: groups = [\"NAME\"]"),
                false => error.help(suggestion(name, others.iter().map(String::as_str))),
            });
        }
        for cell in fitting {
            if !chosen.iter().any(|earlier| earlier.name == cell.name) {
                chosen.push(cell.clone());
            }
        }
    }
    Ok(chosen)
}

/// Where parts select by group, refuses groups and variants that no part uses, because they would
/// be left out silently.
pub(super) fn check_all_taken(file: &File<'_>) -> Result<(), SpecError> {
    let mut taken = Vec::new();
    for part in &file.parts {
        taken.extend(part.words("variants")?.into_iter().map(|(wanted, _)| wanted));
        if part.get("variants").is_none() && part.get("variant").is_none() {
            taken.push("*".to_owned());
        }
    }
    let groups: Vec<&str> = taken.iter().filter_map(|wanted| wanted.strip_prefix('@')).collect();
    if groups.is_empty() {
        return Ok(());
    }
    let known = known(file)?;
    for cell in &known {
        for (group, span) in cell.table.words("groups")? {
            if !groups.contains(&group.as_str()) {
                return Err(file
                    .source
                    .error(span, format!("no part uses the group '{group}'"))
                    .help(suggestion(&group, groups.iter().copied())));
            }
        }
        let mut is_taken = false;
        for wanted in &taken {
            is_taken |= fits(wanted, cell)?;
        }
        if !is_taken {
            let place = cell.table.get("name").map_or(cell.table.span.clone(), |name| name.span());
            return Err(file
                .source
                .error(place, format!("no part uses the variant '{}'", cell.name))
                .help(format!("add it to a group: groups = [\"{}\"]", groups.join("\"] or [\""))));
        }
    }
    Ok(())
}

/// The file's variants; names are unique.
fn known<'a>(file: &File<'a>) -> Result<Vec<Cell<'a>>, SpecError> {
    let known = cells(file, &file.variants)?;
    for (i, cell) in known.iter().enumerate() {
        if known[..i].iter().any(|earlier| earlier.name == cell.name) {
            let message = format!("two variants are named '{}'", cell.name);
            let span = cell.table.get("name").map_or(cell.table.span.clone(), |name| name.span());
            return Err(file.source.error(span, message));
        }
    }
    Ok(known)
}

fn groups(cells: &[Cell<'_>]) -> Result<Vec<String>, SpecError> {
    let mut groups = Vec::new();
    for cell in cells {
        groups.extend(cell.table.words("groups")?.into_iter().map(|(group, _)| group));
    }
    groups.sort();
    groups.dedup();
    Ok(groups)
}

fn fitting<'c, 'a>(wanted: &str, cells: &'c [Cell<'a>]) -> Result<Vec<&'c Cell<'a>>, SpecError> {
    let mut fitting = Vec::new();
    for cell in cells {
        if fits(wanted, cell)? {
            fitting.push(cell);
        }
    }
    Ok(fitting)
}

fn fits(wanted: &str, cell: &Cell<'_>) -> Result<bool, SpecError> {
    match wanted.strip_prefix('@') {
        Some(group) => Ok(cell.table.words("groups")?.iter().any(|(name, _)| name == group)),
        None => Ok(fits_pattern(wanted, &cell.name)),
    }
}

/// Whether a name matches a pattern in which `*` stands for any text, including none.
fn fits_pattern(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    name.strip_prefix(before).is_some_and(|rest| {
        let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
        ends.any(|at| fits_pattern(after, &rest[at..]))
    })
}
