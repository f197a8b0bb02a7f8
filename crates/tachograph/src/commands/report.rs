//! `tachograph report`: a recorded run in any format.

use std::path::{Path, PathBuf};

use archive::{RecordError, Store};
use record::Run;
use report::RunVerdict;
use store::StoreError;

use super::measure::{Render, report_json};
use crate::failure::{Failure, Outcome, Status};
use crate::flags::GlobalFlags;
use crate::flags::report::ReportFlags;
use crate::output;
use crate::stores::runs_file;

pub(crate) fn run(flags: &ReportFlags, global: &GlobalFlags) -> Outcome {
    let path = runs_file(global, "runs are recorded")?;
    if !path.exists() {
        return Err(Failure::new(format!(
            "no record at {} yet; 'tachograph compare' and 'tachograph run' create it",
            path.display()
        )));
    }
    if let [a, b] = flags.runs.as_slice() {
        let alone = [
            (flags.html.is_some(), "--html"),
            (flags.markdown.is_some(), "--markdown"),
            (flags.csv.is_some(), "--csv"),
            (flags.json.is_some(), "--json"),
            (flags.svg.is_some(), "--svg"),
            (flags.folded.is_some(), "--folded"),
        ];
        if let Some((_, flag)) = alone.into_iter().find(|(given, _)| *given) {
            return Err(Failure::new(format!(
                "{flag} writes one run; for two runs, call it for each"
            )));
        }
        let (a, b) = (read(&path, a)?, read(&path, b)?);
        output::print(&report::beside(&a, &b, &output::style(global.color)))?;
        return Ok(Status::Well);
    }
    if flags.runs.is_empty() {
        refuse_run_as_file(flags, &path)?;
    }
    let run = read(&path, flags.runs.first().map_or("last", String::as_str))?;
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
    if let Some(folder) = &flags.folded {
        write_folded(&run, folder)?;
        exported = true;
    }
    if let Some(folder) = &flags.svg {
        create(folder)?;
        for picture in report::pictures(&run) {
            let file = folder.join(format!("{}.svg", picture.name));
            output::write_file(&file, &picture.svg.standalone())?;
        }
        exported = true;
    }
    if !exported {
        output::print(&report::terminal(&run, &output::style(global.color)))?;
    }
    Ok(match RunVerdict::of(&run) {
        RunVerdict::Ok => Status::Well,
        RunVerdict::Invalid => Status::VerdictFailed,
        RunVerdict::Incomplete => Status::Incomplete,
    })
}

fn create(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::new(format!("cannot create {}: {error}", folder.display())))
}

/// Writes the samples of each variant as folded stacks.
fn write_folded(run: &Run, folder: &Path) -> Result<(), Failure> {
    let of_part = |part: &record::Part| {
        let each = report::folded(part).into_iter();
        let named = each.map(|(variant, text)| (format!("{}-{variant}", part.name), text));
        named.collect::<Vec<_>>()
    };
    let all: Vec<(String, String)> = run.parts.iter().flat_map(of_part).collect();
    if all.is_empty() {
        return Err(Failure::new(format!("run {} has no samples; measure it with --why", run.id)));
    }
    create(folder)?;
    for (name, text) in all {
        let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        let name: String = name.chars().map(plain).collect();
        output::write_file(&folder.join(format!("{name}.folded")), &text)?;
    }
    Ok(())
}

/// In `report --html RUN`, the run is taken as the name of the file.
fn refuse_run_as_file(flags: &ReportFlags, path: &Path) -> Result<(), Failure> {
    let files = [
        (&flags.html, "--html", "html"),
        (&flags.markdown, "--markdown", "md"),
        (&flags.csv, "--csv", "csv"),
        (&flags.json, "--json", "json"),
    ];
    let store = Store::open_read_only(path)?;
    for (file, flag, ending) in files {
        let Some(name) = file.as_ref().and_then(|file| file.to_str()) else { continue };
        if name != "-" && store.load(name).is_ok() {
            return Err(Failure::new(format!(
                "{flag} takes a file, but '{name}' is a run; put the run first: \
                 tachograph report {} {flag} report.{ending}",
                shell_words::quote(name)
            )));
        }
    }
    Ok(())
}

/// A recorded run. The ledger's fourth column is read from the database again.
fn read(path: &Path, name: &str) -> Result<Run, Failure> {
    let mut run = Store::open_read_only(path)?.load(name)?;
    match store::Sqlite::open_read_only(path) {
        Ok(mut series) => conduct::reread_series(&mut run, &mut series)?,
        Err(StoreError::NoSeries(_)) => {
            conduct::reread_series(&mut run, &mut store::Memory::new())?
        }
        Err(
            other @ (StoreError::Older { .. }
            | StoreError::Unreleased { .. }
            | StoreError::Record(RecordError::Newer { .. })),
        ) => {
            output::note(&format!("the ledgers are shown without the recorded series: {other}"));
            conduct::reread_series(&mut run, &mut store::Memory::new())?
        }
        Err(error) => return Err(error.into()),
    }
    Ok(run)
}

/// The folder relative to `file`; empty if they are in the same folder.
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
