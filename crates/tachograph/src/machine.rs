//! What this machine is, for the record.

use std::process::Command;

use base::Machine;

/// Reads the machine's description; what cannot be read is left empty.
pub(crate) fn describe() -> Machine {
    let programs = [("python3", "--version"), ("nginx", "-v")];
    let versions = programs
        .into_iter()
        .filter_map(|(program, flag)| Some((program.to_owned(), version(program, flag)?)));
    Machine { facts: versions.collect(), ..host::machine() }
}

/// The first line that `program flag` prints, or `None` if it is not there.
pub(crate) fn version(program: &str, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let line = String::from_utf8_lossy(&text).lines().next()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}
