//! The two commits on their way to another machine: a repository with both, without history.

use std::fs;
use std::path::{Path, PathBuf};

use far::Machine;
use stage::ExperimentFile;

use crate::failure::Failure;

/// More is not sent.
const BYTES_MAX: u64 = 256 << 20;

/// The name of the repository, here and there.
pub(super) const REPOSITORY: &str = "sent.git";

/// The files of a bare repository without history that are sent: a few, and one pack. One whose
/// commits never had a history is not shallow.
fn paths(repository: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = ["HEAD", "config", "shallow"].map(PathBuf::from).to_vec();
    paths.retain(|path| repository.join(path).exists());
    let packs = repository.join("objects/pack");
    for entry in fs::read_dir(&packs).map_err(|error| unreadable(&packs, &error))? {
        let name = entry.map_err(|error| unreadable(&packs, &error))?.file_name();
        paths.push(Path::new("objects/pack").join(name));
    }
    Ok(paths)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot read {}: {error}", path.display()))
}

/// Sends a bare repository; returns its folder there.
pub(super) fn send(repository: &Path, machine: &Machine) -> Result<PathBuf, Failure> {
    let paths = paths(repository)?;
    let size = |path: &PathBuf| repository.join(path).metadata().map_or(0, |data| data.len());
    let bytes: u64 = paths.iter().map(size).sum();
    if bytes > BYTES_MAX {
        return Err(Failure::new(format!(
            "the two commits have {} MiB, and at most {} are sent to another machine: run diff \
             there, in a clone",
            bytes >> 20,
            BYTES_MAX >> 20
        )));
    }
    let there = |path: &Path, bytes: Vec<u8>| ExperimentFile {
        path: Path::new(REPOSITORY).join(path),
        executable: false,
        bytes,
    };
    // Without this folder it is no repository for git.
    let mut files = vec![there(Path::new("refs/heads/.keep"), Vec::new())];
    for path in &paths {
        let from = repository.join(path);
        let bytes = fs::read(&from).map_err(|error| unreadable(&from, &error))?;
        files.push(there(path, bytes));
    }
    Ok(machine.copy(&files).map_err(Failure::new)?.join(REPOSITORY))
}
