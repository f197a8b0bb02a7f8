//! A store that loses its answers, and commits batches after their process is dead.

use std::borrow::Cow;

use ::store::{Applied, Changes, Request, Source, Store as _, StoreError};
use engine::{Event, Frozen, Reply, Stored};

use super::{Asked, Leniency, Process, Sent, World, text};

impl World {
    /// The store answers a question, or commits a batch, or is gone, or its answer is lost.
    pub(super) fn store_works(&mut self, process: &mut Process) -> Result<(), String> {
        let gone = || StoreError::Lost { place: "memory".to_owned() };
        let is_gone = !self.is_healthy && self.random.one_in(4);
        if let Some(asked) = process.asked.pop_front() {
            let reply = match asked {
                Asked::Series(_) if is_gone => Reply::Found(Err(gone())),
                Asked::Series(question) => Reply::Found(question.ask(&mut self.store)),
                Asked::Key(key) if is_gone => Reply::Known(key, Err(gone())),
                Asked::Key(key) if self.without == Some(Leniency::KeysInMemory) => {
                    Reply::Known(key, Ok(false))
                }
                Asked::Key(key) => Reply::Known(key, self.store.has_request(key)),
            };
            self.note(match &reply {
                Reply::Found(found) => format!("series: {:?}", found.as_ref().err()),
                reply => format!("{reply:?}"),
            });
            self.tell(process, Event::Store(reply))?;
        } else if let Some(mut sent) = process.sent.take() {
            let written = match self.random.below(4) {
                _ if is_gone => Err(gone()),
                0 if !self.is_healthy => {
                    let applied = self.apply(&mut sent)?;
                    self.note(format!("the answer is lost: {applied:?}"));
                    self.seen.lost_answers += 1;
                    process.ahead += u64::from(self.without == Some(Leniency::NumberAgain));
                    Err(gone())
                }
                _ => {
                    self.seen.batches += 1;
                    self.apply(&mut sent)?.map(|applied| applied.0)
                }
            };
            self.note(format!("batch {:?}: {written:?}", sent.claims));
            let written = written.map_err(|error| (error, sent.frozen));
            self.tell(process, Event::Store(Reply::Written(written)))?;
        }
        self.go_on(process)
    }

    /// A batch of a dead process is committed, unless a later process has fenced it off.
    pub(super) fn commit_late(&mut self) -> Result<(), String> {
        if let Some(mut late) = self.late.take() {
            let applied = self.apply(&mut late)?;
            let is_now = applied.as_ref().is_ok_and(|(_, is_now)| *is_now);
            self.seen.late_commits += u64::from(is_now);
            self.note(format!("batch {:?} is committed late: {applied:?}", late.claims));
        }
        Ok(())
    }

    /// Writes a batch; whether it was new comes with the result.
    pub(super) fn apply(
        &mut self,
        sent: &mut Sent,
    ) -> Result<Result<(Stored, bool), StoreError>, String> {
        let (claims, random, without) = (&sent.claims, &mut self.random, self.without);
        let mut is_now = false;
        let stored = engine::write(&mut self.store, &mut sent.frozen, 0, |store, _, frozen| {
            let applied = match without {
                Some(Leniency::KeysAfter) => {
                    let mut apart = KeysApart { frozen, requests: Vec::new() };
                    let applied = store.apply_all(claims, &mut apart)?;
                    let requests = apart.requests;
                    if matches!(applied, Applied::Now { .. }) && !random.one_in(8) {
                        let requests = Changes { requests, ..Changes::default() };
                        store.apply_all(&[], &mut Whole(Some(requests)))?;
                    }
                    applied
                }
                Some(Leniency::ClaimOutside) => {
                    let claimed = store.apply_all(claims, &mut Whole(None))?;
                    if matches!(claimed, Applied::Now { .. }) && !random.one_in(8) {
                        store.apply_all(&[], frozen)?;
                    }
                    claimed
                }
                _ => store.apply_all(claims, frozen)?,
            };
            is_now = matches!(applied, Applied::Now { .. });
            Ok(applied)
        });
        match stored {
            // It was fenced off before its predecessor came.
            Err(error @ StoreError::Missing { .. }) => Ok(Err(error)),
            stored => Ok(Ok((stored.map_err(text)?, is_now))),
        }
    }
}

/// A batch without the names of its requests.
#[derive(Debug)]
struct KeysApart<'f> {
    frozen: &'f mut Frozen,
    requests: Vec<Request>,
}

impl Source for KeysApart<'_> {
    fn restart(&mut self) {
        self.requests.clear();
        self.frozen.restart();
    }

    fn next(&mut self) -> Option<Cow<'_, Changes>> {
        let mut piece = self.frozen.next()?.into_owned();
        self.requests.append(&mut piece.requests);
        Some(Cow::Owned(piece))
    }
}

/// A batch of one piece, or an empty one.
#[derive(Debug)]
pub(super) struct Whole(pub(super) Option<Changes>);

impl Source for Whole {
    fn restart(&mut self) {}

    fn next(&mut self) -> Option<Cow<'_, Changes>> {
        self.0.take().map(Cow::Owned)
    }
}
