//! The ring itself: made as the engine needs it, or a reason why it cannot be had.

use std::io;

use base::{Clock, MonotonicClock, Nanos};
use io_uring::IoUring;
use io_uring::squeue::Entry;
use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use rustix::io::Errno;

/// Why io_uring cannot be used here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoUring {
    /// A seccomp filter or a sysctl forbids it.
    #[error(
        "io_uring is forbidden, usually by a container's seccomp filter or by \
         kernel.io_uring_disabled; use --engine epoll"
    )]
    Forbidden,
    /// The kernel was built without it, or something stands in for the kernel.
    #[error("this kernel has no io_uring; use --engine epoll")]
    Missing,
    /// The kernel knows io_uring, but not all that the engine needs.
    #[error(
        "this kernel's io_uring is too old: Linux 6.1 is required (deferred task work, multishot \
         receive); use --engine epoll"
    )]
    TooOld,
    /// The kernel gives too little memory.
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
    /// A ring for about this many requests at once.
    ///
    /// Only the thread that makes it may use it. Completions are posted only
    /// while that thread asks for them (deferred task work), and a flag in
    /// shared memory tells that asking is worth it, so that no interrupt ever
    /// disturbs the loop.
    pub(super) fn new(requests: usize) -> io::Result<Ring> {
        let entries = requests.clamp(64, 1024).next_power_of_two() as u32;
        // A completion that finds the queue full is kept by the kernel, at a cost.
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

    /// Queues one request; it reaches the kernel with the next enter.
    ///
    /// The caller vouches that whatever memory the entry points to lives until the ring is gone.
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

    /// Hands over what was queued, and waits for a completion, at most `timeout`.
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

    /// Hands over what was queued, and collects what is complete, if there is either.
    fn hand_over(&mut self) -> io::Result<()> {
        let queue = self.ring.submission();
        if queue.is_empty() && !queue.taskrun() && !queue.cq_overflow() {
            return Ok(());
        }
        drop(queue);
        passable(self.ring.submit())
    }

    /// Looks at shared memory until something is there: no system call, and nobody has to wake us.
    fn spin(&mut self, timeout: Nanos) -> io::Result<()> {
        let until = MonotonicClock.now() + timeout;
        loop {
            self.hand_over()?;
            if !self.ring.completion().is_empty() || MonotonicClock.now() >= until {
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }

    /// Copies completions to `space`; how many there were.
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

    /// Cancels every request, so that the kernel touches none of our memory any
    /// more; false if it cannot be had to.
    pub(super) fn quiesce(&mut self) -> bool {
        if passable(self.ring.submit()).is_err() {
            return false;
        }
        // Matching any request means all of them, and finding none is a success, too
        // (io_uring_register_sync_cancel(3)). One that is about to run is waited for.
        let limit = Some(Timespec::new().sec(1));
        match self.ring.submitter().register_sync_cancel(limit, CancelBuilder::any()) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

/// What ends a wait without being an error.
fn passable(outcome: io::Result<usize>) -> io::Result<()> {
    match outcome {
        Ok(_) => Ok(()),
        Err(error) => match Errno::from_io_error(&error) {
            // The time is over; a signal; completions have to be taken first.
            Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            _ => Err(error),
        },
    }
}
