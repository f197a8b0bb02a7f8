//! The report of `tachograph capacity`.

pub(crate) mod groups;
pub(crate) mod json;
pub(crate) mod page;
pub(crate) mod words;
