//! Schemas of series, and the steps from one to the next.

use crate::StoreError;

/// The oldest schema that is read. Earlier ones were never released, so their series are refused, not
/// migrated.
pub(crate) const FIRST_SCHEMA: i64 = 8;

/// The steps that a store of schema `found` lacks (0: it has no series), each with the schema to which
/// it leads; none for one that was not released.
pub(crate) fn steps_from<'a>(
    found: i64,
    steps: &'a [&'a str],
) -> impl Iterator<Item = (i64, &'a str)> {
    let is_lacking = move |version: i64| found == 0 || (FIRST_SCHEMA..version).contains(&found);
    (FIRST_SCHEMA..).zip(steps.iter().copied()).filter(move |(version, _)| is_lacking(*version))
}

/// Whether a store of schema `found` can be brought to the schema `known`.
///
/// # Errors
/// [`StoreError::Unreleased`].
pub(crate) fn check_released(found: i64, known: i64, place: &str) -> Result<(), StoreError> {
    match found {
        1..FIRST_SCHEMA => Err(StoreError::Unreleased { place: place.to_owned(), found, known }),
        _ => Ok(()),
    }
}

/// Whether series of schema `found` can be read as they are by a version that writes `known`.
///
/// # Errors
/// [`StoreError::NoSeries`], [`StoreError::Older`].
pub(crate) fn check_present(found: i64, known: i64, place: &str) -> Result<(), StoreError> {
    match found {
        0 => Err(StoreError::NoSeries(place.to_owned())),
        _ if found < known => Err(StoreError::Older { place: place.to_owned(), found, known }),
        _ => Ok(()),
    }
}
