//! What becomes of updates that were accepted and yet have no place in a store.

/// What of accepted updates was not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnstoredUpdates {
    /// Slots that are older than any retention keeps.
    pub expired: u64,
    /// Points that arrived late after those which another process has written to the same lane, and
    /// deltas of which another process has counted a part.
    pub overtaken: u64,
    /// Deltas whose time another process has counted.
    pub repeated: u64,
}

impl std::ops::AddAssign for UnstoredUpdates {
    fn add_assign(&mut self, other: UnstoredUpdates) {
        self.expired += other.expired;
        self.overtaken += other.overtaken;
        self.repeated += other.repeated;
    }
}
