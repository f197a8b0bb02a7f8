//! Differences by kind.

use std::collections::BTreeMap;

use record::{DifferenceExample, DifferenceGroup, DifferenceKind, Pair};

use crate::json::Differences;

/// Kinds of difference that are told apart: where names in documents are data, there is no end of them.
const GROUPS_MAX: usize = 1_000;

/// Requests whose answers differ, by kind of difference.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: BTreeMap<DifferenceKind, DifferenceGroup>,
    /// Requests with a kind of difference for which there was no room.
    pub(crate) ungrouped: u64,
}

impl Groups {
    /// Adds the differences of one request. The example of a group is its first request in the log.
    pub(crate) fn add(
        &mut self,
        differences: Differences,
        example: impl Fn(Pair<String>) -> DifferenceExample,
    ) {
        let mut is_ungrouped = false;
        for (kind, values) in differences {
            let example = example(values);
            if let Some(group) = self.groups.get_mut(&kind) {
                group.requests += 1;
                if example.line < group.example.line {
                    group.example = example;
                }
            } else if self.groups.len() < GROUPS_MAX {
                let group = DifferenceGroup { kind: kind.clone(), requests: 1, example };
                self.groups.insert(kind, group);
            } else {
                is_ungrouped = true;
            }
        }
        self.ungrouped += u64::from(is_ungrouped);
    }

    /// The groups, the most frequent first.
    pub(crate) fn take(&mut self) -> Vec<DifferenceGroup> {
        let mut all: Vec<DifferenceGroup> =
            std::mem::take(&mut self.groups).into_values().collect();
        all.sort_by_key(|group| std::cmp::Reverse(group.requests));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str) -> (DifferenceKind, Pair<String>) {
        (DifferenceKind::Header { name: name.to_owned() }, Pair::default())
    }

    fn example(line: u64) -> impl Fn(Pair<String>) -> DifferenceExample {
        move |values| DifferenceExample { line, method: String::new(), path: String::new(), values }
    }

    #[test]
    fn frequent_groups_come_first_with_the_first_request_of_the_log() {
        let mut groups = Groups::default();
        groups.add(Differences::from([header("a")]), example(9));
        groups.add(Differences::from([header("b"), header("a")]), example(5));
        groups.add(Differences::from([header("b"), header("c")]), example(7));
        groups.add(Differences::from([header("b")]), example(8));
        let all = groups.take();
        let shown: Vec<(u64, u64)> =
            all.iter().map(|group| (group.requests, group.example.line)).collect();
        assert_eq!(shown, [(3, 5), (2, 5), (1, 7)]);
    }

    #[test]
    fn what_has_no_room_is_counted_once_for_each_request() {
        let mut groups = Groups::default();
        for at in 0..GROUPS_MAX + 5 {
            groups.add(Differences::from([header(&at.to_string())]), example(1));
        }
        let more = Differences::from([header("x"), header("y"), header("0")]);
        groups.add(more, example(2));
        assert_eq!(groups.ungrouped, 6);
        let all = groups.take();
        assert_eq!((all.len(), all[0].requests), (GROUPS_MAX, 2));
    }
}
