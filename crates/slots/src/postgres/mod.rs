//! Series and slots in PostgreSQL, 14 or later.

mod error;
mod link;
mod read;
mod schema;
mod types;
mod write;

use std::collections::BTreeSet;
use std::fmt;

use series::{Accumulator, Lane, SlotKey, Step, rrd};

use self::link::Link;
use crate::plan::{Kept, Plan};
use crate::{
    Applied, Changes, Maintained, NewSeries, NotMade, Retention, Selector, Series, SeriesLimit,
    Store, StoreError, Writer,
};

/// How often a batch is planned anew because somebody changed the retentions meanwhile.
const PLANS_MAX: usize = 10;

/// A PostgreSQL database with series, in the first schema of the user's `search_path`.
///
/// Every call is one transaction that is on the server's disk when it returns,
/// unless the server itself runs with `fsync = off`. A connection that was lost
/// is made anew by the next call. Any number of processes may write at the same time.
pub struct Postgres {
    link: Link,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("place", &self.link.place()).finish()
    }
}

/// What became of an attempt to apply a batch.
enum Attempt {
    Done(Applied),
    /// The retentions were changed after the batch had been planned.
    PlanAnew,
}

impl Postgres {
    /// Connects to the database that a URL names, and brings it to the present schema.
    ///
    /// # Errors
    /// [`StoreError::Url`], [`StoreError::Unreachable`], [`StoreError::NotLetIn`],
    /// [`StoreError::NoDatabase`], [`StoreError::Denied`], and [`StoreError::Newer`]
    /// where a newer version made the schema.
    pub fn open(url: &str) -> Result<Postgres, StoreError> {
        let mut store = Postgres { link: Link::new(url)? };
        let found = store.link.transaction(schema::migrate)?;
        store.check_version(found)?;
        Ok(store)
    }

    /// Connects for reading only; changes nothing.
    ///
    /// # Errors
    /// Those of [`Postgres::open`], and [`StoreError::NoSeries`].
    pub fn open_read_only(url: &str) -> Result<Postgres, StoreError> {
        let mut store = Postgres { link: Link::new(url)? };
        let found = store.link.transaction(schema::version)?;
        store.check_version(found)?;
        if found == 0 { Err(StoreError::NoSeries(store.place())) } else { Ok(store) }
    }

    fn check_version(&self, found: i64) -> Result<(), StoreError> {
        if found > schema::KNOWN {
            return Err(StoreError::Newer { place: self.place(), found, known: schema::KNOWN });
        }
        Ok(())
    }

    /// Makes the partitions that a plan needs, ahead of its transaction: nobody
    /// may write while a table is made.
    fn make_partitions(&mut self, plan: &Plan) -> Result<(), StoreError> {
        let wanted: Vec<(Kept, BTreeSet<i64>)> =
            plan.parts.iter().map(|part| (part.kept, part.partitions())).collect();
        let missing = self.link.transaction(|session| {
            let mut missing = false;
            for (kept, starts) in &wanted {
                missing |= !starts.is_subset(&schema::partitions(session, kept.step().us())?);
            }
            Ok(missing)
        })?;
        if missing {
            self.link.transaction(|session| schema::make_partitions(session, &wanted))?;
        }
        Ok(())
    }

    fn attempt(
        &mut self,
        writer: Writer,
        seq: u64,
        changes: &Changes,
    ) -> Result<Attempt, StoreError> {
        let kept = self.link.transaction(schema::retentions)?;
        let plan = Plan::new(changes, &kept)?;
        self.make_partitions(&plan)?;
        self.link.transaction(|session| {
            session.transaction.query_one(schema::WRITING, &[])?;
            if schema::retentions(session)? != kept {
                return Ok(Attempt::PlanAnew);
            }
            if !write::claim(session, writer, seq)? {
                return Ok(Attempt::Done(Applied::Before));
            }
            write::apply(session, &plan, changes)?;
            Ok(Attempt::Done(Applied::Now { expired: plan.expired }))
        })
    }
}

impl Store for Postgres {
    fn place(&self) -> String {
        self.link.place().to_owned()
    }

    fn retentions(&mut self) -> Result<Vec<Retention>, StoreError> {
        let kept = self.link.transaction(schema::retentions)?;
        Ok(kept.into_iter().map(|kept| kept.retention).collect())
    }

    fn retain(&mut self, retentions: &[Retention]) -> Result<(), StoreError> {
        self.link.transaction(|session| schema::retain(session, retentions))
    }

    fn series(
        &mut self,
        wanted: &[NewSeries],
        limit: &SeriesLimit,
    ) -> Result<Vec<Result<Series, NotMade>>, StoreError> {
        self.link.transaction(|session| write::series(session, wanted, limit))
    }

    fn find(&mut self, selector: &Selector) -> Result<Vec<Series>, StoreError> {
        self.link.transaction(|session| read::find(session, selector))
    }

    fn lanes(&mut self, names: &[&str]) -> Result<Vec<i32>, StoreError> {
        self.link.transaction(|session| write::lanes(session, names))
    }

    fn lane_states(&mut self, lanes: &[(i64, i32)]) -> Result<Vec<Lane>, StoreError> {
        self.link.transaction(|session| read::lane_states(session, lanes))
    }

    fn rrd(&mut self, series: i64) -> Result<Option<rrd::Rrd>, StoreError> {
        self.link.transaction(|session| read::rrd(session, series))
    }

    fn last_batch(&mut self, writer: Writer) -> Result<u64, StoreError> {
        self.link.transaction(|session| read::last_batch(session, writer))
    }

    fn apply(
        &mut self,
        writer: Writer,
        seq: u64,
        changes: &Changes,
    ) -> Result<Applied, StoreError> {
        for _ in 0..PLANS_MAX {
            if let Attempt::Done(applied) = self.attempt(writer, seq, changes)? {
                return Ok(applied);
            }
        }
        Err(StoreError::Busy { place: self.place() })
    }

    fn slots(
        &mut self,
        step: Step,
        series: &[i64],
        from_us: i64,
        until_us: i64,
    ) -> Result<Vec<(SlotKey, Accumulator)>, StoreError> {
        self.link.transaction(|session| read::slots(session, step, series, from_us, until_us))
    }

    fn maintain(&mut self, now_us: i64) -> Result<Maintained, StoreError> {
        self.link.transaction(|session| schema::maintain(session, now_us))
    }
}
