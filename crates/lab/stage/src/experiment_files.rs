//! The files beside an experiment's own, which its commands find at `$FILES`, on their way to another
//! machine.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::StageError;
use crate::sharing::share;

/// A folder with more bytes is not copied to another machine.
const BYTES_MAX: u64 = 8 << 20;
/// Nor is one with more files.
const FILES_MAX: usize = 1_000;
/// A folder in a folder, and so on: a link may lead back to one above it.
const DEPTH_MAX: usize = 30;

/// Bytes of a file in one message. On a slow way, a longer message would keep signs of life waiting.
const PIECE_BYTES: usize = 64 << 10;

/// A file below the folder of `$FILES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentFile {
    /// Its path below the folder.
    pub path: PathBuf,
    /// Whether it may be executed.
    pub executable: bool,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// A part of such a file, on its way to another machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePiece {
    path: PathBuf,
    executable: bool,
    /// Where it belongs in the file.
    offset: u64,
    #[serde(with = "text")]
    bytes: Vec<u8>,
}

/// Bytes in JSON, in base64.
mod text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map_err(D::Error::custom)
    }
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

    /// Its pieces; one if it is empty.
    pub fn pieces(&self) -> impl Iterator<Item = FilePiece> + '_ {
        let starts = (0..self.bytes.len().max(1)).step_by(PIECE_BYTES);
        starts.map(|start| FilePiece {
            path: self.path.clone(),
            executable: self.executable,
            offset: start as u64,
            bytes: self.bytes[start..].iter().take(PIECE_BYTES).copied().collect(),
        })
    }
}

/// Writes a piece of a file below a folder, which servers that drop root's rights may read. Pieces come
/// in any order.
pub(crate) fn write(piece: &FilePiece, folder: &Path) -> Result<(), StageError> {
    let path = folder.join(&piece.path);
    let mode = if piece.executable { 0o755 } else { 0o644 };
    let written = || -> std::io::Result<()> {
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent)?;
        let above = parent.ancestors().take_while(|above| above.starts_with(folder));
        above.into_iter().try_for_each(share)?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
        file.write_all_at(&piece.bytes, piece.offset)?;
        file.set_permissions(fs::Permissions::from_mode(mode))
    };
    written().map_err(StageError::file("cannot write", &path))
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
            ("large", &"0123456789".repeat(20_000)),
        ] {
            fs::write(from.join(path), text).unwrap();
        }
        fs::set_permissions(from.join("run.sh"), fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink("apps", from.join("same")).unwrap();
        let files = ExperimentFile::all_in(from).unwrap();
        let paths: Vec<&str> = files.iter().map(|file| file.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["apps/app.py", "empty", "large", "run.sh", "same/app.py"]);
        let pieces: Vec<FilePiece> = files.iter().flat_map(ExperimentFile::pieces).collect();
        assert_eq!(pieces.len(), 4 + 200_000_usize.div_ceil(PIECE_BYTES));
        // As messages, in another order.
        for piece in pieces.iter().rev() {
            let message = serde_json::to_string(piece).unwrap();
            assert!(message.len() < PIECE_BYTES * 3 / 2, "{}", message.len());
            write(&serde_json::from_str(&message).unwrap(), &to).unwrap();
        }
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
