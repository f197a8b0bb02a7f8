//! JudgedComparison comparisons in a file, a line of JSON each: a long proof is continued where it ended, and
//! the page is made of what several calls have measured.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use zoo::Kind;

use super::tally::JudgedComparison;

/// Under which conditions a comparison was made. Only comparisons of one method and length belong
/// together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Conditions {
    pub(super) seed: u64,
    pub(super) seconds: u32,
    /// The servers about which the method was wrong, instead of drawn ones.
    pub(super) found: bool,
    /// Beside neighbours on both CPUs.
    pub(super) neighbours: bool,
    /// Comparisons at the same time.
    pub(super) together: u32,
    /// The measured build.
    pub(super) version: String,
}

/// One comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) conditions: Conditions,
    pub(super) judged: JudgedComparison,
}

/// The comparisons so far.
#[derive(Debug, Default)]
pub(super) struct KeptComparisons {
    pub(super) entries: Vec<Entry>,
    file: Option<File>,
}

impl KeptComparisons {
    /// Reads what the file has, and appends to it. Without a file, only remembers.
    pub(super) fn open(path: Option<&Path>) -> Result<KeptComparisons, String> {
        let Some(path) = path else { return Ok(KeptComparisons::default()) };
        let unfit = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file = OpenOptions::new().read(true).append(true).create(true).open(path);
        let file = file.map_err(|error| unfit(&error))?;
        let mut entries = Vec::new();
        for line in BufReader::new(&file).lines() {
            let line = line.map_err(|error| unfit(&error))?;
            entries.push(serde_json::from_str(&line).map_err(|error| unfit(&error))?);
        }
        Ok(KeptComparisons { entries, file: Some(file) })
    }

    /// Whether it has a comparison; each `--kind` numbers its runs from 1.
    pub(super) fn has(&self, conditions: &Conditions, run: u32, kind: Kind, against: &str) -> bool {
        self.entries.iter().any(|Entry { conditions: made, judged }| {
            made == conditions
                && (judged.run, judged.kind) == (run, kind)
                && judged.against == against
        })
    }

    pub(super) fn add(&mut self, entry: Entry) -> Result<(), String> {
        if let Some(file) = &mut self.file {
            let line = serde_json::to_string(&entry).map_err(|error| error.to_string())?;
            writeln!(file, "{line}").map_err(|error| format!("the kept results: {error}"))?;
        }
        self.entries.push(entry);
        Ok(())
    }
}
