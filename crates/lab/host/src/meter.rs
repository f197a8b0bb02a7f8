//! Readings of the machine's counters around slices.

use base::Nanos;
use serde::{Deserialize, Serialize};

use crate::{CpuMeter, CpuTimes, Snapshot, own_cpu};

/// Reads the machine's counters repeatedly.
#[derive(Debug)]
pub struct Meter {
    cpu: Option<CpuMeter>,
}

/// The machine's counters at one instant.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Reading {
    /// CPU time of every CPU, if known.
    pub cpu: Option<CpuTimes>,
    /// CPU time of this process.
    pub own_cpu: Nanos,
    /// The kernel's counters of connection trouble, if known.
    pub counters: Option<Snapshot>,
}

impl Meter {
    /// Opens the most precise source available; without one, readings have no CPU times. Interrupts
    /// that are charged to no process are told apart: most of them are the load's own.
    pub fn open() -> Meter {
        Meter { cpu: CpuMeter::open().ok().map(CpuMeter::with_uncharged_interrupts) }
    }

    /// The shortest time for which readings show how busy the CPUs were; see [`CpuMeter::shortest_slice`].
    pub fn shortest_slice(&self) -> Option<Nanos> {
        self.cpu.as_ref().map(CpuMeter::shortest_slice)
    }

    /// The counters now.
    pub fn read(&self) -> Reading {
        Reading {
            cpu: self.cpu.as_ref().and_then(|meter| meter.read_with_steal().ok()),
            own_cpu: own_cpu(),
            counters: Snapshot::take().ok(),
        }
    }
}
