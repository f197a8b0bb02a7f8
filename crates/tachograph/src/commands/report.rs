//! `tachograph report`: a recorded run once more, in any form.

use std::path::{Path, PathBuf};

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
    if let Some(file) = &flags.markdown {
        let text = match &flags.svg {
            Some(folder) => report::markdown_with_pictures(&run, &seen_from(file, folder)),
            None => report::markdown(&run),
        };
        output::write_file(file, &text)?;
        exported = true;
    }
    let exports: [(&Option<PathBuf>, Render); 3] =
        [(&flags.html, report::html), (&flags.csv, report::csv), (&flags.json, report_json)];
    for (file, render) in exports {
        if let Some(file) = file {
            output::write_file(file, &render(&run))?;
            exported = true;
        }
    }
    if let Some(folder) = &flags.svg {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::new(format!("cannot make {}: {error}", folder.display())))?;
        for picture in report::pictures(&run) {
            let file = folder.join(format!("{}.svg", picture.name));
            output::write_file(&file, &picture.svg.standalone())?;
        }
        exported = true;
    }
    if !exported {
        output::print(&report::terminal(&run, &output::style(global.color)));
    }
    Ok(status_of(&run))
}

/// The folder as a page in `file` refers to it: nothing if they lie beside each other.
fn seen_from(file: &Path, folder: &Path) -> String {
    let beside = file.parent().unwrap_or(Path::new(""));
    let within = folder.strip_prefix(beside).unwrap_or(folder);
    within.to_string_lossy().trim_start_matches("./").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_found_from_the_page() {
        let seen = |file: &str, folder: &str| seen_from(Path::new(file), Path::new(folder));
        assert_eq!(seen("docs/page.md", "docs"), "");
        assert_eq!(seen("docs/page.md", "docs/pictures"), "pictures");
        assert_eq!(seen("page.md", "pictures"), "pictures");
        assert_eq!(seen("docs/page.md", "/tmp/p"), "/tmp/p");
    }
}
