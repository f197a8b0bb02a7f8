//! Evaluates targets over series that a [`Source`] fetches.

use std::cell::Cell;
use std::rc::Rc;

use jiff::tz::TimeZone;

use crate::functions::{self, Arguments};
use crate::{Expression, GraphiteError, Series, TagExpression};

/// The series that a target refers to.
#[derive(Clone, Debug)]
pub enum Selection<'s> {
    /// By path, possibly with wildcards.
    Path(&'s str),
    /// By tags, all of which must match.
    Tags(&'s [TagExpression]),
}

/// Fetches series.
pub trait Source {
    /// The selected series, sorted by name, with the slots that start at or after `from_s` and
    /// before `until_s`.
    ///
    /// # Errors
    /// Any; the query fails with it.
    fn fetch(
        &mut self,
        selection: &Selection<'_>,
        from_s: i64,
        until_s: i64,
    ) -> Result<Vec<Series>, GraphiteError>;
}

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
}

/// Evaluates a target.
///
/// # Errors
/// Those of the source, and [`GraphiteError`] for unknown functions and wrong arguments.
pub fn evaluate(
    target: &Expression,
    context: &Context,
    source: &mut dyn Source,
) -> Result<Vec<Series>, GraphiteError> {
    let found = match target {
        Expression::Path(path) => {
            let mut found =
                source.fetch(&Selection::Path(path), context.from_s, context.until_s)?;
            for series in &mut found {
                series.path.clone_from(path);
            }
            found
        }
        Expression::Call(call) => {
            let Some(function) = functions::find(&call.name) else {
                let hint = functions::nearest(&call.name);
                return Err(GraphiteError::UnknownFunction { name: call.name.clone(), hint });
            };
            let mut arguments = Arguments::new(call, function, context, source)?;
            (function.run)(&mut arguments)?
        }
        _ => {
            return Err(GraphiteError::Argument {
                function: "target".to_owned(),
                cause: "a target must be a path or a function call".to_owned(),
            });
        }
    };
    let values: usize = found.iter().map(|series| series.values.len()).sum();
    if values > context.values_max {
        return Err(GraphiteError::Limit {
            what: format!("produces {values} values"),
            limit: context.values_max as u64,
            remedy: "select fewer series, a shorter range, or fewer points",
        });
    }
    match context.work_left.get().checked_sub(values + CALL_WORK) {
        Some(left) => context.work_left.set(left),
        None => {
            return Err(GraphiteError::Limit {
                what: "needs too many values in all its calls".to_owned(),
                limit: context.values_max.saturating_mul(WORK_FACTOR) as u64,
                remedy: "nest fewer calls, or select fewer series",
            });
        }
    }
    Ok(found)
}
