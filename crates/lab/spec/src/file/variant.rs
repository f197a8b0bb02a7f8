//! `[[variant]]`: one of the things compared, with its stacks.

use std::borrow::Cow;

use super::action::actions;
use super::axes::{Combination, combinations};
use super::load::{LOAD_KEYS, load};
use super::reader::{Scope, Table, Value, Vars};
use super::stack::{ParsedStack, SHARED_KEYS, assemble};
use super::{File, required, vars};
use crate::error::{SpecError, suggestion};
use crate::load::{Exchange, TlsOptions};
use crate::plan::{ReadyCheck, Schedule, ServedBy, Variant};
use crate::target::{Endpoint, Target};

/// The keys of a variant.
pub(super) fn keys() -> Vec<&'static str> {
    [&SHARED_KEYS[..], &["name", "groups", "stack", "load", "each", "ceiling", "on", "address"]]
        .concat()
}

/// An unread variant: a table, or one combination of its `each`.
#[derive(Clone)]
pub(super) struct Cell<'a> {
    pub(super) name: String,
    pub(super) table: Table<'a>,
    combination: Combination,
}

/// All variants of these tables.
pub(super) fn cells<'a>(file: &File<'a>, tables: &[Table<'a>]) -> Result<Vec<Cell<'a>>, SpecError> {
    let mut all = Vec::new();
    for table in tables {
        let written = required(table, "name")?;
        for combination in combinations(file, table, Vars::new(), "variants")? {
            let value = |name: &str| combination.vars.get(name).map(Cow::from);
            let name = crate::variables::replace(&written, value);
            all.push(Cell { name, table: table.clone(), combination });
        }
    }
    Ok(all)
}

/// Reads a variant for a part. The part's variables and loads override all but the variant's own
/// load.
pub(super) fn variant<'a>(
    file: &File<'a>,
    cell: &Cell<'a>,
    part_vars: &Vars,
    part_loads: &[Table<'a>],
    schedule: &Schedule,
) -> Result<Variant, SpecError> {
    let Cell { name, table, combination } = cell.clone();
    let mut outer = combination.vars;
    outer.extend(part_vars.clone());
    let mut layers = stacks(file, &table, &outer)?;
    layers.push(table.clone());
    let scope = scope(file, &layers, &outer)?;
    let mut loads = part_loads.to_vec();
    if let Some(value) = table.get("load") {
        loads.push(Table::open(file.source, value, "load of [[variant]]", &LOAD_KEYS)?);
    }
    let load = load(&loads, &scope)?;
    let ParsedStack { mut stack, target, served_by } = assemble(&layers, &scope)?;
    let (target, parsed, place) =
        target.ok_or_else(|| table.error(format!("variant '{name}' has no target")))?;
    check_fit(file, place, &parsed, &load.exchange)?;
    let has_own_paths = !load.kinds.is_empty() || load.grpc.is_some();
    if has_own_paths && !matches!(&parsed, Target::Http { path, .. } if path == "/") {
        let message = "the load's requests have paths of their own; end this target with /";
        return Err(file.source.error(place.span(), message));
    }
    if parsed.server_name().is_none() && load.tls != TlsOptions::default() {
        let message = "the load has options of HTTPS, but this target does not begin with https://";
        return Err(file.source.error(place.span(), message));
    }
    check_counted(file, place, &parsed, &load.exchange, served_by.as_ref())?;
    let mut checks = stack.processes.iter().flat_map(|process| &process.ready);
    if checks.all(|check| matches!(check, ReadyCheck::Adopted(_)))
        && let (Some(last), Some(check)) = (stack.processes.last_mut(), accepts(&target))
    {
        last.ready.push(check);
    }
    let ceiling = table.flag("ceiling")?.unwrap_or(false);
    let actions = actions(file, &layers, &stack.processes, schedule, &scope)?;
    Ok(Variant {
        name,
        at: combination.at,
        stack,
        on: None,
        address: None,
        target,
        load,
        served_by,
        actions,
        ceiling,
    })
}

/// Whether connections are accepted at an HTTP target; its variables are not replaced yet.
fn accepts(target: &str) -> Option<ReadyCheck> {
    let rest = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"))?;
    Some(match rest.strip_prefix("unix:") {
        Some(rest) => ReadyCheck::Socket(rest.split(":/").next()?.to_owned()),
        None => ReadyCheck::Port(rest.split('/').next()?.to_owned()),
    })
}

/// The variables of a variant. In descending precedence: the part's, those of its position on the
/// axes, its own, those of its stacks.
fn scope(file: &File<'_>, layers: &[Table<'_>], part_vars: &Vars) -> Result<Scope, SpecError> {
    let mut all = Vars::new();
    for layer in layers {
        all.extend(vars(layer, &file.declared)?);
    }
    all.extend(part_vars.clone());
    Ok(file.scope(all))
}

/// The stacks of a variant in order: one, or an app and what is in front of it. Each is preceded by
/// those that it extends, innermost first.
fn stacks<'a>(
    file: &File<'a>,
    variant: &Table<'a>,
    vars: &Vars,
) -> Result<Vec<Table<'a>>, SpecError> {
    let mut all: Vec<Table<'a>> = Vec::new();
    for value in variant.one_or_many("stack") {
        let chain = chain(file, value, vars)?;
        all.extend(chain.into_iter().filter(|stack| !known(&all, stack)).collect::<Vec<_>>());
    }
    Ok(all)
}

fn known(stacks: &[Table<'_>], stack: &Table<'_>) -> bool {
    stacks.iter().any(|known| known.span == stack.span)
}

fn chain<'a>(
    file: &File<'a>,
    first: &'a Value<'a>,
    vars: &Vars,
) -> Result<Vec<Table<'a>>, SpecError> {
    let mut chain: Vec<Table<'a>> = Vec::new();
    let mut next = Some(first);
    while let Some(value) = next {
        let stack = find(file, value, vars)?;
        if known(&chain, stack) {
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

fn find<'f, 'a>(
    file: &'f File<'a>,
    value: &Value<'_>,
    vars: &Vars,
) -> Result<&'f Table<'a>, SpecError> {
    let scope = file.scope(vars.clone());
    let name = super::reader::text(file.source, value, "stack", &scope)?;
    file.stacks.get(name.as_str()).ok_or_else(|| {
        let error = file.source.error(value.span(), format!("there is no [stack.{name}]"));
        match file.stacks.is_empty() {
            true => error,
            false => error.help(suggestion(&name, file.stacks.keys().copied())),
        }
    })
}

/// Whether the target supports this exchange.
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
            "an http:// target supports only exchange = \"http\"",
            "for raw bytes write tcp://host:port or unix:/path/to.sock",
        ),
        (Target::Raw(Endpoint::Udp { .. }), exchange)
            if !matches!(exchange, Exchange::Lines(_)) =>
        {
            error(
                "a udp:// target supports only exchange = \"lines\"",
                "set exchange = \"lines\" in [load], or write tcp://host:port",
            )
        }
        (Target::Raw(Endpoint::UnixSeqpacket(_) | Endpoint::Socketpair(_)), Exchange::Lines(_)) => {
            error(
                "sockets of this kind do not support exchange = \"lines\"",
                "write tcp://host:port, udp://host:port, unix:/path or unix-dgram:/path",
            )
        }
        (Target::Raw(_), Exchange::Http(_)) => error(
            "a target without http:// does not support HTTP",
            "write http://…, or choose exchange = \"oneshot\", \"echo\" or \"bulk\" in [load]",
        ),
        (
            Target::Raw(Endpoint::UnixDatagram(_) | Endpoint::UnixSeqpacket(_)),
            Exchange::Oneshot | Exchange::Bulk { .. },
        ) => error(
            "sockets of this kind support only exchange = \"echo\"",
            "move this variant to a separate part",
        ),
        (Target::Raw(_), _) => Ok(()),
    }
}

/// Whether the arrival of datagrams is counted: nothing shows their sender which of them arrived.
fn check_counted(
    file: &File<'_>,
    place: &Value<'_>,
    target: &Target,
    exchange: &Exchange,
    served_by: Option<&ServedBy>,
) -> Result<(), SpecError> {
    let counted = match (target.endpoint(), served_by) {
        (Endpoint::Udp { .. }, Some(ServedBy::Http { discarded, .. })) => discarded.is_some(),
        (Endpoint::Udp { .. }, _) => false,
        (_, by) => by.is_some(),
    };
    if counted || !target.endpoint().is_datagram() || !matches!(exchange, Exchange::Lines(_)) {
        return Ok(());
    }
    let error =
        file.source.error(place.span(), "datagrams could be lost here without being counted");
    Err(error.help(
        "add served_by = { url = \"http://…\", pattern = '… (\\d+)', discarded = '… (\\d+)' }; \
         only udp:// needs discarded",
    ))
}
