//! The two commits on their way to another machine: a repository with both, without history.

use std::fs;
use std::path::{Path, PathBuf};

use far::{ErrandOrder, Machine};
use stage::ExperimentFile;

use crate::failure::Failure;

/// More is not sent: in a message, each byte takes up to four.
const BYTES_MAX: u64 = 256 << 20;

/// So much of a file is in one message.
const PIECE_BYTES: usize = 8 << 20;

/// The name of the repository, here and there.
pub(super) const REPOSITORY: &str = "sent.git";

/// The files of a bare repository without history that are sent: a few, and one pack. One whose
/// commits never had a history is not shallow.
fn files(repository: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = ["HEAD", "config", "shallow"].map(PathBuf::from).to_vec();
    files.retain(|file| repository.join(file).exists());
    let packs = repository.join("objects/pack");
    for entry in fs::read_dir(&packs).map_err(|error| unreadable(&packs, &error))? {
        let name = entry.map_err(|error| unreadable(&packs, &error))?.file_name();
        files.push(Path::new("objects/pack").join(name));
    }
    Ok(files)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot read {}: {error}", path.display()))
}

/// Sends a bare repository; returns its folder there.
pub(super) fn send(repository: &Path, machine: &Machine) -> Result<PathBuf, Failure> {
    let files = files(repository)?;
    let size = |file: &PathBuf| repository.join(file).metadata().map_or(0, |data| data.len());
    let bytes: u64 = files.iter().map(size).sum();
    if bytes > BYTES_MAX {
        return Err(Failure::new(format!(
            "the two commits have {} MiB, and at most {} are sent to another machine: run diff \
             there, in a clone",
            bytes >> 20,
            BYTES_MAX >> 20
        )));
    }
    // Without this folder it is no repository for git.
    let refs = ExperimentFile {
        path: Path::new(REPOSITORY).join("refs/heads/.keep"),
        executable: false,
        bytes: Vec::new(),
    };
    let folder = machine.copy(vec![refs]).map_err(Failure::new)?.join(REPOSITORY);
    for file in &files {
        let from = repository.join(file);
        let content = fs::read(&from).map_err(|error| unreadable(&from, &error))?;
        let pieces = content.chunks(PIECE_BYTES).enumerate();
        let is_whole = content.len() <= PIECE_BYTES;
        for (number, piece) in pieces {
            let mut path = Path::new(REPOSITORY).join(file).into_os_string();
            if !is_whole {
                path.push(format!(".{number:05}"));
            }
            let (path, bytes) = (path.into(), piece.to_vec());
            let sent = ExperimentFile { path, executable: false, bytes };
            machine.copy(vec![sent]).map_err(Failure::new)?;
        }
        if !is_whole {
            join(machine, &folder, file)?;
        }
    }
    Ok(folder)
}

/// Makes one file of its pieces.
fn join(machine: &Machine, folder: &Path, file: &Path) -> Result<(), Failure> {
    let script = "cat \"$1\".[0-9]* >\"$1\" && rm \"$1\".[0-9]*";
    let file = file.display().to_string();
    let ended = machine.errand(ErrandOrder {
        name: "join".to_owned(),
        argv: ["sh", "-c", script, "sh", &file].map(str::to_owned).to_vec(),
        folder: folder.to_owned(),
        env: Vec::new(),
        timeout: base::Nanos::from_secs(600),
    });
    let ended = ended.map_err(Failure::new)?;
    match ended.is_success() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "on {}: {} cannot be written{}",
            machine.name(),
            folder.join(&file).display(),
            stage::LogTail(ended.log)
        ))),
    }
}
