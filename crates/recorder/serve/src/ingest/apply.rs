//! The thread that applies committed messages, and writes batches to the store.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use formats::text::{Graphite, Influx, Parser, Reader};
use formats::{Arrival, Line, Lines, Reason, Update};
use head::{Journal, JournalError};
use import::{BackfillError, Live};
use series::Kind;
use store::{Retention, Store, StoreError, Writer};

use super::journal::Group;
use super::record::{FORMATS, Format, Record};
use super::{Answer, IngestOptions, Message, Refused, Shared, State, now_us};
use crate::ServeError;
use crate::metrics::Metrics;

/// How often to look whether a batch is due.
const TICK: Duration = Duration::from_millis(50);

/// Time between two attempts to write to a store that failed.
const RETRY: Duration = Duration::from_millis(500);

/// Time between two rounds of maintenance.
const MAINTAIN_EACH: Duration = Duration::from_secs(60);

/// How long a last batch may take when the daemon ends.
const LAST_BATCH: Duration = Duration::from_secs(60);

/// Attempts to begin a session while another process that was killed still commits.
const ATTEMPTS: u32 = 10;

/// Length of a line in an answer.
const SHOWN_MAX: usize = 200;

/// Runs until the sender of groups is gone and everything is written.
pub(super) fn run(
    options: &IngestOptions,
    state: &State,
    metrics: &Metrics,
    groups: Receiver<Group>,
    opened: &Sender<Shared>,
) -> Result<(), ServeError> {
    let mut store = store::open(&options.place)?;
    retain(&mut *store, options)?;
    let (writer, upto) = session(&mut *store, &options.journal)?;
    let result = import::live(&mut *store, options.import.clone(), now_us(), |live| {
        let mut apply = Apply::new(options, state, metrics, live);
        let journal = match apply.replay(&options.journal, upto) {
            Ok(journal) => Arc::new(Mutex::new(journal)),
            Err(error) => return Ok(Err(error)),
        };
        // If the receiver is gone, the daemon is already ending.
        let _ = opened.send(journal.clone());
        Ok(apply.work(&groups, &journal, writer))
    });
    result?
}

/// Ensures that the step has a retention; a new store gets the usual ones.
fn retain(store: &mut dyn Store, options: &IngestOptions) -> Result<(), StoreError> {
    let step = options.import.step;
    let known = store.retentions()?;
    let mut wanted = Vec::new();
    if known.is_empty() {
        let usual = Retention::usual();
        wanted.extend(usual.into_iter().filter(|usual| step.divides(usual.step)));
    }
    if !known.iter().chain(&wanted).any(|retention| retention.step == step) {
        wanted.push(Retention { step, age_us: None });
    }
    if wanted.is_empty() { Ok(()) } else { store.retain(&wanted) }
}

/// Begins a session: a new writer, and the position up to which the store has the journal.
///
/// The first batch of the session is empty, and claims the next number of the previous session too,
/// so a batch of a killed daemon that PostgreSQL is still committing either comes before, or never.
fn session(store: &mut dyn Store, folder: &Path) -> Result<(Writer, u64), ServeError> {
    let mut attempts = 0;
    loop {
        let (batches, first) = batches(folder)?;
        let mut latest = None;
        for (writer, number, upto) in batches.iter().rev() {
            if store.last_batch(*writer)? >= *number {
                latest = Some((*writer, *number, *upto));
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
        if let Some((before, ..)) = batches.last() {
            claims.push((*before, store.last_batch(*before)? + 1));
        }
        let upto = latest.map_or(0, |(.., upto)| upto);
        let mut journal = Journal::open(folder, 0, |_, _| Ok::<(), JournalError>(()))?;
        let mut bytes = Vec::new();
        Record::Batch { writer, number: 1, upto }.write(&mut bytes);
        journal.append(&bytes)?;
        journal.commit()?;
        drop(journal);
        match store.apply_all(&claims, &mut Nothing) {
            Ok(_) => return Ok((writer, upto)),
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

    fn next(&mut self) -> Option<&store::Changes> {
        None
    }
}

/// A batch: its writer and number, and up to which position it contains the journal.
type Batch = (Writer, u64, u64);

/// The batch records of a journal, and the position of its first record.
fn batches(folder: &Path) -> Result<(Vec<Batch>, u64), ServeError> {
    let (mut batches, mut first) = (Vec::new(), 0);
    let journal = Journal::open(folder, 0, |position, bytes| {
        if first == 0 {
            first = position;
        }
        if let Some(Record::Batch { writer, number, upto }) = Record::read(bytes) {
            batches.push((writer, number, upto));
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

/// What the last batch must contain: the position of the last lines, and of the last record.
#[derive(Clone, Copy)]
struct Last {
    lines: u64,
    upto: u64,
}

struct Apply<'a, 'r, 's> {
    options: &'a IngestOptions,
    state: &'a State,
    metrics: &'a Metrics,
    live: &'a mut Live<'r, 's>,
    /// In the order of [`FORMATS`].
    readers: Vec<Reader>,
    /// The position of the last message that was applied.
    applied: u64,
    /// When the oldest line arrived that is in the head, and in the batch that is being written.
    oldest_us: Option<i64>,
    oldest_writing_us: Option<i64>,
    /// The position up to which the batch that is being written contains the journal.
    writing: u64,
    written: Instant,
    retried: Instant,
    maintained: Option<Instant>,
    /// Set when a successor is to take over.
    last: Option<Last>,
    /// Whether the journal has been read.
    is_open: bool,
    /// The updates of a message, and the number and the count of updates of each line.
    updates: Vec<(formats::Series, Update)>,
    lines: Vec<(u64, usize)>,
}

impl<'a, 'r, 's> Apply<'a, 'r, 's> {
    fn new(
        options: &'a IngestOptions,
        state: &'a State,
        metrics: &'a Metrics,
        live: &'a mut Live<'r, 's>,
    ) -> Apply<'a, 'r, 's> {
        let import = &options.import;
        let series_max = usize::try_from(import.series.series).unwrap_or(usize::MAX);
        let reader = |format: &Format| {
            let parser: Box<dyn Parser> = match format {
                Format::Graphite => Box::new(Graphite::new(Kind::Gauge)),
                Format::Influx(precision) => Box::new(Influx::new(Kind::Gauge, *precision)),
            };
            Reader::new(parser, import.limits, series_max)
        };
        Apply {
            options,
            state,
            metrics,
            live,
            readers: FORMATS.iter().map(reader).collect(),
            applied: 0,
            oldest_us: None,
            oldest_writing_us: None,
            writing: 0,
            written: Instant::now(),
            retried: Instant::now(),
            maintained: None,
            last: None,
            is_open: false,
            updates: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Applies the records after a position, and opens the journal for writing.
    fn replay(&mut self, folder: &Path, upto: u64) -> Result<Journal, ServeError> {
        let journal = Journal::open(folder, upto, |_, bytes| match Record::read(bytes) {
            Some(Record::Lines { format, arrival_us, lines }) => {
                self.metrics.journal_replayed.inc();
                self.lines(format, arrival_us, lines, &mut |_| ()).map_err(ServeError::from)
            }
            Some(Record::Batch { .. }) => Ok(()),
            None => Err(ServeError::Record(folder.to_owned())),
        })?;
        self.applied = journal.last();
        self.is_open = true;
        self.state.journal_bytes.store(journal.size(), Ordering::Relaxed);
        Ok(journal)
    }

    fn work(
        &mut self,
        groups: &Receiver<Group>,
        journal: &Shared,
        writer: Writer,
    ) -> Result<(), ServeError> {
        // The session's first batch was empty.
        let mut number = 1;
        loop {
            self.poll(journal, Duration::ZERO)?;
            let is_last = self.state.last_batch.load(Ordering::Relaxed);
            let is_due = if is_last { self.is_last_due(journal) } else { self.is_due() };
            if is_due && self.write(journal, writer, number + 1)? {
                number += 1;
            }
            self.show();
            let is_full =
                self.live.bytes() >= self.options.import.head_bytes && self.live.is_writing();
            self.state.full.store(is_full, Ordering::Relaxed);
            if is_full {
                self.poll(journal, TICK)?;
                continue;
            }
            match groups.recv_timeout(TICK) {
                Ok(group) => {
                    for message in group.messages {
                        self.message(message)?;
                    }
                    self.applied = group.last;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.maintain();
        }
        self.finish(journal, writer, number + 1)
    }

    /// Writes what remains.
    fn finish(&mut self, journal: &Shared, writer: Writer, number: u64) -> Result<(), ServeError> {
        if self.state.last_batch.load(Ordering::Relaxed) {
            // The successor reads the rest from the journal. A batch that is being written ends
            // with the store's thread.
            return Ok(());
        }
        let deadline = Instant::now() + LAST_BATCH;
        while self.live.is_writing() {
            self.poll(journal, TICK)?;
            if let Some(error) = self.state.store_error()
                && Instant::now() > deadline
            {
                return Err(ServeError::Unwritten { journal: self.options.journal.clone(), error });
            }
        }
        if self.live.is_empty() {
            return self.shorten(journal, writer, number - 1);
        }
        while !self.write(journal, writer, number)? {
            std::thread::sleep(TICK);
            if Instant::now() > deadline {
                let error = self.state.store_error().unwrap_or_default();
                return Err(ServeError::Unwritten { journal: self.options.journal.clone(), error });
            }
        }
        while self.live.is_writing() {
            self.poll(journal, TICK)?;
            // A store that fails now may be gone for long, and the journal has everything.
            if let Some(error) = self.state.store_error() {
                return Err(ServeError::Unwritten { journal: self.options.journal.clone(), error });
            }
        }
        self.shorten(journal, writer, number)
    }

    /// Deletes all that the record has from the journal, so that the next start reads little. The
    /// journal still tells the last batch.
    fn shorten(&self, journal: &Shared, writer: Writer, number: u64) -> Result<(), ServeError> {
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing but records of batches follows the last message.
        let upto = journal.last();
        let mut bytes = Vec::new();
        Record::Batch { writer, number, upto }.write(&mut bytes);
        journal.start_file()?;
        journal.append(&bytes)?;
        journal.commit()?;
        journal.release(upto)?;
        Ok(())
    }

    /// Whether the last batch before a successor takes over is to be written now.
    ///
    /// It contains everything up to a new file of the journal, so that the successor has little to
    /// read.
    fn is_last_due(&mut self, journal: &Shared) -> bool {
        if self.state.is_flushed.load(Ordering::Relaxed) || self.live.is_writing() {
            return false;
        }
        let last = *self.last.get_or_insert_with(|| {
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            // Without a new file the successor has more to read.
            let _ = journal.start_file();
            Last { lines: self.state.journaled.load(Ordering::Relaxed), upto: journal.last() }
        });
        if self.writing >= last.upto {
            self.state.is_flushed.store(true, Ordering::Relaxed);
            return false;
        }
        self.applied >= last.lines
    }

    /// The position up to which everything is applied.
    fn upto(&self) -> u64 {
        match self.last {
            // Only records of batches follow the lines.
            Some(Last { lines, upto }) if self.applied >= lines => self.applied.max(upto),
            _ => self.applied,
        }
    }

    fn is_due(&self) -> bool {
        let is_half_full = self.live.bytes() >= self.options.import.head_bytes / 2;
        let since = self.written.elapsed();
        let is_late = since >= self.options.write_each;
        let is_time = is_late || is_half_full && since >= TICK;
        !self.live.is_writing() && !self.live.is_empty() && is_time
    }

    /// Begins to write a batch, after its record is on disk; false if that must wait, because the
    /// journal's disk is full.
    fn write(&mut self, journal: &Shared, writer: Writer, number: u64) -> Result<bool, ServeError> {
        let mut bytes = Vec::new();
        let upto = self.upto();
        Record::Batch { writer, number, upto }.write(&mut bytes);
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        let done = journal.append(&bytes).and_then(|_| journal.commit());
        self.written = Instant::now();
        if let Err(error) = done {
            journal.undo()?;
            self.metrics.journal_errors.inc();
            self.state.set_store_error(Some(error.to_string()));
            return Ok(false);
        }
        drop(journal);
        self.live.write(&[(writer, number)]);
        self.writing = upto;
        self.oldest_writing_us = self.oldest_us.take();
        Ok(true)
    }

    /// Looks at the batch that is being written, and tries again one that failed.
    fn poll(&mut self, journal: &Shared, limit: Duration) -> Result<(), ServeError> {
        match self.live.ended(limit) {
            None if self.state.store_error().is_some() && self.retried.elapsed() >= RETRY => {
                self.retried = Instant::now();
                self.live.again();
            }
            None => {}
            Some(Ok(omitted)) => {
                self.state.set_store_error(None);
                self.oldest_writing_us = None;
                self.metrics.batches.inc();
                self.metrics.series_omitted.inc_by(omitted as u64);
                let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
                // A file that cannot be deleted now is deleted with the next batch.
                if journal.release(self.writing).is_err() {
                    self.metrics.journal_errors.inc();
                }
                self.state.journal_bytes.store(journal.size(), Ordering::Relaxed);
            }
            Some(Err(error)) => {
                self.metrics.store_errors.inc();
                self.retried = Instant::now();
                self.state.set_store_error(Some(error.to_string()));
            }
        }
        Ok(())
    }

    fn maintain(&mut self) {
        if self.maintained.is_some_and(|at| at.elapsed() < MAINTAIN_EACH) || self.live.is_writing()
        {
            return;
        }
        self.maintained = Some(Instant::now());
        let errors = self.metrics.store_errors.clone();
        self.live.maintain(now_us(), move |done| {
            if done.is_err() {
                errors.inc();
            }
        });
    }

    /// Publishes the figures that change all the time.
    fn show(&self) {
        let oldest_us = self.oldest_writing_us.or(self.oldest_us).unwrap_or(0);
        self.state.oldest_us.store(oldest_us, Ordering::Relaxed);
        self.state.head_bytes.store(self.live.bytes() as u64, Ordering::Relaxed);
    }

    fn message(&mut self, message: Message) -> Result<(), ServeError> {
        let Message { format, lines, arrival_us, sender, answer, room } = message;
        let mut refused = Refused::default();
        let (metrics, mut first) = (self.metrics, None);
        self.lines(format, arrival_us, &lines, &mut |(number, reason)| {
            metrics.refuse(&sender, reason.name(), 1);
            refused.lines += 1;
            first.get_or_insert((number, reason));
        })?;
        refused.first = first.map(|(number, reason)| (number, shown_line(&lines, number), reason));
        // A sender that is gone does not wait for its answer.
        let _ = answer.map(|to| to.send(Answer::Written(refused)));
        drop(room);
        Ok(())
    }

    /// Parses lines and adds their updates to the head; `refuse` is called with the number of each
    /// refused line, and the reason.
    fn lines(
        &mut self,
        format: Format,
        arrival_us: i64,
        lines: &[u8],
        refuse: &mut dyn FnMut((u64, Reason)),
    ) -> Result<(), StoreError> {
        let code = format.code();
        let arrival = Arrival::live(arrival_us);
        let (updates, parsed_lines) = (&mut self.updates, &mut self.lines);
        updates.clear();
        parsed_lines.clear();
        let mut count = 0;
        each_line(lines, &mut self.readers[code], |reader, line| {
            // An error would be one of a whole file.
            let Ok(parsed) = reader.line(line, arrival) else { return };
            count += u64::from(line.first);
            if let Some(reason) = parsed.reasons.first() {
                refuse((line.number, *reason));
            } else if !parsed.updates.is_empty() {
                updates.extend_from_slice(&parsed.updates);
                parsed_lines.push((line.number, parsed.updates.len()));
            }
        });
        self.metrics.lines.inc_by(count);
        if updates.is_empty() {
            return Ok(());
        }
        self.oldest_us.get_or_insert(arrival_us);
        let touched = || self.updates.iter().map(|(series, update)| (*series, update.kind));
        while let Err(error) = self.live.find((code, self.readers[code].book()), touched()) {
            self.metrics.store_errors.inc();
            self.state.set_store_error(Some(error.to_string()));
            match error {
                BackfillError::Store(error) if !self.is_open => return Err(error),
                // Without the store a new series has no number. Senders wait until it is back.
                _ => std::thread::sleep(RETRY),
            }
        }
        let mut rest = self.updates.as_slice();
        let mut accepted = 0;
        for (number, count) in &self.lines {
            let (line, others) = rest.split_at(*count);
            rest = others;
            match self.live.line(line) {
                Ok(()) => accepted += count,
                Err(reason) => refuse((*number, reason)),
            }
        }
        self.metrics.updates.inc_by(accepted as u64);
        Ok(())
    }
}

/// Calls `work` with every line.
fn each_line(bytes: &[u8], reader: &mut Reader, mut work: impl FnMut(&mut Reader, Line<'_>)) {
    if reader.quotes() != formats::Quotes::None {
        let mut lines = Lines::quoted(bytes, reader.quotes(), true);
        // Reading from memory does not fail.
        while let Ok(Some(line)) = lines.next() {
            work(reader, line);
        }
        return;
    }
    let mut number = 0;
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        number += 1;
        let bytes = line.strip_suffix(b"\r").unwrap_or(line);
        let too_long = bytes.len() > formats::LINE_MAX;
        work(reader, Line { number, bytes, too_long, first: true, last: true, torn: false });
    }
}

/// A line of a message, for an answer.
fn shown_line(lines: &[u8], number: u64) -> String {
    let at = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
    let line = lines.split(|byte| *byte == b'\n').nth(at).unwrap_or_default();
    String::from_utf8_lossy(&line[..line.len().min(SHOWN_MAX)]).trim_end().to_owned()
}
