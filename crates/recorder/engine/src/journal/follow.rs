//! Reading a journal that is being written.

use super::{Disk, HEADER_BYTES, JournalError, Next, Reads, failed, firsts, may_follow};

/// Reads the committed records of a journal in order, while another thread appends to it.
#[derive(Debug)]
pub struct Follower<D> {
    disk: D,
    /// The file with the next record.
    file: Option<Reads>,
    next: u64,
    /// The last record that is known to be committed.
    upto: u64,
    bytes: Vec<u8>,
    is_again: bool,
}

impl<D: Disk> Follower<D> {
    /// Reads the records after position `after`. Those from there on must not be released.
    pub fn new(disk: D, after: u64) -> Follower<D> {
        let (next, upto, bytes) = (after + 1, after, Vec::new());
        Follower { disk, file: None, next, upto, bytes, is_again: false }
    }

    /// The position of the record before the next one.
    pub fn after(&self) -> u64 {
        self.next - 1 - u64::from(self.is_again)
    }

    /// The next record with its position, up to position `upto`, which must be committed.
    ///
    /// # Errors
    /// [`JournalError::Io`]: the call can be repeated. [`JournalError::Damaged`] if a committed
    /// record is not there.
    pub fn next(&mut self, upto: u64) -> Result<Option<(u64, &[u8])>, JournalError> {
        if std::mem::take(&mut self.is_again) {
            return Ok(Some((self.next - 1, &self.bytes)));
        }
        if upto != self.upto
            && let Some(file) = &mut self.file
        {
            // What was read ahead may have been undone, and written differently.
            file.again();
        }
        self.upto = upto;
        while self.next <= upto {
            let mut file = match self.file.take() {
                Some(open) => open,
                None => self.open()?,
            };
            match file.record(&mut self.disk, self.next, &mut self.bytes) {
                Ok(Next::Record) => {
                    self.file = Some(file);
                    self.next += 1;
                    return Ok(Some((self.next - 1, &self.bytes)));
                }
                Ok(next) => self.next = self.beyond(&file, next == Next::End)?,
                Err(error) => {
                    self.file = Some(file);
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// The latest record is read again.
    pub fn again(&mut self) {
        self.is_again = true;
    }

    /// The position of the next record if it is not in `file`, which has all before it; `is_whole`
    /// says that the file ends there.
    fn beyond(&mut self, file: &Reads, is_whole: bool) -> Result<u64, JournalError> {
        let last = self.next - 1;
        for first in self.firsts()?.into_iter().filter(|first| *first > file.first) {
            let mut reads = Reads::new(first);
            // A file without records could not be used.
            if self.has_records(&reads)? {
                let lost = reads.header(&mut self.disk)?;
                if may_follow(last, is_whole, first, lost) {
                    return Ok(first);
                }
                let name = if is_whole { &reads.name } else { &file.name };
                return Err(JournalError::Damaged { path: self.disk.path(name), last });
            }
        }
        Err(JournalError::Damaged { path: self.disk.path(&file.name), last })
    }

    /// Opens the file with the next record, or the one that would have it, and skips the records
    /// before.
    fn open(&mut self) -> Result<Reads, JournalError> {
        let wanted = self.next;
        for first in self.firsts()?.into_iter().rev().filter(|first| *first <= wanted) {
            let mut file = Reads::new(first);
            if !self.has_records(&file)? {
                continue;
            }
            file.header(&mut self.disk)?;
            for position in first..wanted {
                let next = file.record(&mut self.disk, position, &mut self.bytes)?;
                if next != Next::Record {
                    self.next = position;
                    break;
                }
            }
            return Ok(file);
        }
        Err(JournalError::Damaged { path: self.disk.path(""), last: self.next - 1 })
    }

    /// The first positions of the files, in order.
    fn firsts(&mut self) -> Result<Vec<u64>, JournalError> {
        Ok(firsts(&self.disk.list().map_err(failed(&self.disk, ""))?))
    }

    fn has_records(&mut self, file: &Reads) -> Result<bool, JournalError> {
        let length = self.disk.length(&file.name).map_err(failed(&self.disk, &file.name))?;
        Ok(length > HEADER_BYTES)
    }
}
