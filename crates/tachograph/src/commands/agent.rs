//! The hidden command that serves another machine's tachograph at the far end of an ssh channel.

use std::process::ExitCode;

use far::agent::{Binary, Ending, serve};

use crate::{machine, output};

/// Runs the agent if this process was started as one.
pub(crate) fn requested() -> Option<ExitCode> {
    (std::env::args_os().nth(1)? == "agent").then(run)
}

fn run() -> ExitCode {
    let binary = match binary() {
        Ok(binary) => binary,
        Err(failure) => {
            output::error(&failure);
            return ExitCode::from(2);
        }
    };
    match serve(std::io::stdin(), std::io::stdout(), binary) {
        Ending::Closed | Ending::Silent => ExitCode::SUCCESS,
        Ending::Foreign(why) => {
            output::note(&format!(
                "error: {why}\nhelp: `tachograph agent` is started by tachograph on another machine, \
                 with --on or --from"
            ));
            ExitCode::from(2)
        }
    }
}

fn binary() -> Result<Binary, crate::failure::Failure> {
    Ok(Binary {
        version: crate::flags::VERSION.to_owned(),
        executable: super::measure::executable()?,
        machine: machine::describe(),
        // Only Python servers need it, so a cache that cannot be written keeps no other from starting.
        env: super::measure::python_path()
            .map(|path| ("PYTHONPATH".to_owned(), path))
            .into_iter()
            .collect(),
    })
}
