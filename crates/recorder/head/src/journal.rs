//! Acknowledged updates on disk, until a store has them.
//!
//! A journal is a folder of files to which records are appended. A record is any bytes, and has a
//! position: 1, 2, 3 … Before acknowledging an update, the receiver appends it and waits for
//! [`Journal::commit`]. A store keeps the position up to which it has everything, written in the
//! same transaction as the slots; after a crash the records after that position are
//! [read](Journal::open) again, so each counts once.
//!
//! ```text
//!  file 00000000000000000001.journal          file 00000000000000004096.journal
//!  ┌────────┬──────┬──────┬ … ┬──────┐        ┌────────┬──────┬──────┬───
//!  │ header │ rec. │ rec. │   │ rec. │        │ header │ rec. │ rec. │ ⇠ a crash may cut the last ones
//!  └────────┴──────┴──────┴ … ┴──────┘        └────────┴──────┴──────┴───
//!  header   "tachojournal" · format (u32) · position of the first record (u64)
//!  record   length (u32) · checksum (u32) · position (u64) · bytes      all numbers little-endian
//! ```
//!
//! The checksum is CRC-32C of length, position and bytes. The last file may end within a record, or
//! with records that were never committed: reading stops at the first incomplete record, and the
//! rest is truncated before anything is appended. In any other file an incomplete record is damage,
//! and an error.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

mod follow;

pub use follow::Follower;

/// First bytes of a file.
const MAGIC: &[u8; 12] = b"tachojournal";

/// The format that this version writes.
const FORMAT: u32 = 1;

/// Length of a header.
const HEADER_BYTES: u64 = 24;

/// Length of what precedes a record's bytes.
const FRAME_BYTES: u64 = 16;

/// Limit on a record.
pub const RECORD_MAX: usize = 16 << 20;

/// Size at which the next file is started.
const FILE_BYTES: u64 = 64 << 20;

/// Why a journal could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// I/O error.
    #[error("the journal {} failed ({cause}): send unacknowledged updates again", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// It cannot be opened.
    #[error(
        "cannot open the journal {} ({cause}): check the permissions and the disk, or choose \
         another folder",
        .path.display()
    )]
    Open {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// A file that is not a journal, or was written by a later version.
    #[error("{} is not a journal of this version: it was changed by another program, or by a \
        newer tachograph", .0.display())]
    Foreign(PathBuf),
    /// A damaged record in the middle.
    #[error("the journal {} is damaged after record {last}: restore it from a backup, or move it \
        away and lose the later records", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The position of the last complete record.
        last: u64,
    },
    /// Another process has it open.
    #[error("another process writes to the journal in {}: stop it first", .0.display())]
    Locked(PathBuf),
    /// A record that is too long.
    #[error("a record of {0} bytes is longer than {RECORD_MAX}: send it in parts")]
    TooLong(usize),
}

/// A journal that is open for writing.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    file_bytes: u64,
    /// The files, by the positions of their first records.
    firsts: Vec<u64>,
    file: BufWriter<File>,
    /// Length of the last file.
    length: u64,
    /// The position of the last record.
    last: u64,
    /// The position of the last record that is on disk.
    committed: u64,
    /// Length of the last file up to that record.
    committed_length: u64,
    /// Length of all files but the last.
    earlier_bytes: u64,
    /// Held so that no other process writes.
    _lock: File,
}

impl Journal {
    /// Opens the journal in a folder, which is created if necessary, and calls `replay` with every
    /// record after position `after`, in order.
    ///
    /// # Errors
    /// [`JournalError`], and errors of `replay`.
    pub fn open<E: From<JournalError>>(
        folder: &Path,
        after: u64,
        replay: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<Journal, E> {
        Journal::open_with(folder, FILE_BYTES, after, replay)
    }

    fn open_with<E: From<JournalError>>(
        folder: &Path,
        file_bytes: u64,
        after: u64,
        mut replay: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<Journal, E> {
        let named = |path: &Path| named(path.to_owned());
        fs::create_dir_all(folder).map_err(not_opened(folder))?;
        let lock_path = folder.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(not_opened(&lock_path))?;
        if lock.try_lock().is_err() {
            return Err(JournalError::Locked(folder.to_owned()).into());
        }
        let mut firsts = files(folder)?;
        let mut end = ReadUpTo { last: 0, length: 0 };
        for (place, first) in firsts.iter().enumerate() {
            // A file whose records a store has need not be read.
            let next = firsts.get(place + 1);
            if next.is_some_and(|next| *next <= after.saturating_add(1)) {
                continue;
            }
            let path = path_of(folder, *first);
            end = read(&path, *first, next.is_none(), |position, bytes| {
                if position > after { replay(position, bytes) } else { Ok(()) }
            })?;
        }
        if end.length < HEADER_BYTES
            && let Some(first) = firsts.pop()
        {
            // The crash happened while it was being created.
            let path = path_of(folder, first);
            fs::remove_file(&path).map_err(named(&path))?;
        }
        let last = end.last.max(after);
        let known = firsts.last().map(|first| path_of(folder, *first));
        let known = known.filter(|_| end.length >= HEADER_BYTES);
        let file = known.map(|path| append_to(&path, end.length).map_err(named(&path)));
        // If a store knows of records that are in no file any more, the next record starts a file.
        let (file, length) = match file.transpose()? {
            Some(file) if end.last == last => (file, end.length),
            _ => {
                firsts.push(last + 1);
                (begin(folder, last + 1)?, HEADER_BYTES)
            }
        };
        let mut earlier_bytes = 0;
        for first in firsts.iter().rev().skip(1) {
            let path = path_of(folder, *first);
            earlier_bytes += fs::metadata(&path).map_err(named(&path))?.len();
        }
        Ok(Journal {
            folder: folder.to_owned(),
            file_bytes,
            firsts,
            file: BufWriter::with_capacity(1 << 18, file),
            length,
            last,
            committed: last,
            committed_length: length,
            earlier_bytes,
            _lock: lock,
        })
    }

    /// Appends a record, and returns its position. It is on disk after the next
    /// [`Journal::commit`], together with all others appended before.
    ///
    /// # Errors
    /// [`JournalError::TooLong`], [`JournalError::Io`].
    pub fn append(&mut self, bytes: &[u8]) -> Result<u64, JournalError> {
        if bytes.len() > RECORD_MAX {
            return Err(JournalError::TooLong(bytes.len()));
        }
        if self.length >= self.file_bytes {
            self.start_file()?;
        }
        let position = self.last + 1;
        let length = (bytes.len() as u32).to_le_bytes();
        let at = position.to_le_bytes();
        let sum = checksum(&[&length, &at, bytes]).to_le_bytes();
        let written = [&length[..], &sum, &at, bytes]
            .into_iter()
            .try_for_each(|part| self.file.write_all(part));
        written.map_err(|cause| self.failed(cause))?;
        self.last = position;
        self.length += FRAME_BYTES + bytes.len() as u64;
        Ok(position)
    }

    /// Ensures that every record is on disk; returns the position of the last one.
    ///
    /// # Errors
    /// [`JournalError::Io`]: then nothing since the last commit may be acknowledged.
    pub fn commit(&mut self) -> Result<u64, JournalError> {
        if self.committed < self.last {
            let done = self.file.flush().and_then(|()| self.file.get_ref().sync_data());
            done.map_err(|cause| self.failed(cause))?;
            (self.committed, self.committed_length) = (self.last, self.length);
        }
        Ok(self.committed)
    }

    /// Commits, and starts a new file, so that the earlier ones can be released. Does nothing if
    /// the last file is empty.
    ///
    /// # Errors
    /// [`JournalError::Io`], as for [`Journal::commit`].
    pub fn start_file(&mut self) -> Result<(), JournalError> {
        self.commit()?;
        if self.length <= HEADER_BYTES {
            return Ok(());
        }
        let first = self.last + 1;
        self.file = BufWriter::with_capacity(1 << 18, begin(&self.folder, first)?);
        self.firsts.push(first);
        self.earlier_bytes += self.length;
        (self.length, self.committed_length) = (HEADER_BYTES, HEADER_BYTES);
        Ok(())
    }

    /// Removes the records since the last commit, for example after a commit that failed because
    /// the disk was full.
    ///
    /// # Errors
    /// [`JournalError::Io`]: then the journal must be opened again.
    pub fn undo(&mut self) -> Result<(), JournalError> {
        let first = self.firsts.last().copied().unwrap_or_default();
        let path = path_of(&self.folder, first);
        let file = append_to(&path, self.committed_length).map_err(named(path))?;
        let failed = std::mem::replace(&mut self.file, BufWriter::with_capacity(1 << 18, file));
        // Taken apart, because dropping it would write what is in its buffer.
        drop(failed.into_parts());
        (self.last, self.length) = (self.committed, self.committed_length);
        Ok(())
    }

    /// Length of all files in bytes.
    pub fn size(&self) -> u64 {
        self.earlier_bytes + self.length
    }

    /// Deletes the files whose records a store has, up to position `upto`.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    pub fn release(&mut self, upto: u64) -> Result<(), JournalError> {
        while let [first, next, ..] = self.firsts[..]
            && next <= upto.saturating_add(1)
        {
            let path = path_of(&self.folder, first);
            let bytes = fs::metadata(&path).map(|found| found.len()).unwrap_or_default();
            fs::remove_file(&path).map_err(named(path))?;
            self.firsts.remove(0);
            self.earlier_bytes = self.earlier_bytes.saturating_sub(bytes);
        }
        Ok(())
    }

    /// The position of the last record; 0 if there never was one.
    pub fn last(&self) -> u64 {
        self.last
    }

    fn failed(&self, cause: io::Error) -> JournalError {
        let first = self.firsts.last().copied().unwrap_or_default();
        JournalError::Io { path: path_of(&self.folder, first), cause }
    }
}

fn named(path: PathBuf) -> impl FnOnce(io::Error) -> JournalError {
    move |cause| JournalError::Io { path, cause }
}

fn not_opened(path: &Path) -> impl FnOnce(io::Error) -> JournalError {
    move |cause| JournalError::Open { path: path.to_owned(), cause }
}

fn path_of(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{first:020}.journal"))
}

/// The first positions of a folder's files, in order.
fn files(folder: &Path) -> Result<Vec<u64>, JournalError> {
    let mut firsts = Vec::new();
    for entry in fs::read_dir(folder).map_err(not_opened(folder))? {
        let entry = entry.map_err(not_opened(folder))?;
        let name = entry.file_name();
        let first: Option<u64> =
            name.to_str().and_then(|name| name.strip_suffix(".journal")?.parse().ok());
        firsts.extend(first);
    }
    firsts.sort_unstable();
    Ok(firsts)
}

/// Creates a file. Its name is on disk before anything is appended.
fn begin(folder: &Path, first: u64) -> Result<File, JournalError> {
    let path = path_of(folder, first);
    let write = || {
        let mut file = OpenOptions::new().create_new(true).append(true).open(&path)?;
        let mut header = MAGIC.to_vec();
        header.extend(FORMAT.to_le_bytes());
        header.extend(first.to_le_bytes());
        file.write_all(&header)?;
        file.sync_data()?;
        File::open(folder)?.sync_all()?;
        Ok(file)
    };
    write().map_err(named(path.clone()))
}

/// Opens a file for appending, and truncates what follows its last complete record.
fn append_to(path: &Path, length: u64) -> io::Result<File> {
    let mut file = OpenOptions::new().append(true).read(true).open(path)?;
    if file.seek(SeekFrom::End(0))? > length {
        file.set_len(length)?;
        file.sync_data()?;
    }
    Ok(file)
}

/// How far a file could be read.
struct ReadUpTo {
    last: u64,
    length: u64,
}

fn read<E: From<JournalError>>(
    path: &Path,
    first: u64,
    is_last: bool,
    mut replay: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<ReadUpTo, E> {
    let io = |cause| JournalError::Io { path: path.to_owned(), cause };
    let mut file = BufReader::with_capacity(1 << 18, File::open(path).map_err(io)?);
    let mut header = Vec::new();
    file.by_ref().take(HEADER_BYTES).read_to_end(&mut header).map_err(io)?;
    let mut at = ReadUpTo { last: first.saturating_sub(1), length: 0 };
    let mut wanted = MAGIC.to_vec();
    wanted.extend(FORMAT.to_le_bytes());
    wanted.extend(first.to_le_bytes());
    if header.len() < wanted.len() && is_last && wanted.starts_with(&header) {
        return Ok(at);
    }
    if header != wanted {
        return Err(JournalError::Foreign(path.to_owned()).into());
    }
    at.length = HEADER_BYTES;
    let mut bytes = Vec::new();
    loop {
        match record(&mut file, at.last + 1, &mut bytes).map_err(io)? {
            Next::Record => {}
            Next::End => return Ok(at),
            Next::Torn if is_last => return Ok(at),
            Next::Torn => {
                return Err(JournalError::Damaged { path: path.to_owned(), last: at.last }.into());
            }
        }
        at.last += 1;
        at.length += FRAME_BYTES + bytes.len() as u64;
        replay(at.last, &bytes)?;
    }
}

enum Next {
    Record,
    End,
    Torn,
}

/// Reads the record at a position.
fn record(file: &mut impl Read, position: u64, bytes: &mut Vec<u8>) -> io::Result<Next> {
    let mut frame = Vec::new();
    file.take(FRAME_BYTES).read_to_end(&mut frame)?;
    let Some((length, rest)) = frame.split_first_chunk::<4>() else {
        return Ok(if frame.is_empty() { Next::End } else { Next::Torn });
    };
    let Some((sum, at)) = rest.split_first_chunk::<4>() else { return Ok(Next::Torn) };
    let count = u32::from_le_bytes(*length) as usize;
    if count > RECORD_MAX || at != position.to_le_bytes() {
        return Ok(Next::Torn);
    }
    bytes.clear();
    file.take(count as u64).read_to_end(bytes)?;
    let is_whole =
        bytes.len() == count && checksum(&[length, at, bytes]) == u32::from_le_bytes(*sum);
    Ok(if is_whole { Next::Record } else { Next::Torn })
}

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4) of the concatenated parts, by the CPU's own
/// instruction where it has one.
fn checksum(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part))
}

#[cfg(test)]
mod tests;
