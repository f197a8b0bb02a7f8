//! The machine's other activity during slices, and the rounds left out because of it.
//!
//! A round has one slice of every variant. It is kept or left out for all of them, depending on the
//! activity of other processes and the hypervisor, never on the measurements.

use base::Nanos;
use host::{CpuMeter, CpuTimes, Snapshot};

/// A round is kept if others used at most this much more than in the quietest third, in CPUs: 0.15
/// is 15% of one. Smaller differences cannot be distinguished from the kernel's work for the load
/// itself.
const BUSIER_BY: f64 = 0.15;

/// Minimum share of a block's rounds that is kept.
const KEPT_MIN: f64 = 1.0 / 3.0;

/// A slice shorter than this many steps of the meter says nothing about other activity.
const STEPS_MIN: u64 = 2;

/// Reads the machine's counters around slices.
#[derive(Debug)]
pub(crate) struct Meter {
    cpu: Option<CpuMeter>,
}

/// The machine's counters at one instant.
#[derive(Debug)]
pub(crate) struct Reading {
    cpu: Option<CpuTimes>,
    own_cpu: Nanos,
    counters: Option<Snapshot>,
}

/// The machine's activity between two instants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity {
    /// Wall time.
    pub(crate) elapsed: Nanos,
    /// Busy time of all CPUs; `None` if unknown.
    pub(crate) busy: Option<Nanos>,
    /// CPU time of this process.
    pub(crate) own_cpu: Nanos,
    /// Stolen CPU time, in CPUs; `None` if unknown.
    pub(crate) stolen_cpus: Option<f64>,
    /// The share of all CPU time that was stolen.
    pub(crate) stolen: Option<f64>,
    /// The kernel's counters of connection trouble, if known.
    pub(crate) counters: Option<host::Change>,
}

impl Meter {
    pub(crate) fn open() -> Meter {
        Meter { cpu: CpuMeter::open().ok() }
    }

    /// Whether other activity can be measured for such a short slice.
    pub(crate) fn resolves(&self, slice: Nanos) -> bool {
        self.cpu.as_ref().is_some_and(|meter| meter.resolution().0 * STEPS_MIN <= slice.0)
    }

    pub(crate) fn read(&self) -> Reading {
        Reading {
            cpu: self.cpu.as_ref().and_then(|meter| meter.read_with_steal().ok()),
            own_cpu: host::own_cpu(),
            counters: Snapshot::take().ok(),
        }
    }
}

impl Reading {
    pub(crate) fn since(&self, earlier: &Reading) -> Activity {
        let cpu = self.cpu.as_ref().zip(earlier.cpu.as_ref()).map(|(now, then)| now.since(then));
        let steal = cpu.as_ref().and_then(|used| {
            let stolen: Option<u64> = used.cpus.iter().map(|c| c.steal.map(|s| s.0)).sum();
            Some((stolen? as f64 / used.elapsed.0.max(1) as f64, used.cpus.len()))
        });
        Activity {
            elapsed: cpu.as_ref().map_or(Nanos::ZERO, |used| used.elapsed),
            busy: cpu
                .as_ref()
                .map(|used| used.cpus.iter().map(|c| c.busy).fold(Nanos::ZERO, |a, b| a + b)),
            own_cpu: self.own_cpu.saturating_sub(earlier.own_cpu),
            stolen_cpus: steal.map(|(cpus, _)| cpus),
            stolen: steal.map(|(cpus, count)| cpus / count.max(1) as f64),
            counters: self
                .counters
                .as_ref()
                .zip(earlier.counters.as_ref())
                .map(|(a, b)| a.since(b)),
        }
    }
}

impl Activity {
    /// CPUs used neither by the stack nor by this process, between 0 and the number of CPUs.
    pub(crate) fn other_cpus(&self, stack_cpu: Option<Nanos>) -> Option<f64> {
        let ours = self.own_cpu + stack_cpu?;
        let others = self.busy?.saturating_sub(ours);
        (self.elapsed > Nanos::ZERO).then(|| others.0 as f64 / self.elapsed.0 as f64)
    }
}

/// Which rounds of a block are kept, given how many CPUs others and the hypervisor used in each.
///
/// Rounds within the limit of the quietest third stay. On a quiet machine, and beside a constantly
/// busy neighbour, that is every round.
pub(crate) fn kept_rounds(taken_cpus: &[f64]) -> Vec<bool> {
    let mut sorted = taken_cpus.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * KEPT_MIN).ceil() as usize;
    let Some(level) = sorted.get(at.saturating_sub(1)) else { return Vec::new() };
    taken_cpus.iter().map(|taken| *taken <= level + BUSIER_BY).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn count(kept: &[bool]) -> usize {
        kept.iter().filter(|kept| **kept).count()
    }

    #[test]
    fn a_burst_is_left_out() {
        let mut taken = vec![0.02; 40];
        taken[10..25].fill(0.9);
        let kept = kept_rounds(&taken);
        assert_eq!(count(&kept), 25);
        assert!(!kept[10] && kept[9] && kept[25]);
    }

    #[test]
    fn a_neighbour_that_never_rests_leaves_every_round() {
        assert_eq!(count(&kept_rounds(&[0.8; 30])), 30);
        assert_eq!(kept_rounds(&[]), Vec::<bool>::new());
    }

    #[test]
    fn others_never_use_more_than_there_is() {
        let second = Nanos::from_secs(1);
        let activity = Activity {
            elapsed: second,
            busy: Some(second * 2),
            own_cpu: Nanos::from_millis(500),
            ..Activity::default()
        };
        assert_eq!(activity.other_cpus(Some(second)), Some(0.5));
        assert_eq!(
            activity.other_cpus(None),
            None,
            "what is not known of the stack is not others'"
        );
        assert_eq!(activity.other_cpus(Some(second * 2)), Some(0.0));
    }

    proptest! {
        #[test]
        fn a_third_is_always_kept_and_the_quietest_first(taken in prop::collection::vec(0.0..2.0_f64, 1..80)) {
            let kept = kept_rounds(&taken);
            prop_assert!(3 * count(&kept) >= taken.len());
            let loudest_kept = taken.iter().zip(&kept).filter(|(_, k)| **k).map(|(t, _)| *t).fold(0.0, f64::max);
            prop_assert!(taken.iter().zip(&kept).all(|(t, k)| *k || *t > loudest_kept));
        }
    }
}
