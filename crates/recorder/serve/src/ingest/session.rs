//! Sessions: a process that writes batches, after another one that may have been killed.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use engine::{Journal, JournalError};
use store::{Store, StoreError, Writer};

use super::record::Record;
use crate::ServeError;

/// Attempts to begin a session while another process that was killed still commits.
const ATTEMPTS: u32 = 10;

/// A session: its writer, the position up to which the store has the journal, and the windows record
/// of that batch, if any.
pub(super) struct Session {
    pub(super) writer: Writer,
    pub(super) upto: u64,
    pub(super) windows: Option<Vec<u8>>,
}

/// Begins a session with a new writer.
///
/// The first batch of the session is empty, and claims the next number of the previous session too,
/// so a batch of a killed daemon that PostgreSQL is still committing either comes before, or never.
pub(super) fn begin(store: &mut dyn Store, folder: &Path) -> Result<Session, ServeError> {
    let mut attempts = 0;
    loop {
        let (batches, first) = batches(folder)?;
        let mut latest = None;
        for batch in batches.iter().rev() {
            if store.last_batch(batch.writer)? >= batch.number {
                latest = Some(batch);
                break;
            }
        }
        if latest.is_none() && first > 1 {
            return Err(ServeError::OtherRecord {
                journal: folder.to_owned(),
                record: store.place(),
            });
        }
        let writer = new_writer()?;
        let mut claims = vec![(writer, 1)];
        // The writer of the last batch record is the only one that may still be committing.
        if let Some(Batch { writer: before, .. }) = batches.last() {
            claims.push((*before, store.last_batch(*before)? + 1));
        }
        let upto = latest.map_or(0, |batch| batch.upto);
        let windows = latest.and_then(|batch| batch.windows.clone());
        let mut journal = Journal::open(folder, |_, _| Ok::<(), JournalError>(()))?;
        if let Some(windows) = &windows {
            journal.append(windows)?;
        }
        let mut bytes = Vec::new();
        Record::Batch { writer, number: 1, upto }.write(&mut bytes);
        journal.append(&bytes)?;
        journal.commit()?;
        drop(journal);
        match store.apply_all(&claims, &mut Nothing) {
            Ok(_) => return Ok(Session { writer, upto, windows }),
            Err(StoreError::Overtaken) if attempts < ATTEMPTS => attempts += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// An empty batch.
#[derive(Debug)]
struct Nothing;

impl store::Source for Nothing {
    fn restart(&mut self) {}

    fn next(&mut self) -> Option<Cow<'_, store::Changes>> {
        None
    }
}

/// A batch: its writer and number, up to which position it contains the journal, and the windows
/// record before its own.
struct Batch {
    writer: Writer,
    number: u64,
    upto: u64,
    windows: Option<Vec<u8>>,
}

/// The batch records of a journal, and the position of its first record.
fn batches(folder: &Path) -> Result<(Vec<Batch>, u64), ServeError> {
    let (mut batches, mut first) = (Vec::new(), 0);
    let mut windows: Option<(u64, Vec<u8>)> = None;
    let journal = Journal::open(folder, |position, bytes| {
        if first == 0 {
            first = position;
        }
        match Record::read(bytes) {
            Some(Record::Windows { .. }) => windows = Some((position, bytes.to_owned())),
            Some(Record::Batch { writer, number, upto }) => {
                // A kill between the two leaves a record that belongs to no batch.
                let windows = windows.take().filter(|(before, _)| before + 1 == position);
                let windows = windows.map(|(_, bytes)| bytes);
                batches.push(Batch { writer, number, upto, windows });
            }
            _ => {}
        }
        Ok::<(), JournalError>(())
    })?;
    Ok((batches, if first == 0 { journal.last() + 1 } else { first }))
}

/// A new, random writer id.
fn new_writer() -> Result<Writer, ServeError> {
    let mut bytes = [0; 16];
    let random = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    random.map_err(ServeError::System)?;
    Ok(Writer(u128::from_le_bytes(bytes)))
}
