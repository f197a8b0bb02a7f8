//! `capacity`: a part that searches for the highest rate at which conditions hold.

use super::reader::{Scope, Table};
use crate::capacity::{SEARCH_RATE_MAX_PER_S, check_aim};
use crate::capacity_aim::{CapacityAim, LatencyLimit};
use crate::error::SpecError;
use crate::load::{Exchange, OPEN_CONNECTIONS_MAX};
use crate::plan::Variant;

/// Keys of `capacity`.
const KEYS: [&str; 7] =
    ["p99", "latency", "quantile", "max_errors", "cpu", "max_rate", "max_connections"];

/// The conditions in a table, if it has some. The `variants` of the part may then open as many
/// connections as they need.
pub(super) fn aim(
    holder: &Table<'_>,
    scope: &Scope,
    variants: &mut [Variant],
) -> Result<Option<CapacityAim>, SpecError> {
    let Some(value) = holder.get("capacity") else { return Ok(None) };
    let table = Table::open(holder.source, value, "capacity", &KEYS)?;
    let (p99, limit) = (table.time("p99", scope)?, table.time("latency", scope)?);
    let quantile = table.fraction("quantile", scope)?;
    if p99.is_some() && limit.is_some() {
        return Err(table.error("p99 is a limit on latency too").help("remove latency"));
    }
    if quantile.is_some() && limit.is_none() {
        return Err(table
            .error("quantile is that of latency, which is missing")
            .help("add latency"));
    }
    let limit = p99.or(limit);
    let aim = CapacityAim {
        latency: limit.map(|limit| LatencyLimit { quantile: quantile.unwrap_or(0.99), limit }),
        errors: table.fraction("max_errors", scope)?,
        cpu: table.fraction("cpu", scope)?,
        rate_max_per_s: table.rate("max_rate", scope)?.unwrap_or(SEARCH_RATE_MAX_PER_S),
    };
    let asks = |variant: &Variant| matches!(variant.load.exchange, Exchange::Http(_));
    if let Some(variant) = variants.iter().find(|variant| !asks(variant)) {
        let message = format!("{} does not answer requests at a rate", variant.name);
        return Err(table.error(message).help("a capacity is that of a server of HTTP or gRPC"));
    }
    if let Some(variant) = variants.iter().find(|variant| !variant.actions.is_empty()) {
        let message = format!("{} has actions, and a search has no time for them", variant.name);
        return Err(table.error(message).help("remove capacity, or the actions"));
    }
    let write = |name: &str, value: Option<&str>| match value {
        Some(value) => format!("{} = \"{value}\"", name.replace('-', "_")),
        None => name.replace('-', "_"),
    };
    check_aim(&aim, variants, &write)
        .map_err(|error| SpecError { help: error.help, ..table.error(error.message) })?;
    let most = table.number("max_connections", scope)?.unwrap_or(OPEN_CONNECTIONS_MAX);
    for variant in variants {
        variant.load.connections_max = Some(most.saturating_mul(variant.load.streams));
    }
    Ok(Some(aim))
}

#[cfg(test)]
mod tests {
    use base::Nanos;

    use super::*;
    use crate::file::parse_plan;

    fn text(capacity: &str, load: &str) -> String {
        format!(
            "[experiment]\nname = \"x\"\ntitle = \"t\"\nquestion = \"q\"\ncapacity = {capacity}\n\
             [[variant]]\nname = \"a\"\ntarget = \"http://127.0.0.1:$PORT/\"\n\
             process = {{ command = \"app $PORT\" }}\nload = {{ {load} }}\n[schedule]\nwhy = true\n"
        )
    }

    #[test]
    fn conditions_are_read() {
        let text =
            text("{ latency = \"200ms\", quantile = 0.999, cpu = \"80%\" }", "connections = 3");
        let part = parse_plan(&text, "x.toml").unwrap().parts.remove(0);
        let latency = LatencyLimit { quantile: 0.999, limit: Nanos::from_millis(200) };
        let aim = CapacityAim {
            latency: Some(latency),
            errors: None,
            cpu: Some(0.8),
            rate_max_per_s: SEARCH_RATE_MAX_PER_S,
        };
        assert_eq!(part.capacity, Some(aim));
        assert!(!part.schedule.why, "a search is not sampled");
        let load = &part.variants[0].load;
        assert_eq!((load.connections, load.connections_max), (3, Some(OPEN_CONNECTIONS_MAX)));
    }

    #[test]
    fn conditions_that_say_nothing_are_refused() {
        for (capacity, load, message, help) in [
            (
                "{}",
                "",
                "no condition: at which rate is the server at its capacity?",
                "add p99 = \"50ms\", max_errors = \"0.1%\" or cpu = \"80%\"",
            ),
            (
                "{ p99 = \"1ms\", latency = \"1ms\" }",
                "",
                "p99 is a limit on latency too",
                "remove latency",
            ),
            (
                "{ cpu = \"50%\", quantile = 0.9 }",
                "",
                "quantile is that of latency, which is missing",
                "add latency",
            ),
            (
                "{ max_errors = 1 }",
                "",
                "max_errors is a share between 0% and 100%",
                "a share of 0% or 100% says nothing about a rate; write max_errors = \"1%\"",
            ),
            (
                "{ p99 = \"2s\" }",
                "timeout = \"1s\"",
                "the limit of 2.00 s is not below the timeout of 1.00 s",
                "raise the timeout",
            ),
            ("{ p98 = \"1s\" }", "", "'p98' is not a key of capacity", "did you mean 'p99'?"),
        ] {
            let error = parse_plan(&text(capacity, load), "x.toml").expect_err(capacity);
            assert_eq!((error.message.as_str(), error.help.as_deref()), (message, Some(help)));
            assert_eq!(error.place.expect(capacity).line_and_column().0, 5, "{capacity}");
        }
    }
}
