//! Which CPUs the client and the stacks use.

use base::CpuSet;
use spec::Layout;

/// A division of a machine's CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// CPUs of the client's threads.
    pub(crate) client: CpuSet,
    /// CPUs of every stack.
    pub(crate) stack: CpuSet,
}

impl Cpus {
    /// Divides the `online` CPUs: the client gets the last `threads` of them, but at most half; the
    /// stacks get the rest.
    pub(crate) fn divide(layout: Layout, online: &CpuSet, threads: u32) -> Cpus {
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
}
