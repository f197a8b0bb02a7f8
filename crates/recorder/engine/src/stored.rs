//! Writing a batch to a store in which others may write to the same lanes.

use series::Lane;
use store::{BatchResult, Store, StoreError, Writer};

use crate::head::FrozenBatch;
use crate::unstored::UnstoredUpdates;

/// Attempts to write a batch to lanes that another writer keeps changing.
const ATTEMPTS: usize = 20;

/// A writer, and the number of its batch.
type Claim = (Writer, u64);

/// What has become of a batch that a store has.
#[derive(Debug, Default)]
pub struct StoredBatch {
    /// What of it was not stored.
    pub(crate) unstored: UnstoredUpdates,
    /// The lanes of these series after the batch, by their numbers in the store.
    pub(crate) rebased: Vec<(i64, Lane)>,
}

/// Writes a batch by `apply`; computes it again if another writer has changed its lanes. `now_us` is
/// the time by which slots expire if there are too many partitions, in microseconds since the epoch.
///
/// # Errors
/// Those of the store.
pub fn write(
    store: &mut dyn Store,
    frozen: &mut FrozenBatch,
    now_us: i64,
    mut apply: impl FnMut(&mut dyn Store, &[Claim], &mut FrozenBatch) -> Result<BatchResult, StoreError>,
) -> Result<StoredBatch, StoreError> {
    let claims = frozen.claims().to_vec();
    let (mut attempts, mut is_maintained) = (1, false);
    loop {
        match apply(store, &claims, frozen) {
            Ok(applied) => {
                let expired = match applied {
                    BatchResult::Now { expired } => expired,
                    // Its answer was lost, or another import of the same data was faster.
                    BatchResult::Before => 0,
                };
                let unstored = UnstoredUpdates { expired, ..frozen.unstored() };
                return Ok(StoredBatch { unstored, rebased: frozen.rebased() });
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
