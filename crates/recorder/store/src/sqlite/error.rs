//! Errors of what is stored.

/// An invalid value.
pub(super) fn broken(column: usize, cause: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, cause.into())
}
