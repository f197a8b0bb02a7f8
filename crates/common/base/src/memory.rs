//! The memory that the allocator holds.

/// Gives memory that was freed back to the system.
///
/// Of memory that was taken piece by piece, glibc keeps most until it is asked, so that a process
/// stays as large as it ever was. This takes some milliseconds per gigabyte. Other C libraries do
/// it by themselves; there this does nothing.
#[allow(unsafe_code)]
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number and no pointer, and may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
