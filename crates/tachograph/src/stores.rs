//! The location of the record, and the store of series.

use std::path::PathBuf;

use store::{Store, StoreError};

use crate::failure::Failure;
use crate::flags::GlobalFlags;

/// Location of the record.
pub(crate) enum RecordLocation {
    /// A SQLite file with runs and series.
    File(PathBuf),
    /// The URL of a PostgreSQL database with series only. It may contain a password.
    Postgres(String),
}

impl RecordLocation {
    /// The location in `--record` or TACHOGRAPH_RECORD, or the default file.
    pub(crate) fn of(global: &GlobalFlags) -> Result<RecordLocation, Failure> {
        let path = match &global.record {
            Some(path) => path.clone(),
            None => return Ok(RecordLocation::File(recordfile::default_path()?)),
        };
        let text = path.to_string_lossy();
        if store::is_postgres(&text) {
            return Ok(RecordLocation::Postgres(text.into_owned()));
        }
        match scheme(&text) {
            Some(scheme) => Err(Failure::new(format!(
                "{scheme}:// is not supported for the record: use the path of a SQLite file, or \
                 postgres://user@host/database"
            ))),
            None => Ok(RecordLocation::File(path)),
        }
    }

    /// The location as [`store::open`] takes it. It may contain a password.
    pub(crate) fn text(&self) -> String {
        match self {
            RecordLocation::File(path) => path.to_string_lossy().into_owned(),
            RecordLocation::Postgres(url) => url.clone(),
        }
    }

    /// The location for messages: without user, password and options.
    pub(crate) fn shown(&self) -> String {
        match self {
            RecordLocation::File(path) => path.display().to_string(),
            RecordLocation::Postgres(url) => {
                let address = url.split_once("://").map_or(url.as_str(), |(_, address)| address);
                // A question mark may be in a password, and an @ in an option: then nothing is safe
                // to show.
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

/// The text before `://`, if it is the scheme of a URL.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let is_one = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_one.then_some(scheme)
}

/// The file of recorded runs, for the command `what`; refused if the record is a PostgreSQL
/// database.
pub(crate) fn runs_file(global: &GlobalFlags, what: &str) -> Result<PathBuf, Failure> {
    match RecordLocation::of(global)? {
        RecordLocation::File(path) => Ok(path),
        place @ RecordLocation::Postgres(_) => Err(Failure::new(format!(
            "{what} only in a SQLite file, but the record is {}, which stores only series \
             (import, query, series): add --record FILE",
            place.shown()
        ))),
    }
}

/// Opens the store; creates it if it does not exist.
pub(crate) fn open(global: &GlobalFlags) -> Result<Box<dyn Store>, Failure> {
    Ok(match RecordLocation::of(global)? {
        RecordLocation::File(path) => Box::new(store::Sqlite::open(path)?),
        RecordLocation::Postgres(url) => Box::new(store::Postgres::open(&url)?),
    })
}

/// Opens the store as it is; creates nothing.
pub(crate) fn open_read_only(global: &GlobalFlags) -> Result<Box<dyn Store>, Failure> {
    Ok(existing(&RecordLocation::of(global)?)??)
}

/// Opens the store for writing, if there are series in it; those of an older version are migrated.
pub(crate) fn open_existing(global: &GlobalFlags) -> Result<Box<dyn Store>, Failure> {
    match existing(&RecordLocation::of(global)?)? {
        Ok(_) | Err(StoreError::Older { .. }) => open(global),
        Err(error) => Err(error.into()),
    }
}

/// The store, for reading.
fn existing(place: &RecordLocation) -> Result<Result<Box<dyn Store>, StoreError>, Failure> {
    Ok(match place {
        RecordLocation::File(path) if !path.exists() => {
            return Err(Failure::new(format!(
                "no record at {} yet; 'tachograph import' and every run create it",
                path.display()
            )));
        }
        RecordLocation::File(path) => {
            store::Sqlite::open_read_only(path).map(|store| Box::new(store) as _)
        }
        RecordLocation::Postgres(url) => {
            store::Postgres::open_read_only(url).map(|store| Box::new(store) as _)
        }
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
            assert_eq!(RecordLocation::Postgres(url.to_owned()).shown(), shown);
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
