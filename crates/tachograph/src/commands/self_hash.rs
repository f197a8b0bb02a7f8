//! The hidden command `self-hash`: the SHA-256 of this program, for far machines without sha256sum.

use std::process::ExitCode;

use crate::output;

/// Prints the hash if this process was started for that.
pub(crate) fn requested() -> Option<ExitCode> {
    if std::env::args_os().nth(1)? != "self-hash" {
        return None;
    }
    Some(match far::reach::Program::own() {
        Ok(program) => match output::print(&format!("{}\n", program.sha256)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                output::error(&failure);
                ExitCode::from(2)
            }
        },
        Err(error) => {
            output::error(&error);
            ExitCode::from(2)
        }
    })
}
