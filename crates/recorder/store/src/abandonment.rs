//! Ending the reads of a store from another thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use postgres::{CancelToken, NoTls};

/// Cancels the reads of a store opened read-only: the call in progress and all later ones fail with
/// [`crate::StoreError::Abandoned`]. Cloning shares it.
#[derive(Clone, Default)]
pub struct Abandonment {
    is_told: Arc<AtomicBool>,
    /// The connection to a server, which does not look at the flag.
    server: Arc<Mutex<Option<CancelToken>>>,
}

impl std::fmt::Debug for Abandonment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Abandonment").field(&self.is_told()).finish()
    }
}

impl Abandonment {
    /// Abandons the reads. With PostgreSQL, it blocks for another connection to the server, outside
    /// of async code; and a statement that begins at this moment may go on, so it should be called
    /// again until the call in progress has ended.
    pub fn tell(&self) {
        self.is_told.store(true, Ordering::Relaxed);
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(server) = server {
            // If the server cannot be reached, the call ends as its own connection does.
            let _ = server.cancel_query(NoTls);
        }
    }

    /// Whether the reads are abandoned.
    pub fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    /// What is cancelled from now on.
    pub(crate) fn connected(&self, server: CancelToken) {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
    }
}
