//! Exclusive use of CPUs by a measurement.
//!
//! Each CPU has a lock file. A measurement holds the locks of all its CPUs, so measurements on
//! disjoint CPUs run side by side and others take turns. The locks are kernel locks (`flock(2)`),
//! which end with their process.
//!
//! Each set of CPUs also has a lock file for who is next. Whoever wants the CPUs takes it first and
//! keeps it until it has them, so that measurements one after the other in a script cannot keep a
//! waiting one out for ever.
//!
//! The files are in a folder that this user owns and only this user can write to, so no other user
//! can hold these locks or redirect us to another file. In return, measurements of two users do not
//! see each other's locks; each sees the other among the busy processes (`host::Neighbours`).

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use base::CpuSet;

use crate::error::StageError;
use crate::holder::Holder;

/// Sets another folder for the locks: tests must not wait for a measurement.
pub const LOCK_DIR_VARIABLE: &str = "TACHOGRAPH_LOCK_DIR";

/// How often a waiting measurement retries and checks for a stop request.
const LOOK: Duration = Duration::from_millis(100);

/// Maximum length of a command line shown to others, in characters.
const COMMAND_MAX: usize = 300;

/// Exclusive use of CPUs, until dropped.
#[derive(Debug)]
pub struct CpuLock(#[expect(dead_code, reason = "they are held, not read")] Vec<File>);

/// Claims CPUs for a measurement; all CPUs of this process if `cpus` is empty. `command` is shown
/// to other measurements that want one of them.
///
/// # Errors
/// [`StageError::Busy`] names the measurement that holds one of them; [`StageError::LockFolder`]
/// says why there is no folder for locks.
pub fn exclusive(cpus: &CpuSet, command: &str) -> Result<CpuLock, StageError> {
    let folder = lock_folder()?;
    let cpus = cpus_or_own(&folder, cpus)?;
    match try_claim_in_turn(&folder, &cpus, command, &mut None)? {
        Ok(exclusive) => Ok(exclusive),
        Err(holder) => Err(StageError::Busy { holder }),
    }
}

/// The same, but waits until the CPUs are free. `on_wait` is called once for each measurement that has
/// to be waited for.
///
/// # Errors
/// [`StageError::StoppedWaiting`] when `stop` is set; otherwise those of [`exclusive`], except
/// [`StageError::Busy`].
pub fn exclusive_when_free(
    cpus: &CpuSet,
    command: &str,
    stop: &AtomicBool,
    on_wait: &mut dyn FnMut(&Holder),
) -> Result<CpuLock, StageError> {
    let folder = lock_folder()?;
    let cpus = cpus_or_own(&folder, cpus)?;
    let (mut next, mut last) = (None, None::<Holder>);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(StageError::StoppedWaiting);
        }
        match try_claim_in_turn(&folder, &cpus, command, &mut next)? {
            Ok(exclusive) => return Ok(exclusive),
            // A process that has just taken the lock may not have described itself yet.
            Err(holder) if holder.pid.is_none() && last.is_none() => last = Some(holder),
            Err(holder) => {
                // One that waited before us now measures: it has been mentioned.
                if last.as_ref().is_none_or(|last| last.pid != holder.pid) {
                    on_wait(&holder);
                }
                last = Some(holder);
            }
        }
        thread::sleep(LOOK);
    }
}

/// Queues for these CPUs, unless `next` is already the lock of the first in line, and then claims them.
fn try_claim_in_turn(
    folder: &Path,
    cpus: &CpuSet,
    command: &str,
    next: &mut Option<File>,
) -> Result<Result<CpuLock, Holder>, StageError> {
    if next.is_none() {
        match try_lock(&folder.join(format!("next-{cpus}.lock")))? {
            Ok(mut file) => {
                // As below: the description is informative.
                let _ = describe(&mut file, command);
                *next = Some(file);
            }
            Err(holder) => return Ok(Err(holder)),
        }
    }
    let claimed = try_claim(folder, cpus, command)?;
    if claimed.is_ok() {
        *next = None;
    }
    Ok(claimed)
}

/// Takes the locks of all CPUs, in ascending order, or none, so that a waiting measurement does not
/// block idle CPUs.
fn try_claim(
    folder: &Path,
    cpus: &CpuSet,
    command: &str,
) -> Result<Result<CpuLock, Holder>, StageError> {
    let mut locks = Vec::new();
    for cpu in cpus.iter() {
        match try_lock(&folder.join(format!("cpu-{cpu}.lock")))? {
            Ok(file) => locks.push(file),
            Err(holder) => return Ok(Err(holder)),
        }
    }
    for lock in &mut locks {
        // The description is informative; the lock works without it.
        let _ = describe(lock, command);
    }
    Ok(Ok(CpuLock(locks)))
}

/// Takes one lock, or returns its holder.
fn try_lock(path: &Path) -> Result<Result<File, Holder>, StageError> {
    let mut file = open(path).map_err(StageError::file("cannot open the lock", path))?;
    match file.try_lock() {
        Ok(()) => Ok(Ok(file)),
        Err(TryLockError::WouldBlock) => Ok(Err(described(&mut file))),
        Err(TryLockError::Error(error)) => Err(StageError::file("cannot lock", path)(error)),
    }
}

/// The CPUs to claim: all of this process if `cpus` is empty.
fn cpus_or_own(folder: &Path, cpus: &CpuSet) -> Result<CpuSet, StageError> {
    if cpus.is_empty() { own_cpus(folder) } else { Ok(cpus.clone()) }
}

fn own_cpus(folder: &Path) -> Result<CpuSet, StageError> {
    let set = rustix::thread::sched_getaffinity(None).map_err(|errno| {
        StageError::file("cannot determine which CPUs to lock in", folder)(errno.into())
    })?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// The folder of this user's locks, created if it is missing.
///
/// # Errors
/// [`StageError::LockFolder`] says why there is none.
pub fn lock_folder() -> Result<PathBuf, StageError> {
    let given = env::var_os(LOCK_DIR_VARIABLE).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let dir = given.unwrap_or_else(|| folder_of(rustix::process::geteuid().as_raw()));
    own_folder(&dir).map(|()| dir)
}

/// The same folder for every session of a user. `/run/user/UID` exists only while the user is logged
/// in, so a measurement of `cron` and one of a terminal would not see each other there; `TMPDIR`
/// also differs from session to session.
fn folder_of(user: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/tachograph-{user}"))
}

/// Creates the folder if it is missing; refuses one that others could have prepared.
fn own_folder(dir: &Path) -> Result<(), StageError> {
    let refused = |why: String| StageError::LockFolder { path: dir.to_owned(), why };
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(refused(error.to_string())),
    }
    is_own(dir).map_err(refused)
}

/// Checks for a folder of this user, not a symbolic link, that only this user can write to.
fn is_own(dir: &Path) -> Result<(), String> {
    let meta = fs::symlink_metadata(dir).map_err(|error| error.to_string())?;
    if !meta.is_dir() {
        return Err("it is not a folder".to_owned());
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err("it belongs to another user".to_owned());
    }
    if meta.mode() & 0o022 != 0 {
        return Err("other users can write to it".to_owned());
    }
    Ok(())
}

fn open(path: &Path) -> io::Result<File> {
    const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(NO_FOLLOW).open(path)
}

fn describe(file: &mut File, command: &str) -> io::Result<()> {
    let now = base::timestamp_now().strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut command: String = command.chars().take(COMMAND_MAX).map(plain).collect();
    if command.chars().count() == COMMAND_MAX {
        command.push('…');
    }
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    write!(file, "{}\n{now}\n{command}\n", std::process::id())
}

/// The description written by the holder of a lock. A description left by a process that has ended
/// is ignored.
fn described(file: &mut File) -> Holder {
    let mut text = String::new();
    // An unreadable description leaves all fields unknown.
    let _ = file.take(4096).read_to_string(&mut text);
    let mut lines = text.lines().map(str::trim);
    let pid: Option<u32> = lines.next().and_then(|line| line.parse().ok());
    let Some(pid) = pid.filter(|pid| Path::new(&format!("/proc/{pid}")).exists()) else {
        return Holder::default();
    };
    let mut word = || lines.next().map(str::to_owned).filter(|line| !line.is_empty());
    Holder { pid: Some(pid), since: word(), command: word() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    fn claim(dir: &Path, list: &str) -> Result<CpuLock, Holder> {
        let cpus = cpus_or_own(dir, &cpus(list)).unwrap();
        try_claim_in_turn(dir, &cpus, "tachograph run mine", &mut None).unwrap()
    }

    #[test]
    fn a_measurement_of_cron_and_one_of_a_login_session_did_not_see_each_other() {
        // Whatever folders and variables a session has, such as /run/user/0 for root.
        assert_eq!(folder_of(0), Path::new("/tmp/tachograph-0"));
        assert_eq!(folder_of(1000), Path::new("/tmp/tachograph-1000"));
    }

    #[test]
    fn the_second_learns_who_was_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = claim(dir.path(), "0").unwrap();
        let holder = claim(dir.path(), "0").unwrap_err();
        assert_eq!(holder.pid, Some(std::process::id()));
        let text = StageError::Busy { holder }.to_string();
        let start = format!(
            "another tachograph is measuring on this machine (pid {}, since 2",
            std::process::id()
        );
        assert!(text.starts_with(&start), "{text}");
        assert!(
            text.ends_with(
                " UTC: tachograph run mine); two at once would disturb each other. Omit --no-wait \
                 to wait for it, or give each its own CPUs with --cpus"
            ),
            "{text}"
        );
        drop(first);
        claim(dir.path(), "0").unwrap();
    }

    #[test]
    fn measurements_one_after_the_other_kept_a_waiting_one_out() {
        let dir = tempfile::tempdir().unwrap();
        let (zero, mut next) = (cpus("0"), None);
        let measuring = claim(dir.path(), "0").unwrap();
        let wait = |next: &mut _| try_claim_in_turn(dir.path(), &zero, "tachograph wait", next);
        assert!(wait(&mut next).unwrap().is_err());
        drop(measuring);
        // The script's next measurement comes before the waiting one looks again.
        let holder = claim(dir.path(), "0").unwrap_err();
        assert_eq!(holder.command.as_deref(), Some("tachograph wait"));
        wait(&mut next).unwrap().unwrap();
    }

    #[test]
    fn disjoint_cpus_are_measured_on_side_by_side() {
        let dir = tempfile::tempdir().unwrap();
        let _first = claim(dir.path(), "0-1").unwrap();
        let _second = claim(dir.path(), "2,5").unwrap();
        assert!(claim(dir.path(), "1-2").is_err());
    }

    #[test]
    fn waiting_for_one_cpu_does_not_block_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let _first = claim(dir.path(), "1").unwrap();
        assert!(claim(dir.path(), "0-1").is_err());
        claim(dir.path(), "0").unwrap();
    }

    #[test]
    fn without_a_list_all_cpus_are_claimed() {
        let dir = tempfile::tempdir().unwrap();
        let _all = claim(dir.path(), "").unwrap();
        let own = own_cpus(dir.path()).unwrap();
        assert!(!own.is_empty());
        for cpu in own.iter() {
            assert!(claim(dir.path(), &cpu.to_string()).is_err(), "{cpu}");
        }
    }

    #[test]
    fn a_description_by_a_dead_process_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let _held = claim(dir.path(), "0").unwrap();
        // No pid is that large (proc(5), pid_max).
        fs::write(dir.path().join("cpu-0.lock"), "4294967295\n2020\nold\n").unwrap();
        assert_eq!(claim(dir.path(), "0").unwrap_err(), Holder::default());
    }

    #[test]
    fn a_folder_that_others_could_have_prepared_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let open_to_all = dir.path().join("open");
        fs::create_dir(&open_to_all).unwrap();
        fs::set_permissions(&open_to_all, fs::Permissions::from_mode(0o777)).unwrap();
        let (linked, target) = (dir.path().join("linked"), dir.path().join("target"));
        fs::create_dir(&target).unwrap();
        symlink(&target, &linked).unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "precious").unwrap();
        for (path, why) in [
            (&open_to_all, "other users can write to it"),
            (&linked, "it is not a folder"),
            (&file, "it is not a folder"),
        ] {
            assert_eq!(
                own_folder(path).unwrap_err().to_string(),
                format!(
                    "the folder {} cannot be used for CPU locks: {why}. Remove it, or set \
                     TACHOGRAPH_LOCK_DIR to a folder of your own",
                    path.display()
                )
            );
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    }

    #[test]
    fn a_link_in_place_of_a_lock_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, dir.path().join("cpu-0.lock")).unwrap();
        assert!(try_claim(dir.path(), &cpus("0"), "x").is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_long_command_is_shortened_and_stays_on_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let command = format!("a\nb{}", "x".repeat(1000));
        let _held = try_claim(dir.path(), &cpus("0"), &command).unwrap().unwrap();
        let shown = claim(dir.path(), "0").unwrap_err().command.unwrap();
        assert_eq!(shown, format!("a b{}…", "x".repeat(COMMAND_MAX - 3)));
    }
}
