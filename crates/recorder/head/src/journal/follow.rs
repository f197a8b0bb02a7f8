//! Reading a journal that is being written.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::{FORMAT, FRAME_BYTES, HEADER_BYTES, JournalError, MAGIC, Next, files, path_of, record};

/// Reads the committed records of a journal in order, while another thread appends to it.
#[derive(Debug)]
pub struct Follower {
    folder: PathBuf,
    /// The file with the next record, and its length up to there.
    file: Option<(PathBuf, BufReader<File>)>,
    length: u64,
    next: u64,
    /// The last record that is known to be committed.
    upto: u64,
    bytes: Vec<u8>,
    is_again: bool,
}

impl Follower {
    /// Reads the records after position `after`. Those from there on must not be released.
    pub fn new(folder: &Path, after: u64) -> Follower {
        Follower {
            folder: folder.to_owned(),
            file: None,
            length: 0,
            next: after + 1,
            upto: after,
            bytes: Vec::new(),
            is_again: false,
        }
    }

    /// The next record with its position, up to position `upto`, which must be committed.
    ///
    /// # Errors
    /// [`JournalError::Io`], and [`JournalError::Damaged`] if a committed record is not there.
    pub fn next(&mut self, upto: u64) -> Result<Option<(u64, &[u8])>, JournalError> {
        if std::mem::take(&mut self.is_again) {
            return Ok(Some((self.next - 1, &self.bytes)));
        }
        if self.next > upto {
            return Ok(None);
        }
        if upto != self.upto
            && let Some((path, file)) = &mut self.file
        {
            // What was read ahead may have been undone, and written differently.
            let found = file.seek(SeekFrom::Start(self.length));
            found.map_err(|cause| JournalError::Io { path: path.clone(), cause })?;
        }
        self.upto = upto;
        let mut known = self.file.is_some();
        loop {
            let (path, mut file) = match self.file.take() {
                Some(open) => open,
                None => self.open()?,
            };
            let found = record(&mut file, self.next, &mut self.bytes);
            match found.map_err(|cause| JournalError::Io { path: path.clone(), cause })? {
                Next::Record => {
                    self.file = Some((path, file));
                    self.length += FRAME_BYTES + self.bytes.len() as u64;
                    self.next += 1;
                    return Ok(Some((self.next - 1, &self.bytes)));
                }
                // The record is in the next file.
                Next::End if std::mem::take(&mut known) => {}
                Next::End | Next::Torn => {
                    return Err(JournalError::Damaged { path, last: self.next - 1 });
                }
            }
        }
    }

    /// The latest record is read again.
    pub fn again(&mut self) {
        self.is_again = true;
    }

    /// Opens the file with the next record, and skips those before it.
    fn open(&mut self) -> Result<(PathBuf, BufReader<File>), JournalError> {
        let firsts = files(&self.folder)?;
        let first = firsts.into_iter().rfind(|first| *first <= self.next);
        let first = first.ok_or_else(|| JournalError::Damaged {
            path: self.folder.clone(),
            last: self.next - 1,
        })?;
        let path = path_of(&self.folder, first);
        let io = |cause| JournalError::Io { path: path.clone(), cause };
        let mut file = BufReader::with_capacity(1 << 18, File::open(&path).map_err(io)?);
        let mut header = Vec::new();
        file.by_ref().take(HEADER_BYTES).read_to_end(&mut header).map_err(io)?;
        let wanted = [&MAGIC[..], &FORMAT.to_le_bytes(), &first.to_le_bytes()].concat();
        if header != wanted {
            return Err(JournalError::Foreign(path));
        }
        self.length = HEADER_BYTES;
        for position in first..self.next {
            match record(&mut file, position, &mut self.bytes).map_err(io)? {
                Next::Record => self.length += FRAME_BYTES + self.bytes.len() as u64,
                Next::End | Next::Torn => {
                    return Err(JournalError::Damaged { path, last: position - 1 });
                }
            }
        }
        Ok((path, file))
    }
}
