//! The version of the method: how trials are made and how they are judged.

use crate::Run;

/// Version of the method. It is raised with every change after which the same servers may get other
/// figures or another verdict: slices, lead-ins, warm-up, the stopping rule, estimates, checks. A
/// run with a lower version is reported as older than the method; so must be its page in
/// `docs/results/` (`scripts/experiments.sh --mark`).
pub const METHOD: u32 = 7;

/// Between the version of tachograph and that of the method, in the build metadata of Semantic
/// Versioning 2.0.0, section 10: `0.1.0+method.1`.
const SEPARATOR: &str = "+method.";

/// The version of tachograph with that of the method, as recorded.
pub fn version_with_method(version: &str) -> String {
    format!("{version}{SEPARATOR}{METHOD}")
}

impl Run {
    /// The version of tachograph.
    pub fn release(&self) -> &str {
        self.version.split(SEPARATOR).next().unwrap_or_default()
    }

    /// The version of the method; 0 for runs from before it was recorded.
    pub fn method(&self) -> u32 {
        let number = self.version.split_once(SEPARATOR).and_then(|(_, number)| number.parse().ok());
        number.unwrap_or(0)
    }
}
