//! Files that other users must not read.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::AccessError;

/// Permissions that a file of tokens must not have: writing by the group, and anything by others.
const OPEN_TO_OTHERS: u32 = 0o027;

/// Refuses a secret that other users can read or change.
pub(crate) fn refuse_public(file: &File, path: &Path) -> Result<(), AccessError> {
    let found = file
        .metadata()
        .map_err(|cause| AccessError::Unreadable { path: path.to_owned(), cause })?;
    match found.mode() & OPEN_TO_OTHERS {
        0 => Ok(()),
        _ => Err(AccessError::NotPrivate(path.to_owned())),
    }
}
