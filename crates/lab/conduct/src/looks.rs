//! Readings of all machines of a site at one instant.

use std::sync::Arc;

use base::Nanos;
use far::{FarError, Look, Machine, MachineReading};
use host::{Identity, Reading};

/// What the machines of a site, and a stack on one of them, have used so far.
#[derive(Default)]
pub(crate) struct Looks {
    pub(crate) readings: Vec<(Identity, Reading)>,
    /// How often a quota throttled anything.
    pub(crate) throttled: Option<u64>,
    pub(crate) stack_cpu: Option<Nanos>,
    pub(crate) peak_memory_bytes: Option<u64>,
    /// Why the stack on another machine is not as it was when it became ready.
    pub(crate) died: Option<String>,
}

impl Looks {
    /// Asks all these machines at once for what `look` says, and takes meanwhile what `near` adds of
    /// this one.
    ///
    /// # Errors
    /// If the connection to a machine is lost.
    pub(crate) fn take(
        machines: &[&Arc<Machine>],
        look: impl Fn(&Arc<Machine>) -> Look,
        near: impl FnOnce(&mut Looks),
    ) -> Result<Looks, FarError> {
        let waiting: Vec<far::PendingReading> =
            machines.iter().map(|machine| machine.look(look(machine))).collect();
        let mut looks = Looks::default();
        near(&mut looks);
        for (machine, waiting) in machines.iter().zip(waiting) {
            looks.add(machine, waiting.looked()?);
        }
        Ok(looks)
    }

    /// Adds those of another machine.
    fn add(&mut self, machine: &Machine, looked: MachineReading) {
        self.readings.push((machine.facts().identity.clone(), looked.reading));
        self.throttled = match (self.throttled, looked.throttled) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.stack_cpu = self.stack_cpu.or(looked.stack_cpu);
        self.peak_memory_bytes = self.peak_memory_bytes.or(looked.peak_memory_bytes);
        self.died = self.died.take().or(looked.died);
    }
}
