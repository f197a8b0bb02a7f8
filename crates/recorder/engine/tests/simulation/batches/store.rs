//! A store that loses its answers, and commits batches after their process is dead.

use std::borrow::Cow;

use ::store::{BatchResult, Changes, Request, Source, Store as _, StoreError};
use engine::{Event, FrozenBatch, Reply, StoredBatch};
use series::{Batch as Slots, SECOND_US, Step};

use super::script::Answer;
use super::{Asked, Batch, Leniency, Process, STEP_S, World, text};

/// How long a span is over before it is packed.
const PACKED_AFTER_US: i64 = 2 * 3_600 * SECOND_US;

impl World {
    /// What the store does, once the seed decides.
    pub(super) fn random_answer(&mut self) -> Answer {
        match self.random.below(16) {
            0..=3 => Answer::Gone,
            4..=6 => Answer::Lost,
            _ => Answer::Given,
        }
    }

    /// The store answers its questions, and commits a batch; or it is gone, or its answer is lost.
    pub(super) fn store_works(
        &mut self,
        process: &mut Process,
        answer: Answer,
    ) -> Result<(), String> {
        let answer = if self.is_healthy { Answer::Given } else { answer };
        while let Some(asked) = process.asked.pop_front() {
            if let Asked::Maintain(..) = asked {
                self.see_forgettable(process);
            }
            if let Some(reply) = self.answer(asked, answer == Answer::Gone)? {
                match &reply {
                    Reply::Found(found) => {
                        self.note(format_args!("series: {:?}", found.as_ref().err()));
                    }
                    reply => self.note(format_args!("{reply:?}")),
                }
                self.tell(process, Event::Store(reply))?;
                self.go_on(process)?;
            }
            if answer == Answer::Gone {
                return Ok(());
            }
        }
        if let Some(mut sent) = process.sent.take() {
            let written = match answer {
                Answer::Gone => Err(gone()),
                Answer::Lost => {
                    let applied = self.apply(&mut sent)?;
                    self.note(format_args!("committed: {applied:?}"));
                    self.seen.lost_answers += 1;
                    process.ahead += u64::from(self.without == Some(Leniency::NumberAgain));
                    Err(gone())
                }
                Answer::Given => {
                    self.seen.batches += 1;
                    self.apply(&mut sent)?.map(|applied| applied.0)
                }
            };
            self.seen.overtaken += u64::from(matches!(written, Err(StoreError::Overtaken)));
            self.note(format_args!("batch {:?}: {written:?}", sent.claims));
            let written = written.map_err(|error| (error, sent.frozen));
            self.tell(process, Event::Store(Reply::Written(written)))?;
        }
        self.go_on(process)
    }

    fn answer(&mut self, asked: Asked, is_gone: bool) -> Result<Option<Reply>, String> {
        Ok(Some(match asked {
            Asked::Maintain(..) if is_gone => Reply::Maintained(false),
            Asked::Maintain(now_us, forget_us) => {
                if let Some(forget_us) = forget_us {
                    self.seen.forgotten += self.store.forget_requests(forget_us).map_err(text)?;
                }
                let done = self.store.maintain(now_us).map_err(text)?;
                self.believed_us = self.believed_us.max(now_us);
                self.seen.expiries += done.dropped;
                let step = Step::from_secs(STEP_S).ok_or("a step")?;
                let horizon_us = self.store.digests(step, 0, 0).map_err(text)?.horizon_us;
                self.expired_us = self.expired_us.max(horizon_us);
                Reply::Maintained(done.is_partial)
            }
            Asked::Series(_) if is_gone => Reply::Found(Err(gone())),
            Asked::Series(question) => Reply::Found(question.ask(&mut self.store)),
            Asked::Key(key) if is_gone => Reply::Known(key, Err(gone())),
            Asked::Key(key) if self.without == Some(Leniency::KeysInMemory) => {
                Reply::Known(key, Ok(false))
            }
            Asked::Key(key) => Reply::Known(key, self.store.has_request(key)),
        }))
    }

    /// A batch of a dead process is committed, unless a later process has fenced it off.
    pub(super) fn commit_late(&mut self) -> Result<(), String> {
        if let Some(mut late) = self.own.late.take() {
            let applied = self.apply(&mut late)?;
            let is_now = applied.as_ref().is_ok_and(|(_, is_now)| *is_now);
            self.seen.late_commits += u64::from(is_now);
            self.note(format_args!("batch {:?} is committed late: {applied:?}", late.claims));
        }
        Ok(())
    }

    /// Writes a batch; whether it was new comes with the result.
    pub(super) fn apply(
        &mut self,
        sent: &mut Batch,
    ) -> Result<Result<(StoredBatch, bool), StoreError>, String> {
        let packed_us = self.right_us() - PACKED_AFTER_US;
        let (claims, random, without) = (&sent.claims, &mut self.random, self.without);
        let mut is_now = false;
        let stored = engine::write(&mut self.store, &mut sent.frozen, 0, |store, _, frozen| {
            let applied = match without {
                Some(
                    rule
                    @ (Leniency::KeysAfter | Leniency::KeysInMemory | Leniency::KeysUncompared),
                ) => {
                    let mut apart = KeysApart { frozen, requests: Vec::new() };
                    let applied = store.apply_all(claims, &mut apart)?;
                    let mut requests = Vec::new();
                    for request in apart.requests {
                        if !store.has_request(request.key)? {
                            requests.push(request);
                        }
                    }
                    let is_lost = rule == Leniency::KeysAfter && random.one_in(8);
                    if matches!(applied, BatchResult::Now { .. }) && !is_lost {
                        let requests = Changes { requests, ..Changes::default() };
                        store.apply_all(&[], &mut Whole(Some(requests)))?;
                    }
                    applied
                }
                Some(Leniency::ClaimOutside) => {
                    let claimed = store.apply_all(claims, &mut Whole(None))?;
                    if matches!(claimed, BatchResult::Now { .. }) && !random.one_in(8) {
                        store.apply_all(&[], frozen)?;
                    }
                    claimed
                }
                Some(Leniency::PackedForGood) => {
                    store.apply_all(claims, &mut Unpacked { frozen, packed_us })?
                }
                _ => store.apply_all(claims, frozen)?,
            };
            is_now = matches!(applied, BatchResult::Now { .. });
            Ok(applied)
        });
        match stored {
            // It was fenced off before its predecessor came, or another daemon has a request.
            Err(error @ (StoreError::Missing { .. } | StoreError::Overtaken)) => Ok(Err(error)),
            stored => Ok(Ok((stored.map_err(text)?, is_now))),
        }
    }
}

fn gone() -> StoreError {
    StoreError::Lost { place: "memory".to_owned() }
}

/// A batch without the names of its requests.
#[derive(Debug)]
struct KeysApart<'f> {
    frozen: &'f mut FrozenBatch,
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

/// A batch without the slots of a span that was packed a short time before.
#[derive(Debug)]
struct Unpacked<'f> {
    frozen: &'f mut FrozenBatch,
    packed_us: i64,
}

impl Source for Unpacked<'_> {
    fn restart(&mut self) {
        self.frozen.restart();
    }

    fn next(&mut self) -> Option<Cow<'_, Changes>> {
        let mut piece = self.frozen.next()?.into_owned();
        let packed = self.packed_us - PACKED_AFTER_US..self.packed_us;
        for batch in piece.slots.values_mut() {
            let mut kept = Slots::default();
            let rows = batch.iter().filter(|(key, _)| !packed.contains(&key.slot_us));
            rows.for_each(|(key, delta)| kept.add(*key, *delta));
            *batch = kept;
        }
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
