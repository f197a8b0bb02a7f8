//! `tachograph maintain`: expires and packs what is due.

use series::SECOND_US;

use crate::failure::{Outcome, Status};
use crate::flags::GlobalFlags;
use crate::flags::series::now_us;
use crate::{output, stores};

/// How far ahead of the record a clock is worth a word, in microseconds: more than the newest
/// partitions of most retentions.
pub(super) const FAR_US: i64 = 30 * 86_400 * SECOND_US;

pub(crate) fn run(global: &GlobalFlags) -> Outcome {
    // A record that does not exist is not created.
    let mut store = stores::open_existing(global)?;
    let clock_us = now_us();
    let believed_us = store::believed_us(&mut *store, clock_us)?;
    let done = store.maintain(believed_us)?;
    let record = store.place();
    if done.is_elsewhere {
        output::print(&format!("{record}: another process is doing this now\n"))?;
        return Ok(Status::Well);
    }
    output::print(&format!(
        "{record}: dropped {}, packed {}, prepared {}\n",
        output::counted(done.dropped, "expired partition"),
        output::counted(done.sealed, "slot"),
        output::counted(done.made, "partition"),
    ))?;
    if clock_us.saturating_sub(believed_us) > FAR_US {
        let last = jiff::Timestamp::from_microsecond(believed_us);
        let last = last.map_or_else(|_| format!("{believed_us} µs"), |time| time.to_string());
        output::print(&format!(
            "{record}: this machine's clock is far ahead of the record and may be wrong, so only data \
             that had expired by {last} was dropped\n"
        ))?;
    }
    Ok(Status::Well)
}
