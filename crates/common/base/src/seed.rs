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

    /// A separate seed for a numbered part of the run.
    pub fn derive(self, label: &str, index: u64) -> Seed {
        Seed((self.0 ^ fnv1a(label)).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(index))
    }
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
}
