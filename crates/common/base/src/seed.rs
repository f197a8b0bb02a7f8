//! Randomness that a run can repeat.

use std::fmt;
use std::str::FromStr;

use rand::SeedableRng;
use serde::{Deserialize, Serialize};

/// The generator behind every random choice: the same stream on every platform and in every
/// version.
pub type Rng = rand_chacha::ChaCha8Rng;

/// The seed of all of a run's random choices; `--seed` repeats them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// A seed from the wall clock and the process id.
    pub fn from_time() -> Seed {
        let now = crate::timestamp_now().as_nanosecond() as u64;
        // Below 2^53, so that JSON readers with doubles can repeat it.
        Seed((now ^ (u64::from(std::process::id()) << 32)) & ((1 << 53) - 1))
    }

    /// An independent generator for the purpose named by `label`: drawing more numbers for one
    /// purpose does not change those of another.
    pub fn rng(self, label: &str) -> Rng {
        let mut rng = Rng::seed_from_u64(self.0);
        rng.set_stream(fnv1a(label));
        rng
    }

    /// A separate seed for a numbered part of the run. Seeds of neighbouring numbers differ in all
    /// bits, so that a part of their bits is a seed too.
    pub fn derive(self, label: &str, index: u64) -> Seed {
        Seed(mixed((self.0 ^ fnv1a(label)).wrapping_add(index.wrapping_mul(GOLDEN))))
    }
}

/// 2^64 ÷ the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mixed(state: u64) -> u64 {
    let z = state.wrapping_add(GOLDEN);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Seed {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Seed, Self::Err> {
        text.parse().map(Seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng as _;

    #[test]
    fn a_seed_replays_and_labels_are_independent() {
        let seed = Seed(7);
        assert_eq!(seed.rng("order").next_u64(), seed.rng("order").next_u64());
        assert_ne!(seed.rng("order").next_u64(), seed.rng("port").next_u64());
        assert_ne!(seed.derive("block", 1), seed.derive("block", 2));
    }

    #[test]
    fn seeds_of_neighbouring_numbers_differ_in_every_part() {
        // The first output for the state 0, by the reference implementation.
        assert_eq!(mixed(0), 0xE220_A839_7B1D_CDAF);
        let upper: std::collections::BTreeSet<u64> =
            (0..1_000).map(|run| Seed(1).derive("run", run).0 >> 12).collect();
        assert_eq!(upper.len(), 1_000);
    }
}
