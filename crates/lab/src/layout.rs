//! Which CPUs the client and the stacks run on.

use base::CpuSet;
use spec::Layout;

/// A division of the machine's CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// Where the client's threads are pinned.
    pub client: CpuSet,
    /// Where every stack is pinned.
    pub stack: CpuSet,
}

impl Cpus {
    /// Divides the CPUs that are `online`: the client gets the last `threads` of
    /// them, but never more than half, and the stacks get the rest.
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

    /// Whether client and stacks may run on the same CPU.
    pub fn are_shared(&self) -> bool {
        self.client.is_empty() || self.client == self.stack
    }

    /// `client on CPU 1, stack on CPU 0`, for the verdict's sentence.
    pub fn words(&self) -> String {
        let name = |set: &CpuSet| {
            let plural = if set.iter().count() == 1 { "CPU" } else { "CPUs" };
            format!("{plural} {set}")
        };
        if self.client.is_empty() {
            "client and stack not pinned".to_owned()
        } else if self.client == self.stack {
            format!("client and stack on the same {}", name(&self.client))
        } else {
            format!("client on {}, stack on {}", name(&self.client), name(&self.stack))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_gets_its_own() {
        let online: CpuSet = (0..4).collect();
        let split = Cpus::divide(Layout::Split, &online, 1);
        assert_eq!(split.words(), "client on CPU 3, stack on CPUs 0-2");
        let greedy = Cpus::divide(Layout::Split, &online, 9);
        assert_eq!(greedy.words(), "client on CPUs 2-3, stack on CPUs 0-1");
        let same = Cpus::divide(Layout::Same, &online, 1);
        assert_eq!(same.words(), "client and stack on the same CPU 0");
        let alone = Cpus::divide(Layout::Split, &CpuSet::one(0), 1);
        assert_eq!(alone.words(), "client and stack on the same CPU 0");
        let free = Cpus::divide(Layout::Free, &online, 1);
        assert_eq!(free.words(), "client and stack not pinned");
        let shared = [split, greedy, same, alone, free].map(|cpus| cpus.are_shared());
        assert_eq!(shared, [false, false, true, true, true]);
    }
}
