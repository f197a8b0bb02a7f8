//! Sets of CPUs, as `taskset` and the kernel write them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A set of CPU numbers; empty means "no restriction".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuSet(pub BTreeSet<usize>);

impl CpuSet {
    /// A set of one CPU.
    pub fn one(cpu: usize) -> CpuSet {
        CpuSet(BTreeSet::from([cpu]))
    }

    /// Whether the set is empty, which means no restriction.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The CPU numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuSet {
        CpuSet(cpus.into_iter().collect())
    }
}

impl fmt::Display for CpuSet {
    /// The kernel's list form: `0`, `0-3,8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        let mut run: Option<(usize, usize)> = None;
        let close = |run: Option<(usize, usize)>, parts: &mut Vec<String>| match run {
            Some((a, b)) if a == b => parts.push(a.to_string()),
            Some((a, b)) => parts.push(format!("{a}-{b}")),
            None => {}
        };
        for cpu in self.iter() {
            run = match run {
                Some((a, b)) if b + 1 == cpu => Some((a, cpu)),
                other => {
                    close(other, &mut parts);
                    Some((cpu, cpu))
                }
            };
        }
        close(run, &mut parts);
        f.pad(&parts.join(","))
    }
}

/// A CPU list that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a list of CPUs such as 0 or 0-3,8")]
pub struct CpuSetError(String);

impl FromStr for CpuSet {
    type Err = CpuSetError;
    fn from_str(text: &str) -> Result<CpuSet, CpuSetError> {
        let error = || CpuSetError(text.to_owned());
        let mut cpus = BTreeSet::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (a, b) = part.split_once('-').unwrap_or((part, part));
            let a: usize = a.trim().parse().map_err(|_| error())?;
            let b: usize = b.trim().parse().map_err(|_| error())?;
            if a > b || b > 4095 {
                return Err(error());
            }
            cpus.extend(a..=b);
        }
        Ok(CpuSet(cpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_and_print_alike() {
        for text in ["", "0", "0-3", "0-3,8", "1,3,5-7"] {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), text);
        }
        for text in ["x", "3-1", "0-99999", "1-"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text}");
        }
    }
}
