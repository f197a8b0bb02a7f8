//! What is known of each kind of request, where there are several.

use base::Nanos;
use ledger::{Counts, Errors, add_errors};
use serde::{Deserialize, Serialize};

use crate::histogram::SparseHistogram;

/// The requests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindCounts {
    /// All of a slice or a session. Every one that was offered was also sent: requests that could not
    /// be sent had no kind yet.
    pub counts: Counts,
    /// Failures by kind of failure.
    pub errors: Errors,
    /// Latency in an open loop, service time in a closed one, of those that were due in a window and
    /// counted.
    pub times: SparseHistogram,
}

impl KindCounts {
    /// Adds others.
    pub(crate) fn merge(&mut self, other: &KindCounts) {
        self.counts.merge(&other.counts);
        add_errors(&mut self.errors, &other.errors);
        self.times.merge(&other.times);
    }
}

/// Adds the counts of each kind.
pub(crate) fn merge_kinds(sum: &mut Vec<KindCounts>, part: &[KindCounts]) {
    if sum.len() < part.len() {
        sum.resize(part.len(), KindCounts::default());
    }
    sum.iter_mut().zip(part).for_each(|(sum, part)| sum.merge(part));
}

/// The times of a thread's requests, until they are sorted by kind.
#[derive(Debug, Default)]
pub(crate) struct KindTimes(Vec<(u32, u64)>);

/// Times that are kept before they are sorted.
const KEPT_MAX: usize = 1 << 18;

impl KindTimes {
    /// A request of a kind took so long.
    pub(crate) fn add(&mut self, all: &mut [KindCounts], kind: u32, took: Nanos) {
        if self.0.len() == KEPT_MAX {
            self.sort_into(all);
        }
        self.0.push((kind, took.0));
    }

    /// Moves them to their kinds.
    pub(crate) fn sort_into(&mut self, all: &mut [KindCounts]) {
        self.0.sort_unstable();
        for of_kind in self.0.chunk_by(|one, next| one.0 == next.0) {
            let times = SparseHistogram::of_sorted(of_kind.iter().map(|(_, took)| *took));
            if let Some(kind) = all.get_mut(of_kind[0].0 as usize) {
                kind.times.merge(&times);
            }
        }
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::histogram;

    #[test]
    fn a_sparse_histogram_has_the_quantiles_of_a_whole_one() {
        let mut rng = base::Seed(7).rng("times");
        let mut values: Vec<u64> =
            (0..5_000).map(|_| rand::Rng::next_u64(&mut rng) >> (24 + 5)).collect();
        values.extend([0, 1, 2_047, 2_048, 2_049, 4_095, 4_096]);
        let mut whole = histogram();
        values.iter().for_each(|value| whole.record(*value).unwrap());
        let mut kinds = vec![KindCounts::default(); 2];
        let mut times = KindTimes::default();
        values.iter().for_each(|value| times.add(&mut kinds, 1, Nanos(*value)));
        times.sort_into(&mut kinds);
        assert_eq!(kinds[0].times.counts(), []);
        let mut again = histogram();
        kinds[1].times.add_to(&mut again);
        assert_eq!(again, whole);
        // And the same in two parts.
        let (one, other) = values.split_at(2_000);
        let mut parts = vec![KindCounts::default(); 2];
        for part in [one, other] {
            part.iter().for_each(|value| times.add(&mut parts, 1, Nanos(*value)));
            times.sort_into(&mut parts);
        }
        assert_eq!(parts, kinds);
    }
}
