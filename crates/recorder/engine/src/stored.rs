//! Writing a batch to a store in which others may write to the same lanes.

use series::Lane;
use store::{Applied, Store, StoreError, Writer};

use crate::head::Frozen;

/// Attempts to write a batch to lanes that another writer keeps changing.
const ATTEMPTS: usize = 20;

/// A writer, and the number of its batch.
type Claim = (Writer, u64);

/// What has become of a batch that a store has.
#[derive(Debug, Default)]
pub struct Stored {
    /// What of it was not stored.
    pub(crate) unstored: Unstored,
    /// The lanes of these series after the batch, by their numbers in the store.
    pub(crate) rebased: Vec<(i64, Lane)>,
}

/// What of accepted updates was not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unstored {
    /// Slots that are older than any retention keeps.
    pub expired: u64,
    /// Points that arrived late after those which another process has written to the same lane, and
    /// deltas of which another process has counted a part.
    pub overtaken: u64,
    /// Deltas whose time another process has counted.
    pub repeated: u64,
}

impl std::ops::AddAssign for Unstored {
    fn add_assign(&mut self, other: Unstored) {
        self.expired += other.expired;
        self.overtaken += other.overtaken;
        self.repeated += other.repeated;
    }
}

/// Writes a batch by `apply`; computes it again if another writer has changed its lanes. `now_us` is
/// the time by which slots expire if there are too many partitions, in microseconds since the epoch.
///
/// # Errors
/// Those of the store.
pub fn write(
    store: &mut dyn Store,
    frozen: &mut Frozen,
    now_us: i64,
    mut apply: impl FnMut(&mut dyn Store, &[Claim], &mut Frozen) -> Result<Applied, StoreError>,
) -> Result<Stored, StoreError> {
    let claims = frozen.claims().to_vec();
    let (mut attempts, mut is_maintained) = (1, false);
    loop {
        match apply(store, &claims, frozen) {
            Ok(applied) => {
                let expired = match applied {
                    Applied::Now { expired } => expired,
                    // Its answer was lost, or another import of the same data was faster.
                    Applied::Before => 0,
                };
                let unstored = Unstored { expired, ..frozen.unstored() };
                return Ok(Stored { unstored, rebased: frozen.rebased() });
            }
            Err(StoreError::Stale { lanes }) if frozen.rebase(&lanes) && attempts < ATTEMPTS => {
                attempts += 1;
            }
            // Expired slots are not kept, and need no partitions.
            Err(StoreError::TooManyPartitions { .. }) if !is_maintained => {
                is_maintained = true;
                let now_us = store::believed_us(store, now_us)?;
                store.maintain(now_us)?;
            }
            Err(error) => return Err(error),
        }
    }
}
