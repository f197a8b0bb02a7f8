//! `tachograph export`: sealed slots as Parquet files, or as a table of Delta Lake.

use export::{ExportRequest, PartitionChange, Summary};
use series::Step;

use crate::failure::{Failure, Outcome, Status};
use crate::flags::GlobalFlags;
use crate::flags::export::ExportFlags;
use crate::flags::series::now_us;
use crate::{output, stores};

/// The advice if no folder is named.
const NO_FOLDER: &str =
    "name a folder: --parquet FOLDER for plain files, or --delta FOLDER for a table of Delta Lake";

pub(crate) fn run(flags: &ExportFlags, global: &GlobalFlags) -> Outcome {
    if flags.since.zip(flags.until).is_some_and(|(since, until)| since > until) {
        return Err(Failure::new("--since is later than --until: exchange them"));
    }
    let steps: Result<Vec<Step>, String> =
        flags.step.iter().map(|step| Step::try_from((step.0 / 1_000) as i64)).collect();
    let request = ExportRequest {
        steps: steps.map_err(Failure::new)?,
        since: flags.since,
        until: flags.until,
        sealed_us: now_us().saturating_sub(store::SEALED_AFTER_US),
        dry_run: flags.dry_run,
    };
    // A record that does not exist is not created.
    drop(stores::open_read_only(global)?);
    let mut store = stores::open(global)?;
    let mut listed = Ok(());
    let mut each = |change: &PartitionChange| {
        if flags.dry_run && listed.is_ok() {
            listed = output::print(&format!("{}\n", change.partition.path.display()));
        }
    };
    let (folder, summary, version) = match (&flags.delta, &flags.parquet) {
        (Some(table), _) => {
            let (summary, version) = export::export_delta(&mut *store, table, &request, &mut each)?;
            (table, summary, version)
        }
        (None, Some(folder)) => {
            (folder, export::export(&mut *store, folder, &request, &mut each)?, None)
        }
        (None, None) => return Err(Failure::new(NO_FOLDER)),
    };
    listed?;
    if !flags.dry_run {
        let version = version.map(|version| format!("; version {version}")).unwrap_or_default();
        output::print(&format!("{}: {}{version}\n", folder.display(), text(&summary)))?;
        note(&summary);
    }
    Ok(Status::Well)
}

fn text(summary: &Summary) -> String {
    let Summary { written, removed, unchanged, slots, bytes, .. } = summary;
    let mut parts = Vec::new();
    if *written > 0 {
        let size = base::Bytes(*bytes);
        parts.push(format!(
            "wrote {} ({}, {size})",
            output::counted(*written, "file"),
            output::counted(*slots, "slot")
        ));
    }
    if *removed > 0 {
        parts.push(format!("removed {}", output::counted(*removed, "file")));
    }
    if *unchanged > 0 {
        parts.push(format!("{} unchanged", output::counted(*unchanged, "file")));
    }
    if parts.is_empty() { "no sealed slots yet".to_owned() } else { parts.join(", ") }
}

fn note(summary: &Summary) {
    if summary.partial > 0 {
        output::note(&format!(
            "note: a part of the day had expired before the first export in {}: export more often \
             to have whole days",
            output::counted(summary.partial, "file")
        ));
    }
}
