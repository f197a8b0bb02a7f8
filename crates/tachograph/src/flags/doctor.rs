//! Flags of `doctor`, `completions` and `man`.

use std::path::PathBuf;

use clap::Args;

/// Flags of `doctor`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorFlags {
    /// Check only for this experiment
    #[arg(value_name = "EXPERIMENT")]
    pub(crate) experiment: Option<String>,
    /// Check this machine instead, over ssh
    #[arg(long, value_name = "HOST")]
    pub(crate) on: Option<String>,
}

/// Flags of `completions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsFlags {
    /// Shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// Flags of `man`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManFlags {
    /// Write tachograph.1 and a page for each command to this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
}
