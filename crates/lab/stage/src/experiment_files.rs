//! The files beside an experiment's own, which its commands find at `$FILES`, on their way to another
//! machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::StageError;
use crate::sharing::share_all;

/// A folder with more bytes is not copied to another machine.
const BYTES_MAX: u64 = 8 << 20;
/// Nor is one with more files.
const FILES_MAX: usize = 1_000;
/// A folder in a folder, and so on: a link may lead back to one above it.
const DEPTH_MAX: usize = 30;

/// A file below the folder of `$FILES`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExperimentFile {
    /// Its path below the folder.
    pub path: PathBuf,
    /// Whether it may be executed.
    pub executable: bool,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl ExperimentFile {
    /// Reads all files below a folder, except hidden ones and what Python compiled.
    ///
    /// # Errors
    /// If one cannot be read, or the folder has too much to copy.
    pub fn all_in(folder: &Path) -> Result<Vec<ExperimentFile>, StageError> {
        let mut found = FolderScan { folder, bytes: 0, files: Vec::new() };
        found.add(Path::new(""), 0)?;
        Ok(found.files)
    }
}

/// Writes the files below a folder, and lets servers that drop root's rights read them.
pub(crate) fn write(files: &[ExperimentFile], folder: &Path) -> Result<(), StageError> {
    fs::create_dir_all(folder).map_err(StageError::file("cannot write", folder))?;
    for file in files {
        let path = folder.join(&file.path);
        let mode = if file.executable { 0o755 } else { 0o644 };
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, &file.bytes))
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
            .map_err(StageError::file("cannot write", &path))?;
    }
    share_all(folder).map_err(StageError::file("cannot write", folder))
}

/// The files of a folder that were found so far.
struct FolderScan<'a> {
    folder: &'a Path,
    bytes: u64,
    files: Vec<ExperimentFile>,
}

impl FolderScan<'_> {
    /// Adds what is in the folder `below`, in the order of names.
    fn add(&mut self, below: &Path, depth: usize) -> Result<(), StageError> {
        let folder = self.folder.join(below);
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(StageError::file("cannot read", &folder))? {
            names.push(entry.map_err(StageError::file("cannot read", &folder))?.file_name());
        }
        names.sort_unstable();
        for name in names {
            if name.as_encoded_bytes().starts_with(b".") || name == "__pycache__" {
                continue;
            }
            let (path, below) = (folder.join(&name), below.join(&name));
            let metadata = fs::metadata(&path).map_err(StageError::file("cannot read", &path))?;
            if metadata.is_dir() {
                self.check(depth < DEPTH_MAX)?;
                self.add(&below, depth + 1)?;
            } else if metadata.is_file() {
                self.bytes += metadata.len();
                self.check(self.bytes <= BYTES_MAX && self.files.len() < FILES_MAX)?;
                self.files.push(ExperimentFile {
                    bytes: fs::read(&path).map_err(StageError::file("cannot read", &path))?,
                    executable: metadata.permissions().mode() & 0o111 != 0,
                    path: below,
                });
            }
        }
        Ok(())
    }

    fn check(&self, fits: bool) -> Result<(), StageError> {
        match fits {
            true => Ok(()),
            false => Err(StageError::TooMuchToCopy { folder: self.folder.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_is_written() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (from, to) = (from.path(), to.path().join("files"));
        fs::create_dir_all(from.join("apps/__pycache__")).unwrap();
        fs::create_dir_all(from.join(".git")).unwrap();
        for (path, text) in [
            ("apps/app.py", "x = 1\n"),
            ("apps/__pycache__/app.pyc", "old"),
            (".git/config", "secret"),
            ("empty", ""),
            ("run.sh", "#!/bin/sh\n"),
        ] {
            fs::write(from.join(path), text).unwrap();
        }
        fs::set_permissions(from.join("run.sh"), fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink("apps", from.join("same")).unwrap();
        let files = ExperimentFile::all_in(from).unwrap();
        let paths: Vec<&str> = files.iter().map(|file| file.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["apps/app.py", "empty", "run.sh", "same/app.py"]);
        write(&files, &to).unwrap();
        assert_eq!(ExperimentFile::all_in(&to).unwrap(), files);
        let mode = |path: &str| fs::metadata(to.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode("run.sh"), mode("empty"), mode("apps") & 0o555], [0o755, 0o644, 0o555]);
    }

    #[test]
    fn a_folder_that_is_too_large_or_endless_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = || {
            let error = ExperimentFile::all_in(folder.path()).unwrap_err().to_string();
            assert!(error.contains("is too much to copy to another machine"), "{error}");
        };
        std::os::unix::fs::symlink(".", folder.path().join("again")).unwrap();
        refused();
        fs::remove_file(folder.path().join("again")).unwrap();
        let large = fs::File::create(folder.path().join("large")).unwrap();
        large.set_len(BYTES_MAX).unwrap();
        assert_eq!(ExperimentFile::all_in(folder.path()).unwrap().len(), 1);
        large.set_len(BYTES_MAX + 1).unwrap();
        refused();
    }
}
