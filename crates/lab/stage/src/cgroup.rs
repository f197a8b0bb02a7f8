//! A control group per stack, which counts the CPU time of every process that was ever in it,
//! including processes that were never waited for.
//!
//! The group is a child of tachograph's own group, so existing limits still apply. Nothing else on
//! the machine is changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use base::Nanos;
use serde::{Deserialize, Serialize};

use crate::accounting::Accounting;

/// Prefix of every group's name.
pub(crate) const CGROUP_PREFIX: &str = "tachograph-";

/// Which of the kernel's two interfaces a group uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Version {
    /// The `cpuacct` hierarchy.
    V1,
    /// The unified hierarchy.
    V2,
}

/// A control group that we created.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cgroup {
    pub(crate) version: Version,
    pub(crate) dir: PathBuf,
}

impl Cgroup {
    /// Creates a group and tests with this process that processes can be moved into it.
    ///
    /// `None` if the machine does not permit it; CPU time is then summed over the process tree.
    /// `announce` is called with a folder before it is created.
    pub(crate) fn create(
        accounting: Accounting,
        name: &str,
        announce: &dyn Fn(&Path),
    ) -> Option<Cgroup> {
        let versions: &[Version] = match accounting {
            Accounting::Automatic => &[Version::V2, Version::V1],
            Accounting::CgroupV2 => &[Version::V2],
            Accounting::CgroupV1 => &[Version::V1],
            Accounting::ProcessTree => &[],
        };
        versions.iter().find_map(|version| Cgroup::create_as(*version, name, announce))
    }

    fn create_as(version: Version, name: &str, announce: &dyn Fn(&Path)) -> Option<Cgroup> {
        let parent = own_group(version)?;
        let group = Cgroup { version, dir: parent.join(name) };
        announce(&group.dir);
        fs::create_dir(&group.dir).ok()?;
        let usable = join(&group.dir).is_ok() && join(&parent).is_ok() && group.cpu().is_ok();
        if !usable {
            group.remove();
            return None;
        }
        Some(group)
    }

    /// CPU time of all processes that were ever in the group.
    pub(crate) fn cpu(&self) -> io::Result<Nanos> {
        let number = |text: &str| {
            text.trim().parse::<u64>().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
        };
        match self.version {
            Version::V1 => {
                let text = fs::read_to_string(self.dir.join("cpuacct.usage"))?;
                Ok(Nanos(number(&text)?))
            }
            Version::V2 => {
                let text = fs::read_to_string(self.dir.join("cpu.stat"))?;
                let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
                Ok(Nanos::from_micros(number(line.unwrap_or_default())?))
            }
        }
    }

    /// The processes in the group.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    }

    /// Kills all processes in the group at once, where the kernel supports it (5.14 and later).
    pub(crate) fn kill(&self) {
        if self.version == Version::V2 {
            // On kernels without the file, the caller kills the processes one by one.
            let _ = fs::write(self.dir.join("cgroup.kill"), "1");
        }
    }

    /// Removes the group; a process that has just ended may delay this briefly.
    pub(crate) fn remove(&self) -> bool {
        for _ in 0..50 {
            match fs::remove_dir(&self.dir) {
                Ok(()) => return true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
        false
    }
}

/// Moves the calling process into a group.
pub(crate) fn join(dir: &Path) -> io::Result<()> {
    // Opened without creating: if this folder is not a group, the write must fail.
    use std::io::Write;
    fs::OpenOptions::new().write(true).open(dir.join("cgroup.procs"))?.write_all(b"0")
}

/// Moves another process into those of the calling process's groups that are ours.
pub(crate) fn adopt(pid: i32) -> io::Result<()> {
    use std::io::Write;
    for version in [Version::V2, Version::V1] {
        let ours = own_group(version).filter(|dir| {
            dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(CGROUP_PREFIX))
        });
        if let Some(dir) = ours {
            let mut file = fs::OpenOptions::new().write(true).open(dir.join("cgroup.procs"))?;
            file.write_all(pid.to_string().as_bytes())?;
        }
    }
    Ok(())
}

/// How often a CPU quota has throttled tachograph's groups, up to the outermost visible one, since
/// they were created; only increases matter. A stack runs below these groups, so it is throttled
/// with them. `None` if no group counts it.
///
/// The groups are looked up once; after that a call reads one short file per group.
pub fn throttled() -> Option<u64> {
    static FILES: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let counts: Vec<u64> = FILES
        .get_or_init(throttling_files)
        .iter()
        .filter_map(|file| nr_throttled(&fs::read_to_string(file).ok()?))
        .collect();
    (!counts.is_empty())
        .then(|| counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count)))
}

fn throttling_files() -> Vec<PathBuf> {
    let found = mounts().zip(fs::read_to_string("/proc/self/cgroup").ok());
    let group = found.and_then(|(mounts, groups)| {
        ["cpu", ""].iter().find_map(|controller| {
            let (dir, mount) = locate(&mounts, &groups, controller)?;
            dir.join("cpu.stat").exists().then_some((dir, mount))
        })
    });
    let Some((dir, top)) = group else { return Vec::new() };
    dir.ancestors()
        .take_while(|ancestor| ancestor.starts_with(&top))
        .map(|ancestor| ancestor.join("cpu.stat"))
        .filter(|file| fs::read_to_string(file).is_ok_and(|text| nr_throttled(&text).is_some()))
        .collect()
}

fn nr_throttled(cpu_stat: &str) -> Option<u64> {
    cpu_stat.lines().find_map(|line| line.strip_prefix("nr_throttled "))?.trim().parse().ok()
}

/// The folder of this process's group.
fn own_group(version: Version) -> Option<PathBuf> {
    let controller = match version {
        Version::V1 => "cpuacct",
        Version::V2 => "",
    };
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    Some(locate(&mounts()?, &groups, controller)?.0)
}

fn mounts() -> Option<String> {
    fs::read_to_string("/proc/self/mountinfo").ok()
}

/// Finds this process's folder in a hierarchy, and the hierarchy's mount point.
///
/// `groups` is `/proc/self/cgroup` (cgroups(7)): `ID:CONTROLLERS:PATH`, without controllers for the
/// unified hierarchy. `mounts` is mountinfo (proc_pid_mountinfo(5)). An empty controller means the
/// unified hierarchy.
fn locate(mounts: &str, groups: &str, controller: &str) -> Option<(PathBuf, PathBuf)> {
    let path = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let found = match controller {
            "" => id == "0" && controllers.is_empty(),
            name => controllers.split(',').any(|one| one == name),
        };
        found.then_some(path)
    })?;
    let (root, mount) = mounts.lines().find_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        let mut back = back.split(' ');
        let (kind, options) = (back.next()?, back.nth(1)?);
        let found = match controller {
            "" => kind == "cgroup2",
            name => kind == "cgroup" && options.split(',').any(|one| one == name),
        };
        let mut front = front.split(' ').skip(3);
        found.then_some((front.next()?, front.next()?))
    })?;
    let below = Path::new(path).strip_prefix(root).ok()?;
    Some((Path::new(mount).join(below), PathBuf::from(mount)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /box /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
";
    const GROUPS: &str = "4:memory:/box/a\n2:cpu,cpuacct:/user:1\n0::/user.slice/x.scope\n";

    #[test]
    fn groups_are_found_in_both_hierarchies() {
        for (controller, dir) in [
            ("cpuacct", "/sys/fs/cgroup/cpu,cpuacct/user:1"),
            ("memory", "/sys/fs/cgroup/memory/a"),
            ("", "/sys/fs/cgroup/unified/user.slice/x.scope"),
        ] {
            assert_eq!(locate(MOUNTS, GROUPS, controller).unwrap().0, Path::new(dir));
        }
        assert_eq!(locate(MOUNTS, GROUPS, "pids"), None);
        assert_eq!(locate("", GROUPS, ""), None);
    }

    #[test]
    fn a_group_outside_of_what_is_mounted_is_not_guessed() {
        assert_eq!(locate(MOUNTS, "4:memory:/elsewhere\n", "memory"), None);
    }
}
