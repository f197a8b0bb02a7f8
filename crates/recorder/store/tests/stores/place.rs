//! The store of a test, and queries with its SQL.

use std::sync::OnceLock;

use postgres::{Client, NoTls};
use series::{SlotKey, Step};
use store::{Memory, Packing, Postgres, Sqlite, Store};
use throwaway::Throwaway;

/// One server for all tests of this process; it ends with the process.
pub(crate) fn server() -> &'static Throwaway {
    static SERVER: OnceLock<Throwaway> = OnceLock::new();
    SERVER.get_or_init(|| match Throwaway::start(&["fsync=off"]) {
        Ok(server) => server,
        Err(error) => panic!("these tests need PostgreSQL: {error}"),
    })
}

/// How a store stores its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As by default.
    Usual,
    /// All packed when written.
    Packed,
    /// All as rows, packed after each batch.
    Sealed,
}

impl Mode {
    pub(crate) const ALL: [Mode; 3] = [Mode::Usual, Mode::Packed, Mode::Sealed];

    fn packing(self) -> Packing {
        match self {
            Mode::Usual => Packing::USUAL,
            Mode::Packed => Packing::ALWAYS,
            Mode::Sealed => Packing::NEVER,
        }
    }
}

/// A store with what is needed to reopen it.
pub(crate) enum Place {
    Memory(Box<Memory>),
    Sqlite { folder: tempfile::TempDir, store: Option<Box<Sqlite>>, mode: Mode },
    Postgres { url: String, store: Option<Box<Postgres>>, mode: Mode },
}

/// A row of a view for people: the rate, total, min, max, n, and the known part.
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
        Place::sqlite_in(Mode::Usual)
    }

    pub(crate) fn sqlite_in(mode: Mode) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(folder.path().join("record.sqlite")).unwrap();
        let store = Some(Box::new(store.with_packing(mode.packing())));
        Place::Sqlite { folder, store, mode }
    }

    pub(crate) fn postgres(name: &str) -> Place {
        Place::postgres_in(name, Mode::Usual)
    }

    pub(crate) fn postgres_in(name: &str, mode: Mode) -> Place {
        let url = server().database(name).unwrap();
        let store = Postgres::open(&url).unwrap().with_packing(mode.packing());
        Place::Postgres { url, store: Some(Box::new(store)), mode }
    }

    /// Packs everything, in the mode that does so.
    pub(crate) fn seal(&mut self) {
        match self {
            Place::Sqlite { store, mode: Mode::Sealed, .. } => {
                let mut all = store.take().unwrap().with_packing(Packing::ALWAYS);
                all.seal(i64::MAX).unwrap();
                *store = Some(Box::new(all.with_packing(Packing::NEVER)));
            }
            Place::Postgres { store, mode: Mode::Sealed, .. } => {
                let mut all = store.take().unwrap().with_packing(Packing::ALWAYS);
                all.seal(i64::MAX).unwrap();
                *store = Some(Box::new(all.with_packing(Packing::NEVER)));
            }
            _ => {}
        }
    }

    /// Number of rows and of packed rows of a step.
    pub(crate) fn kept(&mut self, step: &str) -> (i64, i64) {
        let count = |table: &str| format!("SELECT count(*) FROM {table}_{step}");
        match self {
            Place::Memory(_) => (0, 0),
            Place::Sqlite { folder, .. } => {
                let db = rusqlite::Connection::open(folder.path().join("record.sqlite")).unwrap();
                let ask = |table| db.query_row(&count(table), [], |row| row.get(0)).unwrap();
                (ask("slot"), ask("packed"))
            }
            Place::Postgres { url, .. } => {
                let mut client = Client::connect(url, NoTls).unwrap();
                let mut ask = |table| client.query_one(&count(table), &[]).unwrap().get(0);
                (ask("slot"), ask("packed"))
            }
        }
    }

    pub(crate) fn store(&mut self) -> &mut dyn Store {
        match self {
            Place::Memory(store) => &mut **store,
            Place::Sqlite { store, .. } => &mut **store.as_mut().unwrap(),
            Place::Postgres { store, .. } => &mut **store.as_mut().unwrap(),
        }
    }

    /// Closes the store and opens it again, except for memory.
    pub(crate) fn reopen(&mut self) {
        match self {
            Place::Memory(_) => {}
            Place::Sqlite { folder, store, mode } => {
                drop(store.take());
                let path = folder.path().join("record.sqlite");
                *store = Some(Box::new(Sqlite::open(path).unwrap().with_packing(mode.packing())));
            }
            Place::Postgres { url, store, mode } => {
                drop(store.take());
                *store = Some(Box::new(Postgres::open(url).unwrap().with_packing(mode.packing())));
            }
        }
    }

    /// What the view of a step shows for a series.
    pub(crate) fn shown(&mut self, step: Step, view: &str, series: &store::Series) -> Vec<Shown> {
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
                     FROM {view} WHERE series = $1::bigint ORDER BY 1"
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

/// What a view must show according to the arithmetic.
fn combined(store: &mut dyn Store, step: Step, series: &store::Series) -> Vec<Shown> {
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
