//! What was acknowledged to ten writers survives kill −9 in both databases.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use std::process::Command;

use base::Seed;
use proofs::batches::{WRITERS, prove};
use throwaway::Throwaway;

/// The long proof kills 500 times.
const KILLS: u64 = 12;

fn check(place: &str) {
    let program = |acknowledged: [u64; WRITERS]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(["write-batches", place, "7"]).args(acknowledged.map(|seq| seq.to_string()));
        command
    };
    let proof = prove(place, Seed(7), KILLS, program).unwrap();
    assert_eq!((proof.lost, proof.wrong), (0, 0), "{proof:?}");
    assert!(proof.kills >= KILLS && proof.acknowledged > 0 && proof.holds(), "{proof:?}");
}

#[test]
fn what_was_acknowledged_survives_kill_9_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    check(folder.path().join("record.sqlite").to_str().unwrap());
}

#[test]
fn what_was_acknowledged_survives_kill_9_in_postgresql() {
    let server = Throwaway::start(&["fsync=off"]).unwrap();
    check(&server.database("killed").unwrap());
}
