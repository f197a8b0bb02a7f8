//! Where the record is, and the store of series that a command works on.

use std::path::PathBuf;

use store::Store;

use crate::failure::Failure;
use crate::flags::Global;

/// Where the record is.
pub(crate) enum Place {
    /// A SQLite file: runs, and series beside them.
    File(PathBuf),
    /// The URL of a PostgreSQL database: series alone. It may hold a password.
    Postgres(String),
}

impl Place {
    /// What `--record` or TACHOGRAPH_RECORD says, or the usual file.
    pub(crate) fn of(global: &Global) -> Result<Place, Failure> {
        let path = match &global.record {
            Some(path) => path.clone(),
            None => return Ok(Place::File(record::default_path()?)),
        };
        let text = path.to_string_lossy();
        if store::is_postgres(&text) {
            return Ok(Place::Postgres(text.into_owned()));
        }
        match scheme(&text) {
            Some(scheme) => Err(Failure::new(format!(
                "{scheme}:// is not supported for the record: use the path of a SQLite file, or \
                 postgres://user@host/database"
            ))),
            None => Ok(Place::File(path)),
        }
    }

    /// The place as people may see it: without user, password and options.
    pub(crate) fn shown(&self) -> String {
        match self {
            Place::File(path) => path.display().to_string(),
            Place::Postgres(url) => {
                let address = url.split_once("://").map_or(url.as_str(), |(_, address)| address);
                // A question mark may be in a password, and an @ in an option: then nothing is safe to show.
                if address.find('?').zip(address.rfind('@')).is_some_and(|(q, at)| q < at) {
                    return "PostgreSQL".to_owned();
                }
                let address = address.split('?').next().unwrap_or_default();
                let address = address.rsplit_once('@').map_or(address, |(_, address)| address);
                format!("PostgreSQL at {address}")
            }
        }
    }
}

/// What stands before `://`, if that is the beginning of a URL.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let is_one = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_one.then_some(scheme)
}

/// The file that runs are recorded in, for `what` a command does; refused where the record is
/// a PostgreSQL database.
pub(crate) fn runs_file(global: &Global, what: &str) -> Result<PathBuf, Failure> {
    match Place::of(global)? {
        Place::File(path) => Ok(path),
        place @ Place::Postgres(_) => Err(Failure::new(format!(
            "{what} only in a SQLite file, but the record is {}, which stores only series \
             (import, query, series): add --record FILE",
            place.shown()
        ))),
    }
}

/// The store, made where there is none.
pub(crate) fn open(global: &Global) -> Result<Box<dyn Store>, Failure> {
    Ok(match Place::of(global)? {
        Place::File(path) => Box::new(store::Sqlite::open(path)?),
        Place::Postgres(url) => Box::new(store::Postgres::open(&url)?),
    })
}

/// The store as it is; none is made.
pub(crate) fn open_read_only(global: &Global) -> Result<Box<dyn Store>, Failure> {
    Ok(match Place::of(global)? {
        Place::File(path) if !path.exists() => {
            return Err(Failure::new(format!(
                "no record at {} yet; 'tachograph import' and every run create it",
                path.display()
            )));
        }
        Place::File(path) => Box::new(store::Sqlite::open_read_only(path)?),
        Place::Postgres(url) => Box::new(store::Postgres::open_read_only(&url)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_shown_without_its_secrets() {
        for (url, shown) in [
            ("postgres://ada:se@cret@db:6000/m?password=x", "PostgreSQL at db:6000/m"),
            ("postgresql:///m?host=/run/pg&password=secret", "PostgreSQL at /m"),
            ("postgres://db/m", "PostgreSQL at db/m"),
            ("postgres://ada:sec?ret@db/m", "PostgreSQL"),
        ] {
            assert_eq!(Place::Postgres(url.to_owned()).shown(), shown);
        }
    }

    #[test]
    fn only_urls_have_a_scheme() {
        assert_eq!(scheme("mysql://ada:secret@db/m"), Some("mysql"));
        assert_eq!(scheme("POSTGRES://db/m"), Some("POSTGRES"));
        assert_eq!(scheme("/data/a://b"), None);
        assert_eq!(scheme("record.sqlite"), None);
    }
}
