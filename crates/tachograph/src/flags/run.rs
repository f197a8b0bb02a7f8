//! Flags of `run`.

use std::path::PathBuf;

use clap::Args;

use super::compare::ScheduleFlags;
use super::servers::SiteFlags;
use super::shared::{OfferFlags, ResultFlags};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tachograph list                          # the built-in experiments
  tachograph run flask-gunicorn-nginx
  tachograph run python-servers --only of-today --baseline uvicorn --quick
  tachograph run flask-gunicorn-nginx --eject mine    # copy it, then edit it
  tachograph run mine/flask-gunicorn-nginx.toml
  tachograph run payload --on server --from server    # on another machine, over ssh";

/// Flags of `run`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunFlags {
    /// Name of a built-in experiment, or path of a file
    #[arg(value_name = "EXPERIMENT")]
    pub(crate) experiment: String,
    /// Print the experiment's file instead of running it
    #[arg(long)]
    pub(crate) show: bool,
    /// Copy the experiment and all its files to FOLDER instead of running it
    #[arg(long, value_name = "FOLDER", conflicts_with = "show")]
    pub(crate) eject: Option<PathBuf>,
    /// Run only parts and variants whose names contain this text; repeatable
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Vec<String>,
    /// Skip parts and variants whose names contain this text; repeatable
    #[arg(long, value_name = "TEXT")]
    pub(crate) skip: Vec<String>,
    /// Compare with this variant, in the parts that have it
    #[arg(long, value_name = "VARIANT")]
    pub(crate) baseline: Option<String>,
    /// Keep the generated configuration files, such as nginx.conf, in FOLDER/part/variant
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep_files: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) site: SiteFlags,
    #[command(flatten)]
    pub(crate) offer: OfferFlags,
    #[command(flatten)]
    pub(crate) schedule: ScheduleFlags,
    #[command(flatten)]
    pub(crate) result: ResultFlags,
}
