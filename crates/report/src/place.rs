//! Which machine is what, in words, for a run on several machines.

use base::{CpuSet, Nanos};
use record::{ClockOffset, Layout, Link, Part, PartMachine, Run};

use crate::machine;
use crate::text::{self, listed};

/// What the machine that tachograph was started on is called.
const HERE: &str = "this machine";

fn name(place: &PartMachine) -> &str {
    place.name.as_deref().unwrap_or(HERE)
}

fn on_cpus(cpus: &CpuSet) -> String {
    match cpus.is_empty() {
        true => String::new(),
        false => format!(" ({})", text::cpus(cpus)),
    }
}

/// `client on this machine (CPUs 0-3), stack on user@server (CPUs 0-7)`; `None` for a run on one
/// machine.
pub(crate) fn layout(layout: &Layout) -> Option<String> {
    if layout.machines.is_empty() {
        return None;
    }
    let of =
        |is: &dyn Fn(&PartMachine) -> bool, cpus: &dyn Fn(&PartMachine) -> CpuSet| -> Vec<String> {
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
    lines_of(&run.parts)
}

fn lines_of(parts: &[Part]) -> Vec<String> {
    let machines = parts.iter().flat_map(|part| &part.layout.machines);
    let mut others: Vec<PartMachine> = Vec::new();
    for place in machines.filter(|place| place.name.is_some()) {
        match others.iter_mut().find(|other| is_same(other, place)) {
            // The clock is that of the first part.
            Some(other) => {
                let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b).or(a).or(b);
                other.segments_sent = sum(other.segments_sent, place.segments_sent);
                other.segments_resent = sum(other.segments_resent, place.segments_resent);
            }
            None => others.push(place.clone()),
        }
    }
    let mut lines: Vec<String> = others.iter().map(line).collect();
    for link in parts.iter().flat_map(|part| &part.layout.links).map(link_line) {
        if !lines.contains(&link) {
            lines.push(link);
        }
    }
    let apart = parts.iter().filter_map(|part| part.layout.clients_apart).max();
    lines.extend(
        apart.map(|apart| format!("the clients began each slice within {apart} of each other")),
    );
    lines
}

/// Whether a machine does the same in two parts, each of which measures its clock and counts its
/// segments again.
fn is_same(one: &PartMachine, other: &PartMachine) -> bool {
    let role = |place: &PartMachine| PartMachine {
        clock: None,
        segments_sent: None,
        segments_resent: None,
        ..place.clone()
    };
    role(one) == role(other)
}

fn line(place: &PartMachine) -> String {
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
    let machine = machine::words(&place.machine);
    format!("{}: {}; {machine}{clock}{}", name(place), roles.join(", "), resent(place))
}

/// `; it sent 12 of 34,567 TCP segments again`, for a machine that did.
fn resent(place: &PartMachine) -> String {
    match (place.segments_sent, place.segments_resent) {
        (Some(sent), Some(again @ 1..)) => format!(
            "; it sent {} of {} again",
            base::format_count(again),
            text::plural(sent, "TCP segment")
        ),
        _ => String::new(),
    }
}

/// `from this machine to server: a round trip takes 212 µs (at least 180 µs), 112 MiB/s; by eth0
/// (1 Gbit/s), router 10.0.0.1`.
fn link_line(link: &Link) -> String {
    let of = |name: &Option<String>| name.clone().unwrap_or_else(|| HERE.to_owned());
    let speed = link.speed_bits_per_s.map(|speed| format!(" ({})", bits(speed)));
    let by = link.device.as_ref().map(|device| {
        format!("; by {device}{}", speed.unwrap_or_else(|| ", whose speed is unknown".to_owned()))
    });
    let router = link.gateway.as_ref().map(|gateway| format!(", router {gateway}"));
    format!(
        "from {} to {}: a round trip takes {} (at least {}), {}/s{}{}",
        of(&link.client),
        of(&link.server),
        link.round_trip,
        link.round_trip_min,
        base::Bytes(link.bytes_per_s as u64),
        by.unwrap_or_default(),
        router.unwrap_or_default()
    )
}

fn bits(per_s: u64) -> String {
    match per_s {
        ..1_000_000_000 => format!("{} Mbit/s", per_s / 1_000_000),
        _ => format!("{} Gbit/s", per_s as f64 / 1e9),
    }
}

/// `its clock is 1.25 s ahead, ±40.0 µs`.
fn offset(clock: ClockOffset) -> String {
    let size = Nanos(clock.offset_ns.unsigned_abs());
    let side = if clock.offset_ns < 0 { "behind" } else { "ahead" };
    format!("its clock is {size} {side}, ±{}", clock.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: Option<&str>) -> PartMachine {
        PartMachine { name: name.map(str::to_owned), ..PartMachine::default() }
    }

    fn layout_of(machines: Vec<PartMachine>) -> Option<String> {
        layout(&Layout { machines, ..Layout::default() })
    }

    #[test]
    fn a_network_is_described() {
        let link = Link {
            server: Some("server".to_owned()),
            device: Some("eth0".to_owned()),
            gateway: Some("10.0.0.1".to_owned()),
            speed_bits_per_s: Some(2_500_000_000),
            round_trip_min: Nanos(180_000),
            round_trip: Nanos(212_000),
            bytes_per_s: 112.0 * 1_048_576.0,
            ..Link::default()
        };
        assert_eq!(
            link_line(&link),
            "from this machine to server: a round trip takes 212 µs (at least 180 µs), 112 MiB/s; by \
             eth0 (2.5 Gbit/s), router 10.0.0.1"
        );
        let unknown = Link { client: Some("a".to_owned()), speed_bits_per_s: None, ..link.clone() };
        assert!(
            link_line(&unknown).ends_with("; by eth0, whose speed is unknown, router 10.0.0.1"),
            "{}",
            link_line(&unknown)
        );
        let place =
            PartMachine { segments_sent: Some(1_234), segments_resent: Some(1), ..place(None) };
        assert_eq!(resent(&place), "; it sent 1 of 1,234 TCP segments again");
        assert_eq!(resent(&PartMachine { segments_resent: Some(0), ..place }), "");
    }

    #[test]
    fn a_machine_that_does_the_same_in_two_parts_has_one_line() {
        let part = |offset_ns, resent| {
            let machine = PartMachine {
                stacks: vec!["a".to_owned()],
                clock: Some(ClockOffset { offset_ns, error: Nanos(10) }),
                segments_sent: Some(1_000),
                segments_resent: Some(resent),
                ..place(Some("server"))
            };
            let machines = vec![place(None), machine];
            Part { layout: Layout { machines, ..Layout::default() }, ..Default::default() }
        };
        let lines = lines_of(&[part(5, 1), part(7, 2)]);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].ends_with("; it sent 3 of 2,000 TCP segments again"), "{lines:?}");
    }

    #[test]
    fn it_is_said_which_machine_is_what() {
        assert_eq!(layout_of(Vec::new()), None);
        let here = PartMachine { is_client: true, client_cpus: (0..2).collect(), ..place(None) };
        let there = PartMachine {
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
        let client = |name| PartMachine { is_client: true, ..place(Some(name)) };
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
