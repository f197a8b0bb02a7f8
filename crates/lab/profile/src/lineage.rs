//! Which stacks a process belongs to.

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
    /// The stacks of a process that no guard started; a server that was running already may be several.
    members: HashMap<u32, Vec<u32>>,
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
        self.members.entry(pid).or_default().push(stack);
    }

    /// Forgets a stack.
    pub(crate) fn ended(&mut self, stack: u32) {
        self.guards.retain(|_, of| *of != stack);
        self.members.values_mut().for_each(|of| of.retain(|of| *of != stack));
        self.members.retain(|_, of| !of.is_empty());
    }

    /// Whether a process belongs to a stack; a guard belongs to none.
    pub(crate) fn is_of(&self, pid: u32, stack: u32) -> bool {
        let is_member = |pid| self.members.get(&pid).is_some_and(|of| of.contains(&stack));
        let is_guard = |pid| self.guards.get(&pid) == Some(&stack);
        is_member(pid)
            || self.ancestors(pid).any(|ancestor| is_guard(ancestor) || is_member(ancestor))
    }

    /// The processes of a stack, as far as they are known.
    pub(crate) fn processes_of(&self, stack: u32) -> impl Iterator<Item = u32> + '_ {
        let started = self.parents.keys().filter(|pid| !self.members.contains_key(pid));
        let all = started.chain(self.members.keys()).copied();
        all.filter(move |pid| self.is_of(*pid, stack))
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
        assert_eq!([11, 12, 13].map(|pid| lineage.is_of(pid, 0)), [true; 3]);
        assert_eq!([10, 20, 99].map(|pid| lineage.is_of(pid, 0)), [false; 3]);
        assert!(!lineage.is_of(11, 1));
        lineage.forked(13, 20);
        assert!(!lineage.is_of(13, 0), "the number was used again");
        lineage.ended(0);
        assert!(!lineage.is_of(11, 0));
    }

    #[test]
    fn a_process_of_a_container_belongs_to_its_stack_with_what_it_starts() {
        let mut lineage = Lineage::default();
        lineage.forked(30, 1);
        lineage.joined(30, 0);
        lineage.forked(31, 30);
        lineage.joined(40, 0);
        lineage.joined(40, 1);
        assert_eq!([30, 31, 40].map(|pid| lineage.is_of(pid, 0)), [true; 3]);
        assert!(lineage.is_of(40, 1), "a server that is two stacks");
        let mut all: Vec<u32> = lineage.processes_of(0).collect();
        all.sort_unstable();
        assert_eq!(all, [30, 31, 40]);
        lineage.ended(0);
        assert!(!lineage.is_of(30, 0) && lineage.is_of(40, 1));
        lineage.forked(40, 1);
        assert!(!lineage.is_of(40, 1), "the number was used again");
    }

    #[test]
    fn a_circle_of_reused_numbers_ends() {
        let mut lineage = Lineage::default();
        lineage.forked(5, 6);
        lineage.forked(6, 5);
        assert!(!lineage.is_of(5, 0));
    }
}
