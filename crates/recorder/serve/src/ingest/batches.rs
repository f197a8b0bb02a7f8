//! Batches: when they are written, and what follows in the journal.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use engine::WindowsRecord;

use super::apply::{Apply, Last, RETRY, TICK};
use super::behind::Behind;
use super::{Shared, upkeep};
use crate::ServeError;
use engine::record::write_windows;
use store::StoreError;

/// Time between two searches for keys that are no longer remembered.
const FORGOTTEN_EACH: Duration = Duration::from_secs(3_600);

/// How long a last batch may take when the daemon ends.
const LAST_BATCH: Duration = Duration::from_secs(60);

impl Apply<'_, '_, '_> {
    /// Writes what remains.
    pub(super) fn finish(&mut self, journal: &Shared) -> Result<(), ServeError> {
        if self.state.last_batch.load(Ordering::Relaxed) {
            // The successor reads the rest from the journal. A batch that is being written ends
            // with the store's thread.
            return Ok(());
        }
        let mut deadline = Instant::now() + LAST_BATCH;
        while self.live.is_writing() || self.behind.is_some() {
            let applied = self.applied;
            self.advance(journal)?;
            if self.applied != applied {
                // It is slow, but it answers.
                deadline = Instant::now() + LAST_BATCH;
            }
            self.watchdog.feed();
            if self.live.is_writing() {
                self.poll(journal, TICK)?;
            } else if !self.can_catch_up() {
                std::thread::sleep(TICK);
            }
            if Instant::now() > deadline && (self.state.store_error().is_some() || self.is_asking())
            {
                return Err(self.unwritten());
            }
        }
        if self.live.is_empty() && !self.has_new_windows {
            self.shorten(journal);
            return Ok(());
        }
        while !self.write(journal) {
            std::thread::sleep(TICK);
            self.watchdog.feed();
            if Instant::now() > deadline {
                return Err(self.unwritten());
            }
        }
        while self.live.is_writing() {
            self.poll(journal, TICK)?;
            self.watchdog.feed();
            // A store that fails now may be gone for long, and the journal has everything.
            if self.state.store_error().is_some() {
                return Err(self.unwritten());
            }
        }
        self.shorten(journal);
        Ok(())
    }

    fn unwritten(&self) -> ServeError {
        let error = self.state.trouble().unwrap_or_else(|| "it does not answer".to_owned());
        ServeError::Unwritten { journal: self.options.journal.clone(), error }
    }

    /// Shortens the journal at the end; if that fails, the next start reads more.
    fn shorten(&mut self, journal: &Shared) {
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        if self.batches.shorten(&mut journal).is_err() {
            self.metrics.journal_errors.inc();
        }
    }

    /// Tries whether a journal that failed accepts records again, so that senders who wait for it
    /// need not try.
    pub(super) fn try_journal(&mut self, journal: &Shared) {
        if !self.state.has_journal_error() || self.tried.elapsed() < RETRY {
            return;
        }
        self.tried = Instant::now();
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        let done = self.batches.note(&mut journal);
        self.state.set_journal_error(done.err().map(|error| error.to_string()));
    }

    /// Whether the last batch before a successor takes over is to be written now.
    ///
    /// It contains everything up to a new file of the journal, so that the successor has little to
    /// read.
    pub(super) fn is_last_due(&mut self, journal: &Shared) -> bool {
        if self.state.is_flushed.load(Ordering::Relaxed) || self.live.is_writing() {
            return false;
        }
        let last = *self.last.get_or_insert_with(|| {
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            // Without a new file the successor has more to read.
            let _ = journal.start_file();
            Last { lines: self.state.journaled.load(Ordering::Relaxed), upto: journal.last() }
        });
        if self.batches.upto() >= last.upto {
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

    pub(super) fn is_due(&self) -> bool {
        let is_half_full = self.live.bytes() >= self.options.import.head_bytes / 2;
        let since = self.written.elapsed();
        let is_late = since >= self.options.write_each;
        let is_time = is_late || is_half_full && since >= TICK;
        let has_any = !self.live.is_empty() || self.has_new_windows;
        // An empty batch lets go of the journal too.
        let is_pressed = self.is_journal_pressed() && since >= RETRY;
        !self.live.is_writing() && (has_any && is_time || is_pressed)
    }

    /// Whether the journal is to be released.
    fn is_journal_pressed(&self) -> bool {
        self.state.journal_bytes.load(Ordering::Relaxed) >= self.options.journal_max / 2
    }

    /// Adds the open windows to the head. If they alone keep half of a full journal, they are cut,
    /// because their lines are needed no more then.
    fn give_windows(&mut self, journal: &Shared) {
        let first = self.statsd().windows().and_then(|(windows, _)| windows.first());
        let pinned = first.map_or(0, |first| {
            journal.lock().unwrap_or_else(PoisonError::into_inner).size_from(first)
        });
        match pinned >= self.options.journal_max / 2 {
            true => self.cut_windows(),
            false => self.flush_windows(false),
        }
    }

    /// Begins to write a batch, after its record is on disk; false if that must wait, because the
    /// journal's disk is full.
    pub(super) fn write(&mut self, journal: &Shared) -> bool {
        let upto = self.upto();
        self.give_windows(journal);
        let mut windows = None;
        if let Some((open, book)) = self.statsd().windows()
            && open.is_used()
        {
            let mut bytes = Vec::new();
            let from = write_windows(open, book, upto + 1, &mut bytes);
            windows = Some(WindowsRecord { bytes, from });
        }
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        if journal.size() >= self.options.journal_max / 2 {
            // Only whole files are released. Without a new file, that is done later.
            let _ = journal.start_file();
        }
        let done = self.batches.begin(&mut journal, upto, windows);
        self.state.set_journal_error(done.as_ref().err().map(ToString::to_string));
        self.written = Instant::now();
        let Ok(claim) = done else {
            self.metrics.journal_errors.inc();
            return false;
        };
        drop(journal);
        self.live.write(&[claim]);
        self.keys.write();
        self.oldest_writing_us = self.oldest_us.take();
        true
    }

    /// Looks at the batch that is being written, and tries again one that failed.
    pub(super) fn poll(&mut self, journal: &Shared, limit: Duration) -> Result<(), ServeError> {
        match self.live.ended(limit) {
            None if self.state.store_error().is_some() && self.retried.elapsed() >= RETRY => {
                self.retried = Instant::now();
                self.live.again();
            }
            None => {}
            Some(Ok(import::Batch { omitted, unstored })) => {
                self.state.set_store_error(None);
                self.oldest_writing_us = None;
                self.keys.written();
                self.metrics.batches.inc();
                self.metrics.series_omitted.inc_by(omitted as u64);
                self.metrics.slots_expired.inc_by(unstored.expired);
                self.metrics.points_overtaken.inc_by(unstored.overtaken);
                let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
                // A file that cannot be deleted now is deleted with the next batch.
                if self.batches.release(&mut journal).is_err() {
                    self.metrics.journal_errors.inc();
                }
                self.state.journal_bytes.store(journal.size(), Ordering::Relaxed);
            }
            // Another daemon has one of the requests. After a new start they are told apart.
            Some(Err(error @ StoreError::Overtaken)) => return Err(error.into()),
            Some(Err(error)) => {
                self.metrics.store_errors.inc();
                self.retried = Instant::now();
                self.state.set_store_error(Some(error.to_string()));
            }
        }
        Ok(())
    }

    /// Begins a part of the upkeep, if it is due and no batch is being written.
    pub(super) fn maintain(&mut self) {
        if self.live.is_writing() {
            return;
        }
        if !self.upkeep.is_due(self.begun.elapsed()) {
            return;
        }
        let Some(now_us) = self.state.expiry_us() else { return };
        if self.forgotten.is_none_or(|forgotten| forgotten.elapsed() >= FORGOTTEN_EACH) {
            self.forgotten = Some(Instant::now());
            let remember_us = i64::try_from(self.options.remember.as_micros()).unwrap_or(i64::MAX);
            let metrics = self.metrics.clone();
            self.live.forget_requests(now_us.saturating_sub(remember_us), move |done| {
                metrics.forgotten(&done);
            });
        }
        let (metrics, ended) = (self.metrics.clone(), self.upkeep.begin());
        self.live.maintain(now_us, upkeep::PART, move |done| {
            metrics.upkeep(&done);
            ended.set(done.is_ok_and(|done| done.is_partial));
        });
    }

    /// Publishes the figures that change all the time.
    pub(super) fn show(&self) {
        let behind_us = self.behind.as_ref().and_then(Behind::oldest_us);
        let oldest_us = self.oldest_writing_us.or(self.oldest_us).or(behind_us).unwrap_or(0);
        self.state.oldest_us.store(oldest_us, Ordering::Relaxed);
        self.state.head_bytes.store(self.live.bytes() as u64, Ordering::Relaxed);
    }
}
