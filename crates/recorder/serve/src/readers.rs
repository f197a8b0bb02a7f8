//! Shared access to the store for reading.

use std::sync::{Arc, Mutex, PoisonError};

use store::{Store, StoreError};
use tokio::sync::Semaphore;

/// Number of connections to the store for reading.
const CONNECTIONS: usize = 4;

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The read panicked, or the daemon is ending.
    #[error("the read was stopped: try again")]
    Stopped,
}

/// Read-only connections to the store, shared by all requests. Cloning shares them.
#[derive(Clone)]
pub struct Readers {
    shared: Arc<Shared>,
}

struct Shared {
    place: String,
    idle: Mutex<Vec<Box<dyn Store>>>,
    turns: Semaphore,
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Readers").finish_non_exhaustive()
    }
}

impl Readers {
    /// Readers of the store at `place`, as [`store::open_read_only`] takes it. Nothing is opened
    /// before the first read.
    pub fn new(place: &str) -> Readers {
        let shared = Shared {
            place: place.to_owned(),
            idle: Mutex::new(Vec::new()),
            turns: Semaphore::new(CONNECTIONS),
        };
        Readers { shared: Arc::new(shared) }
    }

    /// Calls `read` with a connection, on a thread where it may block. At most a few reads run at
    /// a time; others wait.
    ///
    /// # Errors
    /// [`ReadError`]. After an error of the store the connection is closed, and the next read opens
    /// another.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let shared = self.shared.clone();
        let turn = self.shared.turns.acquire().await.map_err(|_| ReadError::Stopped)?;
        let done = tokio::task::spawn_blocking(move || {
            let idle = || shared.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let known = idle().pop();
            let mut store = match known {
                Some(store) => store,
                None => store::open_read_only(&shared.place)?,
            };
            let result = read(&mut *store)?;
            idle().push(store);
            Ok(result)
        })
        .await;
        drop(turn);
        done.map_err(|_| ReadError::Stopped)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{Retention, Selector, Sqlite};

    #[tokio::test]
    async fn reads_share_connections_and_an_error_of_one_spoils_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.sqlite");
        let readers = Readers::new(path.to_str().unwrap());
        let missing = readers.read(|store| store.retentions()).await;
        assert!(matches!(missing, Err(ReadError::Store(_))), "there is no file yet");
        Sqlite::open(&path).unwrap().retain(&Retention::usual()).unwrap();
        let refused = readers.read(|_| Err::<(), _>(StoreError::NoRetention(1))).await;
        assert_eq!(refused.unwrap_err().to_string(), StoreError::NoRetention(1).to_string());
        let many = (0..20).map(|_| {
            let readers = readers.clone();
            tokio::spawn(async move {
                let found = readers.read(|store| store.find(&Selector::default())).await.unwrap();
                (found.len(), readers.read(|store| store.retentions()).await.unwrap().len())
            })
        });
        for read in many.collect::<Vec<_>>() {
            assert_eq!(read.await.unwrap(), (0, 3));
        }
        let idle = readers.shared.idle.lock().unwrap().len();
        assert!((1..=CONNECTIONS).contains(&idle), "{idle} connections are open");
    }
}
