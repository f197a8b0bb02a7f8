//! `tachograph maintain`: expires and packs what is due.

use crate::failure::{Outcome, Status};
use crate::flags::Global;
use crate::flags::series::now_us;
use crate::{output, stores};

pub(crate) fn run(global: &Global) -> Outcome {
    // A record that does not exist is not created.
    let mut store = stores::open_existing(global)?;
    let done = store.maintain(now_us())?;
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
    Ok(Status::Well)
}
