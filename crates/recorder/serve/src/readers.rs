//! Shared access to the store for reading.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use std::time::Duration;

use store::{Abandonment, Store, StoreError};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Number of connections to the store for reading.
const CONNECTIONS: usize = 4;

/// How often an abandoned read is told so, until it ends.
const TOLD_EACH: Duration = Duration::from_millis(100);

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
    shared: Arc<ReaderPools>,
}

struct ReaderPools {
    place: String,
    queries: Connections,
    probes: Connections,
}

/// Connections that wait for a read, and how many reads may run at a time.
struct Connections {
    idle: Mutex<Vec<Box<dyn Store>>>,
    turns: Arc<Semaphore>,
}

impl Connections {
    fn new(count: usize) -> Connections {
        Connections { idle: Mutex::new(Vec::new()), turns: Arc::new(Semaphore::new(count)) }
    }
}

/// A read whose result is wanted until this is dropped.
struct AwaitedRead {
    /// Ends with the read.
    progress: Weak<Mutex<ReadProgress>>,
    runtime: Handle,
}

/// What is known of a read on both threads.
#[derive(Default)]
struct ReadProgress {
    /// Set while it has a connection.
    running: Option<Abandonment>,
    is_abandoned: bool,
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for AwaitedRead {
    fn drop(&mut self) {
        let Some(progress) = self.progress.upgrade() else { return };
        lock(&progress).is_abandoned = true;
        if lock(&progress).running.is_none() {
            return;
        }
        let progress = self.progress.clone();
        let running = move || lock(&*progress.upgrade()?).running.clone();
        self.runtime.spawn_blocking(move || {
            while let Some(running) = running() {
                running.tell();
                std::thread::sleep(TOLD_EACH);
            }
        });
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
        let shared = ReaderPools {
            place: place.to_owned(),
            queries: Connections::new(CONNECTIONS),
            probes: Connections::new(1),
        };
        Readers { shared: Arc::new(shared) }
    }

    /// Calls `read` with a connection, on a thread where it may block. At most a few reads run at
    /// a time; others wait. If the future is dropped, the read is [abandoned](Abandonment).
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
        connections: fn(&ReaderPools) -> &Connections,
        read: impl FnOnce(&mut dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let shared = self.shared.clone();
        let turns = connections(&shared).turns.clone();
        let turn = turns.acquire_owned().await.map_err(|_| ReadError::Stopped)?;
        let progress = Arc::new(Mutex::new(ReadProgress::default()));
        let awaited =
            AwaitedRead { progress: Arc::downgrade(&progress), runtime: Handle::current() };
        let done = tokio::task::spawn_blocking(move || {
            // An abandoned read keeps its turn until its SQL has really stopped.
            let _turn = turn;
            let known = lock(&connections(&shared).idle).pop();
            let mut store = match known {
                Some(store) => store,
                None => store::open_read_only(&shared.place)?,
            };
            lock(&progress).running = Some(store.abandonment());
            if lock(&progress).is_abandoned {
                store.abandonment().tell();
            }
            let result = read(&mut *store);
            let mut progress = lock(&progress);
            progress.running = None;
            if result.is_ok() && !progress.is_abandoned {
                lock(&connections(&shared).idle).push(store);
            }
            result
        })
        .await;
        drop(awaited);
        Ok(done.map_err(|_| ReadError::Stopped)??)
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
    async fn reads_that_nobody_waits_for_give_their_places_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.sqlite");
        Sqlite::open(&path).unwrap().retain(&Retention::usual()).unwrap();
        let readers = Readers::new(path.to_str().unwrap());
        let endless: Vec<_> = (0..2 * CONNECTIONS)
            .map(|_| {
                let readers = readers.clone();
                tokio::spawn(async move {
                    let read = readers.read::<()>(|store| {
                        loop {
                            store.retentions()?;
                        }
                    });
                    read.await
                })
            })
            .collect();
        while readers.shared.queries.turns.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        for read in endless {
            read.abort();
        }
        assert_eq!(readers.read(|store| store.retentions()).await.unwrap().len(), 3);
        while readers.shared.queries.turns.available_permits() < CONNECTIONS {
            tokio::task::yield_now().await;
        }
        let idle = std::mem::take(&mut *lock(&readers.shared.queries.idle));
        assert!(idle.iter().all(|store| !store.abandonment().is_told()));
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
