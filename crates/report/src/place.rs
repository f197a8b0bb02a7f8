//! Which machine is what, in words, for a run on several machines.

use base::CpuSet;
use record::{ClockOffset, Layout, Place, Run};

use crate::text::{self, listed};
use crate::view;

/// What the machine that tachograph was started on is called.
const HERE: &str = "this machine";

fn name(place: &Place) -> &str {
    place.name.as_deref().unwrap_or(HERE)
}

fn on_cpus(cpus: &CpuSet) -> String {
    match cpus.iter().count() {
        0 => String::new(),
        1 => format!(" (CPU {cpus})"),
        _ => format!(" (CPUs {cpus})"),
    }
}

/// `client on this machine (CPUs 0-3), stack on user@server (CPUs 0-7)`; `None` for a run on one
/// machine.
pub(crate) fn layout(layout: &Layout) -> Option<String> {
    if layout.machines.is_empty() {
        return None;
    }
    let of = |is: &dyn Fn(&Place) -> bool, cpus: &dyn Fn(&Place) -> CpuSet| -> Vec<String> {
        let places = layout.machines.iter().filter(|place| is(place));
        places.map(|place| format!("{}{}", name(place), on_cpus(&cpus(place)))).collect()
    };
    let clients = of(&|place| place.is_client, &|place| place.client_cpus.clone());
    let stacks = of(&|place| !place.stacks.is_empty(), &|place| place.stack_cpus.clone());
    let role = |singular: &str, places: &[String]| {
        let plural = if places.len() == 1 { "" } else { "s" };
        (!places.is_empty()).then(|| format!("{singular}{plural} on {}", listed(places)))
    };
    let roles = [role("client", &clients), role("stack", &stacks)];
    Some(roles.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// A line about each other machine of a run, and one about the beginnings of several clients.
pub(crate) fn lines(run: &Run) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for layout in run.parts.iter().map(|part| &part.layout) {
        let others = layout.machines.iter().filter(|place| place.name.is_some()).map(line);
        lines.extend(others.filter(|line| !lines.contains(line)).collect::<Vec<_>>());
    }
    let apart = run.parts.iter().filter_map(|part| part.layout.clients_apart).max();
    lines.extend(apart.map(|apart| {
        format!("the clients began each slice within {} of each other", text::time(apart.0 as f64))
    }));
    lines
}

fn line(place: &Place) -> String {
    let mut roles = Vec::new();
    if place.is_client {
        roles.push(format!("client{}", on_cpus(&place.client_cpus)));
    }
    if !place.stacks.is_empty() {
        let at = place.address.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
        roles.push(format!(
            "stacks of {}{at}{}",
            listed(&place.stacks),
            on_cpus(&place.stack_cpus)
        ));
    }
    let clock = place.clock.map(|clock| format!("; {}", offset(clock))).unwrap_or_default();
    format!("{}: {}; {}{clock}", name(place), roles.join(", "), view::machine_words(&place.machine))
}

/// `its clock is 1.25 s ahead, ±40.0 µs`.
fn offset(clock: ClockOffset) -> String {
    let size = text::time(clock.offset_ns.unsigned_abs() as f64);
    let side = if clock.offset_ns < 0 { "behind" } else { "ahead" };
    format!("its clock is {size} {side}, ±{}", text::time(clock.error.0 as f64))
}

#[cfg(test)]
mod tests {
    use base::Nanos;

    use super::*;

    fn place(name: Option<&str>) -> Place {
        Place { name: name.map(str::to_owned), ..Place::default() }
    }

    fn layout_of(machines: Vec<Place>) -> Option<String> {
        layout(&Layout { machines, ..Layout::default() })
    }

    #[test]
    fn it_is_said_which_machine_is_what() {
        assert_eq!(layout_of(Vec::new()), None);
        let here = Place { is_client: true, client_cpus: (0..2).collect(), ..place(None) };
        let there = Place {
            stacks: vec!["old".to_owned(), "new".to_owned()],
            stack_cpus: (0..4).collect(),
            address: Some("10.0.0.2".to_owned()),
            clock: Some(ClockOffset { offset_ns: -1_250_000, error: Nanos(40_000) }),
            ..place(Some("user@server"))
        };
        assert_eq!(
            layout_of(vec![here, there.clone()]).unwrap(),
            "client on this machine (CPUs 0-1), stack on user@server (CPUs 0-3)"
        );
        let client = |name| Place { is_client: true, ..place(Some(name)) };
        assert_eq!(
            layout_of(vec![place(None), there.clone(), client("a"), client("b")]).unwrap(),
            "clients on a and b, stack on user@server (CPUs 0-3)"
        );
        let line = line(&there);
        assert!(
            line.starts_with("user@server: stacks of old and new at 10.0.0.2 (CPUs 0-3); "),
            "{line}"
        );
        assert!(line.ends_with("; its clock is 1.25 ms behind, ±40.0 µs"), "{line}");
    }
}
