//! Why an import could not go on.

use ingest::FileError;
use slots::StoreError;

/// An import that ended before its stream did. What was written stays, and the
/// same import goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum BackfillError {
    /// The stream cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was refused cannot be kept aside.
    #[error("the lines that were refused cannot be kept aside: {0}")]
    Aside(std::io::Error),
}
