//! Creation and use of the ring, or the reason why it is not available.

use std::io;

use base::{Nanos, monotonic_now};
use io_uring::IoUring;
use io_uring::squeue::Entry;
use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use rustix::io::Errno;

/// Why io_uring is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoUring {
    /// A seccomp filter or a sysctl forbids it.
    #[error(
        "io_uring is forbidden, usually by a container's seccomp filter or by \
         kernel.io_uring_disabled; use --engine epoll"
    )]
    Forbidden,
    /// The kernel was built without it, or is emulated.
    #[error("this kernel has no io_uring; use --engine epoll")]
    Missing,
    /// The kernel's io_uring lacks features that the engine needs.
    #[error(
        "this kernel's io_uring is too old: Linux 6.1 is required (deferred task work, multishot \
         receive); use --engine epoll"
    )]
    TooOld,
    /// There is not enough memory.
    #[error(
        "not enough memory for io_uring: raise the limit of locked memory ('ulimit -l') or of the \
         cgroup, or use --engine epoll"
    )]
    Memory,
    /// Anything else.
    #[error("io_uring failed ({0}); use --engine epoll")]
    Other(String),
}

impl From<io::Error> for NoUring {
    fn from(error: io::Error) -> NoUring {
        match Errno::from_io_error(&error) {
            Some(Errno::PERM | Errno::ACCESS) => NoUring::Forbidden,
            Some(Errno::NOSYS) => NoUring::Missing,
            Some(Errno::INVAL) => NoUring::TooOld,
            Some(Errno::NOMEM) => NoUring::Memory,
            _ => NoUring::Other(error.to_string()),
        }
    }
}

/// One completion, copied out of the ring.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Completion {
    pub(super) token: u64,
    pub(super) result: i32,
    pub(super) flags: u32,
}

/// Submissions and completions of one thread.
pub(super) struct Ring {
    ring: IoUring,
}

impl Ring {
    /// A ring for about this many concurrent requests.
    ///
    /// Only the creating thread may use it. Completions are posted only when that thread asks for
    /// them (deferred task work), and a flag in shared memory shows whether asking is worthwhile,
    /// so no interrupt ever disturbs the loop.
    pub(super) fn new(requests: usize) -> io::Result<Ring> {
        let entries = requests.clamp(64, 1024).next_power_of_two() as u32;
        // If the queue is full, the kernel keeps further completions, at a cost.
        let completions = (2 * requests).clamp(256, 32_768).next_power_of_two() as u32;
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_cqsize(completions)
            .setup_clamp()
            .build(entries)?;
        let params = ring.params();
        if !params.is_feature_ext_arg() || !params.is_feature_nodrop() {
            return Err(Errno::INVAL.into());
        }
        Ok(Ring { ring })
    }

    pub(super) fn io_uring(&self) -> &IoUring {
        &self.ring
    }

    /// Queues one request; it is submitted with the next enter.
    ///
    /// The caller guarantees that the memory in the entry lives until the ring is gone.
    #[allow(unsafe_code)]
    pub(super) fn push(&mut self, entry: &Entry) -> io::Result<()> {
        if self.ring.submission().is_full() {
            passable(self.ring.submit())?;
        }
        // SAFETY: the only memory that an engine's entries point to is its message, which it owns
        // and keeps until after the ring is dropped; received bytes go to the registered buffers.
        unsafe { self.ring.submission().push(entry) }
            .map_err(|_| io::Error::other("io_uring's submission queue is stuck"))
    }

    /// Submits what is queued, and waits for a completion, at most for `timeout`.
    pub(super) fn enter(&mut self, timeout: Nanos, busy_poll: bool) -> io::Result<()> {
        let wait = timeout > Nanos::ZERO && self.ring.completion().is_empty();
        if !wait {
            return self.hand_over();
        }
        if busy_poll {
            return self.spin(timeout);
        }
        let limit =
            Timespec::new().sec(timeout.0 / 1_000_000_000).nsec((timeout.0 % 1_000_000_000) as u32);
        let outcome =
            self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&limit));
        passable(outcome)
    }

    /// Submits what is queued and collects completions, if there is either.
    fn hand_over(&mut self) -> io::Result<()> {
        let queue = self.ring.submission();
        if queue.is_empty() && !queue.taskrun() && !queue.cq_overflow() {
            return Ok(());
        }
        drop(queue);
        passable(self.ring.submit())
    }

    /// Polls shared memory until something is there: no system call, no wakeup.
    fn spin(&mut self, timeout: Nanos) -> io::Result<()> {
        let until = monotonic_now() + timeout;
        loop {
            self.hand_over()?;
            if !self.ring.completion().is_empty() || monotonic_now() >= until {
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }

    /// Copies completions to `space`; returns their number.
    pub(super) fn take(&mut self, space: &mut [Completion]) -> usize {
        let mut n = 0;
        for (place, entry) in space.iter_mut().zip(self.ring.completion()) {
            *place = Completion {
                token: entry.user_data(),
                result: entry.result(),
                flags: entry.flags(),
            };
            n += 1;
        }
        n
    }

    /// Cancels every request, so that the kernel no longer touches our memory; false if that fails.
    pub(super) fn quiesce(&mut self) -> bool {
        if passable(self.ring.submit()).is_err() {
            return false;
        }
        // Matching any request means all of them, and finding none is also a success
        // (io_uring_register_sync_cancel(3)). Waits for one that is about to run.
        let limit = Some(Timespec::new().sec(1));
        match self.ring.submitter().register_sync_cancel(limit, CancelBuilder::any()) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

/// Errors that merely end a wait.
fn passable(outcome: io::Result<usize>) -> io::Result<()> {
    match outcome {
        Ok(_) => Ok(()),
        Err(error) => match Errno::from_io_error(&error) {
            // Timed out; interrupted; completions have to be taken first.
            Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            _ => Err(error),
        },
    }
}
