//! Removes the containers and networks of dead runs.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use bollard::query_parameters::{ListContainersOptionsBuilder, ListNetworksOptionsBuilder};

use crate::container::RUN_LABEL;
use crate::container::engine::{ContainerEngine, EngineError, remove_container};
use crate::layout::RUN_DIR_VARIABLE;

/// Looking for an engine that may not be in use must not take long.
const PATIENCE: Duration = Duration::from_millis(500);

/// Timeout of a call to an engine that the run has used.
const PATIENCE_IN_USE: Duration = Duration::from_secs(10);

/// How long to look after a kill without finding anything: the engine still makes what it was asked
/// for before, and lists it only then.
const SETTLED: Duration = Duration::from_secs(3);

/// How long to look at most.
const LOOKING: Duration = Duration::from_secs(20);

/// How often to look.
const LOOK: Duration = Duration::from_millis(200);

/// The file in a run's folder that says that the run has used the engine.
const USED: &str = "engine-used";

/// Notes in the run's folder that the engine is used, before it is asked for anything.
pub(super) fn note_use() {
    if let Some(dir) = env::var_os(RUN_DIR_VARIABLE) {
        // Without the note, the next run removes what a killed one leaves.
        let _ = fs::write(Path::new(&dir).join(USED), "");
    }
}

/// Whether a run has used the engine. Ask before its folder is removed.
pub(crate) fn was_used(run_dir: &Path) -> bool {
    run_dir.join(USED).exists()
}

/// Removes what a killed run that has used the engine left there, also what the engine was still
/// making when the run was killed.
pub(crate) fn sweep_after_kill(run_dir: &Path) {
    let begin = Instant::now();
    let mut last_found = begin;
    while last_found.elapsed() < SETTLED && begin.elapsed() < LOOKING {
        let engine = ContainerEngine::from_environment(PATIENCE_IN_USE);
        let removed =
            engine.and_then(|engine| remove_dead(&engine, &|labelled| labelled == run_dir));
        if removed.is_ok_and(|removed| !removed.is_empty()) {
            last_found = Instant::now();
        }
        thread::sleep(LOOK);
    }
}

/// Removes what carries our label and belongs to no living run; returns descriptions. Waits longer
/// for an engine that one of those runs has used.
///
/// Without an engine there is nothing to remove, so that is no error.
pub(crate) fn sweep(was_used: bool, is_dead: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let engine =
        ContainerEngine::from_environment(if was_used { PATIENCE_IN_USE } else { PATIENCE });
    engine.and_then(|engine| remove_dead(&engine, is_dead)).unwrap_or_default()
}

fn remove_dead(
    engine: &ContainerEngine,
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
            && remove_container(engine, &id).is_ok()
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
