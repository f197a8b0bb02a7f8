//! The hidden command under which our own binary watches over a stack.

use std::process::ExitCode;

/// Runs the guard if that is what this process was started for.
pub(crate) fn requested() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    (args.next()? == "guard").then(|| stage::guard_main(args))
}
