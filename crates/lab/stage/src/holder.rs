//! Who holds a CPU.

/// The measurement that holds a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Its process id, if known.
    pub pid: Option<u32>,
    /// Since when, as text, if known.
    pub since: Option<String>,
    /// Its command line, shortened, if known.
    pub command: Option<String>,
}

impl std::fmt::Display for Holder {
    /// `pid 4711, since 2026-11-22 07:31:49 UTC: tachograph run docker`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "pid {pid}")?,
            None => f.write_str("pid unknown")?,
        }
        if let Some(since) = &self.since {
            write!(f, ", since {since}")?;
        }
        match &self.command {
            Some(command) => write!(f, ": {command}"),
            None => Ok(()),
        }
    }
}
