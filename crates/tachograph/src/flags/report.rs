//! Flags of `list` and `report`.

use std::path::PathBuf;

use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tachograph report last
  tachograph report last --html report.html
  tachograph report 20261121-071530 --csv -";

/// Flags of `list`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ListFlags {
    /// Show at most this many recorded runs
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: usize,
}

/// Flags of `report`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportFlags {
    /// A run's id, the beginning of one, or `last`
    #[arg(value_name = "RUN", default_value = "last")]
    pub(crate) run: String,
    /// Write one self-contained HTML file (- for standard output)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) html: Option<PathBuf>,
    /// Write Markdown (- for standard output); with --svg it shows the pictures
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write every trial as CSV (- for standard output)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) csv: Option<PathBuf>,
    /// Write JSON (- for standard output)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Write every chart as an SVG file into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) svg: Option<PathBuf>,
}
