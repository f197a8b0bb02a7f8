//! The tools that are there: installed by `scripts/truth-tools.sh`, or on PATH.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::binary;
use crate::tools::{Tool, on_path, version};

/// The tools that are there, and those that are not.
pub(crate) struct InstalledTools {
    /// Where `scripts/truth-tools.sh` installed them.
    folder: PathBuf,
    /// With their programs.
    pub(crate) here: Vec<(&'static Tool, PathBuf)>,
    missing: Vec<MissingTool>,
}

/// A tool that could not be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MissingTool {
    pub(crate) tool: String,
    /// The command that should install it.
    pub(crate) command: String,
    pub(crate) reason: String,
}

impl InstalledTools {
    /// Looks for these tools.
    pub(crate) fn find(tools: &[&'static Tool], folder: &Path) -> InstalledTools {
        let failed = std::fs::read_to_string(folder.join("missing.tsv")).unwrap_or_default();
        let failed = missing(&failed);
        let (mut here, mut absent) = (Vec::new(), Vec::new());
        for tool in tools.iter().copied() {
            let installed = folder.join("bin").join(tool.name);
            let program = match tool.name {
                "tachograph" => binary::path().ok(),
                _ => installed.canonicalize().ok().or_else(|| on_path(tool.name)),
            };
            match program {
                Some(program) => here.push((tool, program)),
                None => {
                    let known = failed.iter().find(|row| row.tool == tool.name).cloned();
                    absent.push(known.unwrap_or_else(|| MissingTool {
                        tool: tool.name.to_owned(),
                        command: "scripts/truth-tools.sh".to_owned(),
                        reason: "not installed".to_owned(),
                    }));
                }
            }
        }
        InstalledTools { folder: folder.to_owned(), here, missing: absent }
    }

    /// Notes the versions of those that are there, and which are not; of other tools, nothing changes.
    pub(crate) fn note(
        &self,
        versions: &mut BTreeMap<String, String>,
        missing: &mut Vec<MissingTool>,
    ) {
        let is_known = |name: &str| self.here.iter().any(|(tool, _)| tool.name == name);
        missing.retain(|row| {
            !is_known(&row.tool) && self.missing.iter().all(|other| other.tool != row.tool)
        });
        missing.extend(self.missing.iter().cloned());
        let version = |(tool, program): &(&Tool, PathBuf)| {
            let version = match tool.version {
                Some(argument) => short(&version(program, &[argument])),
                None => self.installed_version(tool),
            };
            (tool.name.to_owned(), version)
        };
        versions.extend(self.here.iter().map(version));
    }

    /// The version of a tool that does not print it.
    fn installed_version(&self, tool: &Tool) -> String {
        let file = self.folder.join(format!("{}.version", tool.name));
        let version = std::fs::read_to_string(file);
        version.map_or_else(|_| "version unknown".to_owned(), |text| text.trim().to_owned())
    }
}

/// The lines of `missing.tsv`: tool, command, reason.
fn missing(text: &str) -> Vec<MissingTool> {
    let row = |line: &str| {
        let mut cells = line.splitn(3, '\t').map(str::to_owned);
        Some(MissingTool { tool: cells.next()?, command: cells.next()?, reason: cells.next()? })
    };
    text.lines().filter_map(row).collect()
}

/// A version without the words around it that some tools print.
fn short(version: &str) -> String {
    let before = ["This is ", "version:", "httperf: "];
    let after = [" <$Revision$>", " - ", " compiled "];
    let version = before.iter().fold(version, |text, word| text.trim_start_matches(word));
    let version = after.iter().fold(version, |text, word| text.split(word).next().unwrap_or(text));
    version.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_short() {
        let printed = [
            "This is ApacheBench, Version 2.3 <$Revision$>",
            "oha 1.16.0",
            "version:    1.1",
            "weighttp 0.4 - a lightweight and simple webserver benchmarking tool",
            "httperf: httperf-0.9.0 compiled without DEBUG without TIME_SYSCALLS.",
        ];
        assert_eq!(
            printed.map(short),
            ["ApacheBench, Version 2.3", "oha 1.16.0", "1.1", "weighttp 0.4", "httperf-0.9.0"]
        );
    }

    #[test]
    fn tools_that_could_not_be_installed_are_read() {
        let rows = missing("hey\tgo install hey@v1\tno route\nbroken line\n");
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].tool.as_str(), rows[0].reason.as_str()), ("hey", "no route"));
    }
}
