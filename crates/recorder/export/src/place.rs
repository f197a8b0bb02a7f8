//! The files of one recorder in a folder: their names, and how they replace each other.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::ExportError;
use crate::table::{FILE_PREFIX, FILE_SUFFIX, folders, partition_path};

/// Attempts to create a file in a folder that others may remove while it is empty.
const ATTEMPTS_MAX: u32 = 1_000;

/// The files of one recorder in a folder.
#[derive(Debug)]
pub(crate) struct ExportFolder<'a> {
    folder: &'a Path,
    recorder: &'a str,
}

impl<'a> ExportFolder<'a> {
    pub(crate) fn new(folder: &'a Path, recorder: &'a str) -> ExportFolder<'a> {
        ExportFolder { folder, recorder }
    }

    /// Creates the folder if necessary, keeps other exports of the same recorder away while the
    /// result lives, and removes what an interrupted one has left.
    ///
    /// # Errors
    /// [`ExportError::Running`], [`ExportError::File`].
    pub(crate) fn take(&self) -> Result<File, ExportError> {
        let create = fs::create_dir_all(self.folder);
        create.map_err(ExportError::file("create", self.folder))?;
        let path = self.folder.join(format!(".{FILE_PREFIX}{}.lock", self.recorder));
        let lock = File::options().create(true).append(true).open(&path);
        let lock = lock.map_err(ExportError::file("write", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(ExportError::Running(self.folder.to_owned()));
            }
            // Some network filesystems have no locks.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(ExportError::file("lock", &path)(error)),
        }
        self.remove_leftovers().map_err(ExportError::file("read", self.folder))?;
        Ok(lock)
    }

    fn remove_leftovers(&self) -> io::Result<()> {
        for (_, of_step) in folders(self.folder, "step=")? {
            for (_, of_day) in folders(&of_step, "day=")? {
                for name in [self.file_name(), self.notes_name()] {
                    remove(&of_day.join(part_name(&name)))?;
                }
                // Empty if the first file of a partition was never completed.
                let _ = fs::remove_dir(&of_day);
            }
        }
        Ok(())
    }

    fn file_name(&self) -> String {
        format!("{FILE_PREFIX}{}{FILE_SUFFIX}", self.recorder)
    }

    fn notes_name(&self) -> String {
        format!("_{FILE_PREFIX}{}.json", self.recorder)
    }

    /// The files of a partition.
    pub(crate) fn partition(&self, step: &str, day: &str) -> Files {
        let folder = partition_path(self.folder, step, day);
        Files {
            file: folder.join(self.file_name()),
            part: folder.join(part_name(&self.file_name())),
            notes_part: folder.join(part_name(&self.notes_name())),
            notes: folder.join(self.notes_name()),
            folder,
        }
    }
}

/// The files of a recorder in one partition.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
    /// What is exported.
    pub(crate) file: PathBuf,
    /// What it is replaced by, while that is written.
    part: PathBuf,
    /// What the file was made from.
    pub(crate) notes: PathBuf,
    notes_part: PathBuf,
}

/// A file that is not complete yet; it is removed unless it is completed.
#[derive(Debug)]
pub(crate) struct PartialFile<'f> {
    files: &'f Files,
    kept: bool,
}

/// What becomes of the files of a partition when an export is put into place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileChange {
    /// The complete new file takes the place of the exported one.
    Replace,
    /// The exported file already has the new content.
    Keep,
    /// All its slots were retracted.
    Remove,
}

/// A change that is ready to be put into place; it is undone unless it is.
#[derive(Debug)]
pub(crate) struct ReadyChange {
    files: Files,
    pub(crate) change: FileChange,
    /// What the new file was made from.
    notes: String,
    is_placed: bool,
}

impl Files {
    /// Begins the file that replaces the exported one.
    pub(crate) fn begin(&self) -> Result<(File, PartialFile<'_>), ExportError> {
        let file = in_folder(&self.folder, "write", &self.part, || File::create(&self.part))?;
        Ok((file, PartialFile { files: self, kept: false }))
    }

    /// Begins that file again.
    pub(crate) fn again(&self) -> Result<File, ExportError> {
        File::create(&self.part).map_err(ExportError::file("write", &self.part))
    }

    /// Removes the file that is not complete, and the folder if it is empty.
    fn give_up(&self) {
        let _ = fs::remove_file(&self.part);
        let _ = fs::remove_dir(&self.folder);
    }

    /// The folder of the partition.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Length of the exported file; `None` if there is none.
    pub(crate) fn bytes(&self) -> Option<u64> {
        fs::metadata(&self.file).ok().map(|about| about.len())
    }

    /// The change that was prepared.
    pub(crate) fn ready(self, change: FileChange, notes: String) -> ReadyChange {
        ReadyChange { files: self, change, notes, is_placed: false }
    }
}

impl PartialFile<'_> {
    /// Ends the file, which stays beside the exported one unless that has the same content.
    pub(crate) fn complete(mut self, mut file: File) -> Result<FileChange, ExportError> {
        let Files { file: place, part, .. } = self.files;
        file.flush().map_err(ExportError::file("write", part))?;
        if equal(part, place).map_err(ExportError::file("read", place))? {
            return Ok(FileChange::Keep);
        }
        file.sync_all().map_err(ExportError::file("write", part))?;
        self.kept = true;
        Ok(FileChange::Replace)
    }
}

impl Drop for PartialFile<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.files.give_up();
        }
    }
}

/// Puts all changes into place. Nothing but renaming and removing happens between the first file and
/// the last, so that a reader hardly ever meets some old and some new files; what takes long was done
/// before, or follows.
pub(crate) fn put(changes: &mut [ReadyChange]) -> Result<(), ExportError> {
    for change in &mut *changes {
        let Files { file, part, .. } = &change.files;
        match change.change {
            FileChange::Replace => {
                fs::rename(part, file).map_err(ExportError::file("write", file))?;
            }
            FileChange::Keep => {}
            FileChange::Remove => remove(file).map_err(ExportError::file("remove", file))?,
        }
        change.is_placed = true;
    }
    changes.iter().try_for_each(ReadyChange::settle)
}

impl ReadyChange {
    /// What readers do not wait for: names on disk, and what the file was made from.
    fn settle(&self) -> Result<(), ExportError> {
        let Files { folder, file, notes, notes_part, .. } = &self.files;
        if self.change == FileChange::Remove {
            remove(notes).map_err(ExportError::file("remove", file))?;
            // Other recorders may have files there.
            let _ = fs::remove_dir(folder);
            return Ok(());
        }
        if self.change == FileChange::Replace {
            sync_names(folder)?;
        }
        // It is not worth a sync: without it the file is made again.
        let noted = fs::write(notes_part, &self.notes).and_then(|()| fs::rename(notes_part, notes));
        noted.map_err(ExportError::file("write", notes))
    }
}

impl Drop for ReadyChange {
    fn drop(&mut self) {
        if self.change == FileChange::Replace && !self.is_placed {
            self.files.give_up();
        }
    }
}

/// Creates `path` in a folder, which is created too if necessary: another recorder may remove it at any
/// time while it is empty. `what` is done to the path, for the error.
pub(crate) fn in_folder<T>(
    folder: &Path,
    what: &'static str,
    path: &Path,
    create: impl Fn() -> io::Result<T>,
) -> Result<T, ExportError> {
    let mut attempts = 0;
    loop {
        let (what, path, error) = match fs::create_dir_all(folder) {
            Ok(()) => match create() {
                Ok(created) => return Ok(created),
                Err(error) => (what, path, error),
            },
            Err(error) => ("create", folder, error),
        };
        // "Already exists" is said of a folder that was removed when it was looked at again.
        let is_removed =
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists);
        if !is_removed || attempts == ATTEMPTS_MAX {
            return Err(ExportError::file(what, path)(error));
        }
        attempts += 1;
    }
}

/// Brings names to disk: of the files in a folder, of the folder, and of the one that has it.
pub(crate) fn sync_names(folder: &Path) -> Result<(), ExportError> {
    for folder in folder.ancestors().take(3).filter(|folder| !folder.as_os_str().is_empty()) {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(ExportError::file("write", folder))?;
    }
    Ok(())
}

/// The name of a file while it is written: readers ignore it.
fn part_name(name: &str) -> String {
    format!(".{name}.part")
}

/// Removes a file, if there is one.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether two files have the same content; a missing one has none.
fn equal(a: &Path, b: &Path) -> io::Result<bool> {
    let mut b = match File::open(b) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut a = File::open(a)?;
    let mut left = a.metadata()?.len();
    if left != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut ours, mut theirs) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    while left > 0 {
        let length = left.min(1 << 16);
        let (ours, theirs) = (&mut ours[..length as usize], &mut theirs[..length as usize]);
        a.read_exact(ours)?;
        b.read_exact(theirs)?;
        if ours != theirs {
            return Ok(false);
        }
        left -= length;
    }
    Ok(true)
}
