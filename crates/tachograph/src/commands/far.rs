//! Connecting to other machines.

use std::sync::Arc;

use drive::StopFlag;
use far::{Claim, Ends, FarError, Machine, Transport};
use spec::Plan;

use crate::failure::Failure;
use crate::flags::VERSION;
use crate::output;

/// Runs the agent on every one of these machines, all at once. Each is named once.
pub(crate) fn connected(names: &[&str], stop: &StopFlag) -> Result<Vec<Arc<Machine>>, Failure> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let options = far::reach::Options {
        stop: Arc::clone(stop),
        ..far::reach::Options::from_environment(env!("CARGO_PKG_VERSION")).map_err(Failure::new)?
    };
    let connected: Vec<Result<Machine, Failure>> = std::thread::scope(|scope| {
        let connect = |name: &&'_ str| connect(name, &options, stop);
        let threads: Vec<_> = names.iter().map(|name| scope.spawn(move || connect(name))).collect();
        threads
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(machine) => machine,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    });
    connected.into_iter().map(|machine| machine.map(Arc::new)).collect()
}

/// Runs the agent on every machine that a plan names.
pub(crate) fn connected_for(plan: &Plan, stop: &StopFlag) -> Result<Vec<Arc<Machine>>, Failure> {
    let mut names: Vec<&str> = Vec::new();
    for name in plan.parts.iter().flat_map(|part| part.machines()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    connected(&names, stop)
}

fn connect(name: &str, options: &far::reach::Options, stop: &StopFlag) -> Result<Machine, Failure> {
    let host: far::reach::Host = name.parse().map_err(Failure::new)?;
    let far::reach::Channel { reader, writer, ssh, .. } =
        far::reach::connect(&host, options).map_err(Failure::new)?;
    let ends = Ends {
        reader: Box::new(reader),
        writer: Box::new(writer),
        transport: Box::new(OverSsh(ssh)),
    };
    Machine::connect(name, ends, VERSION, Arc::clone(stop)).map_err(Failure::new)
}

/// The ssh process of a channel.
struct OverSsh(far::reach::Ssh);

impl Transport for OverSsh {
    fn why_ended(&mut self) -> Option<String> {
        Some(self.0.why_ended().to_string())
    }
}

/// Claims all CPUs of each machine, but not twice, nor again those of this one.
///
/// `command` is shown to other measurements there. If `may_wait`, waits until they have ended.
pub(crate) fn claim(
    machines: &[Arc<Machine>],
    command: &str,
    may_wait: bool,
) -> Result<(), Failure> {
    let mut claimed = vec![host::Identity::own()];
    for machine in machines {
        let identity = &machine.facts().identity;
        if claimed.iter().any(|known| known.is_same_machine(identity)) {
            continue;
        }
        claimed.push(identity.clone());
        let claim =
            |wait| Claim { cpus: machine.facts().cpus.clone(), command: command.to_owned(), wait };
        match machine.claim(claim(false)) {
            Err(FarError::Busy { why, .. }) if may_wait => {
                output::note(&format!("note: waiting: on {}, {why}", machine.name()));
                machine.claim(claim(true)).map_err(Failure::new)?;
            }
            other => other.map_err(Failure::new)?,
        }
    }
    Ok(())
}
