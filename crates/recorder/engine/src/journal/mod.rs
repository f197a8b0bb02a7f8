//! Acknowledged updates on disk, until a store has them.
//!
//! A journal is a folder of files to which records are appended. A record is any bytes, and has a
//! position: 1, 2, 3 … Before acknowledging an update, the receiver appends it and waits for
//! [`Journal::commit`]. A store keeps the position up to which it has everything, written in the
//! same transaction as the slots; after a crash the records after that position are read again, so
//! each counts once.
//!
//! ```text
//!  file 00000000000000000001.journal          file 00000000000000004096.journal
//!  ┌────────┬──────┬──────┬ … ┬──────┐        ┌────────┬──────┬──────┬───
//!  │ header │ rec. │ rec. │   │ rec. │        │ header │ rec. │ rec. │ ⇠ a crash may cut the last ones
//!  └────────┴──────┴──────┴ … ┴──────┘        └────────┴──────┴──────┴───
//!  header   "tachojournal" · format (u8) · lost (u24) · position of the first record (u64)
//!  record   length (u32) · checksum (u32) · position (u64) · bytes      all numbers little-endian
//! ```
//!
//! The checksum is CRC-32C of length, position and bytes. The highest bit of a length says that the
//! record is the first of a commit.
//!
//! # What a crash may leave
//!
//! - The last file with records may end within a record, or with records that were never committed:
//!   reading stops at the first incomplete record, and the rest is cut off before anything is
//!   appended.
//! - If a process is killed between a failed sync and the cut that follows it, its successor reads
//!   bytes that the system counts as written although they are not, and no later sync makes them
//!   durable. They are of the last commit, because nothing is appended after a failed one. So a process
//!   appends nothing to a file of an earlier one: it begins another, which says how many records before
//!   its first may be lost. None of them was acknowledged, unless the disk damaged them, which looks
//!   the same: those that are not there are [named](Journal::missing).
//! - In any other file an incomplete record is damage, and an error.
//! - A file is begun under another name, and gets its own once its header is durable. So a last file
//!   without a complete record is one that could not be used: it is removed, and the file before it is
//!   the last, whether or not it has reached that position.
//! - Files are removed one by one, the oldest first, so no other positions are missing.

use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;

mod follow;

pub use follow::Follower;

use crate::disk::{Disk, Folder};

/// First bytes of a file.
const MAGIC: &[u8; 12] = b"tachojournal";

/// The format that this version writes.
const FORMAT: u32 = 1;

/// The most records that a header can call lost: a commit has fewer.
const LOST_MAX: u64 = (1 << 24) - 1;

/// The bit of a length that says that the record is the first of a commit.
const BEGINS: u32 = 1 << 31;

/// Length of a header.
const HEADER_BYTES: u64 = 24;

/// Length of what precedes a record's bytes.
const FRAME_BYTES: u64 = 16;

/// Limit on a record.
pub const RECORD_MAX: usize = 16 << 20;

/// Size at which the next file is started.
pub const FILE_BYTES: u64 = 64 << 20;

/// Memory that is kept for the records of a commit.
const PENDING_KEPT: usize = 1 << 20;

/// The name of a file whose header is not durable yet.
const NEXT: &str = "next";

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
pub struct Journal<D = Folder> {
    disk: D,
    file_bytes: u64,
    /// The files with records, and the last one; never empty.
    files: Vec<JournalFile>,
    /// Records since the last commit.
    pending: Vec<u8>,
    /// The position of the last record.
    last: u64,
    /// The position of the last record that is on disk.
    committed: u64,
    tail: Tail,
    missing: Vec<RangeInclusive<u64>>,
}

/// A file: the position of its first record, and its length up to the last commit.
#[derive(Clone, Copy, Debug)]
struct JournalFile {
    first: u64,
    length: u64,
}

/// A file, as it was read: the positions of its first and last record, where that ends, and the first
/// record of its last commit.
#[derive(Clone, Copy, Debug, Default)]
struct FileEnd {
    first: u64,
    last: u64,
    end: u64,
    begun: u64,
    /// Whether no incomplete record follows.
    is_whole: bool,
}

/// What follows the last committed record in the last file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tail {
    /// Nothing.
    Clean,
    /// Perhaps parts of records that were never acknowledged. They are cut off before anything is
    /// written.
    Torn,
    /// Nothing, but the file is that of an earlier process, and so many of its last records may not be
    /// durable. A file is begun before anything is written.
    Earlier { lost: u64 },
}

impl<D: Disk> Journal<D> {
    /// Opens the journal on a disk, with files of about `file_bytes` bytes, and calls `replay` with
    /// every record, in order.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(
        mut disk: D,
        file_bytes: u64,
        mut replay: impl FnMut(u64, &[u8]),
    ) -> Result<Journal<D>, JournalError> {
        let mut files = settle(&mut disk)?;
        let mut bytes = Vec::new();
        let mut missing = Vec::new();
        let mut ends: Vec<FileEnd> = Vec::new();
        for file in &files {
            let mut reads = Reads::new(file.first);
            let lost = reads.header(&mut disk)?;
            let mut last = file.first - 1;
            if let Some(before) = ends.last() {
                let follows = match file.length > HEADER_BYTES {
                    true => may_follow(before.last, before.is_whole, file.first, lost),
                    // It was never used, so the file before it may have gone on.
                    false => last <= before.last + lost,
                };
                if !follows {
                    let name = name_of(if before.is_whole { file.first } else { before.first });
                    let last = before.last;
                    return Err(JournalError::Damaged { path: disk.path(&name), last });
                }
                missing.extend((before.last < last).then(|| before.last + 1..=last));
            }
            let mut begun = file.first;
            let next = loop {
                match reads.record(&mut disk, last + 1, &mut bytes)? {
                    Next::Record => {
                        last += 1;
                        begun = if reads.begins { last } else { begun };
                        replay(last, &bytes);
                    }
                    next => break next,
                }
            };
            let (first, end, is_whole) = (file.first, reads.offset, next == Next::End);
            ends.push(FileEnd { first, last, end, begun, is_whole });
        }
        // No commit to a last file was completed: the one before it is the last.
        while ends.len() > 1
            && let Some(unused) = ends.pop_if(|unused| unused.last < unused.first)
        {
            let name = name_of(unused.first);
            disk.remove(&name).map_err(failed(&disk, &name))?;
            files.pop();
        }
        let FileEnd { last, end, begun, .. } = ends.pop().unwrap_or_default();
        missing.retain(|missing: &RangeInclusive<u64>| *missing.end() < last);
        let tail = match files.last_mut() {
            Some(file) if file.length > end => {
                file.length = end;
                Tail::Torn
            }
            _ => Tail::Clean,
        };
        let (pending, committed) = (Vec::new(), last);
        let mut journal =
            Journal { disk, file_bytes, files, pending, last, committed, tail, missing };
        if journal.files.is_empty() {
            journal.begin(1, 0)?;
        }
        journal.mend()?;
        if journal.file().length > HEADER_BYTES {
            journal.tail = Tail::Earlier { lost: last + 1 - begun };
        }
        // A process that was killed may have left records, and the name of the file, that are not
        // durable yet.
        let name = name_of(journal.file().first);
        let synced = journal.disk.sync(&name).and_then(|()| journal.disk.sync_folder());
        synced.map_err(failed(&journal.disk, &name))?;
        Ok(journal)
    }

    /// Ensures that the position `upto`, which a store knows, is not used again. If the journal has
    /// lost records up to there, the store has all others too, and they are removed.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    pub fn skip_to(&mut self, upto: u64) -> Result<(), JournalError> {
        if self.last >= upto {
            return Ok(());
        }
        let last = self.files.pop();
        self.release(u64::MAX)?;
        for file in self.files.drain(..).chain(last) {
            let name = name_of(file.first);
            let removed = self.disk.remove(&name).and_then(|()| self.disk.sync_folder());
            removed.map_err(failed(&self.disk, &name))?;
        }
        (self.last, self.committed) = (upto, upto);
        self.begin(upto + 1, 0)
    }

    /// Appends a record, and returns its position. It is on disk after the next
    /// [`Journal::commit`], together with all others appended before.
    ///
    /// # Errors
    /// [`JournalError::TooLong`]; then nothing is changed.
    pub fn append(&mut self, bytes: &[u8]) -> Result<u64, JournalError> {
        if bytes.len() > RECORD_MAX {
            return Err(JournalError::TooLong(bytes.len()));
        }
        let position = self.last + 1;
        let begins = if self.pending.is_empty() { BEGINS } else { 0 };
        let length = (bytes.len() as u32 | begins).to_le_bytes();
        let at = position.to_le_bytes();
        let sum = checksum(&[&length, &at, bytes]).to_le_bytes();
        [&length[..], &sum, &at, bytes].iter().for_each(|part| self.pending.extend(*part));
        self.last = position;
        Ok(position)
    }

    /// Ensures that every record is on disk; returns the position of the last one.
    ///
    /// # Errors
    /// [`JournalError::Io`]: then no record since the last commit is in the journal, none may be
    /// acknowledged, and their positions are used again. The next commit tries again to write.
    pub fn commit(&mut self) -> Result<u64, JournalError> {
        let mut written = self.mend();
        let name = name_of(self.file().first);
        if written.is_ok() && !self.pending.is_empty() {
            let done = self.disk.append(&name, &self.pending);
            let done = done.and_then(|()| self.disk.sync(&name));
            written = done.map_err(failed(&self.disk, &name));
            if written.is_ok() {
                let bytes = self.pending.len() as u64;
                self.files.last_mut().into_iter().for_each(|file| file.length += bytes);
                self.committed = self.last;
            } else {
                self.tail = Tail::Torn;
                // What was written must not be read after a crash, because it is sent again. If it
                // cannot be cut off now, that is tried before the next write.
                let _ = self.mend();
            }
        }
        self.pending.clear();
        self.pending.shrink_to(PENDING_KEPT);
        self.last = self.committed;
        written?;
        if self.file().length >= self.file_bytes {
            // Without the next file, this one grows, and the next commit tries again.
            let _ = self.start_file();
        }
        Ok(self.committed)
    }

    /// Starts a new file after the last commit, so that the earlier ones can be released. Does
    /// nothing if the last file is empty, or if records wait for a commit.
    ///
    /// # Errors
    /// [`JournalError::Io`]: then the last file goes on.
    pub fn start_file(&mut self) -> Result<(), JournalError> {
        if self.file().length <= HEADER_BYTES || !self.pending.is_empty() {
            return Ok(());
        }
        if matches!(self.tail, Tail::Earlier { .. }) {
            return self.mend();
        }
        self.mend()?;
        self.begin(self.last + 1, 0)
    }

    /// Length of all files in bytes.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.length).sum()
    }

    /// Length of the files that are needed for the records from position `from` on, in bytes.
    pub fn size_from(&self, from: u64) -> u64 {
        let before = self.files.iter().skip(1).take_while(|next| next.first <= from).count();
        self.files[before..].iter().map(|file| file.length).sum()
    }

    /// Deletes the files whose records a store has, up to position `upto`.
    ///
    /// # Errors
    /// [`JournalError::Io`]: the rest is deleted the next time.
    pub fn release(&mut self, upto: u64) -> Result<(), JournalError> {
        while let [first, next, ..] = self.files[..]
            && next.first <= upto.saturating_add(1)
        {
            let name = name_of(first.first);
            match self.disk.remove(&name) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(&self.disk, &name)(cause));
                }
                _ => {}
            }
            // A later file must not be gone before an earlier one.
            self.disk.sync_folder().map_err(failed(&self.disk, ""))?;
            self.files.remove(0);
        }
        Ok(())
    }

    /// The position of the last record, committed or not; 0 if there never was one.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The positions that are missing in the middle, because a process was killed after a failed sync,
    /// or because the disk has damaged the last commit of an earlier process.
    pub fn missing(&self) -> &[RangeInclusive<u64>] {
        &self.missing
    }

    /// Whether records of a failed commit may come back after a crash, because they could not be cut
    /// off.
    pub fn is_torn(&self) -> bool {
        self.tail == Tail::Torn
    }

    /// The position of the first record that has not been released, or of the next record.
    pub fn first(&self) -> u64 {
        self.files.first().map_or(self.last + 1, |file| file.first)
    }

    fn file(&self) -> JournalFile {
        self.files.last().copied().unwrap_or(JournalFile { first: 1, length: HEADER_BYTES })
    }

    /// Makes the place after the last committed record one to append to.
    fn mend(&mut self) -> Result<(), JournalError> {
        match self.tail {
            Tail::Clean => {}
            Tail::Torn => {
                let JournalFile { first, length } = self.file();
                let name = name_of(first);
                let cut = self.disk.truncate(&name, length).and_then(|()| self.disk.sync(&name));
                cut.map_err(failed(&self.disk, &name))?;
                self.tail = Tail::Clean;
            }
            Tail::Earlier { lost } => self.begin(self.committed + 1, lost)?,
        }
        Ok(())
    }

    /// Creates a file, before which so many records may be lost. Its header and its name are durable
    /// before anything is appended.
    fn begin(&mut self, first: u64, lost: u64) -> Result<(), JournalError> {
        let name = name_of(first);
        let disk = &mut self.disk;
        let mut made = disk.create(NEXT);
        made = made.and_then(|()| disk.append(NEXT, &header(first, lost)));
        made = made.and_then(|()| disk.sync(NEXT));
        made = made.and_then(|()| disk.rename(NEXT, &name));
        made = made.and_then(|()| disk.sync_folder());
        if let Err(cause) = made {
            // If this fails too, a file without records stays, which is removed at the next start.
            let _ = disk.remove(NEXT);
            let _ = disk.remove(&name);
            return Err(failed(&self.disk, &name)(cause));
        }
        self.files.push(JournalFile { first, length: HEADER_BYTES });
        self.tail = Tail::Clean;
        Ok(())
    }
}

/// Whether a file from position `first` on, before which so many records may be lost, may follow one
/// whose last complete record is `last`; `is_whole` says that no incomplete one follows there.
fn may_follow(last: u64, is_whole: bool, first: u64, lost: u64) -> bool {
    last < first && first <= last + 1 + lost && (is_whole || lost > 0)
}

/// An error at a file of this name.
fn failed(disk: &dyn Disk, name: &str) -> impl FnOnce(io::Error) -> JournalError + use<> {
    let path = disk.path(name);
    move |cause| JournalError::Io { path, cause }
}

fn name_of(first: u64) -> String {
    format!("{first:020}.journal")
}

/// The files in order, with what a crash has left of unused ones removed: only the last file may be
/// without records.
fn settle(disk: &mut impl Disk) -> Result<Vec<JournalFile>, JournalError> {
    let folder = disk.path("");
    let names = disk.list().map_err(|cause| JournalError::Open { path: folder, cause })?;
    if names.iter().any(|name| name == NEXT) {
        disk.remove(NEXT).map_err(failed(disk, NEXT))?;
    }
    let firsts = firsts(&names);
    let mut files = Vec::new();
    for (number, first) in (1..).zip(&firsts) {
        let name = name_of(*first);
        let length = disk.length(&name).map_err(failed(disk, &name))?;
        let file = JournalFile { first: *first, length };
        if length <= HEADER_BYTES {
            let mut found = vec![0; length as usize];
            read_all(disk, &name, 0, &mut found).map_err(failed(disk, &name))?;
            if !is_header(&found, *first) {
                return Err(JournalError::Foreign(disk.path(&name)));
            }
            if number < firsts.len() || length < HEADER_BYTES {
                disk.remove(&name).map_err(failed(disk, &name))?;
                continue;
            }
        }
        files.push(file);
    }
    Ok(files)
}

/// The first positions of files, by their names, in order.
fn firsts(names: &[String]) -> Vec<u64> {
    let firsts = names.iter().filter_map(|name| name.strip_suffix(".journal")?.parse().ok());
    let mut firsts: Vec<u64> = firsts.collect();
    firsts.sort_unstable();
    firsts
}

fn header(first: u64, lost: u64) -> Vec<u8> {
    let word = FORMAT | (lost.min(LOST_MAX) as u32) << 8;
    [&MAGIC[..], &word.to_le_bytes(), &first.to_le_bytes()].concat()
}

/// Whether these bytes are a header of a file from this position on, or its beginning.
fn is_header(found: &[u8], first: u64) -> bool {
    header(first, lost_of(found)).starts_with(found)
}

/// How many records may be lost before a file with this header, as far as it tells.
fn lost_of(header: &[u8]) -> u64 {
    let word = header.get(MAGIC.len()..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u64::from(u32::from_le_bytes(*word) >> 8))
}

/// Reads as many bytes as there are, up to the length of `to`; returns their number.
fn read_all(disk: &mut impl Disk, name: &str, offset: u64, to: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < to.len() {
        match disk.read(name, offset + read as u64, &mut to[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// Bytes that are read together: at first, and at most. A reader that is near the end of the journal
/// needs few.
const READ_BYTES: [usize; 2] = [4 << 10, 256 << 10];

/// Reads a file from its beginning.
#[derive(Debug)]
struct Reads {
    name: String,
    first: u64,
    /// Offset of the next record.
    offset: u64,
    buffer: Vec<u8>,
    /// Where in the buffer the next record begins, and what was read ends.
    at: usize,
    end: usize,
    /// Whether the latest record is the first of a commit.
    begins: bool,
}

/// What follows in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Record,
    End,
    Torn,
}

impl Reads {
    fn new(first: u64) -> Reads {
        let (name, buffer) = (name_of(first), Vec::new());
        Reads { name, first, offset: 0, buffer, at: 0, end: 0, begins: false }
    }

    /// Forgets what was read ahead.
    fn again(&mut self) {
        (self.at, self.end) = (0, 0);
    }

    /// The next bytes: `count` of them, or fewer at the end of the file.
    fn ahead(&mut self, disk: &mut impl Disk, count: usize) -> Result<&[u8], JournalError> {
        if self.end - self.at < count {
            self.buffer.copy_within(self.at..self.end, 0);
            (self.at, self.end) = (0, self.end - self.at);
            let [few, many] = READ_BYTES;
            let length = count.max((self.buffer.len() * 2).clamp(few, many));
            self.buffer.resize(length.max(self.buffer.len()), 0);
            let offset = self.offset + self.end as u64;
            let read = read_all(disk, &self.name, offset, &mut self.buffer[self.end..]);
            self.end += read.map_err(failed(disk, &self.name))?;
        }
        let ahead = &self.buffer[self.at..self.end];
        Ok(&ahead[..count.min(ahead.len())])
    }

    fn pass(&mut self, count: usize) {
        self.at += count;
        self.offset += count as u64;
    }

    /// Reads the header; returns how many records before the first may be lost.
    fn header(&mut self, disk: &mut impl Disk) -> Result<u64, JournalError> {
        let first = self.first;
        let found = self.ahead(disk, HEADER_BYTES as usize)?;
        if found.len() < HEADER_BYTES as usize || !is_header(found, first) {
            return Err(JournalError::Foreign(disk.path(&self.name)));
        }
        let lost = lost_of(found);
        self.pass(HEADER_BYTES as usize);
        Ok(lost)
    }

    /// Reads the record at a position; unless it is complete, nothing is passed.
    fn record(
        &mut self,
        disk: &mut impl Disk,
        position: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<Next, JournalError> {
        let frame = self.ahead(disk, FRAME_BYTES as usize)?;
        let Some((length, rest)) = frame.split_first_chunk::<4>() else {
            return Ok(if frame.is_empty() { Next::End } else { Next::Torn });
        };
        let (length, word) = (*length, u32::from_le_bytes(*length));
        let count = (word & !BEGINS) as usize;
        let Some((sum, at)) = rest.split_first_chunk::<4>() else { return Ok(Next::Torn) };
        let sum = u32::from_le_bytes(*sum);
        if count > RECORD_MAX || at != position.to_le_bytes() {
            return Ok(Next::Torn);
        }
        let whole = FRAME_BYTES as usize + count;
        let Some(found) = self.ahead(disk, whole)?.get(FRAME_BYTES as usize..whole) else {
            return Ok(Next::Torn);
        };
        if checksum(&[&length, &position.to_le_bytes(), found]) != sum {
            return Ok(Next::Torn);
        }
        bytes.clear();
        bytes.extend_from_slice(found);
        self.begins = word & BEGINS != 0;
        self.pass(whole);
        Ok(Next::Record)
    }
}

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4) of the concatenated parts, by the CPU's own
/// instruction where it has one.
fn checksum(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part))
}

#[cfg(test)]
mod tests;
