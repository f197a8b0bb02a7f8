//! Disks that can be filled, and disks whose power can be cut.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

use crate::process::output;

/// QuestDB allocates 16 MiB for each column and writer, and Prometheus 128 MiB at once.
const SIZE: &str = "2G";

/// The memory for a disk and its copy, if all of both were written.
const MEMORY: &str = "4G";

/// How often the image of a disk is copied until nothing was written to it meanwhile.
const COPIES: u32 = 100;

/// Gives this process mounts of its own, which end with it.
///
/// # Errors
/// Without the right to mount.
pub(super) fn own_mounts() -> Result<(), String> {
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none))
        .map_err(|error| format!("this process may not mount disks: {error}"))
}

/// A mounted disk, which is unmounted on drop.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    /// What is on a disk whose power can be cut.
    image: Option<Image>,
}

/// The file behind a disk.
#[derive(Debug)]
struct Image {
    memory: TempDir,
    cuts: u32,
}

impl Image {
    fn path(&self) -> PathBuf {
        self.memory.path().join(self.cuts.to_string())
    }

    fn mount(&self, folder: &Path) -> Result<(), String> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", "loop"]).arg(self.path()).arg(folder);
        output(&mut mount).map(drop)
    }
}

impl Disk {
    /// Mounts a disk that can be filled on an empty folder.
    ///
    /// # Errors
    /// Without the right to mount.
    pub(super) fn small(folder: &Path) -> Result<Disk, String> {
        in_memory(folder, SIZE)?;
        Ok(Disk { folder: folder.to_owned(), image: None })
    }

    /// Mounts a disk whose power can be cut, with ext4.
    ///
    /// # Errors
    /// Without the right to mount, or a program that it takes.
    pub(super) fn with_power(folder: &Path) -> Result<Disk, String> {
        let memory = tempfile::tempdir().map_err(|error| error.to_string())?;
        in_memory(memory.path(), MEMORY)?;
        let image = Image { memory, cuts: 0 };
        output(Command::new("truncate").args(["-s", SIZE]).arg(image.path()))?;
        let mut format = Command::new("mkfs.ext4");
        format.args(["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"]).arg(image.path());
        output(&mut format)?;
        image.mount(folder)?;
        let disk = Disk { folder: folder.to_owned(), image: Some(image) };
        std::fs::remove_dir(folder.join("lost+found")).map_err(|error| error.to_string())?;
        Ok(disk)
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

    /// Writes to it all that the kernel has only in memory.
    pub(super) fn sync(&self) -> Result<(), String> {
        output(Command::new("sync").arg("-f").arg(&self.folder)).map(drop)
    }

    /// Copies what has reached the disk, calls `kill` to end all that use it, and mounts the copy:
    /// whatever was only in the kernel's memory is lost. All processes that write to the disk must be
    /// suspended.
    pub(super) fn cut_power(
        &mut self,
        kill: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let image = self.image.as_mut().ok_or("its power cannot be cut")?;
        let before = image.path();
        image.cuts += 1;
        let mut copies = 0;
        while copies == 0 || !is_same(&before, &image.path()) {
            if copies == COPIES {
                return Err("the kernel writes to the disk all the time".to_owned());
            }
            let mut copy = Command::new("cp");
            output(copy.arg("--sparse=always").arg(&before).arg(image.path()))?;
            copies += 1;
        }
        kill()?;
        output(Command::new("umount").arg("-l").arg(&self.folder))?;
        std::fs::remove_file(before).map_err(|error| error.to_string())?;
        image.mount(&self.folder)
    }
}

fn in_memory(folder: &Path, size: &str) -> Result<(), String> {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tachograph"]).arg(folder);
    output(&mut mount).map(drop)
}

/// Whether two files are the same: then the second is what the first was at one moment, the end of
/// copying it.
fn is_same(one: &Path, other: &Path) -> bool {
    output(Command::new("cmp").arg("-s").args([one, other])).is_ok()
}

impl Drop for Disk {
    fn drop(&mut self) {
        unmount(&self.folder);
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        unmount(self.memory.path());
    }
}

/// Lazily: a store that has just been killed may still have files open.
fn unmount(folder: &Path) {
    let _ = output(Command::new("umount").arg("-l").arg(folder));
}

#[cfg(test)]
mod tests {
    use rustix::process::geteuid;

    use super::*;

    #[test]
    fn what_was_not_synced_is_gone_after_a_power_cut() {
        if !geteuid().is_root() {
            return;
        }
        // Those of this thread.
        own_mounts().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut disk = match Disk::with_power(folder.path()) {
            Ok(disk) => disk,
            Err(why) => return eprintln!("not tested, since there is no loop device: {why}"),
        };
        // Not after five seconds, in which a busy machine may not have come to the cut.
        let mut remount = Command::new("mount");
        output(remount.args(["-o", "remount,commit=600"]).arg(folder.path())).unwrap();
        let path = |name| folder.path().join(name);
        std::fs::write(path("synced"), "a").unwrap();
        disk.sync().unwrap();
        std::fs::write(path("written"), "b").unwrap();
        disk.cut_power(|| Ok(())).unwrap();
        assert_eq!(std::fs::read(path("synced")).unwrap(), b"a");
        assert!(!path("written").exists());
        // Also the second time, and what was synced after the first one stays.
        std::fs::write(path("later"), "c").unwrap();
        File::open(folder.path()).unwrap().sync_all().unwrap();
        File::open(path("later")).unwrap().sync_all().unwrap();
        disk.cut_power(|| Ok(())).unwrap();
        assert_eq!(std::fs::read(path("later")).unwrap(), b"c");
    }
}
