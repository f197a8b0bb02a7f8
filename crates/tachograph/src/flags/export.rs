//! Flags of `export`.

use std::path::PathBuf;

use base::Nanos;
use clap::Args;
use export::Day;

use super::series::parse_length;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tachograph export --parquet /data/slots
  tachograph export --parquet /data/slots --step 1m --step 1h --since 2026-11-01
  tachograph export --delta /data/table
  duckdb -c \"SELECT day, sum(total) FROM read_parquet('/data/slots/*/*/*.parquet')
             WHERE step = '1h' AND measurement = 'requests' GROUP BY day\"

Run it again, e.g. every hour, to export what is new: only days that have changed are written.
Several recorders may export to one folder. What has expired in the record stays in the folder.";

/// Flags of `export`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExportFlags {
    /// Write Parquet files to this folder, as step=10s/day=2026-11-22/…
    #[arg(long, value_name = "FOLDER", conflicts_with = "delta")]
    pub(crate) parquet: Option<PathBuf>,
    /// Write a table of Delta Lake to this folder: readers see all of an export or nothing of it
    #[arg(long, value_name = "FOLDER")]
    pub(crate) delta: Option<PathBuf>,
    /// Length of the slots to export; repeatable [default: all that are stored]
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    pub(crate) step: Vec<Nanos>,
    /// First day, in UTC [default: earliest data]
    #[arg(long, value_name = "DAY", value_parser = Day::parse)]
    pub(crate) since: Option<Day>,
    /// Last day, in UTC [default: latest slots that ended two hours ago]
    #[arg(long, value_name = "DAY", value_parser = Day::parse)]
    pub(crate) until: Option<Day>,
    /// List the files that would be written, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}
