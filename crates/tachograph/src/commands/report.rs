//! `tachograph report`: a recorded run once more, in any form.

use record::Store;
use slots::StoreError;

use super::measure::{Render, report_json, status_of};
use crate::failure::{Failure, Outcome};
use crate::flags::Global;
use crate::flags::report::ReportFlags;
use crate::output;
use crate::store::runs_file;

pub(crate) fn run(flags: &ReportFlags, global: &Global) -> Outcome {
    let path = runs_file(global, "runs are recorded")?;
    if !path.exists() {
        return Err(Failure::new(format!(
            "there is no record at {} yet; runs of 'tachograph compare' and 'tachograph run' are kept there",
            path.display()
        )));
    }
    let mut run = Store::open_read_only(&path)?.load(&flags.run)?;
    // The ledger's fourth column is what the database holds now.
    match slots::Sqlite::open_read_only(&path) {
        Ok(mut series) => lab::reread_series(&mut run, &mut series)?,
        Err(StoreError::NoSeries(_)) => lab::reread_series(&mut run, &mut slots::Memory::new())?,
        Err(error) => return Err(error.into()),
    }
    let mut exported = false;
    let exports: [(&Option<std::path::PathBuf>, Render); 4] = [
        (&flags.html, report::html),
        (&flags.markdown, report::markdown),
        (&flags.csv, report::csv),
        (&flags.json, report_json),
    ];
    for (file, render) in exports {
        if let Some(file) = file {
            output::write_file(file, &render(&run))?;
            exported = true;
        }
    }
    if let Some(folder) = &flags.svg {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::new(format!("cannot make {}: {error}", folder.display())))?;
        for (name, picture) in report::pictures(&run) {
            output::write_file(&folder.join(format!("{name}.svg")), &picture.standalone())?;
        }
        exported = true;
    }
    if !exported {
        output::print(&report::terminal(&run, &output::style(global.color)));
    }
    Ok(status_of(&run))
}
