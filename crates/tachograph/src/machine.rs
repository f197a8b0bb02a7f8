//! What this machine is, for the record.

use std::process::Command;

use record::Machine;

/// Reads the machine's description; what cannot be read is left empty.
pub(crate) fn describe() -> Machine {
    let facts = host::machine();
    Machine {
        cpu_model: facts.cpu_model,
        cpus: facts.cpus,
        memory_bytes: facts.memory_bytes,
        kernel: facts.kernel,
        os: facts.os,
        hypervisor: facts.hypervisor,
        governor: facts.governor,
        connection_tracking: facts.connection_tracking,
        cgroup: facts.cgroup,
        facts: [("python3", "--version"), ("nginx", "-v")]
            .into_iter()
            .filter_map(|(program, flag)| Some((program.to_owned(), version(program, flag)?)))
            .collect(),
    }
}

/// The first line that `program flag` prints, or `None` if it is not there.
pub(crate) fn version(program: &str, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let line = String::from_utf8_lossy(&text).lines().next()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}
