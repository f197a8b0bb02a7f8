//! What servers that drop root's rights can read, whatever the umask of root's shell.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::Mode;
use rustix::process::{geteuid, umask};

/// Lets everybody read a folder and what is in it.
pub(crate) fn share_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => share_all(&entry.path())?,
            kind if kind.is_file() => share(&entry.path())?,
            _ => {}
        }
    }
    share(folder)
}

/// Gives everybody the owner's right to read, and to execute or to enter.
pub(crate) fn share(path: &Path) -> io::Result<()> {
    let mut permissions = fs::metadata(path)?.permissions();
    let mode = permissions.mode();
    let wanted = mode | (mode & 0o500) >> 3 | (mode & 0o500) >> 6;
    if wanted == mode {
        return Ok(());
    }
    permissions.set_mode(wanted);
    fs::set_permissions(path, permissions)
}

/// Lets everybody read what this process and its children will create, if it is root's.
pub(crate) fn share_new_files() {
    if geteuid().is_root() {
        let before = umask(Mode::empty());
        umask(before & (Mode::RWXU | Mode::WGRP | Mode::WOTH));
    }
}
