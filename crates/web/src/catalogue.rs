//! The names of all series, kept in memory between requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use graphite::{Entry, Index};
use serve::{ReadError, Readers};
use store::{Identity, Selector, Series, Store, StoreError};

/// How long names are used without asking the store whether there are new series.
const FRESH: Duration = Duration::from_secs(1);

/// All series with their paths.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// The paths.
    pub(crate) index: Index,
    /// The series by number.
    pub(crate) series: HashMap<i64, Series>,
}

impl Names {
    fn new(found: Vec<Series>) -> Names {
        let entry =
            |series: &Series| Entry::new(&path(&series.identity), &series.identity.tags, series.id);
        let index = Index::new(found.iter().map(entry).collect());
        Names { index, series: found.into_iter().map(|series| (series.id, series)).collect() }
    }
}

/// The path of a series: its measurement, followed by the field unless it is `value`.
fn path(identity: &Identity) -> String {
    match identity.field.as_str() {
        "value" => identity.measurement.clone(),
        field => format!("{}.{field}", identity.measurement),
    }
}

#[derive(Debug, Default)]
struct CachedNames {
    names: Arc<Names>,
    /// When the store was last asked, and what it answered.
    asked: Option<(Instant, i64)>,
}

/// The current names. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    known: Arc<Mutex<CachedNames>>,
}

impl Catalogue {
    /// The names, at most a second old.
    pub(crate) async fn names(&self, readers: &Readers) -> Result<Arc<Names>, ReadError> {
        if let Some(names) = self.fresh() {
            return Ok(names);
        }
        let catalogue = self.clone();
        readers.read(move |store| catalogue.read(store)).await
    }

    fn fresh(&self) -> Option<Arc<Names>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = known.asked.is_some_and(|(at, _)| at.elapsed() < FRESH);
        is_fresh.then(|| known.names.clone())
    }

    /// Reads the names if there are new ones. One request does; others wait for it.
    fn read(&self, store: &mut dyn Store) -> Result<Arc<Names>, StoreError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let count = store.series_count()?;
        if known.asked.is_none_or(|(_, before)| before != count) {
            known.names = Arc::new(Names::new(store.find(&Selector::default())?));
        }
        known.asked = Some((Instant::now(), count));
        Ok(known.names.clone())
    }
}
