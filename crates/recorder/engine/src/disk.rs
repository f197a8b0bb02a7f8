//! The disk, as far as the journal needs it: one folder of files that grow at their ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// A folder of files, by name.
///
/// A file's bytes are durable after [`Disk::sync`], its name after [`Disk::sync_folder`]. Until then
/// a power cut may keep any part of either. After an error, nothing is known about what was changed.
pub trait Disk {
    /// The path of a file, or of the folder for an empty name, for messages.
    fn path(&self, name: &str) -> PathBuf;

    /// The names of all files, in any order.
    ///
    /// # Errors
    /// Those of the system, as for all other methods.
    fn list(&mut self) -> io::Result<Vec<String>>;

    /// The length of a file in bytes.
    fn length(&mut self, name: &str) -> io::Result<u64>;

    /// Reads at an offset in bytes; returns the number of bytes read, 0 at the end.
    fn read(&mut self, name: &str, offset: u64, to: &mut [u8]) -> io::Result<usize>;

    /// Creates an empty file, in place of one with the same name.
    fn create(&mut self, name: &str) -> io::Result<()>;

    /// Writes all bytes at the end of a file.
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Shortens a file to a length in bytes.
    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()>;

    /// Makes the content of a file durable.
    fn sync(&mut self, name: &str) -> io::Result<()>;

    /// Renames a file, in place of one with the new name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// Makes the names of all files durable.
    fn sync_folder(&mut self) -> io::Result<()>;
}

/// A folder of the file system.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    writing: Option<(String, File)>,
    /// Opened without writing, which a file system that has become read-only would refuse.
    reading: Option<(String, File)>,
    /// Held so that no other process writes.
    _lock: Option<File>,
}

/// The file whose lock keeps other processes away.
const LOCK: &str = "lock";

impl Folder {
    /// A folder that is only read.
    pub fn new(path: &Path) -> Folder {
        Folder { path: path.to_owned(), writing: None, reading: None, _lock: None }
    }

    /// A folder to write to, created if necessary; `None` if another process writes to it.
    ///
    /// # Errors
    /// Those of the system, with the path.
    pub fn locked(path: &Path) -> Result<Option<Folder>, (PathBuf, io::Error)> {
        fs::create_dir_all(path).map_err(|cause| (path.to_owned(), cause))?;
        let name = path.join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&name);
        let lock = lock.map_err(|cause| (name, cause))?;
        let is_free = lock.try_lock().is_ok();
        Ok(is_free.then(|| Folder { _lock: Some(lock), ..Folder::new(path) }))
    }

    fn writing(&mut self, name: &str) -> io::Result<&mut File> {
        let file = match self.writing.take() {
            Some((known, file)) if known == name => file,
            _ => OpenOptions::new().append(true).open(self.path.join(name))?,
        };
        Ok(&mut self.writing.insert((name.to_owned(), file)).1)
    }

    /// Forgets the open files with a name.
    fn forget(&mut self, name: &str) {
        self.writing.take_if(|(known, _)| known == name);
        self.reading.take_if(|(known, _)| known == name);
    }
}

impl Disk for Folder {
    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.path.clone() } else { self.path.join(name) }
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.path)?;
        let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    fn length(&mut self, name: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.path.join(name))?.len())
    }

    fn read(&mut self, name: &str, offset: u64, to: &mut [u8]) -> io::Result<usize> {
        let file = match self.reading.take() {
            Some((known, file)) if known == name => file,
            _ => File::open(self.path.join(name))?,
        };
        self.reading.insert((name.to_owned(), file)).1.read_at(to, offset)
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        self.forget(name);
        File::create(self.path.join(name)).map(|_| ())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.writing(name)?.write_all(bytes)
    }

    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()> {
        self.writing(name)?.set_len(length)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.writing(name)?.sync_data()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.forget(from);
        self.forget(to);
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.forget(name);
        fs::remove_file(self.path.join(name))
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}
