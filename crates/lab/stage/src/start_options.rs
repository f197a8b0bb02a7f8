//! Options for starting a stack.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::{CpuSet, Seed};

use crate::draws::Draws;

/// Options for starting a stack.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// The variant's name, for messages.
    pub name: String,
    /// The CPUs that the stack may use; empty for all.
    pub cpus: CpuSet,
    /// The CPUs of processes that run beside the client; empty for those of the stack.
    pub client_cpus: CpuSet,
    /// What chance decides and may make the same program faster or slower.
    pub draws: Draws,
    /// Determines ports and the names of folders; different for each trial and attempt.
    pub seed: Seed,
    /// The value of `$HOST`: the address at which the client reaches the stack. In brackets if it
    /// is of IPv6.
    pub host: String,
    /// The value of `$FILES`.
    pub files: Option<PathBuf>,
    /// Folder for copies of the files written for the stack.
    pub keep_files: Option<PathBuf>,
    /// Folders to prepend to `PATH`.
    pub path_prepend: Vec<PathBuf>,
    /// Working directory of the processes; default: tachograph's.
    pub working_dir: Option<PathBuf>,
    /// Set to request a stop.
    pub stop: Arc<AtomicBool>,
    /// Further variables, expanded and exported like `$PORT`.
    pub extra_vars: BTreeMap<String, String>,
}

impl StartOptions {
    /// Options without restrictions, padding or further variables.
    pub fn new(name: impl Into<String>, seed: Seed) -> StartOptions {
        StartOptions {
            name: name.into(),
            cpus: CpuSet::default(),
            client_cpus: CpuSet::default(),
            draws: Draws { env_padding_bytes: 0, ..Draws::of(seed) },
            seed,
            host: spec::LOOPBACK.to_owned(),
            files: None,
            keep_files: None,
            path_prepend: Vec::new(),
            working_dir: None,
            stop: Arc::default(),
            extra_vars: BTreeMap::new(),
        }
    }
}
