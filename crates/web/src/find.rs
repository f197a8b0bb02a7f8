//! `/metrics/find`, `/metrics/expand` and `/metrics/index.json`: the tree of paths.

use std::collections::BTreeSet;

use axum::extract::State;
use graphite::Node;
use serde_json::{Value, json};

use crate::WebState;
use crate::answer::{RequestRefusal, WebResult, json as answer};
use crate::parameters::Parameters;

/// Limit on the nodes of an answer.
const NODES_MAX: usize = 100_000;

fn missing() -> RequestRefusal {
    RequestRefusal::Request("no query: add query=PATH, such as query=servers.*".to_owned())
}

fn limited(nodes: &[Node]) -> Result<(), RequestRefusal> {
    match nodes.len() {
        0..=NODES_MAX => Ok(()),
        count => Err(RequestRefusal::Request(format!(
            "the query matches {count} nodes, but the limit is {NODES_MAX}: use a narrower pattern"
        ))),
    }
}

pub(crate) async fn find(State(shared): State<WebState>, parameters: Parameters) -> WebResult {
    let query = parameters.get("query").ok_or_else(missing)?.to_owned();
    let names = shared.catalogue.names(&shared.readers).await?;
    let format = parameters.get("format").unwrap_or("treejson");
    let query = match format {
        "completer" => format!("{}*", query.replace("..", "*.").trim_end_matches('*')),
        _ => query,
    };
    let mut nodes = names.index.nodes(&query)?;
    limited(&nodes)?;
    if parameters.is_set("leavesOnly") {
        nodes.retain(|node| node.is_leaf);
    }
    let base = query.rsplit_once('.').map_or(String::new(), |(base, _)| format!("{base}."));
    let found = match format {
        "treejson" => {
            let mut found: Vec<Value> = nodes.iter().map(|node| tree(node, &base)).collect();
            if parameters.is_set("wildcards") && nodes.len() > 1 {
                let has_children = nodes.iter().any(|node| node.has_children);
                let path = format!("{base}*");
                found.insert(0, tree(&Node { path, is_leaf: false, has_children }, &base));
            }
            Value::from(found)
        }
        "completer" => {
            let completed = |node: &Node| {
                let dot = if node.has_children { "." } else { "" };
                json!({
                    "path": format!("{}{dot}", node.path),
                    "name": node.text(),
                    "is_leaf": if node.has_children { "0" } else { "1" },
                })
            };
            json!({ "metrics": nodes.iter().map(completed).collect::<Vec<_>>() })
        }
        "json" => {
            let one = |node: &Node| json!({ "path": node.path, "is_leaf": node.is_leaf });
            nodes.iter().map(one).collect()
        }
        "nodelist" => {
            let texts: BTreeSet<&str> = nodes.iter().map(Node::text).collect();
            json!({ "nodes": texts })
        }
        other => {
            return Err(RequestRefusal::Request(format!(
                "format '{}' is not supported: use treejson, json, completer or nodelist",
                other.chars().take(40).collect::<String>()
            )));
        }
    };
    Ok(answer(found.to_string()))
}

/// A node as the tree of Graphite's composer, and Grafana, take it.
fn tree(node: &Node, base: &str) -> Value {
    let children = u8::from(node.has_children);
    json!({
        "id": format!("{base}{}", node.text()),
        "text": node.text(),
        "leaf": u8::from(node.is_leaf),
        "expandable": children,
        "allowChildren": children,
        "context": {},
    })
}

pub(crate) async fn expand(State(shared): State<WebState>, parameters: Parameters) -> WebResult {
    let queries = parameters.all("query");
    if queries.is_empty() {
        return Err(missing());
    }
    let names = shared.catalogue.names(&shared.readers).await?;
    let leaves_only = parameters.is_set("leavesOnly");
    let mut by_query = serde_json::Map::new();
    let mut all = BTreeSet::new();
    for query in queries {
        let nodes = names.index.nodes(query)?;
        limited(&nodes)?;
        let paths: Vec<String> = nodes
            .into_iter()
            .filter(|node| node.is_leaf || !leaves_only)
            .map(|node| node.path)
            .collect();
        all.extend(paths.iter().cloned());
        by_query.insert(query.to_owned(), Value::from(paths));
    }
    let results = match parameters.is_set("groupByExpr") {
        true => Value::Object(by_query),
        false => json!(all),
    };
    Ok(answer(json!({ "results": results }).to_string()))
}

pub(crate) async fn index(State(shared): State<WebState>) -> WebResult {
    let names = shared.catalogue.names(&shared.readers).await?;
    let paths: BTreeSet<&str> =
        names.index.entries().iter().map(|entry| entry.name.as_str()).collect();
    Ok(answer(json!(paths).to_string()))
}
