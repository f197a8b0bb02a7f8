//! The store of series that a command works on.

use slots::Store;

use crate::commands::measure::record_path;
use crate::failure::Failure;
use crate::flags::Global;

/// The store, made where there is none.
pub(crate) fn open(global: &Global) -> Result<Box<dyn Store>, Failure> {
    Ok(slots::open(&record_path(global)?.to_string_lossy())?)
}

/// The store as it is; none is made.
pub(crate) fn open_read_only(global: &Global) -> Result<Box<dyn Store>, Failure> {
    let path = record_path(global)?;
    let place = path.to_string_lossy();
    if !slots::is_postgres(&place) && !path.exists() {
        return Err(Failure::new(format!(
            "there is no record at {place} yet; 'tachograph import' makes one"
        )));
    }
    Ok(slots::open_read_only(&place)?)
}
