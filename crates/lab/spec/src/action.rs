//! Actions: what is done to a stack while it is loaded.

use base::Nanos;

/// Something that is done to a variant's stack at given moments of each trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Its name in reports: `reload`.
    pub name: String,
    /// What is done, one step after another.
    pub steps: Vec<ActionStep>,
    /// The first moment, from the beginning of the trial's measured time.
    pub at: Nanos,
    /// From one moment to the next.
    pub every: Nanos,
    /// How many times per trial; at least once.
    pub times: u32,
}

/// One step of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionStep {
    /// Pause before the step, after the end of the previous one.
    pub after: Nanos,
    /// The step.
    pub deed: Deed,
}

/// What a step of an action does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Sends a signal to a process of the stack: to the one that was started or, if that has ended,
    /// to the oldest of the processes that it has left behind.
    Signal {
        /// The signal's name without `SIG`: `HUP`.
        signal: &'static str,
        /// Index of the process in the stack.
        process: usize,
    },
    /// Runs a shell command as part of the stack, and waits for it.
    Command(String),
}

/// Signals that an action may send, by name and number (signal(7), the same on x86-64 and ARM).
pub const SIGNALS: [(&str, i32); 12] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("TERM", 15),
    ("CONT", 18),
    ("STOP", 19),
    ("TTIN", 21),
    ("TTOU", 22),
    ("WINCH", 28),
];

/// Limit on the moments of one action in a trial.
pub(crate) const TIMES_MAX: u32 = 1_000;

impl Action {
    /// The pauses between the steps of one occurrence.
    fn pauses(&self) -> Nanos {
        self.steps.iter().fold(Nanos::ZERO, |sum, step| sum + step.after)
    }

    /// When the last step is due, from the beginning of the trial's measured time.
    pub fn last_step_at(&self) -> Nanos {
        self.at + self.every * u64::from(self.times.saturating_sub(1)) + self.pauses()
    }
}

impl Deed {
    /// The step in words: `SIGUSR2`, or the command.
    pub fn in_words(&self) -> String {
        match self {
            Deed::Signal { signal, .. } => format!("SIG{signal}"),
            Deed::Command(command) => command.clone(),
        }
    }

    /// The number of the signal, if it is one.
    pub fn signal_number(&self) -> Option<i32> {
        let Deed::Signal { signal, .. } = self else { return None };
        SIGNALS.iter().find(|(name, _)| name == signal).map(|(_, number)| *number)
    }
}
