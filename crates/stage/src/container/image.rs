//! The image `host`: the system's own programs, without a registry.
//!
//! It is an empty root file system; the folders of the system that hold programs
//! and libraries are mounted into it, read-only. A container of it starts with
//! the same Python, nginx or shell as the host, so that what differs is the
//! container alone.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::container::engine::{Engine, EngineError};
use crate::http::Sent;

/// The image's name; the number rises when what is in it changes. It is no tag, because Podman calls
/// whatever it imports `latest`.
pub(super) const NAME: &str = "tachograph-host-1";

/// Where programs, libraries and their settings are.
const SYSTEM: [&str; 8] = ["/bin", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/sbin", "/usr"];

/// Folders that the root file system needs for what is mounted there.
const EMPTY: [&str; 5] = ["dev/", "proc/", "sys/", "tmp/", "run/"];

/// Imports the image if the engine does not have it.
pub(super) fn ensure(engine: &Engine) -> Result<(), EngineError> {
    match engine.call("to look at an image", "GET", &format!("/images/{NAME}/json"), None) {
        Ok(_) => return Ok(()),
        Err(EngineError::Refused { status: 404, .. }) => {}
        Err(error) => return Err(error),
    }
    let path = format!("/images/create?fromSrc=-&repo={NAME}&tag=latest");
    let tar = archive();
    let sent = Sent { method: "POST", path: &path, content_type: "application/x-tar", body: &tar };
    engine.exchange("to import an image", &sent, Duration::from_secs(60)).map(drop)
}

/// What of the host is mounted: the system's folders, and those that hold the programs and
/// Python modules of the environment.
pub(super) fn mounts() -> BTreeSet<PathBuf> {
    let mut mounts: BTreeSet<PathBuf> =
        SYSTEM.iter().map(PathBuf::from).filter(|folder| folder.is_dir()).collect();
    for folder in folders("PATH") {
        let Some(prefix) = folder.parent().filter(|prefix| prefix.join("pyvenv.cfg").exists())
        else {
            continue;
        };
        mounts.insert(prefix.to_owned());
        mounts.extend(home(prefix));
    }
    mounts.extend(folders("PYTHONPATH"));
    let all = mounts.clone();
    mounts.retain(|folder| !folder.ancestors().skip(1).any(|above| all.contains(above)));
    mounts
}

fn folders(variable: &str) -> Vec<PathBuf> {
    let value = env::var_os(variable).unwrap_or_default();
    env::split_paths(&value).filter(|folder| folder.is_absolute() && folder.is_dir()).collect()
}

/// The installation of Python that a virtual environment refers to.
fn home(prefix: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(prefix.join("pyvenv.cfg")).ok()?;
    let home = text.lines().find_map(|line| line.strip_prefix("home = "))?;
    Some(Path::new(home.trim()).parent()?.to_owned())
}

/// A tar archive (POSIX ustar) of empty folders.
fn archive() -> Vec<u8> {
    let mut tar: Vec<u8> = EMPTY.iter().flat_map(|name| folder_header(name)).collect();
    tar.extend([0; 1024]);
    tar
}

fn folder_header(name: &str) -> [u8; 512] {
    let mut header = [0; 512];
    let mut put =
        |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    // Anybody may write to tmp, as on any system.
    put(100, if name == "tmp/" { "0001777\0" } else { "0000755\0" });
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, "00000000000\0");
    put(136, "00000000000\0");
    // The sum is made as if its own field held blanks.
    put(148, "        ");
    put(156, "5");
    put(257, "ustar\0");
    put(263, "00");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_archive_is_one_that_tar_can_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("root.tar");
        fs::write(&file, archive()).unwrap();
        let listing =
            Command::new("tar").args(["-tf"]).arg(&file).stderr(Stdio::inherit()).output().unwrap();
        assert!(listing.status.success());
        let names = String::from_utf8(listing.stdout).unwrap();
        assert_eq!(names.lines().collect::<Vec<_>>(), EMPTY);
    }
}
