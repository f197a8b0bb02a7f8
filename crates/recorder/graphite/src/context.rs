//! The range of a query, and its limits.

use std::cell::Cell;
use std::rc::Rc;

use jiff::tz::TimeZone;

use crate::GraphiteError;

/// The range of a query. Times are in seconds since the epoch.
#[derive(Clone, Debug)]
pub struct Context {
    /// The beginning; the slot that starts there is included.
    pub from_s: i64,
    /// The end; the slot that starts there is not included.
    pub until_s: i64,
    /// The zone in which days begin.
    pub zone: TimeZone,
    /// Limit on the values that one call may produce: series × points.
    pub values_max: usize,
    /// Calls and values that the query may still produce. Some functions evaluate their argument
    /// twice, so nesting them multiplies the work.
    work_left: Rc<Cell<usize>>,
}

/// The work of a query, as a multiple of what one call may produce.
const WORK_FACTOR: usize = 20;

/// The work of a call that produces nothing.
const CALL_WORK: usize = 100;

impl Context {
    /// A range in UTC.
    ///
    /// # Errors
    /// [`GraphiteError::EmptyRange`].
    pub fn new(from_s: i64, until_s: i64, values_max: usize) -> Result<Context, GraphiteError> {
        if from_s >= until_s {
            return Err(GraphiteError::EmptyRange);
        }
        let work_left = Rc::new(Cell::new(values_max.saturating_mul(WORK_FACTOR)));
        Ok(Context { from_s, until_s, zone: TimeZone::UTC, values_max, work_left })
    }

    /// The same with another range.
    pub(crate) fn between(&self, from_s: i64, until_s: i64) -> Context {
        Context { from_s, until_s, ..self.clone() }
    }

    /// Counts what a call has produced.
    ///
    /// # Errors
    /// [`GraphiteError::Limit`].
    pub(crate) fn spend(&self, values: usize) -> Result<(), GraphiteError> {
        if values > self.values_max {
            return Err(GraphiteError::Limit {
                what: format!("produces {values} values"),
                limit: self.values_max as u64,
                remedy: "select fewer series, a shorter range, or fewer points",
            });
        }
        match self.work_left.get().checked_sub(values + CALL_WORK) {
            Some(left) => {
                self.work_left.set(left);
                Ok(())
            }
            None => Err(GraphiteError::Limit {
                what: "needs too many values in all its calls".to_owned(),
                limit: self.values_max.saturating_mul(WORK_FACTOR) as u64,
                remedy: "nest fewer calls, or select fewer series",
            }),
        }
    }
}
