//! The thread that applies committed messages, and writes batches to the store.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use engine::journal::FILE_BYTES;
use engine::journal::Follower;
use engine::{Batches, Folder, Journal, JournalError, Session, SessionError, session};
use formats::text::{Graphite, Influx, Parser, Reader, Statsd};
use formats::{Arrival, Line, Lines, Messages, Protocol, Reason, RefusalCounts, Taken, Update};
use import::{BackfillError, Live};
use series::Kind;
use store::{Request, Retention, Store, StoreError, Writer};

use super::behind::Behind;
use super::elements::{self, Repeats};
use super::journal::Group;
use super::keys::Keys;
use super::upkeep::Upkeep;
use super::watchdog::Watchdog;
use super::{Answer, IngestOptions, Message, Refused, Shared, State};
use crate::ServeError;
use crate::metrics::{ByWay, Metrics, Sender};
use engine::record::{FORMATS, Format, Record, read_windows};

/// How often to look whether a batch is due.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// Time between two attempts to write to a store that failed.
pub(super) const RETRY: Duration = Duration::from_millis(500);

/// How long to wait for the numbers of new series, until senders are answered without them.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same while messages wait already.
const BRIEFLY: Duration = Duration::from_millis(100);

/// How long the head may be full, until messages wait in the journal instead of with their senders.
const FULL_MAX: Duration = Duration::from_secs(10);

/// Length of a line in an answer.
const SHOWN_MAX: usize = 200;

/// Runs until the sender of groups is gone and everything is written.
pub(super) fn run(
    options: &IngestOptions,
    state: &State,
    metrics: &Metrics,
    groups: Receiver<Group>,
    opened: &mpsc::Sender<Shared>,
) -> Result<(), ServeError> {
    let mut store = store::open(&options.place)?;
    retain(&mut *store, options)?;
    let session = begin(&mut *store, &options.journal)?;
    if let Some(last_us) = store.last_us()? {
        state.compare_clock(last_us);
    }
    let (keys, now_us) = (Keys::of(&options.place)?, state.now_us());
    let result = import::live(&mut *store, options.import.clone(), now_us, |live| {
        let Session { journal, batches, windows } = session;
        let mut apply = Apply::new(options, state, metrics, (live, batches, keys));
        let begin = |apply: &mut Apply<'_, '_, '_>| {
            apply.replay(&journal, windows)?;
            let journal = Arc::new(Mutex::new(journal));
            apply.catch_up_first(&journal)?;
            Ok(journal)
        };
        let journal = match begin(&mut apply) {
            Ok(journal) => journal,
            Err(error) => return Ok(Err(error)),
        };
        // If the receiver is gone, the daemon is already ending.
        let _ = opened.send(journal.clone());
        Ok(apply.work(&groups, &journal))
    });
    result?
}

/// Begins a session with a new, random writer.
fn begin(store: &mut dyn Store, folder: &Path) -> Result<Session<Folder>, ServeError> {
    let mut random = File::open("/dev/urandom").map_err(ServeError::System)?;
    let mut new_writer = || {
        let mut bytes = [0; 16];
        random.read_exact(&mut bytes).map(|()| Writer(u128::from_le_bytes(bytes)))
    };
    let mut writers = Vec::new();
    for _ in 0..session::ATTEMPTS {
        writers.push(new_writer().map_err(ServeError::System)?);
    }
    let disk = Folder::locked(folder);
    let disk = disk.map_err(|(path, cause)| JournalError::Open { path, cause })?;
    let disk = disk.ok_or_else(|| JournalError::Locked(folder.to_owned()))?;
    session::begin(disk, FILE_BYTES, store, writers).map_err(|error| match error {
        SessionError::Journal(error) => error.into(),
        SessionError::Store(error) => error.into(),
        SessionError::OtherRecord => {
            ServeError::OtherRecord { journal: folder.to_owned(), record: store.place() }
        }
    })
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

/// What the last batch must contain: the position of the last lines, and of the last record.
#[derive(Clone, Copy)]
pub(super) struct Last {
    pub(super) lines: u64,
    pub(super) upto: u64,
}

pub(super) struct Apply<'a, 'r, 's> {
    pub(super) options: &'a IngestOptions,
    pub(super) state: &'a State,
    pub(super) metrics: &'a Metrics,
    pub(super) live: &'a mut Live<'r, 's>,
    /// In the order of [`FORMATS`].
    pub(super) readers: Vec<Reader>,
    /// Reads binary messages.
    pub(super) messages: Messages,
    /// The content of the latest binary message, and how many of its samples and histograms were
    /// accepted.
    pub(super) taken: Taken,
    pub(super) accepted: (u64, u64),
    pub(super) repeats: Repeats,
    pub(super) batches: Batches,
    /// The position of the last message that was applied.
    pub(super) applied: u64,
    /// Messages in the journal that are not applied yet, if there are any.
    pub(super) behind: Option<Behind>,
    /// The position of the last record that was there at the start.
    pub(super) replayed: u64,
    /// When to ask the store again that did not number a new series.
    pub(super) ask_at: Instant,
    /// Since when the head has been full.
    full_since: Option<Instant>,
    /// When the oldest line arrived that is in the head, and in the batch that is being written.
    pub(super) oldest_us: Option<i64>,
    pub(super) oldest_writing_us: Option<i64>,
    pub(super) written: Instant,
    pub(super) retried: Instant,
    /// When the journal was last tried after an error.
    pub(super) tried: Instant,
    pub(super) begun: Instant,
    pub(super) upkeep: Upkeep,
    pub(super) watchdog: Watchdog,
    /// Set when a successor is to take over.
    pub(super) last: Option<Last>,
    /// Whether the journal has been opened: until then nothing works without the store.
    is_open: bool,
    /// How long to wait for the numbers of new series.
    patience: Duration,
    /// Whether the store could not be asked for them, or for the keys of requests.
    is_unasked: bool,
    pub(super) keys: Keys,
    /// When old keys were last forgotten.
    pub(super) forgotten: Option<Instant>,
    /// Whether lines have changed windows since these were last added to the head.
    pub(super) has_new_windows: bool,
    /// The gauges whose last value the parser has.
    pub(super) gauges: HashSet<formats::Series>,
    /// The updates of a message, and the number and the count of updates of each line.
    updates: Vec<(formats::Series, Update)>,
    lines: Vec<(u64, usize)>,
}

impl<'a, 'r, 's> Apply<'a, 'r, 's> {
    fn new(
        options: &'a IngestOptions,
        state: &'a State,
        metrics: &'a Metrics,
        (live, batches, keys): (&'a mut Live<'r, 's>, Batches, Keys),
    ) -> Apply<'a, 'r, 's> {
        let import = &options.import;
        let series_max = usize::try_from(import.series.series).unwrap_or(usize::MAX);
        let reader = |format: &Format| {
            let parser: Box<dyn Parser> = match format {
                Format::Graphite => Box::new(Graphite::new(Kind::Gauge)),
                Format::Influx(precision) => Box::new(Influx::new(Kind::Gauge, *precision)),
                Format::Statsd => Box::new(Statsd::live(import.step)),
                // Binary messages have no lines.
                Format::Message(_) => Box::new(Graphite::new(Kind::Gauge)),
            };
            Reader::new(parser, import.limits, series_max)
        };
        Apply {
            options,
            state,
            metrics,
            live,
            readers: FORMATS.iter().map(reader).collect(),
            messages: Messages::new(import.limits, series_max),
            taken: Taken::default(),
            accepted: (0, 0),
            repeats: Repeats::default(),
            batches,
            applied: 0,
            behind: None,
            replayed: 0,
            ask_at: Instant::now(),
            full_since: None,
            oldest_us: None,
            oldest_writing_us: None,
            written: Instant::now(),
            retried: Instant::now(),
            tried: Instant::now(),
            begun: Instant::now(),
            upkeep: Upkeep::default(),
            watchdog: Watchdog::new(),
            last: None,
            is_open: false,
            patience: Duration::MAX,
            is_unasked: false,
            keys,
            forgotten: None,
            has_new_windows: false,
            gauges: HashSet::new(),
            updates: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Reads what is known to the store and needed again: elements that may be repeated, and StatsD
    /// lines whose windows are open. The records after it are left [behind](Behind).
    fn replay(&mut self, journal: &Journal, windows: Option<Vec<u8>>) -> Result<(), ServeError> {
        let folder = &self.options.journal;
        let (upto, first) = (self.batches.upto(), journal.first());
        let unknown = || ServeError::Record(folder.clone());
        let mut carried = None;
        if let Some((bytes, (windows, book))) = windows.zip(self.statsd().windows()) {
            let read = read_windows(&bytes, book).ok_or_else(unknown)?;
            windows.go_back(&read);
            carried = Some(read);
        }
        let needed = carried.as_ref().map_or(upto + 1, |carried| carried.from);
        let mut follower = Follower::new(Folder::new(folder), first - 1);
        while let Some((position, bytes)) = follower.next(journal.last())? {
            let read = Record::read(bytes).ok_or_else(unknown)?;
            let Record::Lines { format, arrival_us, lines, .. } = read else { continue };
            if position <= upto && format == Format::Message(Protocol::Otlp) {
                // It may be sent again by those who did not get their answer.
                self.remember(arrival_us, lines);
            }
            if (needed..=upto).contains(&position) {
                let at = At { position, arrival_us, key: None, is_known: true };
                self.lines(format, at, lines, &mut |_| ())?;
            }
        }
        if let Some(carried) = carried {
            self.continue_windows(carried.owed);
        }
        (self.applied, self.replayed) = (upto, journal.last());
        self.behind = Behind::since_start(folder, upto, journal.last());
        (self.is_open, self.patience) = (true, PATIENCE);
        self.state.journal_bytes.store(journal.size(), Ordering::Relaxed);
        Ok(())
    }

    fn work(&mut self, groups: &Receiver<Group>, journal: &Shared) -> Result<(), ServeError> {
        loop {
            self.advance(journal)?;
            self.try_journal(journal);
            self.watchdog.feed();
            self.show();
            let must_wait = self.must_wait();
            self.state.full.store(must_wait, Ordering::Relaxed);
            if must_wait {
                self.poll(journal, TICK)?;
                continue;
            }
            let limit = if self.can_catch_up() { Duration::ZERO } else { TICK };
            match groups.recv_timeout(limit) {
                Ok(group) => self.group(group)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.maintain();
        }
        self.finish(journal)
    }

    /// Looks at the batch that is being written, begins one that is due, and catches up.
    pub(super) fn advance(&mut self, journal: &Shared) -> Result<(), ServeError> {
        self.poll(journal, Duration::ZERO)?;
        let is_last = self.state.last_batch.load(Ordering::Relaxed);
        let is_due = if is_last { self.is_last_due(journal) } else { self.is_due() };
        if is_due {
            self.write(journal);
        }
        self.catch_up()
    }

    /// Applies what is in the journal at the start, unless the store does not answer.
    fn catch_up_first(&mut self, journal: &Shared) -> Result<(), ServeError> {
        while self.behind.is_some() && self.state.store_error().is_none() && !self.is_asking() {
            self.advance(journal)?;
            if self.is_head_full() {
                self.poll(journal, TICK)?;
            }
        }
        if self.behind.is_some() {
            self.patience = BRIEFLY;
        }
        Ok(())
    }

    pub(super) fn is_head_full(&self) -> bool {
        self.live.bytes() >= self.options.import.head_bytes
    }

    /// Whether no message can be taken, not even one that waits in the journal.
    fn must_wait(&mut self) -> bool {
        if let Some(behind) = &self.behind {
            return behind.is_full();
        }
        if !(self.is_head_full() && self.live.is_writing()) {
            self.full_since = None;
            return false;
        }
        let since = *self.full_since.get_or_insert_with(Instant::now);
        self.state.store_error().is_none() && since.elapsed() < FULL_MAX
    }

    /// Applies messages, or leaves them behind.
    fn group(&mut self, group: Group) -> Result<(), ServeError> {
        let first = group.last + 1 - group.messages.len() as u64;
        if self.behind.is_none() && self.is_head_full() && self.live.is_writing() {
            self.fall_behind(first - 1);
        }
        for (position, message) in (first..).zip(group.messages) {
            if self.behind.is_none() {
                let Message { format, lines, arrival_us, key, sender, .. } = &message;
                let at = At { position, arrival_us: *arrival_us, key: *key, is_known: false };
                if let Some(refused) = self.message(*format, at, lines, Some(sender))? {
                    self.applied = position;
                    // A sender that is gone does not wait for its answer.
                    let _ = message.answer.map(|to| to.send(Answer::Written(refused)));
                    continue;
                }
                self.fall_behind(position - 1);
            }
            self.defer(message, position);
        }
        Ok(())
    }

    fn fall_behind(&mut self, applied: u64) {
        self.applied = applied;
        self.behind = Some(Behind::new(&self.options.journal, applied));
        self.patience = BRIEFLY;
    }

    /// Everything is applied, and new messages are no longer left behind.
    pub(super) fn has_caught_up(&mut self, applied: u64) {
        self.applied = applied;
        self.patience = PATIENCE;
    }

    /// Applies a message, and counts what is refused if the sender is known; `None` if the store has
    /// no numbers for its new series yet. Then nothing is applied or counted.
    pub(super) fn message(
        &mut self,
        format: Format,
        at: At,
        lines: &[u8],
        sender: Option<&Sender>,
    ) -> Result<Option<Refused>, ServeError> {
        if let Some(key) = at.key {
            match self.is_repeated(key) {
                None => return Ok(None),
                Some(true) => {
                    self.metrics.requests_repeated.inc();
                    let refused = self.judge(format, at.arrival_us, lines);
                    return Ok(Some(Refused { is_repeated: true, ..refused }));
                }
                Some(false) => {}
            }
        }
        let (mut counts, mut first) = (RefusalCounts::default(), None);
        let count = self.lines(format, at, lines, &mut |(number, reason)| {
            counts.add(reason);
            first.get_or_insert((number, reason));
        })?;
        let Some(count) = count else { return Ok(None) };
        if let Some(key) = at.key {
            self.live.request(Request { key, at_us: at.arrival_us });
            self.keys.add(key);
            self.oldest_us.get_or_insert(at.arrival_us);
        }
        if let Some(sender) = sender {
            counts.iter().for_each(|(reason, lines)| {
                self.metrics.refuse(sender, reason.name(), lines);
            });
            self.metrics.lines.get_or_create(&ByWay { way: sender.way }).inc_by(count);
        }
        let first = first.map(|(number, reason)| match format {
            Format::Message(_) => (number, self.shown_element(number), reason),
            _ => (number, shown_line(lines, number), reason),
        });
        let (samples, histograms) = match format {
            Format::Message(_) => self.accepted,
            _ => (0, 0),
        };
        let lines = counts.total();
        Ok(Some(Refused { lines, first, samples, histograms, is_repeated: false }))
    }

    /// Parses lines and adds their updates to the head; `refuse` is called with the number of each
    /// refused line, and the reason. Returns the number of lines; `None` if nothing is added because
    /// a series has no number yet.
    fn lines(
        &mut self,
        format: Format,
        at: At,
        lines: &[u8],
        refuse: &mut dyn FnMut((u64, Reason)),
    ) -> Result<Option<u64>, StoreError> {
        let code = format.code();
        let At { position, arrival_us, is_known, .. } = at;
        let statsd = self.statsd();
        if let Some((windows, _)) = statsd.windows() {
            windows.mark(position);
        }
        let closed = statsd.pass(arrival_us).windows.clone();
        self.give(&closed, is_known);
        if format == Format::Statsd {
            return self.statsd_lines(at, lines, refuse);
        }
        if is_known {
            return Ok(Some(0));
        }
        if let Format::Message(protocol) = format {
            return self.elements(protocol, arrival_us, lines, refuse);
        }
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
        if updates.is_empty() {
            return Ok(Some(count));
        }
        let updates = std::mem::take(&mut self.updates);
        if !self.find(code, || updates.iter().map(|(series, update)| (*series, update.kind)))? {
            return Ok(None);
        }
        self.oldest_us.get_or_insert(arrival_us);
        let mut rest = updates.as_slice();
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
        self.updates = updates;
        Ok(Some(count))
    }

    /// Finds or creates series of a format; false if the store has not answered.
    pub(super) fn find<I: Iterator<Item = (formats::Series, Kind)>>(
        &mut self,
        code: usize,
        touched: impl Fn() -> I,
    ) -> Result<bool, StoreError> {
        let heartbeat_us = self.options.import.heartbeat_us;
        let book = if code == elements::BOOK.code() {
            self.live.set_heartbeat(heartbeat_us.max(elements::HEARTBEAT_US));
            self.messages.book()
        } else {
            self.live.set_heartbeat(heartbeat_us);
            self.readers[code].book()
        };
        match self.live.find((code, book), touched, self.patience) {
            Ok(true) => {
                self.answered();
                Ok(true)
            }
            Ok(false) => {
                self.ask_at = Instant::now() + TICK;
                Ok(false)
            }
            Err(BackfillError::Store(error)) if !self.is_open => Err(error),
            Err(error) => {
                self.unanswered(&error.to_string());
                Ok(false)
            }
        }
    }

    /// Whether a request was applied before; `None` if the store has not answered.
    fn is_repeated(&mut self, key: Writer) -> Option<bool> {
        match self.keys.has(key, self.patience) {
            Some(Ok(known)) => {
                self.answered();
                Some(known)
            }
            Some(Err(error)) => {
                self.unanswered(&error.to_string());
                None
            }
            None => {
                self.ask_at = Instant::now() + TICK;
                None
            }
        }
    }

    /// The store has answered a question.
    fn answered(&mut self) {
        if std::mem::take(&mut self.is_unasked) && !self.live.is_writing() {
            self.state.set_store_error(None);
        }
    }

    /// The store could not be asked.
    fn unanswered(&mut self, error: &str) {
        self.metrics.store_errors.inc();
        self.state.set_store_error(Some(error.to_owned()));
        self.is_unasked = true;
        self.ask_at = Instant::now() + RETRY;
    }

    /// Whether the store is to be asked for series again, but not now.
    pub(super) fn is_asking(&self) -> bool {
        self.ask_at > Instant::now()
    }
}

/// A message: its position in the journal, when it arrived, the name of its request, and whether the
/// store has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) position: u64,
    pub(super) arrival_us: i64,
    pub(super) key: Option<Writer>,
    pub(super) is_known: bool,
}

/// Calls `work` with every line.
pub(super) fn each_line(
    bytes: &[u8],
    reader: &mut Reader,
    mut work: impl FnMut(&mut Reader, Line<'_>),
) {
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
pub(super) fn shown_line(lines: &[u8], number: u64) -> String {
    let at = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
    let line = lines.split(|byte| *byte == b'\n').nth(at).unwrap_or_default();
    String::from_utf8_lossy(&line[..line.len().min(SHOWN_MAX)]).trim_end().to_owned()
}
