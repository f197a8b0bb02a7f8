//! The rounds of slices that are left out because of the machine's other activity.
//!
//! A round has one slice of every variant. It is kept or left out for all of them, depending on the
//! activity of other processes and the hypervisor, never on the measurements.

/// A round is kept if others used at most this much more than in the quietest third, in CPUs: 0.05
/// is 5% of one. The kernel's own work for a load varies by 0.01 to 0.03. With 0.15, slices of 15 ms
/// in which another process had run for 5 ms were kept, and the blocks of gunicorn compared with
/// itself spread by a quarter more.
const BUSIER_BY: f64 = 0.05;

/// Minimum share of a block's rounds that is kept.
const KEPT_MIN: f64 = 1.0 / 3.0;

/// Which rounds of a block are kept, given how many CPUs others and the hypervisor used in each.
///
/// Rounds within the limit of the quietest third stay. On a quiet machine, and beside a constantly
/// busy neighbour, that is every round.
pub fn kept_rounds(taken_cpus: &[f64]) -> Vec<bool> {
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
