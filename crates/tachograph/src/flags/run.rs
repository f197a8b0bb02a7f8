//! Flags of `run`.

use std::path::PathBuf;

use clap::Args;

use super::compare::{ScheduleFlags, VerdictFlags};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tachograph list                          # the built-in experiments
  tachograph run flask-gunicorn-nginx
  tachograph run python-servers --only of-today --baseline uvicorn --quick
  tachograph run --show raw-sockets > mine.toml && tachograph run ./mine.toml";

/// Flags of `run`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunFlags {
    /// A built-in experiment's name, or the path of a file
    #[arg(value_name = "EXPERIMENT")]
    pub(crate) experiment: String,
    /// Print the experiment's file instead of running it
    #[arg(long)]
    pub(crate) show: bool,
    /// Only parts and variants whose names hold this text; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Vec<String>,
    /// Leave out parts and variants whose names hold this text; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(crate) skip: Vec<String>,
    /// Compare the others with this variant, in the parts that have it
    #[arg(long, value_name = "VARIANT")]
    pub(crate) baseline: Option<String>,
    /// Leave a copy of every file that stacks are given, such as nginx.conf, in
    /// FOLDER/part/variant
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep_files: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) schedule: ScheduleFlags,
    #[command(flatten)]
    pub(crate) verdict: VerdictFlags,
}
