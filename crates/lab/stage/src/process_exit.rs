//! How a process ended, and how that is said.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessExit {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It was a daemon, and none of its processes is left.
    Vanished,
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessExit::Exited(status) => write!(f, "exited with status {status}"),
            ProcessExit::Killed(signal) => match signal_hook::low_level::signal_name(*signal) {
                Some(name) => write!(f, "was killed by {name}"),
                None => write!(f, "was killed by signal {signal}"),
            },
            ProcessExit::Vanished => f.write_str("ended in the background"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_are_described() {
        for (ended, text) in [
            (ProcessExit::Exited(1), "exited with status 1"),
            (ProcessExit::Killed(11), "was killed by SIGSEGV"),
            (ProcessExit::Killed(40), "was killed by signal 40"),
            (ProcessExit::Vanished, "ended in the background"),
        ] {
            assert_eq!(ended.to_string(), text);
        }
    }
}
