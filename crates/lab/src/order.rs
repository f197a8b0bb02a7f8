//! The order of slices within a block.

use base::Rng;
use rand::seq::SliceRandom;

/// Random rounds, each with every variant once, followed by their mirror image.
///
/// The mirror cancels any drift that is linear in time; the random order takes
/// care of the rest (Abedi & Brecht, ICPE 2017). The number of slices per
/// variant is `slices` rounded up to an even number.
pub(crate) fn mirrored(variants: &[usize], slices: u32, rng: &mut Rng) -> Vec<usize> {
    let mut order = Vec::new();
    for _ in 0..slices.div_ceil(2) {
        let mut round = variants.to_vec();
        round.shuffle(rng);
        order.extend(round);
    }
    let mirror: Vec<usize> = order.iter().rev().copied().collect();
    order.extend(mirror);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Seed;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn linear_drift_cancels(count in 1usize..6, slices in 1u32..12, seed: u64) {
            let variants: Vec<usize> = (0..count).collect();
            let order = mirrored(&variants, slices, &mut Seed(seed).rng("order"));
            let mean_position = |v: usize| {
                let at: Vec<usize> =
                    order.iter().enumerate().filter(|(_, x)| **x == v).map(|(i, _)| i).collect();
                (at.iter().sum::<usize>() as f64 / at.len() as f64, at.len())
            };
            let (first, n) = mean_position(0);
            prop_assert!(n % 2 == 0 && n as u32 >= slices);
            for v in 1..count {
                prop_assert_eq!(mean_position(v), (first, n));
            }
        }
    }

    #[test]
    fn a_seed_replays_the_order() {
        let order = |seed| mirrored(&[0, 1, 2], 6, &mut Seed(seed).rng("order"));
        assert_eq!(order(3), order(3));
        assert_ne!(order(3), order(4));
    }
}
