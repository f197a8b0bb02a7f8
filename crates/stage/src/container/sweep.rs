//! Removing the containers and networks of runs that are dead.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::container::RUN_LABEL;
use crate::container::engine::{Engine, EngineError};

/// Removes what carries our label and belongs to no living run; returns what was removed.
///
/// An engine that is not there has nothing of ours, so that is no error.
pub(crate) fn sweep(is_dead: &dyn Fn(&Path) -> bool) -> Vec<String> {
    // To look for an engine that nobody uses must not take time.
    match Engine::from_environment() {
        Ok(engine) if engine.accepts(Duration::from_millis(500)) => {
            remove_dead(&engine, is_dead).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

fn remove_dead(
    engine: &Engine,
    is_dead: &dyn Fn(&Path) -> bool,
) -> Result<Vec<String>, EngineError> {
    let filter = percent_encoded(&format!("{{\"label\":[\"{RUN_LABEL}\"]}}"));
    let mut removed = Vec::new();
    let containers = format!("/containers/json?all=1&filters={filter}");
    for container in list(engine, "to list containers", &containers)? {
        if belongs_to_the_dead(&container, is_dead)
            && let Some(id) = container["Id"].as_str()
            && super::attend::remove(engine, id).is_ok()
        {
            removed.push(format!("container {}", &id[..id.len().min(12)]));
        }
    }
    let networks = format!("/networks?filters={filter}");
    for network in list(engine, "to list networks", &networks)? {
        if belongs_to_the_dead(&network, is_dead)
            && let Some(id) = network["Id"].as_str()
            && engine
                .call("to remove a network", "DELETE", &format!("/networks/{id}"), None)
                .is_ok()
        {
            removed.push(format!("network {}", network["Name"].as_str().unwrap_or(id)));
        }
    }
    Ok(removed)
}

fn list(engine: &Engine, what: &str, path: &str) -> Result<Vec<Value>, EngineError> {
    Ok(engine.call(what, "GET", path, None)?.as_array().cloned().unwrap_or_default())
}

fn belongs_to_the_dead(labelled: &Value, is_dead: &dyn Fn(&Path) -> bool) -> bool {
    labelled["Labels"][RUN_LABEL].as_str().is_some_and(|dir| is_dead(Path::new(dir)))
}

/// RFC 3986: what is not unreserved, as percent signs and hexadecimal digits.
fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_carries_the_folder_of_a_dead_run_is_removed() {
        let dead = |dir: &Path| dir == Path::new("/tmp/tg-dead");
        for (labels, expected) in [
            (serde_json::json!({ RUN_LABEL: "/tmp/tg-dead" }), true),
            (serde_json::json!({ RUN_LABEL: "/tmp/tg-alive" }), false),
            (serde_json::json!({ "other": "/tmp/tg-dead" }), false),
            (Value::Null, false),
        ] {
            let labelled = serde_json::json!({ "Labels": labels });
            assert_eq!(belongs_to_the_dead(&labelled, &dead), expected, "{labelled}");
        }
        assert_eq!(percent_encoded("{\"a b\"}-~"), "%7B%22a%20b%22%7D-~");
    }
}
