//! Facts about this machine, for the record.

use std::process::Command;

use base::Machine;

/// Reads the machine's description; unknown fields are empty.
pub(crate) fn describe() -> Machine {
    let programs = [("python3", "--version"), ("nginx", "-v")];
    let versions = programs
        .into_iter()
        .filter_map(|(program, flag)| Some((program.to_owned(), version(program, flag)?)));
    Machine { facts: versions.collect(), ..host::machine() }
}

/// The first line of `program flag`, or `None` if the program is missing.
pub(crate) fn version(program: &str, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let line = String::from_utf8_lossy(&text).lines().next()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}
