//! The machine's other activity during slices.

use base::Nanos;
use host::{Identity, Reading};

pub(crate) use stats::kept_rounds;

/// The activity of a machine between two instants, or of several machines together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity {
    /// Wall time.
    pub(crate) elapsed: Nanos,
    /// Busy time of all CPUs; `None` if unknown.
    pub(crate) busy: Option<Nanos>,
    /// The part of it that interrupts took which are charged to no process, in ticks of 10 ms.
    pub(crate) interrupts: Nanos,
    /// CPU time of this process, or of the agents.
    pub(crate) own_cpu: Nanos,
    /// Stolen CPU time, in CPUs; `None` if unknown.
    pub(crate) stolen_cpus: Option<f64>,
    /// The share of all CPU time that was stolen.
    pub(crate) stolen: Option<f64>,
    /// The kernel's counters of connection trouble, if known.
    pub(crate) counters: Option<host::SnapshotChange>,
}

/// The activity between two readings of one machine.
fn between(earlier: &Reading, now: &Reading) -> Activity {
    let cpu = now.cpu.as_ref().zip(earlier.cpu.as_ref()).map(|(now, then)| now.since(then));
    let steal = cpu.as_ref().and_then(|used| {
        let stolen: Option<u64> = used.cpus.iter().map(|c| c.steal.map(|s| s.0)).sum();
        Some((stolen? as f64 / used.elapsed.0.max(1) as f64, used.cpus.len()))
    });
    let sum = |of: fn(&host::CpuTime) -> Nanos| {
        cpu.as_ref().map(|used| used.cpus.iter().map(of).fold(Nanos::ZERO, |a, b| a + b))
    };
    Activity {
        elapsed: cpu.as_ref().map_or(Nanos::ZERO, |used| used.elapsed),
        busy: sum(|cpu| cpu.busy),
        interrupts: sum(|cpu| cpu.interrupts).unwrap_or(Nanos::ZERO),
        own_cpu: now.own_cpu.saturating_sub(earlier.own_cpu),
        stolen_cpus: steal.map(|(cpus, _)| cpus),
        stolen: steal.map(|(cpus, count)| cpus / count.max(1) as f64),
        counters: now.counters.as_ref().zip(earlier.counters.as_ref()).map(|(a, b)| a.since(b)),
    }
}

/// The activity of all machines of a site together, from their readings before and after. Those of
/// one machine, or of one network of it, are counted once.
pub(crate) fn activity(before: &[(Identity, Reading)], after: &[(Identity, Reading)]) -> Activity {
    let mut sum: Option<Activity> = None;
    for (index, ((identity, earlier), (_, now))) in before.iter().zip(after).enumerate() {
        let mut part = between(earlier, now);
        let seen = &before[..index];
        if seen.iter().any(|(known, _)| known.is_same_network(identity)) {
            part.counters = None;
        }
        let again = seen.iter().any(|(known, _)| known.is_same_machine(identity));
        match &mut sum {
            None => sum = Some(part),
            Some(sum) => sum.add(&part, again),
        }
    }
    sum.unwrap_or_default()
}

impl Activity {
    /// Adds the activity of another agent; `again` means that its machine is already counted.
    fn add(&mut self, part: &Activity, again: bool) {
        self.own_cpu += part.own_cpu;
        match (&mut self.counters, &part.counters) {
            (Some(sum), Some(part)) => sum.merge(part),
            (None, Some(part)) => self.counters = Some(part.clone()),
            (_, None) => {}
        }
        if again {
            return;
        }
        self.elapsed = self.elapsed.max(part.elapsed);
        self.busy = self.busy.zip(part.busy).map(|(a, b)| a + b);
        self.interrupts += part.interrupts;
        self.stolen_cpus = self.stolen_cpus.zip(part.stolen_cpus).map(|(a, b)| a + b);
        self.stolen = self.stolen.zip(part.stolen).map(|(a, b)| a.max(b));
    }

    /// CPUs used neither by the stack nor by this process nor by the load's own interrupts, which use
    /// so many CPUs on average; between 0 and the number of CPUs.
    pub(crate) fn other_cpus(&self, stack_cpu: Option<Nanos>, interrupts: f64) -> Option<f64> {
        let ours = self.own_cpu + stack_cpu?;
        let others = self.busy?.saturating_sub(ours);
        (self.elapsed > Nanos::ZERO)
            .then(|| (others.0 as f64 / self.elapsed.0 as f64 - interrupts).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_agents_of_one_machine_are_not_two_machines() {
        let at = |boot: &str| Identity { boot: boot.to_owned(), network: "net:[1]".to_owned() };
        let reading = |busy_ms, own_ms| {
            let busy = Nanos::from_millis(busy_ms);
            let cpu = host::CpuTime { cpu: 0, busy, ..host::CpuTime::default() };
            let at = Nanos::from_millis(busy_ms);
            let times = host::CpuTimes { at, cpus: vec![cpu] };
            Reading { cpu: Some(times), own_cpu: Nanos::from_millis(own_ms), counters: None }
        };
        let before = [(at("a"), reading(0, 0)), (at("a"), reading(0, 0)), (at("b"), reading(0, 0))];
        let after =
            [(at("a"), reading(10, 3)), (at("a"), reading(10, 4)), (at("b"), reading(7, 1))];
        let together = activity(&before, &after);
        assert_eq!(together.busy, Some(Nanos::from_millis(17)));
        assert_eq!(together.own_cpu, Nanos::from_millis(8));
        assert_eq!(together.elapsed, Nanos::from_millis(10));
        assert_eq!(activity(&[], &[]).busy, None);
    }

    #[test]
    fn others_never_use_more_than_there_is() {
        let second = Nanos::from_secs(1);
        let activity = Activity {
            elapsed: second,
            busy: Some(second * 2),
            own_cpu: Nanos::from_millis(500),
            ..Activity::default()
        };
        assert_eq!(activity.other_cpus(Some(second), 0.0), Some(0.5));
        assert_eq!(
            activity.other_cpus(None, 0.0),
            None,
            "what is not known of the stack is not others'"
        );
        assert_eq!(activity.other_cpus(Some(second * 2), 0.0), Some(0.0));
        assert_eq!(activity.other_cpus(Some(second), 0.75), Some(0.0));
    }
}
