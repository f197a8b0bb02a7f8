//! The machines of a run: this one and, over ssh, others.
//!
//! A machine is known by its boot, not by its name: the CPUs of two agents may be the same ones.

use std::path::PathBuf;
use std::sync::Arc;

use base::{CpuSet, Nanos};
use far::Machine;
use host::{Canary, Identity, Segments, Snapshot};
use spec::{LOOPBACK, Layout, Part, Variant};

use crate::cpus::Cpus;
use crate::error::ConductError;

/// The other machines of a run, connected.
#[derive(Clone, Default)]
pub struct Machines(Vec<Arc<Machine>>);

impl Machines {
    /// These machines.
    pub fn new(machines: Vec<Arc<Machine>>) -> Machines {
        Machines(machines)
    }

    /// The machine of this name.
    fn named(&self, name: &str) -> Result<Arc<Machine>, String> {
        let machine = self.0.iter().find(|machine| machine.name() == name);
        machine.map(Arc::clone).ok_or_else(|| format!("there is no connection to {name}"))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.0.iter()
    }

    /// Measures the offsets of their clocks again. A lost connection is noticed by what needs it.
    pub(crate) fn sync(&self) {
        for machine in &self.0 {
            let _ = machine.sync();
        }
    }
}

/// This machine, as the run uses it.
#[derive(Clone, Debug)]
pub(crate) struct NearMachine {
    pub(crate) identity: Identity,
    /// For the record.
    pub(crate) machine: base::Machine,
    /// The CPUs that may be used.
    pub(crate) cpus: CpuSet,
}

/// Where the stack of a variant and its clients are.
#[derive(Clone)]
pub(crate) struct Site {
    /// The machine of the stack; `None` is this one.
    pub(crate) stack: Option<Arc<Machine>>,
    /// The machines of the clients; none means this one.
    pub(crate) clients: Vec<Arc<Machine>>,
    /// CPUs of the stack, on its machine.
    pub(crate) stack_cpus: CpuSet,
    /// CPUs of processes of the stack that run beside the client.
    pub(crate) beside_cpus: CpuSet,
    /// CPUs of each client, or of the one on this machine.
    pub(crate) client_cpus: Vec<CpuSet>,
    /// The value of `$HOST`.
    pub(crate) host: String,
}

impl Site {
    /// The site of a variant.
    pub(crate) fn of(
        variant: &Variant,
        part: &Part,
        near: &NearMachine,
        machines: &Machines,
    ) -> Result<Site, String> {
        let stack = variant.on.as_deref().map(|name| machines.named(name)).transpose()?;
        let clients =
            part.from.iter().map(|name| machines.named(name)).collect::<Result<Vec<_>, _>>()?;
        let stack_at = place(stack.as_ref(), near);
        let clients_at: Vec<(&Identity, &CpuSet)> = match clients.is_empty() {
            true => vec![place(None, near)],
            false => clients.iter().map(|client| place(Some(client), near)).collect(),
        };
        let threads = part.variants.iter().map(|v| v.load.threads).max().unwrap_or(1);
        let together = clients_at.iter().filter(|(at, _)| is_one(at, stack_at.0)).count();
        let divided = match (part.layout, together) {
            (Layout::Free, _) => Cpus::divide(Layout::Free, stack_at.1, threads),
            (_, 0) => Cpus { client: CpuSet::default(), stack: stack_at.1.clone() },
            (layout, count) => Cpus::divide(layout, stack_at.1, threads * count as u32),
        };
        let of_client = |(index, (at, online)): (usize, &(&Identity, &CpuSet))| {
            let cpus = match is_one(at, stack_at.0) {
                true => divided.client.clone(),
                false if part.layout == Layout::Free => CpuSet::default(),
                false => (*online).clone(),
            };
            let before = clients_at[..index].iter().filter(|(of, _)| is_one(of, at));
            let others = clients_at.iter().filter(|(of, _)| is_one(of, at)).count() > 1;
            if others { turn(&cpus, before.count() * threads as usize, threads) } else { cpus }
        };
        let client_cpus = clients_at.iter().enumerate().map(of_client).collect();
        let host = host(variant, stack.as_ref(), &clients, near);
        Ok(Site {
            stack,
            clients,
            stack_cpus: divided.stack,
            beside_cpus: divided.client,
            client_cpus,
            host,
        })
    }

    /// The site of a load on a server that is already running, somewhere: from these machines,
    /// whose CPUs are not pinned, or from these CPUs of this one.
    pub(crate) fn of_clients(
        from: &[String],
        cpus: &CpuSet,
        machines: &Machines,
    ) -> Result<Site, String> {
        let clients =
            from.iter().map(|name| machines.named(name)).collect::<Result<Vec<_>, _>>()?;
        let client_cpus = match clients.len() {
            0 => vec![cpus.clone()],
            count => vec![CpuSet::default(); count],
        };
        Ok(Site {
            stack: None,
            clients,
            stack_cpus: CpuSet::default(),
            beside_cpus: CpuSet::default(),
            client_cpus,
            host: LOOPBACK.to_owned(),
        })
    }

    /// Whether stack or clients are on another machine.
    pub(crate) fn is_far(&self) -> bool {
        self.stack.is_some() || !self.clients.is_empty()
    }

    /// The connected machines of the site, each once.
    pub(crate) fn machines(&self) -> Vec<&Arc<Machine>> {
        let mut all: Vec<&Arc<Machine>> = Vec::new();
        for machine in self.stack.iter().chain(&self.clients) {
            if !all.iter().any(|known| Arc::ptr_eq(known, machine)) {
                all.push(machine);
            }
        }
        all
    }

    /// Whether this machine runs the stack or loads it.
    pub(crate) fn is_near_used(&self) -> bool {
        self.stack.is_none() || self.clients.is_empty()
    }

    /// Whether a network is between the stack and any client.
    pub(crate) fn is_networked(&self, near: &NearMachine) -> bool {
        let stack = place(self.stack.as_ref(), near).0;
        match self.clients.is_empty() {
            true => !near.identity.is_same_network(stack),
            false => self.clients.iter().any(|c| !c.facts().identity.is_same_network(stack)),
        }
    }

    /// Whether the stack and every client are on different machines.
    pub(crate) fn is_apart(&self, near: &NearMachine) -> bool {
        let stack = place(self.stack.as_ref(), near).0;
        match self.clients.is_empty() {
            true => !is_one(&near.identity, stack),
            false => self.clients.iter().all(|client| !is_one(&client.facts().identity, stack)),
        }
    }
}

/// Whether both are one machine: the same process, which may not know where it is, or processes on
/// one machine.
fn is_one(one: &Identity, other: &Identity) -> bool {
    std::ptr::eq(one, other) || one.is_same_machine(other)
}

/// Which machine it is, and its CPUs.
fn place<'a>(
    machine: Option<&'a Arc<Machine>>,
    near: &'a NearMachine,
) -> (&'a Identity, &'a CpuSet) {
    match machine {
        Some(machine) => (&machine.facts().identity, &machine.facts().cpus),
        None => (&near.identity, &near.cpus),
    }
}

/// `count` of these CPUs, from number `first` on, in turn.
fn turn(cpus: &CpuSet, first: usize, count: u32) -> CpuSet {
    let all: Vec<usize> = cpus.iter().collect();
    (0..count as usize).filter_map(|i| all.get((first + i) % all.len().max(1)).copied()).collect()
}

/// The address at which the clients reach the stack.
fn host(
    variant: &Variant,
    stack: Option<&Arc<Machine>>,
    clients: &[Arc<Machine>],
    near: &NearMachine,
) -> String {
    let at = place(stack, near).0;
    let with = |other: &Identity| std::ptr::eq(at, other) || at.is_same_network(other);
    let same = match clients {
        [] => with(&near.identity),
        clients => clients.iter().all(|client| with(&client.facts().identity)),
    };
    if same {
        return LOOPBACK.to_owned();
    }
    let ssh = match stack {
        Some(machine) => machine.facts().ssh.as_ref().map(|(_, server)| server.clone()),
        // As the first client sees us.
        None => clients.iter().find_map(|client| Some(client.facts().ssh.as_ref()?.0.clone())),
    };
    far::bracketed(&variant.address.clone().or(ssh).unwrap_or_else(|| LOOPBACK.to_owned()))
}

/// The reference loops of all machines of a run, one for each boot.
pub(crate) struct Canaries {
    near: Canary,
    far: Vec<Arc<Machine>>,
}

impl Canaries {
    pub(crate) fn calibrate(near: &NearMachine, machines: &Machines) -> Canaries {
        let mut far: Vec<Arc<Machine>> = Vec::new();
        for machine in machines.iter() {
            let identity = &machine.facts().identity;
            let known = far.iter().any(|other| other.facts().identity.is_same_machine(identity));
            if !known && !near.identity.is_same_machine(identity) {
                far.push(Arc::clone(machine));
            }
        }
        let canaries = Canaries { near: Canary::calibrate(&near.cpus), far };
        if !canaries.far.is_empty() {
            // Each agent calibrates its loop when it first runs.
            canaries.run();
        }
        canaries
    }

    /// Runs all of them at once; returns the longest duration.
    pub(crate) fn run(&self) -> Nanos {
        std::thread::scope(|scope| {
            let run = |machine: &Arc<Machine>| machine.canary(&machine.facts().cpus).ok();
            let far: Vec<_> =
                self.far.iter().map(|machine| scope.spawn(move || run(machine))).collect();
            let near = self.near.run();
            let far = far.into_iter().filter_map(|thread| thread.join().ok().flatten());
            far.fold(near, Nanos::max)
        })
    }
}

/// Counters of all machines of a run.
pub(crate) struct Snapshots {
    near: Option<Snapshot>,
    far: Vec<(Identity, Option<Snapshot>)>,
}

impl Snapshots {
    pub(crate) fn take(machines: &Machines) -> Snapshots {
        let look = |machine: &Arc<Machine>| machine.look(far::Look::default());
        let waiting: Vec<_> = machines.iter().map(look).collect();
        let counters = |waiting: far::PendingReading| waiting.looked().ok()?.reading.counters;
        Snapshots {
            near: Snapshot::take().ok(),
            far: machines
                .iter()
                .zip(waiting)
                .map(|(machine, waiting)| (machine.facts().identity.clone(), counters(waiting)))
                .collect(),
        }
    }

    /// Whether the connection-tracking table of any machine may fill within a block.
    pub(crate) fn is_crowded(&self) -> bool {
        let far = self.far.iter().filter_map(|(_, snapshot)| snapshot.as_ref());
        self.near.iter().chain(far).any(Snapshot::is_crowded)
    }

    /// The TCP segments sent, and sent again, since earlier ones: here, and on each other machine.
    pub(crate) fn segments_since(&self, earlier: &Snapshots) -> Vec<Option<Segments>> {
        let of = |now: Option<&Snapshot>, before: Option<&Snapshot>| {
            Some(now?.segments?.since(before?.segments?))
        };
        let near = of(self.near.as_ref(), earlier.near.as_ref());
        let far = self.far.iter().zip(&earlier.far);
        let far = far.map(|((_, now), (_, before))| of(now.as_ref(), before.as_ref()));
        std::iter::once(near).chain(far).collect()
    }

    /// The change since earlier ones, of all networks together.
    pub(crate) fn since(&self, earlier: &Snapshots) -> Option<host::SnapshotChange> {
        let mut sum = self.near.as_ref()?.since(earlier.near.as_ref()?);
        let mut seen = vec![Identity::own()];
        for ((identity, now), (_, before)) in self.far.iter().zip(&earlier.far) {
            if seen.iter().any(|known| known.is_same_network(identity)) {
                continue;
            }
            seen.push(identity.clone());
            if let Some((now, before)) = now.as_ref().zip(before.as_ref()) {
                sum.merge(&now.since(before));
            }
        }
        Some(sum)
    }
}

/// What a machine has for the stacks of a run.
#[derive(Debug)]
pub(crate) struct PreparedMachine {
    pub(crate) name: String,
    /// The folder of the plan's Python programs.
    pub(crate) programs: Option<PathBuf>,
    /// The folder of `$FILES`.
    pub(crate) files: Option<PathBuf>,
}

/// Prepares every machine for the run's stacks, with the Python packages and files of its plan.
pub(crate) fn prepare(
    machines: &Machines,
    run: &base::RunId,
    plan: &spec::Plan,
) -> Result<Vec<PreparedMachine>, ConductError> {
    let mut prepared = Vec::new();
    for machine in machines.iter() {
        let variants = plan.parts.iter().flat_map(|part| &part.variants);
        let here: Vec<&Variant> =
            variants.filter(|variant| variant.on.as_deref() == Some(machine.name())).collect();
        if here.is_empty() {
            continue;
        }
        machine.begin(run)?;
        let programs = match plan.python.is_empty() {
            true => None,
            false => Some(machine.python(&plan.python, plan.interpreter.as_deref())?),
        };
        let files = plan.files.as_ref().filter(|_| here.iter().any(|v| v.uses_files()));
        let files = files.map(|folder| -> Result<PathBuf, ConductError> {
            Ok(machine.copy(&stage::ExperimentFile::all_in(folder)?)?)
        });
        let files = files.transpose()?;
        prepared.push(PreparedMachine { name: machine.name().to_owned(), programs, files });
    }
    Ok(prepared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_does_not_know_its_boot_is_still_one_machine() {
        let near = NearMachine {
            identity: Identity::default(),
            machine: base::Machine::default(),
            cpus: (0..2).collect(),
        };
        let text = "[experiment]\nname = \"x\"\ntitle = \"t\"\nquestion = \"q\"\n[[variant]]\n\
            name = \"v\"\ntarget = \"http://$HOST:$PORT/\"\nprocess = { command = \"app\" }\n";
        let part = spec::parse_plan(text, "x.toml").unwrap().parts.remove(0);
        let site = Site::of(&part.variants[0], &part, &near, &Machines::default()).unwrap();
        assert_eq!((site.host.as_str(), site.is_apart(&near)), (LOOPBACK, false));
        assert_eq!((site.stack_cpus, &site.client_cpus[0]), (CpuSet::one(0), &CpuSet::one(1)));
    }

    #[test]
    fn clients_of_one_machine_take_its_cpus_in_turn() {
        let cpus: CpuSet = (2..5).collect();
        let of = |first, count| turn(&cpus, first, count).to_string();
        assert_eq!([of(0, 1), of(1, 2), of(2, 2), of(7, 1)], ["2", "3-4", "2,4", "3"]);
        assert!(turn(&CpuSet::default(), 3, 2).is_empty());
    }
}
