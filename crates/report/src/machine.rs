//! The machine in words.

use record::Run;

use crate::text;

/// A machine in words: processor, CPUs, memory, kernel, distribution, hypervisor.
pub(crate) fn words(m: &record::Machine) -> String {
    let mut words = vec![
        m.cpu_model.clone(),
        text::plural(u64::from(m.cpus), "CPU"),
        base::Bytes(m.memory_bytes).to_string(),
        format!("Linux {}", m.kernel),
        m.os.clone(),
    ];
    words.extend(m.hypervisor.as_deref().map(|name| match hypervisor_name(name) {
        Some(name) => format!("virtual machine ({name})"),
        None => "virtual machine".to_owned(),
    }));
    words.retain(|word| !word.is_empty());
    words.join(", ")
}

/// Whether the machine is virtualised, with the hypervisor if known: `yes (KVM)`.
pub(crate) fn virtualised(run: &Run) -> String {
    match run.machine.hypervisor.as_deref().map(hypervisor_name) {
        None => "no".to_owned(),
        Some(None) => "yes".to_owned(),
        Some(Some(name)) => format!("yes ({name})"),
    }
}

/// The name of a hypervisor, if known; earlier records contain `a hypervisor` instead.
fn hypervisor_name(name: &str) -> Option<&str> {
    Some(name).filter(|name| !matches!(*name, "unnamed" | "a hypervisor"))
}
