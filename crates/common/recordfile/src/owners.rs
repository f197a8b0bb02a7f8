//! Paths through folders in which every user can create files.
//!
//! In a folder such as `/tmp`, which is world-writable and sticky, another user can create an entry
//! under the name that we are about to use. Only its owner and the folder's can remove it, so an
//! entry is as trustworthy as its owner. This is the rule of the kernel's `fs.protected_symlinks`
//! and `fs.protected_regular` (proc_sys_fs(5)), which many systems have switched off. In a
//! world-writable folder that is not sticky, entries of others are refused too; that they replace
//! ours later cannot be prevented there.
//!
//! Refusing all symbolic links (`O_NOFOLLOW`) would also refuse the user's own, such as `/data` →
//! `/mnt/data`. The owner of each entry is checked before a file is created and again afterwards:
//! no other user can replace an entry that belongs to this one.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::process::geteuid;

/// Permission of a folder in which every user can create files.
const WORLD_WRITABLE: u32 = 0o002;

/// Links that a path may contain, as in the kernel (path_resolution(7)).
const LINKS_MAX: u32 = 40;

/// A part of a path belongs to another user, who could redirect or read what is written there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is a {kind} of another user (uid {owner}), in a folder where everyone can create files: \
     remove it, or choose a path in a folder of your own",
    .path.display()
)]
pub struct ForeignPath {
    path: PathBuf,
    kind: &'static str,
    owner: u32,
}

/// Refuses a path with links, folders or files that another user has created in a world-writable
/// folder. What does not exist, or cannot be looked at, is accepted: opening it will
/// tell.
///
/// # Errors
/// [`ForeignPath`].
pub fn refuse_foreign(path: &Path) -> Result<(), ForeignPath> {
    look(path, &|_| true)
}

/// Refuses a path with symbolic links of other users in a world-writable folder; enough for a file
/// that is only read.
///
/// # Errors
/// [`ForeignPath`].
pub fn refuse_foreign_links(path: &Path) -> Result<(), ForeignPath> {
    look(path, &|found| found.is_symlink())
}

fn look(path: &Path, matters: &dyn Fn(&fs::Metadata) -> bool) -> Result<(), ForeignPath> {
    let Ok(path) = std::path::absolute(path) else { return Ok(()) };
    let mut ahead: VecDeque<OsString> = parts(&path).collect();
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = ahead.pop_front() {
        if part == ".." {
            at.pop();
            continue;
        }
        let entry = at.join(&part);
        let (Ok(folder), Ok(found)) = (fs::metadata(&at), fs::symlink_metadata(&entry)) else {
            return Ok(());
        };
        let is_shared = folder.mode() & WORLD_WRITABLE != 0;
        let is_ours = [geteuid().as_raw(), folder.uid()].contains(&found.uid());
        if is_shared && !is_ours && matters(&found) {
            let kind = match found.file_type() {
                kind if kind.is_symlink() => "symbolic link",
                kind if kind.is_dir() => "folder",
                _ => "file",
            };
            return Err(ForeignPath { path: entry, kind, owner: found.uid() });
        }
        if !found.is_symlink() {
            at = entry;
            continue;
        }
        links += 1;
        let Some(target) = fs::read_link(&entry).ok().filter(|_| links <= LINKS_MAX) else {
            return Ok(());
        };
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
            ahead.push_front(part);
        }
    }
    Ok(())
}

/// The names in a path, and `..`.
fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};

    use super::*;

    const OTHER: u32 = 65_534;

    #[test]
    fn only_what_others_created_in_a_shared_folder_is_refused() {
        if !geteuid().is_root() {
            // Only root can give files to another user.
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["shared", "private", "loose", "shared/theirs", "shared/ours"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::set_permissions(at("shared"), fs::Permissions::from_mode(0o1777)).unwrap();
        fs::set_permissions(at("loose"), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(at("shared/file"), "").unwrap();
        for (link, target) in [
            ("shared/link", "../private"),
            ("private/link", "../shared"),
            ("shared/own", "../private"),
            ("private/round", "round"),
            ("loose/link", "../private"),
            ("loose/own", "../private"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        for name in ["shared/theirs", "shared/file", "shared/link", "private/link", "loose/link"] {
            lchown(at(name), Some(OTHER), Some(OTHER)).unwrap();
        }
        let refused = |path: PathBuf| refuse_foreign(&path).err().map(|foreign| foreign.path);
        for (path, wanted) in [
            ("shared/link/x", Some("shared/link")),
            ("shared/link", Some("shared/link")),
            ("private/link/file", Some("shared/file")),
            ("private/link/../shared/theirs/x", Some("shared/theirs")),
            ("shared/theirs/x", Some("shared/theirs")),
            ("private/link/ours/x", None),
            ("shared/own/x", None),
            ("shared/new", None),
            ("private/round", None),
            ("loose/link/x", Some("loose/link")),
            ("loose/own/x", None),
        ] {
            assert_eq!(refused(at(path)), wanted.map(at), "{path}");
        }
        assert!(refuse_foreign_links(&at("shared/file")).is_ok());
        let link = at("shared/link");
        assert_eq!(
            refuse_foreign_links(&link).unwrap_err().to_string(),
            format!(
                "{} is a symbolic link of another user (uid {OTHER}), in a folder where everyone \
                 can create files: remove it, or choose a path in a folder of your own",
                link.display()
            )
        );
    }
}
