//! Which stack a process belongs to.

use std::collections::HashMap;

/// The processes that were started while samples were taken, by who started them.
///
/// Every process of a stack descends from its guard, also one that has become a daemon: what counts is
/// who started it, not who its parent is now. Others, such as those of a container, which its engine
/// starts, are members by name.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    /// Who started a process.
    parents: HashMap<u32, u32>,
    /// The stack of a guard.
    guards: HashMap<u32, u32>,
    /// The stack of a process that its guard did not start.
    members: HashMap<u32, u32>,
}

/// How far up to look: a limit for chains that are no chains, because a number was used again.
const GENERATIONS: usize = 64;

impl Lineage {
    /// Notes that `parent` started `pid`.
    pub(crate) fn forked(&mut self, pid: u32, parent: u32) {
        // A thread is not a process.
        if pid != parent {
            self.members.remove(&pid);
            self.parents.insert(pid, parent);
        }
    }

    /// Notes that `guard` is that of a stack.
    pub(crate) fn guarded(&mut self, guard: u32, stack: u32) {
        self.guards.insert(guard, stack);
    }

    /// Notes that a process belongs to a stack, and what it starts.
    pub(crate) fn joined(&mut self, pid: u32, stack: u32) {
        self.members.insert(pid, stack);
    }

    /// Forgets a stack.
    pub(crate) fn ended(&mut self, stack: u32) {
        self.guards.retain(|_, of| *of != stack);
        self.members.retain(|_, of| *of != stack);
    }

    /// The stack that a process belongs to; a guard belongs to none.
    pub(crate) fn stack_of(&self, pid: u32) -> Option<u32> {
        let of = |ancestor| self.guards.get(&ancestor).or(self.members.get(&ancestor)).copied();
        self.members.get(&pid).copied().or_else(|| self.ancestors(pid).find_map(of))
    }

    /// The processes of a stack, as far as they are known.
    pub(crate) fn processes_of(&self, stack: u32) -> impl Iterator<Item = u32> + '_ {
        let started = self.parents.keys().filter(|pid| !self.members.contains_key(pid));
        let all = started.chain(self.members.keys()).copied();
        all.filter(move |pid| self.stack_of(*pid) == Some(stack))
    }

    /// Who started a process, who started that, and so on.
    pub(crate) fn ancestors(&self, pid: u32) -> impl Iterator<Item = u32> + '_ {
        let parent = |pid: &u32| self.parents.get(pid).copied();
        std::iter::successors(parent(&pid), parent).take(GENERATIONS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_belongs_to_the_stack_whose_guard_started_it() {
        let mut lineage = Lineage::default();
        // The guard, a shell, its server, that server's worker, which has become a daemon.
        for (pid, parent) in [(10, 1), (11, 10), (12, 11), (13, 12), (20, 1), (12, 12)] {
            lineage.forked(pid, parent);
        }
        lineage.guarded(10, 0);
        assert_eq!([11, 12, 13].map(|pid| lineage.stack_of(pid)), [Some(0); 3]);
        assert_eq!([10, 20, 99].map(|pid| lineage.stack_of(pid)), [None; 3]);
        lineage.forked(13, 20);
        assert_eq!(lineage.stack_of(13), None, "the number was used again");
        lineage.ended(0);
        assert_eq!(lineage.stack_of(11), None);
    }

    #[test]
    fn a_process_of_a_container_belongs_to_its_stack_with_what_it_starts() {
        let mut lineage = Lineage::default();
        lineage.forked(30, 1);
        lineage.joined(30, 0);
        lineage.forked(31, 30);
        lineage.joined(40, 0);
        assert_eq!([30, 31, 40].map(|pid| lineage.stack_of(pid)), [Some(0); 3]);
        let mut all: Vec<u32> = lineage.processes_of(0).collect();
        all.sort_unstable();
        assert_eq!(all, [30, 31, 40]);
        lineage.forked(40, 1);
        assert_eq!(lineage.stack_of(40), None, "the number was used again");
        lineage.ended(0);
        assert_eq!(lineage.stack_of(30), None);
    }

    #[test]
    fn a_circle_of_reused_numbers_ends() {
        let mut lineage = Lineage::default();
        lineage.forked(5, 6);
        lineage.forked(6, 5);
        assert_eq!(lineage.stack_of(5), None);
    }
}
