//! Flags shared by `load`, `compare` and `run`.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;

/// What is offered.
#[derive(Clone, Debug, Args)]
pub(crate) struct OfferFlags {
    /// Skip the open loop
    #[arg(long)]
    pub(crate) closed_only: bool,
}

/// Commands around the measurement.
#[derive(Clone, Debug, Args)]
pub(crate) struct HookFlags {
    /// Shell command to run once before the measurement (of each command)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) setup: Option<String>,
    /// Shell command to run once after the measurement (of each command), also after a failure
    #[arg(long, value_name = "COMMAND")]
    pub(crate) cleanup: Option<String>,
}

/// Random choices and CPUs.
#[derive(Clone, Debug, Args)]
pub(crate) struct MachineFlags {
    /// Seed of all random choices, to repeat a run
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<base::Seed>,
    /// Use only these CPUs, e.g. 0-3; runs on different CPUs may run side by side
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<base::CpuSet>,
}

/// Thresholds and output files.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResultFlags {
    /// Name of the run, for `list` and `report NAME`
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Exit with status 1 if this holds, e.g. 'b.p99 > 1.05 * a.p99', 'p99 > 20ms' for `load` or 'capacity < 900' for `capacity`; repeatable
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) fail_if: Vec<String>,
    /// Also exit with status 1 if a --fail-if condition is inconclusive
    #[arg(long)]
    pub(crate) fail_if_inconclusive: bool,
    /// Print JSON instead of the report
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) export_json: Option<PathBuf>,
    /// Write the result as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) export_markdown: Option<PathBuf>,
    /// Write all trials as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) export_csv: Option<PathBuf>,
    /// Write the report as a single HTML file
    #[arg(long, value_name = "FILE")]
    pub(crate) export_html: Option<PathBuf>,
}

impl ResultFlags {
    /// Fails if --fail-if-inconclusive has no condition to apply to.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.fail_if_inconclusive && self.fail_if.is_empty() {
            true => Err(Failure::new("--fail-if-inconclusive needs --fail-if CONDITION")),
            false => Ok(()),
        }
    }
}
