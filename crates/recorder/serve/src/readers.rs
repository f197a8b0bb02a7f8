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
    queries: Connections,
    probes: Connections,
}

/// Connections that wait for a read, and how many reads may run at a time.
struct Connections {
    idle: Mutex<Vec<Box<dyn Store>>>,
    turns: Semaphore,
}

impl Connections {
    fn new(count: usize) -> Connections {
        Connections { idle: Mutex::new(Vec::new()), turns: Semaphore::new(count) }
    }
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
            queries: Connections::new(CONNECTIONS),
            probes: Connections::new(1),
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
        self.read_with(|shared| &shared.queries, read).await
    }

    /// The same with a connection of its own, so that it does not wait for queries: for reads that
    /// take no time.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) async fn probe<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ReadError> {
        self.read_with(|shared| &shared.probes, read).await
    }

    async fn read_with<T: Send + 'static>(
        &self,
        connections: fn(&Shared) -> &Connections,
        read: impl FnOnce(&mut dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let shared = self.shared.clone();
        let turns = &connections(&self.shared).turns;
        let turn = turns.acquire().await.map_err(|_| ReadError::Stopped)?;
        let done = tokio::task::spawn_blocking(move || {
            let idle = || connections(&shared).idle.lock().unwrap_or_else(PoisonError::into_inner);
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
        let idle = readers.shared.queries.idle.lock().unwrap().len();
        assert!((1..=CONNECTIONS).contains(&idle), "{idle} connections are open");
    }

    #[tokio::test]
    async fn a_probe_does_not_wait_for_queries() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.sqlite");
        Sqlite::open(&path).unwrap().retain(&Retention::usual()).unwrap();
        let readers = Readers::new(path.to_str().unwrap());
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let slow: Vec<_> = (0..2 * CONNECTIONS)
            .map(|_| {
                let (readers, wait) = (readers.clone(), wait.clone());
                tokio::spawn(async move {
                    let read = readers.read(move |_| {
                        // Until the sender is dropped.
                        let _ = wait.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        Ok(())
                    });
                    read.await.unwrap();
                })
            })
            .collect();
        while readers.shared.queries.turns.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(readers.probe(|store| store.retentions()).await.unwrap().len(), 3);
        drop(release);
        for slow in slow {
            slow.await.unwrap();
        }
    }
}
