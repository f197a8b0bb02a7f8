//! Receive buffers selected by the kernel: a provided buffer ring (io_uring_register_buf_ring(3)).

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The buffer group of an engine's only buffer ring.
pub(super) const GROUP: u16 = 0;

/// Anonymous memory, zeroed and page-aligned; it costs nothing until it is touched.
#[derive(Debug)]
struct Pages {
    start: NonNull<u8>,
    bytes: usize,
    leaked: bool,
}

impl Pages {
    #[allow(unsafe_code)]
    fn new(bytes: usize) -> io::Result<Pages> {
        // SAFETY: a fresh private mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Pages { start, bytes, leaked: false })
    }
}

impl Drop for Pages {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if self.leaked {
            return;
        }
        // SAFETY: exactly the range that new() mapped; its owner has ensured that the kernel does
        // not write there any more. A failure would only leave it mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Buffers of one size, each owned by the kernel (to fill) or by us (to read).
#[derive(Debug)]
pub(super) struct Buffers {
    ring: Pages,
    space: Pages,
    /// A power of two.
    count: u16,
    bytes_each: usize,
    /// Buffers handed to the kernel so far, modulo 2^16.
    tail: u16,
}

impl Buffers {
    /// `count` buffers, a power of two, all owned by the kernel. They are used once they are
    /// registered.
    pub(super) fn new(count: u16, bytes_each: usize) -> io::Result<Buffers> {
        debug_assert!(count.is_power_of_two());
        let mut buffers = Buffers {
            ring: Pages::new(usize::from(count) * size_of::<BufRingEntry>())?,
            space: Pages::new(usize::from(count) * bytes_each)?,
            count,
            bytes_each,
            tail: 0,
        };
        (0..count).for_each(|id| buffers.give_back(id));
        Ok(buffers)
    }

    /// Registers the buffers with the kernel.
    ///
    /// The caller must keep them until the ring and all its requests are gone.
    #[allow(unsafe_code)]
    pub(super) fn register(&self, ring: &IoUring) -> io::Result<()> {
        let address = self.ring.start.as_ptr() as u64;
        // SAFETY: the address is that of `count` zeroed entries, page-aligned, and both they and
        // the buffers that they name stay mapped until after the ring is dropped: Uring declares
        // its ring before its buffers, and waits for every request before dropping either.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, self.count, GROUP, 0) }
    }

    /// The first `bytes` bytes of a buffer that the kernel has filled.
    #[allow(unsafe_code)]
    pub(super) fn filled(&self, id: u16, bytes: usize) -> &[u8] {
        assert!(id < self.count && bytes <= self.bytes_each, "the kernel fills what it was given");
        // SAFETY: the range is inside the mapping (asserted), its memory is initialized (zeroed by
        // the kernel, then written), and the kernel writes to a buffer only while it owns it, which
        // begins with give_back(); that takes &mut self.
        unsafe {
            let start = self.space.start.as_ptr().add(usize::from(id) * self.bytes_each);
            std::slice::from_raw_parts(start, bytes)
        }
    }

    /// Never unmaps the memory, because the kernel may still use it.
    pub(super) fn leak(&mut self) {
        self.ring.leaked = true;
        self.space.leaked = true;
    }

    /// Returns a buffer to the kernel.
    #[allow(unsafe_code)]
    pub(super) fn give_back(&mut self, id: u16) {
        debug_assert!(id < self.count, "only what the kernel was given");
        let ring: *mut BufRingEntry = self.ring.start.as_ptr().cast();
        let at = usize::from(self.tail & (self.count - 1));
        let buffer = self.space.start.as_ptr() as u64 + (usize::from(id) * self.bytes_each) as u64;
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `at` is below `count`, so the entry is inside the mapping. The kernel reads
        // entries only before the tail, and this one is before it only after the store below. The
        // tail is in the reserved field of the first entry, which no setter touches, is aligned to
        // 2 bytes, and is only ever accessed as an atomic from this side.
        unsafe {
            let entry = &mut *ring.add(at);
            entry.set_addr(buffer);
            entry.set_len(self.bytes_each as u32);
            entry.set_bid(id);
            let tail: *const u16 = BufRingEntry::tail(ring);
            AtomicU16::from_ptr(tail.cast_mut()).store(self.tail, Ordering::Release);
        }
    }
}
