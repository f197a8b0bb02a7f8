//! How to reach, and what to run there.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::reach::{Program, ProgramError};

/// The variable with the ssh command, such as `ssh -F FILE`.
pub const SSH_VARIABLE: &str = "TACHOGRAPH_SSH";

/// The variable with the binaries for far machines, separated by colons.
pub const PROGRAMS_VARIABLE: &str = "TACHOGRAPH_FAR_BINARY";

/// The variable with the folder of the far machines in which binaries are kept.
pub const FOLDER_VARIABLE: &str = "TACHOGRAPH_FAR_FOLDER";

/// How to reach a host, and what to run there.
#[derive(Clone, Debug)]
pub struct Options {
    /// ssh and its first arguments.
    pub ssh: Vec<String>,
    /// Limit of the connection and of ssh's handshake (ssh's `ConnectTimeout`), in whole seconds.
    pub connect_timeout: Duration,
    /// Longest silence of the far end, until it runs our program.
    pub patience: Duration,
    /// Binaries of the same version, at most one for a machine.
    pub programs: Vec<Program>,
    /// Their version.
    pub version: String,
    /// The folder there in which binaries are kept; `None` is `tachograph/far` in the XDG cache
    /// folder.
    pub folder: Option<String>,
    /// The program's arguments there.
    pub words: Vec<String>,
    /// Set when the user wants to stop.
    pub stop: Arc<AtomicBool>,
}

impl Options {
    /// The options of the environment, and the defaults: this program, run as `agent`.
    ///
    /// # Errors
    /// If the ssh command or a program of the environment cannot be used.
    pub fn from_environment(version: &str) -> Result<Options, OptionsError> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let ssh = match variable(SSH_VARIABLE) {
            None => vec!["ssh".to_owned()],
            Some(command) => shell_words::split(&command)
                .ok()
                .filter(|words| !words.is_empty())
                .ok_or(OptionsError::Ssh { command })?,
        };
        let mut programs = vec![];
        if let Some(paths) = std::env::var_os(PROGRAMS_VARIABLE) {
            for path in std::env::split_paths(&paths).filter(|path| path != Path::new("")) {
                programs.push(Program::read(&path)?);
            }
        }
        let own = Program::own()?;
        // A binary of the environment is preferred: it is the static one.
        if programs.iter().all(|program| program.machine != own.machine) {
            programs.push(own);
        }
        Ok(Options {
            ssh,
            connect_timeout: Duration::from_secs(8),
            patience: Duration::from_secs(30),
            programs,
            version: version.to_owned(),
            folder: variable(FOLDER_VARIABLE),
            words: vec!["agent".to_owned()],
            stop: Arc::default(),
        })
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The binary of this hash.
    pub(crate) fn program(&self, sha256: &str) -> Option<&Program> {
        self.programs.iter().find(|program| program.sha256 == sha256)
    }
}

/// An environment that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The ssh command is no command line.
    #[error("{SSH_VARIABLE} is not a command line: {command}")]
    Ssh {
        /// Its value.
        command: String,
    },
    /// A program cannot be read.
    #[error(transparent)]
    Program(#[from] ProgramError),
}
