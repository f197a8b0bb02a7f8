//! `tachograph serve` loses nothing by a power cut, whatever the disk keeps beside what was synced.

use std::path::Path;

use base::Seed;
use proofs::power_cuts::{Omission, Recording, Size, is_available};

use crate::support::{TACHOGRAPH, not_run};

#[test]
fn a_power_cut_loses_nothing_and_syncs_are_needed() {
    if !is_available() {
        return not_run("strace is not installed, or may not trace here");
    }
    let (program, seed) = (Path::new(TACHOGRAPH), Seed(1));
    let recording = Recording::make(program, seed, Size { lives: 4, counts: 20 }).unwrap();
    let proof = recording.prove(program, seed, 12, 3).unwrap();
    assert!(proof.holds(), "{proof:?}");
    // Those that are found within seconds; `xtask prove power-cuts` leaves each kind out.
    for omission in [Omission::Records, Omission::Header, Omission::Name] {
        let found = recording.without(program, omission).unwrap();
        assert!(found.is_some(), "nothing goes wrong without {omission:?}");
    }
}
