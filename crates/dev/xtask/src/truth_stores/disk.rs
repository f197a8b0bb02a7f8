//! A small disk in memory, which can be filled.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::process::output;

/// Its size: Prometheus allocates 128 MiB at once.
const SIZE: &str = "400m";

/// A mounted disk, which is unmounted on drop.
#[derive(Debug)]
pub(super) struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts it on an empty folder.
    ///
    /// # Errors
    /// Without the right to mount.
    pub(super) fn mount(folder: &Path) -> Result<SmallDisk, String> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={SIZE}"), "tachograph"]).arg(folder);
        output(&mut mount)?;
        Ok(SmallDisk { folder: folder.to_owned() })
    }

    /// Fills it to the last byte, and empties it again after this time, in a thread of its own.
    pub(super) fn fill(&self, time: Duration) -> Result<JoinHandle<()>, String> {
        let path = self.folder.join("ballast");
        let mut ballast = File::create(&path).map_err(|error| error.to_string())?;
        for block in [1 << 20, 1 << 12, 1] {
            let block = vec![0; block];
            // Until it is full.
            while ballast.write_all(&block).is_ok() {}
        }
        Ok(thread::spawn(move || {
            thread::sleep(time);
            // The disk is unmounted in any case.
            let _ = std::fs::remove_file(path);
        }))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a store that has just been killed may still have files open.
        let _ = output(Command::new("umount").arg("-l").arg(&self.folder));
    }
}
