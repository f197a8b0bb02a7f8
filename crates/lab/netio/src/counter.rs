//! A counter in a file that other processes can read at any time.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A 64-bit count in the first 8 bytes of a file (little-endian), mapped into memory.
///
/// Adding costs one store and no system call; the file keeps the value even if the process is
/// killed. One process writes, any number read.
#[derive(Debug)]
pub struct SharedCounter {
    value: NonNull<AtomicU64>,
}

const BYTES: usize = size_of::<AtomicU64>();

#[allow(unsafe_code)]
// SAFETY: the mapping is shared memory reached only through an atomic; it is
// unmapped once, when the only owner is dropped.
unsafe impl Send for SharedCounter {}

impl SharedCounter {
    /// Creates the file, or empties it, with a count of zero.
    #[allow(unsafe_code)]
    pub fn create(path: &Path) -> io::Result<SharedCounter> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        file.set_len(BYTES as u64)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases
        // nothing in this process; the file has BYTES bytes.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )?
        };
        let value = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(SharedCounter { value })
    }

    /// Sets the count.
    pub fn set(&self, count: u64) {
        self.atomic().store(count.to_le(), Ordering::Release);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        u64::from_le(self.atomic().load(Ordering::Acquire))
    }

    /// Reads the count of another process at `path`.
    pub fn read(path: &Path) -> io::Result<u64> {
        let bytes = std::fs::read(path)?;
        let bytes = bytes.first_chunk::<BYTES>().ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(u64::from_le_bytes(*bytes))
    }

    #[allow(unsafe_code)]
    fn atomic(&self) -> &AtomicU64 {
        // SAFETY: the mapping is page-aligned, BYTES long, and lives as long as self.
        unsafe { self.value.as_ref() }
    }
}

impl Drop for SharedCounter {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: exactly the range that create() mapped, which nothing borrows any more. A failure
        // would only leave one page mapped.
        let _ = unsafe { munmap(self.value.as_ptr().cast(), BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_the_count_as_soon_as_it_is_set() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("served");
        let counter = SharedCounter::create(&path).unwrap();
        assert_eq!(SharedCounter::read(&path).unwrap(), 0);
        counter.set(0x0102_0304_0506_0708);
        assert_eq!(counter.get(), 0x0102_0304_0506_0708);
        assert_eq!(std::fs::read(&path).unwrap(), [8, 7, 6, 5, 4, 3, 2, 1]);
        drop(counter);
        assert_eq!(SharedCounter::read(&path).unwrap(), 0x0102_0304_0506_0708);
    }

    #[test]
    fn a_file_too_short_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("served");
        std::fs::write(&path, [1, 2, 3]).unwrap();
        assert_eq!(SharedCounter::read(&path).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
