//! The names and the rights of a run's folder and what is in it.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use rand::Rng as _;

/// Prefix of a run's folder.
pub(crate) const RUN_PREFIX: &str = "tg-";

/// Prefix of the folder's name until its lock is held.
pub(crate) const NEW_PREFIX: &str = "tgn-";

/// The file in it that a living run locks.
pub(crate) const LOCK: &str = "lock";

/// The variable with the run's folder in every process's environment.
pub(crate) const RUN_DIR_VARIABLE: &str = "TACHOGRAPH_RUN_DIR";

/// Creates a folder that others can enter but not list: servers that drop their rights must still
/// reach their sockets, whatever the umask.
pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o711).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o711))
}

/// A random string of letters and digits.
pub(crate) fn word(rng: &mut base::Rng, length: usize) -> String {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    (0..length).map(|_| LETTERS[(rng.next_u64() % 32) as usize] as char).collect()
}
