//! `/functions`: what targets may call, as Grafana's editor needs it.

use axum::extract::Path;
use graphite::{Aggregation, FUNCTIONS, Function, Kind, Parameter};
use serde_json::{Map, Value, json};

use crate::answer::{RequestRefusal, WebResult, json as answer};
use crate::parameters::Parameters;

pub(crate) async fn list(parameters: Parameters) -> WebResult {
    let is_grouped = parameters.is_set("grouped");
    let group = parameters.get("group");
    let mut all = Map::new();
    for function in FUNCTIONS.iter().filter(|f| group.is_none_or(|group| group == f.group)) {
        let of = match is_grouped {
            true => match all.entry(function.group).or_insert_with(|| json!({})) {
                Value::Object(group) => group,
                _ => continue,
            },
            false => &mut all,
        };
        of.insert(function.name.to_owned(), described(function));
    }
    Ok(answer(Value::Object(all).to_string()))
}

pub(crate) async fn one(Path(name): Path<String>) -> WebResult {
    match FUNCTIONS.iter().find(|function| function.name == name) {
        Some(function) => Ok(answer(described(function).to_string())),
        None => Err(RequestRefusal::Missing(
            "unknown function; /functions lists all of them".to_owned(),
        )),
    }
}

fn described(function: &Function) -> Value {
    let names: Vec<&str> = function.parameters.iter().map(|parameter| parameter.name).collect();
    json!({
        "name": function.name,
        "function": format!("{}({})", function.name, names.join(", ")),
        "description": function.description,
        "module": "graphite.render.functions",
        "group": function.group,
        "params": function.parameters.iter().map(parameter).collect::<Vec<_>>(),
    })
}

fn parameter(parameter: &Parameter) -> Value {
    let mut described = Map::new();
    described.insert("name".to_owned(), parameter.name.into());
    described.insert("type".to_owned(), parameter.kind.name().into());
    if parameter.required {
        described.insert("required".to_owned(), true.into());
    }
    if parameter.multiple {
        described.insert("multiple".to_owned(), true.into());
    }
    if let Some(default) = parameter.default {
        // Numbers and truth values are JSON; other defaults are texts.
        let value = serde_json::from_str(default).unwrap_or_else(|_| default.into());
        described.insert("default".to_owned(), value);
    }
    if matches!(parameter.kind, Kind::Aggregation | Kind::AggregationOrFunction) {
        let options: Vec<&str> = Aggregation::NAMES.iter().map(|(name, _)| *name).collect();
        described.insert("options".to_owned(), json!(options));
    }
    Value::Object(described)
}
