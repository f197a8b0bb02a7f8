//! Flags of `list` and `report`.

use std::path::PathBuf;

use clap::Args;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tachograph report last
  tachograph report before after          # two runs side by side
  tachograph report last --html report.html
  tachograph report 20261121-071530 --csv -";

/// Flags of `list`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ListFlags {
    /// Maximum number of recorded runs
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: usize,
}

/// Flags of `report`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportFlags {
    /// Id of a run, the start of one, the name of one, or `last`; two are shown side by side
    /// [default: last]
    #[arg(value_name = "RUN", num_args = 0..=2)]
    pub(crate) runs: Vec<String>,
    /// Write a single HTML file (- for standard output)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) html: Option<PathBuf>,
    /// Write Markdown (- for standard output); includes the charts of --svg
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write all trials as CSV (- for standard output)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) csv: Option<PathBuf>,
    /// Write JSON (- for standard output)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Write all charts as SVG files to this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) svg: Option<PathBuf>,
    /// Write the samples of a run with --why as folded stacks, a file for each variant, to this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folded: Option<PathBuf>,
}
