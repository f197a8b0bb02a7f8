//! The order of slices within a block.

use rand::Rng;

/// The variant of each slice of a block: rounds of every variant once, each round in its own random
/// order, then the mirror image of all rounds.
///
/// Every variant gets `slices_each` slices; an odd number is rounded up to an even one because of
/// the mirror image. The mirror gives the slices of every variant the same mean position, so a
/// linear drift cancels exactly; the random order takes care of the rest (Abedi & Brecht, ICPE
/// 2017). Rounds keep the variants close together, so a machine that is slower for a few slices is
/// slower for all of them; a single shuffle of all slices could load one variant many times in a
/// row.
pub fn mirrored_order(variants: usize, slices_each: usize, rng: &mut impl Rng) -> Vec<usize> {
    let mut order = Vec::with_capacity(variants * (slices_each + 1));
    for _ in 0..slices_each.div_ceil(2) {
        let mut round: Vec<usize> = (0..variants).collect();
        shuffle(&mut round, rng);
        order.extend(round);
    }
    order.extend(order.clone().iter().rev());
    debug_assert!(order.iter().eq(order.iter().rev()), "the second half mirrors the first");
    debug_assert_eq!(order.len(), variants * slices_each.next_multiple_of(2), "as many for each");
    order
}

/// Fisher–Yates, written out so that a seed gives the same order whatever a library changes. The
/// remainder's bias is below variants ÷ 2⁶⁴.
fn shuffle(round: &mut [usize], rng: &mut impl Rng) {
    for i in (1..round.len()).rev() {
        round.swap(i, (rng.next_u64() % (i as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Seed;
    use proptest::prelude::*;

    #[test]
    fn a_seed_replays_the_order_and_another_changes_it() {
        let order = |seed| mirrored_order(2, 10, &mut Seed(seed).rng("order"));
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert_eq!(mirrored_order(1, 3, &mut Seed(0).rng("order")), [0; 4]);
    }

    proptest! {
        #[test]
        fn every_variant_has_its_slices_and_the_same_mean_position(variants in 1..6_usize, slices in 1..12_usize, seed: u64) {
            let order = mirrored_order(variants, slices, &mut Seed(seed).rng("order"));
            let each = slices.div_ceil(2) * 2;
            for variant in 0..variants {
                let places: Vec<usize> = (0..order.len()).filter(|&i| order[i] == variant).collect();
                prop_assert_eq!(places.len(), each);
                prop_assert_eq!(2 * places.iter().sum::<usize>(), each * (order.len() - 1));
            }
            for round in order.chunks(variants) {
                prop_assert!((0..variants).all(|variant| round.contains(&variant)));
            }
        }
    }
}
