//! The hidden command that runs the guard of a stack.

use std::process::ExitCode;

/// Runs the guard if this process was started as one.
pub(crate) fn requested() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    (args.next()? == "guard").then(|| stage::guard_main(args))
}
