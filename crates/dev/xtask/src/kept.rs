//! Results in a file, a line of JSON each: a long proof is continued where it ended, and its page is made
//! of what several calls have measured.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The results so far.
#[derive(Debug)]
pub(crate) struct ResultsFile<T> {
    pub(crate) entries: Vec<T>,
    file: Option<File>,
}

impl<T: Serialize + DeserializeOwned> ResultsFile<T> {
    /// Reads what the file has, and appends to it. Without a file, only remembers.
    pub(crate) fn open(path: Option<&Path>) -> Result<ResultsFile<T>, String> {
        let Some(path) = path else { return Ok(ResultsFile { entries: Vec::new(), file: None }) };
        let unfit = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file = OpenOptions::new().read(true).append(true).create(true).open(path);
        let file = file.map_err(|error| unfit(&error))?;
        let mut entries = Vec::new();
        for line in BufReader::new(&file).lines() {
            let line = line.map_err(|error| unfit(&error))?;
            entries.push(serde_json::from_str(&line).map_err(|error| unfit(&error))?);
        }
        Ok(ResultsFile { entries, file: Some(file) })
    }

    pub(crate) fn add(&mut self, entry: T) -> Result<(), String> {
        if let Some(file) = &mut self.file {
            let line = serde_json::to_string(&entry).map_err(|error| error.to_string())?;
            writeln!(file, "{line}").map_err(|error| format!("the kept results: {error}"))?;
        }
        self.entries.push(entry);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_there_when_it_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        ResultsFile::open(Some(&path)).unwrap().add(1).unwrap();
        let mut again: ResultsFile<i32> = ResultsFile::open(Some(&path)).unwrap();
        again.add(2).unwrap();
        assert_eq!(again.entries, [1, 2]);
        assert_eq!(ResultsFile::<i32>::open(Some(&path)).unwrap().entries, [1, 2]);
        std::fs::write(&path, "nothing").unwrap();
        assert!(ResultsFile::<i32>::open(Some(&path)).is_err());
    }
}
