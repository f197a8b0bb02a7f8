//! The store of series that a command works on.

use slots::{Sqlite, Store};

use crate::commands::measure::record_path;
use crate::failure::Failure;
use crate::flags::Global;

/// The store, made where there is none.
pub(crate) fn open(global: &Global) -> Result<Box<dyn Store>, Failure> {
    Ok(Box::new(Sqlite::open(record_path(global)?)?))
}

/// The store as it is; none is made.
pub(crate) fn open_read_only(global: &Global) -> Result<Box<dyn Store>, Failure> {
    let path = record_path(global)?;
    if !path.exists() {
        return Err(Failure::new(format!(
            "there is no record at {} yet; 'tachograph import' makes one",
            path.display()
        )));
    }
    Ok(Box::new(Sqlite::open_read_only(&path)?))
}
