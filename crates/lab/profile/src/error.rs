//! Why nothing can be sampled.

use std::io;

/// Why a profile cannot be made, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The server is not known.
    #[error(
        "no process that listens at {0} can be seen; the server must be on this machine, and other \
         users' servers are seen by root only"
    )]
    NoServer(String),
    /// The kernel does not permit it.
    #[error(
        "the kernel does not permit profiles: kernel.perf_event_paranoid is {paranoid}, and sampling all \
         processes of a CPU needs 0 or less, or the capability CAP_PERFMON (as root: sysctl \
         kernel.perf_event_paranoid=0; in a container also --cap-add PERFMON)"
    )]
    Forbidden {
        /// The setting's value, or `unknown`.
        paranoid: String,
    },
    /// The system call does not exist, or a filter hides it.
    #[error(
        "perf_event_open is not available: the kernel was built without CONFIG_PERF_EVENTS, or a seccomp \
         filter forbids it (in a container: --security-opt seccomp=unconfined)"
    )]
    Unavailable,
    /// The rings do not fit into the memory that a user may lock.
    #[error(
        "the samples of CPU {cpu} need {bytes} of locked memory, more than a user without privileges may \
         have: set kernel.perf_event_paranoid to -1, or run as root or with CAP_IPC_LOCK"
    )]
    Locked {
        /// The CPU.
        cpu: usize,
        /// The size of its ring.
        bytes: base::Bytes,
    },
    /// Anything else.
    #[error("CPU {cpu} cannot be sampled: {error}")]
    Failed {
        /// The CPU.
        cpu: usize,
        /// The cause.
        error: io::Error,
    },
}

impl ProfileError {
    /// The cause of an error of `perf_event_open`.
    pub(crate) fn of(cpu: usize, error: io::Error) -> ProfileError {
        use rustix::io::Errno;
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::ACCESS | Errno::PERM) => {
                let file = "/proc/sys/kernel/perf_event_paranoid";
                let read = std::fs::read_to_string(file);
                let paranoid =
                    read.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned());
                match paranoid.parse::<i32>() {
                    // The setting permits it, so something else forbids the call.
                    Ok(level) if level <= 0 => ProfileError::Unavailable,
                    _ => ProfileError::Forbidden { paranoid },
                }
            }
            Some(Errno::NOSYS) => ProfileError::Unavailable,
            _ => ProfileError::Failed { cpu, error },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn what_to_change_is_said_by_name_and_value() {
        let of = |errno: Errno| ProfileError::of(3, io::Error::from(errno)).to_string();
        let forbidden = ProfileError::Forbidden { paranoid: "2".to_owned() }.to_string();
        assert!(forbidden.contains("kernel.perf_event_paranoid is 2"), "{forbidden}");
        assert!(of(Errno::NOSYS).contains("seccomp"));
        assert!(of(Errno::MFILE).starts_with("CPU 3 cannot be sampled: "));
    }
}
