//! `[[variant]]`: one of the things compared, with the stacks it builds on.

use super::load::{LOAD_KEYS, load};
use super::reader::{Scope, Table, Value, Vars};
use super::stack::{Assembled, SHARED_KEYS, assemble};
use super::{File, required, vars};
use crate::error::{SpecError, suggestion};
use crate::load::Exchange;
use crate::plan::Variant;
use crate::target::{Endpoint, Target};

/// The keys of a variant.
pub(super) fn keys() -> Vec<&'static str> {
    [&SHARED_KEYS[..], &["name", "stack", "load"]].concat()
}

/// Reads one variant as a part sees it: the part's variables and loads come last but for its own load.
pub(super) fn variant<'a>(
    file: &File<'a>,
    table: &Table<'a>,
    part_vars: &Vars,
    part_loads: &[Table<'a>],
) -> Result<Variant, SpecError> {
    let name = required(table, "name")?;
    let mut layers = stacks(file, table)?;
    layers.push(table.clone());
    let scope = scope(file, &layers, part_vars)?;
    let mut loads = part_loads.to_vec();
    if let Some(value) = table.get("load") {
        loads.push(Table::open(file.source, value, "load of [[variant]]", &LOAD_KEYS)?);
    }
    let load = load(&loads, &scope)?;
    let Assembled { stack, target, served_by } = assemble(&layers, &scope)?;
    let (target, parsed, place) =
        target.ok_or_else(|| table.error(format!("variant '{name}' has no target")))?;
    check_fit(file, place, &parsed, &load.exchange)?;
    Ok(Variant { name, stack, target, load, served_by })
}

/// The variables of a variant: the part's over its own over those of its stacks.
fn scope(file: &File<'_>, layers: &[Table<'_>], part_vars: &Vars) -> Result<Scope, SpecError> {
    let mut all = Vars::new();
    for layer in layers {
        all.extend(vars(layer, &file.declared)?);
    }
    all.extend(part_vars.clone());
    Ok(file.scope(all))
}

/// The stacks that a variant builds on, the innermost first.
fn stacks<'a>(file: &File<'a>, variant: &Table<'a>) -> Result<Vec<Table<'a>>, SpecError> {
    let mut chain: Vec<Table<'a>> = Vec::new();
    let mut next = variant.get("stack");
    while let Some(value) = next {
        let stack = find(file, value)?;
        if chain.iter().any(|known| known.span == stack.span) {
            return Err(file
                .source
                .error(value.span(), "these stacks extend each other in a circle"));
        }
        next = stack.get("extends");
        chain.push(stack.clone());
    }
    chain.reverse();
    Ok(chain)
}

fn find<'f, 'a>(file: &'f File<'a>, value: &Value<'_>) -> Result<&'f Table<'a>, SpecError> {
    let name = super::reader::plain(file.source, value, "stack")?;
    file.stacks.get(name.as_str()).ok_or_else(|| {
        let error = file.source.error(value.span(), format!("there is no [stack.{name}]"));
        match file.stacks.is_empty() {
            true => error,
            false => error.help(suggestion(&name, file.stacks.keys().copied())),
        }
    })
}

/// Whether this exchange can be spoken to this target.
fn check_fit(
    file: &File<'_>,
    place: &Value<'_>,
    target: &Target,
    exchange: &Exchange,
) -> Result<(), SpecError> {
    let error =
        |message: &str, help: &str| Err(file.source.error(place.span(), message).help(help));
    match (target, exchange) {
        (Target::Http { .. }, Exchange::Http(_)) => Ok(()),
        (Target::Http { .. }, _) => error(
            "an http:// target speaks exchange = \"http\" only",
            "for raw bytes write tcp://host:port or unix:/path/to.sock",
        ),
        (Target::Raw(_), Exchange::Http(_)) => error(
            "a target without http:// speaks no HTTP",
            "write http://…, or choose exchange = \"oneshot\", \"echo\" or \"bulk\" in [load]",
        ),
        (
            Target::Raw(Endpoint::UnixDatagram(_) | Endpoint::UnixSeqpacket(_)),
            Exchange::Oneshot | Exchange::Bulk { .. },
        ) => error(
            "sockets of this kind speak exchange = \"echo\" only",
            "leave this variant to a part of its own",
        ),
        (Target::Raw(_), _) => Ok(()),
    }
}
