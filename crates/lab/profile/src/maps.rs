//! What a process has mapped: which file an address of its code lies in.

use std::path::{Path, PathBuf};

use procfs_core::FromRead;
use procfs_core::process::{MMPermissions, MMapPath, MemoryMaps};

/// The name of the library that the kernel maps into every process (vdso(7)). It is no file.
pub(crate) const VDSO: &str = "[vdso]";

/// The image of that library, which is the same in every process: from this one.
pub(crate) fn vdso() -> Option<Vec<u8>> {
    use std::os::unix::fs::FileExt as _;
    let me = ProcessMaps::of(std::process::id());
    let mapping = me.all().find(|mapping| mapping.path == Path::new(VDSO))?;
    let mut image = vec![0; usize::try_from(mapping.end - mapping.start).ok()?];
    std::fs::File::open("/proc/self/mem").ok()?.read_exact_at(&mut image, mapping.start).ok()?;
    Some(image)
}

/// Device and inode, by which the same file is known in all processes.
pub(crate) type FileId = (i32, i32, u64);

/// A piece of executable memory that is mapped from a file.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The place of its first byte in the file.
    pub(crate) offset: u64,
    pub(crate) file: FileId,
    /// As the process names it.
    pub(crate) path: PathBuf,
}

impl Mapping {
    /// The place in the file of an address in it.
    pub(crate) fn offset_of(&self, address: u64) -> u64 {
        address - self.start + self.offset
    }

    /// The file, seen from here, even if it was removed or is in a container.
    pub(crate) fn seen_from_here(&self, pid: u32) -> PathBuf {
        let exact = PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end));
        // Only with the capability CAP_CHECKPOINT_RESTORE.
        if std::fs::File::open(&exact).is_ok() {
            return exact;
        }
        let below = self.path.strip_prefix("/").unwrap_or(&self.path);
        Path::new("/proc").join(pid.to_string()).join("root").join(below)
    }
}

/// The executable mappings of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessMaps {
    mappings: Vec<Mapping>,
    /// The program.
    pub(crate) program: Option<PathBuf>,
}

impl ProcessMaps {
    /// Those of a process; none if it has ended.
    pub(crate) fn of(pid: u32) -> ProcessMaps {
        let Ok(maps) = MemoryMaps::from_file(format!("/proc/{pid}/maps")) else {
            return ProcessMaps::default();
        };
        let mapping = |map: procfs_core::process::MemoryMap| {
            let path = match map.pathname {
                MMapPath::Path(path) => path,
                MMapPath::Vdso => PathBuf::from(VDSO),
                _ => return None,
            };
            map.perms.contains(MMPermissions::EXECUTE).then_some(Mapping {
                start: map.address.0,
                end: map.address.1,
                offset: map.offset,
                file: (map.dev.0, map.dev.1, map.inode),
                path,
            })
        };
        ProcessMaps {
            mappings: maps.0.into_iter().filter_map(mapping).collect(),
            program: std::fs::read_link(format!("/proc/{pid}/exe")).ok(),
        }
    }

    /// The mapping that an address lies in. The kernel lists them in ascending order (proc_pid_maps(5)).
    pub(crate) fn find(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        self.mappings[..after].last().filter(|mapping| address < mapping.end)
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Mapping> {
        self.mappings.iter()
    }

    /// Whether nothing is known, because the process has ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.mappings.is_empty()
    }
}

/// Whether a file is CPython.
pub(crate) fn is_cpython(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("python3") || name.starts_with("libpython3")
}

/// Where a process has executable memory that is mapped from no file: code that it generated.
pub(crate) fn generated(pid: u32) -> Vec<(u64, u64)> {
    let Ok(maps) = MemoryMaps::from_file(format!("/proc/{pid}/maps")) else { return Vec::new() };
    let is_code = |map: &procfs_core::process::MemoryMap| {
        map.perms.contains(MMPermissions::EXECUTE) && matches!(map.pathname, MMapPath::Anonymous)
    };
    maps.0.into_iter().filter(is_code).map(|map| map.address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_code_lies_in_our_own_program() {
        let maps = ProcessMaps::of(std::process::id());
        let here = our_own_code_lies_in_our_own_program as fn() as usize as u64;
        let mapping = maps.find(here).unwrap();
        assert_eq!(Some(&mapping.path), maps.program.as_ref());
        assert!(mapping.seen_from_here(std::process::id()).exists());
        assert!(maps.find(1).is_none());
        assert!(ProcessMaps::of(u32::MAX).is_empty());
        assert!(vdso().unwrap().starts_with(b"\x7fELF"));
    }
}
