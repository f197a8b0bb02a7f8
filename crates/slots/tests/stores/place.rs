//! Where a store of a test is, and how its SQL is asked.

use std::sync::OnceLock;

use postgres::{Client, NoTls};
use series::{SlotKey, Step};
use tachograph_slots::throwaway::Throwaway;
use tachograph_slots::{Memory, Postgres, Sqlite, Store};

/// One server for all tests of this program; it ends with the program.
pub(crate) fn server() -> &'static Throwaway {
    static SERVER: OnceLock<Throwaway> = OnceLock::new();
    SERVER.get_or_init(|| match Throwaway::start(&["fsync=off"]) {
        Ok(server) => server,
        Err(error) => panic!("these tests need PostgreSQL: {error}"),
    })
}

/// A store with what is needed to open it again.
pub(crate) enum Place {
    Memory(Box<Memory>),
    Sqlite { folder: tempfile::TempDir, store: Option<Box<Sqlite>> },
    Postgres { url: String, store: Option<Box<Postgres>> },
}

/// A row of a view for people: the rate, total, min, max, n, and the part that is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) slot_us: i64,
    pub(crate) rate: Option<f64>,
    pub(crate) total: Option<f64>,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) n: Option<i64>,
    pub(crate) known: f64,
}

impl Place {
    pub(crate) fn memory() -> Place {
        Place::Memory(Box::new(Memory::new()))
    }

    pub(crate) fn sqlite() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(folder.path().join("record.sqlite")).unwrap();
        Place::Sqlite { folder, store: Some(Box::new(store)) }
    }

    pub(crate) fn postgres(name: &str) -> Place {
        let url = server().database(name).unwrap();
        let store = Postgres::open(&url).unwrap();
        Place::Postgres { url, store: Some(Box::new(store)) }
    }

    pub(crate) fn store(&mut self) -> &mut dyn Store {
        match self {
            Place::Memory(store) => &mut **store,
            Place::Sqlite { store, .. } => &mut **store.as_mut().unwrap(),
            Place::Postgres { store, .. } => &mut **store.as_mut().unwrap(),
        }
    }

    /// Closes the store and opens it again; memory would not survive that.
    pub(crate) fn reopen(&mut self) {
        match self {
            Place::Memory(_) => {}
            Place::Sqlite { folder, store } => {
                drop(store.take());
                let path = folder.path().join("record.sqlite");
                *store = Some(Box::new(Sqlite::open(path).unwrap()));
            }
            Place::Postgres { url, store } => {
                drop(store.take());
                *store = Some(Box::new(Postgres::open(url).unwrap()));
            }
        }
    }

    /// What the view of a step shows of a series.
    pub(crate) fn shown(
        &mut self,
        step: Step,
        view: &str,
        series: &tachograph_slots::Series,
    ) -> Vec<Shown> {
        match self {
            Place::Memory(store) => combined(&mut **store, step, series),
            Place::Sqlite { folder, .. } => {
                let path = folder.path().join("record.sqlite");
                let sql = format!(
                    "SELECT slot_us, rate, total, min, max, n, known FROM {view} WHERE series = ?1 ORDER BY 1"
                );
                let db = rusqlite::Connection::open(path).unwrap();
                let mut statement = db.prepare(&sql).unwrap();
                let rows = statement.query_map([series.id], |row| {
                    Ok(Shown {
                        slot_us: row.get(0)?,
                        rate: row.get(1)?,
                        total: row.get(2)?,
                        min: row.get(3)?,
                        max: row.get(4)?,
                        n: row.get(5)?,
                        known: row.get(6)?,
                    })
                });
                rows.unwrap().map(Result::unwrap).collect()
            }
            Place::Postgres { url, .. } => {
                let sql = format!(
                    "SELECT (extract(epoch FROM slot) * 1000000)::bigint, rate, total, min, max, n, known
                     FROM {view} WHERE series = $1 ORDER BY 1"
                );
                let mut client = Client::connect(url, NoTls).unwrap();
                let rows = client.query(&sql, &[&series.id]).unwrap();
                rows.iter()
                    .map(|row| Shown {
                        slot_us: row.get(0),
                        rate: row.get(1),
                        total: row.get(2),
                        min: row.get(3),
                        max: row.get(4),
                        n: row.get(5),
                        known: row.get(6),
                    })
                    .collect()
            }
        }
    }
}

/// What the arithmetic says that a view must show.
fn combined(store: &mut dyn Store, step: Step, series: &tachograph_slots::Series) -> Vec<Shown> {
    let rows = store.slots(step, &[series.id], i64::MIN, i64::MAX).unwrap();
    rows.chunk_by(|(a, _), (b, _)| a.slot_us == b.slot_us)
        .map(|lanes: &[(SlotKey, series::Accumulator)]| {
            let accumulators = lanes.iter().map(|(_, row)| row);
            let flavor = series.spec.kind.flavor();
            let sum = series::combine(flavor, step, series.xff, accumulators);
            let void = sum.integral.as_f64() == 0.0 && sum.n == 0 && sum.covered_us == 0;
            Shown {
                slot_us: lanes[0].0.slot_us,
                rate: sum.rate,
                total: (!void).then(|| sum.integral.as_f64()),
                min: sum.min.filter(|_| !void),
                max: sum.max.filter(|_| !void),
                n: Some(sum.n),
                known: sum.covered_us.max(0) as f64 / step.us() as f64,
            }
        })
        .collect()
}
