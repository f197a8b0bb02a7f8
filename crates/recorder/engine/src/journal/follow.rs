//! Reading a journal that is being written.

use super::{Disk, HEADER_BYTES, JournalError, Next, Reads, failed, firsts, name_of};

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
        if self.next > upto {
            return Ok(None);
        }
        if upto != self.upto
            && let Some(file) = &mut self.file
        {
            // What was read ahead may have been undone, and written differently.
            file.again();
        }
        self.upto = upto;
        let mut known = self.file.is_some();
        loop {
            let mut file = match self.file.take() {
                Some(open) => open,
                None => self.open()?,
            };
            let found = file.record(&mut self.disk, self.next, &mut self.bytes);
            let path = self.disk.path(&file.name);
            if !matches!(found, Ok(Next::End | Next::Torn)) {
                self.file = Some(file);
            }
            match found? {
                Next::Record => {
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
    fn open(&mut self) -> Result<Reads, JournalError> {
        let disk = &mut self.disk;
        let mut files = firsts(&disk.list().map_err(failed(disk, ""))?);
        files.retain(|first| *first <= self.next);
        files.sort_unstable();
        while let Some(first) = files.pop() {
            let name = name_of(first);
            // A file without records could not be used.
            if disk.length(&name).map_err(failed(disk, &name))? <= HEADER_BYTES {
                continue;
            }
            let mut file = Reads::new(first);
            file.header(disk)?;
            for position in first..self.next {
                if file.record(disk, position, &mut self.bytes)? != Next::Record {
                    let path = disk.path(&name);
                    return Err(JournalError::Damaged { path, last: position - 1 });
                }
            }
            return Ok(file);
        }
        Err(JournalError::Damaged { path: disk.path(""), last: self.next - 1 })
    }
}
