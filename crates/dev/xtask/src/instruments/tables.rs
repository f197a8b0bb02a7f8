//! The published tables: stacks of the experiments, and the tools that load them.

use std::path::Path;

use spec::{Part, Plan, SourceFile, Variant};

use crate::pages;
use crate::tools::{Tool, ab, hey, httperf, httpress, ours, weighttp, wrk};

/// A published table.
#[derive(Debug)]
pub(super) struct PublishedTable {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// Where and how it was measured.
    pub(super) published: &'static str,
    /// The experiment that repeats it, and its part.
    experiment: &'static str,
    part: &'static str,
    /// Its stacks; the first one is that to which the others are compared.
    pub(super) variants: &'static [&'static str],
    pub(super) tools: &'static [&'static Tool],
    /// Threads of the tool, if not those of the part.
    pub(super) threads: Option<u32>,
    /// What explains its figures.
    pub(super) notes: &'static str,
    /// Whether nginx logs the status of each response.
    pub(super) has_statuses: bool,
}

impl PartialEq for PublishedTable {
    fn eq(&self, other: &PublishedTable) -> bool {
        self.id == other.id
    }
}

/// All tables, in the order of the page.
pub(super) static TABLES: [PublishedTable; 5] = [
    PublishedTable {
        id: "short-backlog",
        title: "Responses with status 502",
        published: "The trap of 2013: nginx in front of uWSGI, whose listen backlog (16) is much shorter than \
                    the number of connections (120, kept), so that nginx answers a part of the requests \
                    with status 502.",
        experiment: "python-servers-concurrent",
        part: "short-backlog",
        variants: &["short-backlog"],
        tools: &[&httpress::TOOL, &weighttp::TOOL, &ab::TOOL, &wrk::TOOL, &ours::TOOL],
        threads: Some(8),
        notes: "httpress reads no status (`parse_headers` in httpress.c): a response whose end it finds is a success.",
        has_statuses: true,
    },
    PublishedTable {
        id: "one-at-a-time",
        title: "One request at a time, a connection for each",
        published: "As measured with ab in 2013: one connection at a time, nothing pinned.",
        experiment: "python-servers-2013",
        part: "as-published",
        variants: &["uwsgi-nginx-unix", "mod-python", "apache-file"],
        tools: &[
            &ab::TOOL,
            &httpress::TOOL,
            &weighttp::TOOL,
            &httperf::TOOL,
            &wrk::TOOL,
            &ours::TOOL,
        ],
        threads: None,
        notes: "httperf never sleeps, so where nothing is pinned it takes one of the CPUs from the servers.",
        has_statuses: false,
    },
    PublishedTable {
        id: "concurrent",
        title: "120 kept connections",
        published: "As measured with httpress in 2013, with a CPU for the tool and one thread: nginx and Apache \
                    close each connection after 100 requests.",
        experiment: "python-servers-concurrent-2013",
        part: "split",
        variants: &["uwsgi", "nginx-file", "mod-python"],
        tools: &[&httpress::TOOL, &weighttp::TOOL, &ab::TOOL, &wrk::TOOL, &ours::TOOL],
        threads: None,
        notes: "Once all requests have begun, httpress ends connections on which nothing happened for four mean times, \
                and reports their requests as failed (`shutdown_thread` in httpress.c); the stack served them. wrk \
                leaves out the requests that are outstanding when its time is over.",
        has_statuses: false,
    },
    PublishedTable {
        id: "flask",
        title: "Flask behind gunicorn and nginx",
        published: "As measured with wrk in 2016: 10 kept connections, 2 threads; gunicorn has one CPU, nginx \
                    and the tool the other.",
        experiment: "flask-gunicorn-nginx-2016",
        part: "as-published",
        variants: &["tcp", "unix"],
        tools: &[
            &wrk::TOOL,
            &ab::TOOL,
            &httpress::TOOL,
            &weighttp::TOOL,
            &httperf::TOOL,
            &ours::TOOL,
        ],
        threads: None,
        notes: "",
        has_statuses: false,
    },
    PublishedTable {
        id: "closed-connections",
        title: "Closed connections",
        published: "Apache's event module closes kept connections on which a request is on its way, while \
                    all threads of a process are busy: 400 connections, 16 × 25 threads, a file.",
        experiment: "python-servers-concurrent-2013",
        part: "connections-400",
        variants: &["apache-file"],
        tools: &[&httpress::TOOL, &weighttp::TOOL, &ab::TOOL, &wrk::TOOL, &hey::TOOL, &ours::TOOL],
        threads: None,
        notes: "hey sends a request again on a new connection if a kept one ends without a response, and reports no \
                failure; all others report it. httpress also reports requests as failed that were served, \
                as above.",
        has_statuses: false,
    },
];

/// Whether a table has this tool.
pub(super) fn has_tool(tool: &Tool) -> bool {
    TABLES.iter().any(|table| table.tools.iter().any(|one| one.name == tool.name))
}

/// A stack of a table, with what the experiment says about it.
pub(super) struct ExperimentStack {
    pub(super) plan: Plan,
    pub(super) part: Part,
    pub(super) variant: Variant,
}

impl PublishedTable {
    /// The stack of this name, from the experiment's file.
    pub(super) fn stack(&self, name: &str) -> Result<ExperimentStack, String> {
        let mut plan = plan(&pages::docs().join("../experiments"), self.experiment)?;
        let unknown = || format!("{} has no part {} with {name}", self.experiment, self.part);
        let at = plan.parts.iter().position(|part| part.name == self.part).ok_or_else(unknown)?;
        let part = plan.parts.swap_remove(at);
        let variant = part.variants.iter().find(|variant| variant.name == name);
        let mut variant = variant.cloned().ok_or_else(unknown)?;
        variant.load.threads = self.threads.unwrap_or(variant.load.threads);
        Ok(ExperimentStack { plan, part, variant })
    }
}

/// Reads an experiment with the files that it includes.
fn plan(folder: &Path, name: &str) -> Result<Plan, String> {
    let read = |path: &Path| {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
        Ok::<_, String>(SourceFile { path: shown, text })
    };
    let main = read(&folder.join(name).with_extension("toml"))?;
    let mut included = Vec::new();
    for pattern in spec::includes(&main.text, &main.path).map_err(|error| error.to_string())? {
        let inner =
            pattern.strip_suffix("/*.toml").ok_or_else(|| format!("{pattern} is no folder"))?;
        let inner = folder.join(inner);
        let files =
            std::fs::read_dir(&inner).map_err(|error| format!("{}: {error}", inner.display()))?;
        let mut files: Vec<_> = files.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
        files.sort();
        for file in files {
            included.push(read(&file)?);
        }
    }
    let mut plan = spec::parse_plan_files(&main, &included).map_err(|error| error.to_string())?;
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    plan.files = Some(folder);
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stack_is_in_its_experiment_and_counts_its_requests() {
        for table in &TABLES {
            for name in table.variants {
                let stack = table.stack(name).unwrap();
                assert!(stack.variant.served_by.is_some(), "{name}");
                assert!(stack.variant.target.starts_with("http://127.0.0.1:"), "{name}");
            }
        }
        assert!(TABLES[0].stack("nothing").is_err());
    }
}
