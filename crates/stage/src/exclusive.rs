//! One experiment at a time on one machine.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::error::StageError;

/// The same for every user, whatever their `TMPDIR`.
const LOCK: &str = "/tmp/tachograph.lock";

/// As long as this lives, no other experiment starts on this machine. The
/// kernel releases it with the process, however that ends.
#[derive(Debug)]
pub struct Exclusive(#[expect(dead_code, reason = "it is held, not read")] File);

/// Claims the machine for measuring.
///
/// # Errors
/// [`StageError::Busy`] says who has it.
pub fn exclusive() -> Result<Exclusive, StageError> {
    exclusive_at(Path::new(LOCK))
}

fn exclusive_at(path: &Path) -> Result<Exclusive, StageError> {
    let mut file = open(path).map_err(StageError::file("cannot open the lock", path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(busy(&mut file)),
        Err(TryLockError::Error(error)) => {
            return Err(StageError::file("cannot lock", path)(error));
        }
    }
    // The words are for people; without them the lock holds all the same.
    let _ = describe(&mut file);
    Ok(Exclusive(file))
}

/// Opens the lock of whoever made it first. Creating comes second: the kernel
/// may refuse to "create" somebody else's file in /tmp (`fs.protected_regular`).
fn open(path: &Path) -> io::Result<File> {
    const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let mut existing = OpenOptions::new();
    existing.read(true).write(true).custom_flags(NO_FOLLOW);
    match existing.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let file = existing.clone().create(true).mode(0o666).open(path)?;
            // The umask must not shut other users out. Only its owner can lift it.
            let _ = file.set_permissions(Permissions::from_mode(0o666));
            Ok(file)
        }
        other => other,
    }
}

fn describe(file: &mut File) -> io::Result<()> {
    let now = base::timestamp_now().strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    writeln!(file, "{} {now}", std::process::id())
}

fn busy(file: &mut File) -> StageError {
    let mut text = String::new();
    // An unreadable description leaves both unsaid.
    let _ = file.take(200).read_to_string(&mut text);
    let (pid, since) = text.trim().split_once(' ').unwrap_or_default();
    StageError::Busy {
        pid: pid.parse().ok(),
        since: Some(since.to_owned()).filter(|since| !since.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_was_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = exclusive_at(&path).unwrap();
        let text = exclusive_at(&path).unwrap_err().to_string();
        let start = format!(
            "another tachograph is measuring on this machine (pid {}, since 2",
            std::process::id()
        );
        assert!(text.starts_with(&start), "{text}");
        assert!(
            text.ends_with(
                " UTC); two at once would disturb each other. Wait for it to end, or stop it"
            ),
            "{text}"
        );
        drop(first);
        exclusive_at(&path).unwrap();
    }
}
