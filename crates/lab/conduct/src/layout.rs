//! The CPUs of the client and the stacks.

use base::CpuSet;
use spec::Layout;

/// A division of the machine's CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// CPUs of the client's threads.
    pub client: CpuSet,
    /// CPUs of every stack.
    pub stack: CpuSet,
}

impl Cpus {
    /// Divides the `online` CPUs: the client gets the last `threads` of them, but at most half; the
    /// stacks get the rest.
    pub fn divide(layout: Layout, online: &CpuSet, threads: u32) -> Cpus {
        let all: Vec<usize> = online.iter().collect();
        match layout {
            Layout::Free => Cpus { client: CpuSet::default(), stack: CpuSet::default() },
            Layout::Same => {
                let one: CpuSet = all.first().copied().into_iter().collect();
                Cpus { client: one.clone(), stack: one }
            }
            Layout::Split if all.len() < 2 => {
                Cpus { client: online.clone(), stack: online.clone() }
            }
            Layout::Split => {
                let client = (threads.max(1) as usize).min(all.len() / 2);
                let cut = all.len() - client;
                Cpus {
                    client: all[cut..].iter().copied().collect(),
                    stack: all[..cut].iter().copied().collect(),
                }
            }
        }
    }

    /// The division, as recorded.
    pub fn layout(&self) -> record::Layout {
        record::Layout { client: self.client.clone(), stack: self.stack.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_gets_its_own() {
        let online: CpuSet = (0..4).collect();
        let sets = |layout, online: &CpuSet, threads| {
            let cpus = Cpus::divide(layout, online, threads);
            (cpus.client.to_string(), cpus.stack.to_string(), cpus.layout().is_shared())
        };
        let of = |client: &str, stack: &str, shared| (client.to_owned(), stack.to_owned(), shared);
        assert_eq!(sets(Layout::Split, &online, 1), of("3", "0-2", false));
        assert_eq!(sets(Layout::Split, &online, 9), of("2-3", "0-1", false));
        assert_eq!(sets(Layout::Same, &online, 1), of("0", "0", true));
        assert_eq!(sets(Layout::Split, &CpuSet::one(0), 1), of("0", "0", true));
        assert_eq!(sets(Layout::Free, &online, 1), of("", "", true));
    }
}
