//! Sessions: a process that writes batches, after another one that may have been killed.
//!
//! ```text
//!  journal   … lines ─ batch 6 upto 40 ─ lines ─ batch 7 upto 52 ─ lines ─┤ killed
//!  store       … ─ 5 ─ 6 ─                       └ has it, or never will
//! ```
//!
//! The record of a batch is in the journal before the store gets the batch, and the store has the
//! number of a batch in the transaction of its slots. So the latest record whose number the store
//! has tells where to continue: the messages after its position are in no batch.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use store::{Store, StoreError, Writer};

use crate::disk::Disk;
use crate::head::FrozenBatch;
use crate::journal::{Journal, JournalError};
use crate::record::Record;

/// Attempts to begin a session while another process that was killed still commits.
pub const ATTEMPTS: usize = 10;

/// Why a session could not begin.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The journal cannot be opened or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal continues batches that the store does not have.
    #[error("the journal belongs to another record")]
    OtherRecord,
}

/// A session of a writer.
#[derive(Debug)]
pub struct Session<D> {
    /// The journal.
    pub journal: Journal<D>,
    /// The batches, the first of which was empty.
    pub batches: Batches,
    /// The positions that are [missing](Journal::missing) after those that the store has.
    pub missing: Vec<RangeInclusive<u64>>,
}

/// Begins a session with a new writer: the first of `writers`, or a later one if another process
/// still commits.
///
/// The first batch of the session is empty, and claims the next number of each earlier session too,
/// so a batch of a killed process that PostgreSQL is still committing either comes before, or never.
///
/// # Errors
/// [`SessionError`].
pub fn begin<D: Disk>(
    disk: D,
    file_bytes: u64,
    store: &mut dyn Store,
    writers: impl IntoIterator<Item = Writer>,
) -> Result<Session<D>, SessionError> {
    let (mut noted, mut first) = (Vec::new(), None);
    let mut windows: Option<(u64, u64, Vec<u8>)> = None;
    let mut journal = Journal::open(disk, file_bytes, |position, bytes| {
        first.get_or_insert(position);
        match Record::read(bytes) {
            Some(Record::Windows { from, .. }) => {
                windows = Some((position, from, bytes.to_owned()));
            }
            Some(Record::Batch { writer, number, upto }) => {
                // A kill between the two leaves a record that belongs to no batch, also if the next
                // session's own follows it.
                let windows = windows.take().filter(|(before, from, _)| {
                    before + 1 == position && *from <= upto.saturating_add(1)
                });
                let windows = windows.map(|(.., bytes)| bytes);
                noted.push(Batches { writer, number, upto, windows });
            }
            _ => {}
        }
    })?;
    let first = first.unwrap_or(journal.last() + 1);
    for writer in writers.into_iter().take(ATTEMPTS) {
        let mut latest = None;
        // The writers that may still be committing. A session that the store knows has fenced off
        // those before it, but not one that was killed before it could claim its first batch.
        let mut others = BTreeSet::new();
        for batch in noted.iter().rev() {
            others.insert(batch.writer);
            if store.last_batch(batch.writer)? >= batch.number {
                latest = Some(batch);
                break;
            }
        }
        if latest.is_none() && first > 1 {
            return Err(SessionError::OtherRecord);
        }
        let (upto, windows) = latest.map_or((0, None), |batch| (batch.upto, batch.windows.clone()));
        let batches = Batches { writer, number: 1, upto, windows };
        let mut claims = vec![batches.claim()];
        for other in others {
            claims.push((other, store.last_batch(other)? + 1));
        }
        // Positions that the store knows are not used again.
        journal.skip_to(upto)?;
        batches.note(&mut journal)?;
        match store.apply_all(&claims, &mut FrozenBatch::default()) {
            Ok(_) => {
                let missing = journal.missing().iter().filter(|missing| upto < *missing.end());
                let missing = missing.cloned().collect();
                return Ok(Session { journal, batches, missing });
            }
            Err(StoreError::Overtaken) => noted.push(batches),
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Overtaken.into())
}

/// The batches of a writer: the last one is being written, or the store has it.
#[derive(Clone, Debug)]
pub struct Batches {
    writer: Writer,
    number: u64,
    /// The position up to which it and its predecessors contain the journal.
    upto: u64,
    /// Its windows record, if any.
    pub windows: Option<Vec<u8>>,
}

impl Batches {
    /// The writer and the number of the last batch.
    pub fn claim(&self) -> (Writer, u64) {
        (self.writer, self.number)
    }

    /// The position up to which the last batch and its predecessors contain the journal.
    pub fn upto(&self) -> u64 {
        self.upto
    }

    /// These with the next one, which contains everything up to a position. The store is to get it
    /// after the last one, once its record [is on disk](Batches::note).
    #[must_use]
    pub fn next(&self, upto: u64, windows: Option<Vec<u8>>) -> Batches {
        let windows = windows.or_else(|| self.windows.clone());
        Batches { writer: self.writer, number: self.number + 1, upto, windows }
    }

    /// Writes the record of the last batch, after that of its windows; returns their positions.
    ///
    /// # Errors
    /// [`JournalError::Io`]: then the batch must not be written, and can be begun again.
    pub fn note<D: Disk>(
        &self,
        journal: &mut Journal<D>,
    ) -> Result<RangeInclusive<u64>, JournalError> {
        let first = journal.last() + 1;
        if let Some(windows) = &self.windows {
            journal.append(windows)?;
        }
        let mut bytes = Vec::new();
        let Batches { writer, number, upto, .. } = *self;
        Record::Batch { writer, number, upto }.write(&mut bytes);
        journal.append(&bytes)?;
        Ok(first..=journal.commit()?)
    }

    /// Deletes what is not needed of the journal, once the store has the last batch.
    ///
    /// # Errors
    /// [`JournalError::Io`]: it is deleted after the next batch.
    pub fn release<D: Disk>(&self, journal: &mut Journal<D>) -> Result<(), JournalError> {
        // Open windows need the messages from there on.
        let from = match self.windows.as_deref().and_then(Record::read) {
            Some(Record::Windows { from, .. }) => from,
            _ => u64::MAX,
        };
        journal.release(self.upto.min(from.saturating_sub(1)))
    }

    /// Deletes all that the store has from the journal at the end of a session, once it has all
    /// messages, so that the next start reads little. The journal still tells the last batch.
    ///
    /// # Errors
    /// [`JournalError::Io`]: then the next start reads more.
    pub fn shorten<D: Disk>(&mut self, journal: &mut Journal<D>) -> Result<(), JournalError> {
        // Nothing but records of batches follows the last message.
        self.upto = journal.last();
        journal.start_file()?;
        self.note(journal)?;
        self.release(journal)
    }
}
