//! Distributions of durations.

use serde::{Deserialize, Serialize};

/// Durations in nanoseconds, three significant digits, auto-resizing so that nothing is clipped.
pub type Histogram = hdrhistogram::Histogram<u64>;

/// Three significant digits and no limit: the histogram grows as necessary.
pub(crate) fn histogram() -> Histogram {
    #[allow(clippy::expect_used)]
    let mut histogram = Histogram::new_with_bounds(1, 10_000_000_000, 3)
        .expect("constant bounds and digits are within what the library takes");
    histogram.auto(true);
    histogram
}

/// A histogram as its values and their counts: every quantile is the same afterwards.
pub(crate) mod sparse {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Histogram, histogram};

    pub(crate) fn serialize<S: Serializer>(of: &Histogram, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(of.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram, D::Error> {
        let mut sum = histogram();
        for (value, count) in Vec::<(u64, u64)>::deserialize(from)? {
            sum.record_n(value, count).map_err(D::Error::custom)?;
        }
        Ok(sum)
    }
}

/// Counts by value, ascending; a histogram that takes no memory for what did not occur.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparseHistogram(Vec<(u64, u64)>);

impl SparseHistogram {
    /// The counts of a histogram.
    pub fn of(histogram: &Histogram) -> SparseHistogram {
        let steps = histogram.iter_recorded();
        SparseHistogram(
            steps.map(|step| (step.value_iterated_to(), step.count_at_value())).collect(),
        )
    }

    /// Adds the counts to a histogram that resizes itself.
    pub fn add_to(&self, sum: &mut Histogram) {
        for (value, count) in &self.0 {
            // Such a histogram takes every value.
            let _ = sum.record_n(*value, *count);
        }
    }

    /// Adds others.
    pub fn merge(&mut self, other: &SparseHistogram) {
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
        } else if !other.0.is_empty() {
            self.0.extend(&other.0);
            self.0.sort_unstable();
            self.join();
        }
    }

    /// Values and their counts, ascending.
    pub fn counts(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Counts of values in ascending order, each to three significant digits: neighbours that are
    /// equal become one.
    pub(crate) fn of_sorted(values: impl Iterator<Item = u64>) -> SparseHistogram {
        let mut all = SparseHistogram(values.map(|value| (three_digits(value), 1)).collect());
        all.join();
        all
    }

    fn join(&mut self) {
        self.0.dedup_by(|next, before| {
            let is_same = next.0 == before.0;
            if is_same {
                before.1 += next.1;
            }
            is_same
        });
    }
}

/// The lowest of the values that an HdrHistogram of three significant digits does not distinguish
/// from this one: those with the same eleven highest bits.
fn three_digits(value: u64) -> u64 {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(11);
    value >> shift << shift
}
