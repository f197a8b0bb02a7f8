//! Where the clients and stacks of a part run, for the record.

use std::sync::Arc;

use base::Nanos;
use host::Segments;
use record::{ClockOffset, PartMachine};
use spec::{Part, Variant};

use crate::machines::{Machines, NearMachine, Site};

/// Where the clients and stacks of a part run, as recorded: the CPUs are those of its first variant,
/// and the machines are listed if there are several.
pub(crate) fn layout(part: &Part, near: &NearMachine, machines: &Machines) -> record::Layout {
    let sites: Vec<(&Variant, Site)> = part
        .variants
        .iter()
        .filter_map(|variant| Some((variant, Site::of(variant, part, near, machines).ok()?)))
        .collect();
    let first = sites.first().map(|(_, site)| site);
    let client = first.and_then(|site| site.client_cpus.first().cloned()).unwrap_or_default();
    let mut beside_client: Vec<String> = Vec::new();
    let processes = part.variants.iter().flat_map(|variant| &variant.stack.processes);
    for process in processes.filter(|process| process.beside_client) {
        if !client.is_empty() && !beside_client.contains(&process.name) {
            beside_client.push(process.name.clone());
        }
    }
    record::Layout {
        client,
        stack: first.map(|site| site.stack_cpus.clone()).unwrap_or_default(),
        beside_client,
        apart: !sites.is_empty() && sites.iter().all(|(_, site)| site.is_apart(near)),
        machines: match sites.iter().any(|(_, site)| site.is_far()) {
            true => places(&sites, near, machines),
            false => Vec::new(),
        },
        clients_apart: None,
        links: Vec::new(),
    }
}

/// Where the clients of a load run, as recorded. Nothing is known of the server's machine.
pub(crate) fn of_load(site: &Site, here: &base::Machine) -> record::Layout {
    let client = |machine: &Arc<far::Machine>| PartMachine {
        name: Some(machine.name().to_owned()),
        machine: machine.facts().machine.clone(),
        is_client: true,
        clock: Some(clock(machine)),
        ..PartMachine::default()
    };
    let here = PartMachine { machine: here.clone(), ..PartMachine::default() };
    record::Layout {
        client: site.client_cpus.first().cloned().unwrap_or_default(),
        machines: match site.is_far() {
            true => std::iter::once(here).chain(site.clients.iter().map(client)).collect(),
            false => Vec::new(),
        },
        ..record::Layout::default()
    }
}

/// This machine and the others, with what runs on each.
fn places(sites: &[(&Variant, Site)], near: &NearMachine, machines: &Machines) -> Vec<PartMachine> {
    let mut here = PartMachine {
        stacks: of_stacks(sites, |site| site.stack.is_none()),
        machine: near.machine.clone(),
        ..PartMachine::default()
    };
    if let Some((_, site)) = sites.iter().find(|(_, site)| site.clients.is_empty()) {
        here.is_client = true;
        here.client_cpus = site.client_cpus.first().cloned().unwrap_or_default();
    }
    if let Some((_, site)) = sites.iter().find(|(_, site)| site.stack.is_none()) {
        here.stack_cpus = site.stack_cpus.clone();
        here.address = (!here.stacks.is_empty()).then(|| site.host.clone());
    }
    let used = |machine: &&Arc<far::Machine>| {
        let is_it = |other: &&Arc<far::Machine>| Arc::ptr_eq(other, machine);
        sites.iter().any(|(_, site)| site.machines().iter().any(is_it))
    };
    let others = machines.iter().filter(used).map(|machine| far_place(machine, sites));
    std::iter::once(here).chain(others).collect()
}

fn far_place(machine: &Arc<far::Machine>, sites: &[(&Variant, Site)]) -> PartMachine {
    let is_it = |other: &Arc<far::Machine>| Arc::ptr_eq(other, machine);
    let has_stack = |site: &Site| site.stack.as_ref().is_some_and(is_it);
    let clients = sites.iter().flat_map(|(_, site)| site.clients.iter().zip(&site.client_cpus));
    let client_cpus = clients.filter(|(client, _)| is_it(client)).map(|(_, cpus)| cpus).next();
    let stack = sites.iter().map(|(_, site)| site).find(|site| has_stack(site));
    PartMachine {
        name: Some(machine.name().to_owned()),
        machine: machine.facts().machine.clone(),
        is_client: client_cpus.is_some(),
        client_cpus: client_cpus.cloned().unwrap_or_default(),
        stacks: of_stacks(sites, has_stack),
        stack_cpus: stack.map(|site| site.stack_cpus.clone()).unwrap_or_default(),
        address: stack.map(|site| site.host.clone()),
        clock: Some(clock(machine)),
        ..PartMachine::default()
    }
}

/// The offset of a machine's clock, as measured last.
fn clock(machine: &far::Machine) -> ClockOffset {
    let far::Offset { offset_ns, error } = machine.offset();
    ClockOffset { offset_ns, error }
}

/// The names of the variants whose stacks are there.
fn of_stacks(sites: &[(&Variant, Site)], there: impl Fn(&Site) -> bool) -> Vec<String> {
    let of =
        sites.iter().filter(|(variant, site)| !variant.stack.processes.is_empty() && there(site));
    of.map(|(variant, _)| variant.name.clone()).collect()
}

/// Notes the offsets that were measured last, and how far apart several clients began.
pub(crate) fn note_clocks(layout: &mut record::Layout, machines: &Machines, apart: Option<Nanos>) {
    layout.clients_apart = layout.clients_apart.max(apart);
    for place in &mut layout.machines {
        if let Some(machine) = machines.iter().find(|m| Some(m.name()) == place.name.as_deref()) {
            place.clock = Some(clock(machine));
        }
    }
}

/// Adds the TCP segments of a block, of this machine and the others.
pub(crate) fn note_segments(
    layout: &mut record::Layout,
    machines: &Machines,
    segments: &[Option<Segments>],
) {
    let names = std::iter::once(None).chain(machines.iter().map(|m| Some(m.name())));
    for (name, segments) in names.zip(segments) {
        let place = layout.machines.iter_mut().find(|place| place.name.as_deref() == name);
        if let Some((place, segments)) = place.zip(*segments) {
            *place.segments_sent.get_or_insert(0) += segments.sent;
            *place.segments_resent.get_or_insert(0) += segments.resent;
        }
    }
}

#[cfg(test)]
mod tests {
    use base::CpuSet;
    use spec::Layout;

    use super::*;
    use crate::cpus::Cpus;

    #[test]
    fn a_process_beside_the_client_shares_its_cpus() {
        let split = of(Layout::Split, &(0..2).collect(), "client");
        assert!(split.is_shared());
        assert_eq!(split.beside_client, ["proxy"]);
        let free = of(Layout::Free, &(0..2).collect(), "client");
        assert_eq!(free.beside_client, Vec::<String>::new(), "nothing is pinned");
    }

    /// The recorded layout of a part on this machine with these CPUs.
    fn of(layout: Layout, online: &CpuSet, beside: &str) -> record::Layout {
        let part = Part { layout, ..part(beside) };
        let near = NearMachine {
            identity: host::Identity::own(),
            machine: base::Machine::default(),
            cpus: online.clone(),
        };
        super::layout(&part, &near, &Machines::default())
    }

    /// A part of one variant, an app and a proxy on these CPUs.
    fn part(cpus: &str) -> spec::Part {
        let text = format!(
            "[experiment]\nname = \"x\"\ntitle = \"t\"\nquestion = \"q\"\n[[variant]]\n\
             name = \"v\"\ntarget = \"http://127.0.0.1:$PORT/\"\nprocess = [\
             {{ command = \"app\" }}, {{ name = \"proxy\", command = \"p\", cpus = \"{cpus}\" }}]\n"
        );
        spec::parse_plan(&text, "x.toml").unwrap().parts.remove(0)
    }

    #[test]
    fn the_client_gets_its_own() {
        let online: CpuSet = (0..4).collect();
        let sets = |layout, online: &CpuSet, threads| {
            let cpus = Cpus::divide(layout, online, threads);
            {
                let shared = of(layout, online, "stack").is_shared();
                (cpus.client.to_string(), cpus.stack.to_string(), shared)
            }
        };
        let of = |client: &str, stack: &str, shared| (client.to_owned(), stack.to_owned(), shared);
        assert_eq!(sets(Layout::Split, &online, 1), of("3", "0-2", false));
        assert_eq!(sets(Layout::Split, &online, 9), of("2-3", "0-1", false));
        assert_eq!(sets(Layout::Same, &online, 1), of("0", "0", true));
        assert_eq!(sets(Layout::Split, &CpuSet::one(0), 1), of("0", "0", true));
        assert_eq!(sets(Layout::Free, &online, 1), of("", "", true));
    }
}
