//! What chance decides about a start and may make the same program faster or slower.

use base::Seed;
use rand::RngExt as _;
use serde::{Deserialize, Serialize};

/// Longest dummy variable in the environment, in bytes.
const PADDING_BYTES_MAX: u32 = 4096;

/// Length of the name of a stack's folder.
const FOLDER_LETTERS_MIN: u32 = 6;
const FOLDER_LETTERS_MAX: u32 = 12;

/// What is drawn for a start. The same program starts alike with the same draws: whatever else
/// differs between two stacks (port numbers, folder names, addresses) has the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draws {
    /// Length of a dummy variable added to the environment, which shifts the memory layout.
    pub env_padding_bytes: u32,
    /// Length of the name of the stack's folder, and so of the paths of its sockets.
    pub folder_letters: u32,
    /// Python's hash seed (`PYTHONHASHSEED`), unless the user sets it: it determines the layout of
    /// dictionaries and sets with strings in them.
    pub hash_seed: u32,
}

impl Draws {
    /// The draws of a seed.
    pub fn of(seed: Seed) -> Draws {
        let mut rng = seed.rng("set-up");
        Draws {
            env_padding_bytes: rng.random_range(0..=PADDING_BYTES_MAX),
            folder_letters: rng.random_range(FOLDER_LETTERS_MIN..=FOLDER_LETTERS_MAX),
            hash_seed: rng.random(),
        }
    }
}
