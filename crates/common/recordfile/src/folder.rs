//! Folders that are still there after a power cut.
//!
//! A sync of a file, or of the folder that it is in, makes neither the folder's own name durable nor
//! those above it (fsync(2)): a new folder could vanish with everything in it.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Permissions of a new folder: only its owner's.
const OWN_FOLDER: u32 = 0o700;

/// Creates a folder and those above it, if they are missing, and makes their names durable. The name
/// of an existing folder is synced too: the process that created it may have been killed before it
/// could do so.
///
/// # Errors
/// Those of the system, except where a folder cannot be synced by this user or on this file system.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    let above = match folder.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => return Ok(()),
    };
    if !folder.is_dir() {
        let create = || DirBuilder::new().mode(OWN_FOLDER).create(folder);
        let mut created = create();
        if is(&created, ErrorKind::NotFound) && folder != above {
            create_folder(above)?;
            created = create();
        }
        // Another process may have been quicker.
        if !(is(&created, ErrorKind::AlreadyExists) && folder.is_dir()) {
            created?;
        }
    }
    let synced = File::open(above).and_then(|above| above.sync_all());
    let impossible = [
        ErrorKind::PermissionDenied,
        ErrorKind::InvalidInput,
        ErrorKind::Unsupported,
        ErrorKind::ReadOnlyFilesystem,
    ];
    if impossible.iter().any(|kind| is(&synced, *kind)) { Ok(()) } else { synced }
}

fn is(result: &io::Result<()>, kind: ErrorKind) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == kind)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn folders_are_created_for_their_owner_only() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a/b");
        for _ in 0..2 {
            create_folder(&folder).unwrap();
            for made in [&folder, &place.path().join("a")] {
                assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o777, OWN_FOLDER);
            }
        }
        create_folder(Path::new("/")).unwrap();
        create_folder(Path::new(".")).unwrap();
        fs::write(place.path().join("file"), "").unwrap();
        for taken in ["file", "file/below"] {
            assert!(create_folder(&place.path().join(taken)).is_err(), "{taken}");
        }
    }
}
