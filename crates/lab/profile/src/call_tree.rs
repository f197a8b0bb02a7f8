//! Adds up named stacks to a tree of calls.

use std::collections::HashMap;
use std::sync::Arc;

use base::Nanos;
use record::{Call, Function, Profile};

/// A tree in the making.
#[derive(Debug, Default)]
pub(crate) struct CallTree {
    functions: Vec<Function>,
    numbers: HashMap<Function, u32>,
    /// The numbers of functions that were seen already, by where they are in memory: their names are
    /// long, and most stacks consist of the same ones. They are kept, so that the places stay theirs.
    seen: HashMap<usize, (Arc<Function>, u32)>,
    calls: Vec<Call>,
    /// The call of a function by a caller.
    places: HashMap<(Option<u32>, u32), u32>,
}

impl CallTree {
    /// Adds `samples` of a stack, whose outermost function comes first.
    pub(crate) fn add(&mut self, stack: &[Arc<Function>], samples: u64) {
        let mut caller = None;
        for function in stack {
            let function = self.number(function);
            let next = self.calls.len() as u32;
            let place = *self.places.entry((caller, function)).or_insert(next);
            if place == next {
                self.calls.push(Call { function, caller, samples: 0 });
            }
            caller = Some(place);
        }
        if let Some(innermost) = caller {
            self.calls[innermost as usize].samples += samples;
        }
    }

    fn number(&mut self, function: &Arc<Function>) -> u32 {
        let place = Arc::as_ptr(function) as usize;
        if let Some((_, number)) = self.seen.get(&place) {
            return *number;
        }
        let next = self.functions.len() as u32;
        let number = *self.numbers.entry(Function::clone(function)).or_insert(next);
        if number == next {
            self.functions.push(Function::clone(function));
        }
        self.seen.insert(place, (Arc::clone(function), number));
        number
    }

    /// The tree, each of whose samples stands for `period` of CPU time.
    pub(crate) fn finish(self, period: Nanos, interrupts: u64, lost: u64) -> Profile {
        Profile {
            period,
            functions: self.functions,
            calls: self.calls,
            interrupts,
            lost,
            ..Profile::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(name: u8) -> Arc<Function> {
        let name = Some(name.to_string());
        Arc::new(Function { name, module: String::new(), is_program: false })
    }

    proptest! {
        #[test]
        fn samples_are_neither_lost_nor_doubled(
            stacks in prop::collection::vec((prop::collection::vec(0_u8..5, 1..8), 1..9_u64), 0..40)
        ) {
            let mut tree = CallTree::default();
            for (stack, samples) in &stacks {
                let stack: Vec<Arc<Function>> = stack.iter().map(|name| named(*name)).collect();
                tree.add(&stack, *samples);
            }
            let profile = tree.finish(Nanos(7), 0, 0);
            let all: u64 = stacks.iter().map(|(_, samples)| samples).sum();
            prop_assert_eq!(profile.samples(), all);
            prop_assert_eq!(profile.cpu(), Nanos(7) * all);
            for (place, call) in profile.calls.iter().enumerate() {
                prop_assert!(call.caller.is_none_or(|caller| (caller as usize) < place));
                prop_assert!((call.function as usize) < profile.functions.len());
            }
        }
    }
}
