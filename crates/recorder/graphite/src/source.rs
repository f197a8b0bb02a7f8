//! Where series come from.

use crate::{GraphiteError, Series, TagExpression};

/// The series that a target refers to.
#[derive(Clone, Debug)]
pub enum Selection<'s> {
    /// By path, possibly with wildcards.
    Path(&'s str),
    /// By tags, all of which must match.
    Tags(&'s [TagExpression]),
}

/// Fetches series.
pub trait SeriesSource {
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
