//! Removes the containers and networks of dead runs.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use bollard::query_parameters::{ListContainersOptionsBuilder, ListNetworksOptionsBuilder};

use crate::container::RUN_LABEL;
use crate::container::engine::{Engine, EngineError};

/// Looking for an engine that may not be in use must not take long.
const PATIENCE: Duration = Duration::from_millis(500);

/// Removes what carries our label and belongs to no living run; returns descriptions.
///
/// Without an engine there is nothing to remove, so that is no error.
pub(crate) fn sweep(is_dead: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let engine = Engine::from_environment(PATIENCE);
    engine.and_then(|engine| remove_dead(&engine, is_dead)).unwrap_or_default()
}

fn remove_dead(
    engine: &Engine,
    is_dead: &dyn Fn(&Path) -> bool,
) -> Result<Vec<String>, EngineError> {
    let client = engine.client();
    let filters = HashMap::from([("label", vec![RUN_LABEL])]);
    let mut removed = Vec::new();
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let containers = engine.wait("to list containers", client.list_containers(Some(options)))?;
    for container in containers {
        if belongs_to_the_dead(container.labels.as_ref(), is_dead)
            && let Some(id) = container.id
            && super::attend::remove(engine, &id).is_ok()
        {
            removed.push(format!("container {}", &id[..id.len().min(12)]));
        }
    }
    let options = ListNetworksOptionsBuilder::new().filters(&filters).build();
    let networks = engine.wait("to list networks", client.list_networks(Some(options)))?;
    for network in networks {
        if belongs_to_the_dead(network.labels.as_ref(), is_dead)
            && let Some(id) = network.id
            && engine.wait("to remove a network", client.remove_network(&id)).is_ok()
        {
            removed.push(format!("network {}", network.name.unwrap_or(id)));
        }
    }
    Ok(removed)
}

fn belongs_to_the_dead(
    labels: Option<&HashMap<String, String>>,
    is_dead: &dyn Fn(&Path) -> bool,
) -> bool {
    labels.and_then(|labels| labels.get(RUN_LABEL)).is_some_and(|dir| is_dead(Path::new(dir)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_carries_the_folder_of_a_dead_run_is_removed() {
        let dead = |dir: &Path| dir == Path::new("/tmp/tg-dead");
        for (label, expected) in [
            (Some((RUN_LABEL, "/tmp/tg-dead")), true),
            (Some((RUN_LABEL, "/tmp/tg-alive")), false),
            (Some(("other", "/tmp/tg-dead")), false),
            (None, false),
        ] {
            let labels = label.map(|(key, dir)| HashMap::from([(key.to_owned(), dir.to_owned())]));
            assert_eq!(belongs_to_the_dead(labels.as_ref(), &dead), expected, "{label:?}");
        }
    }
}
