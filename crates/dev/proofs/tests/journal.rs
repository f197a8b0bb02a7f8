//! A journal whose writer is killed has every acknowledged record, once and whole.

#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use engine::{Journal, JournalError};

const KILLS: u64 = 25;

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for kill in 0..KILLS {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tachograph-write-journal"))
            .arg(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // After this many commits, at a random moment of the next one.
        for _ in 0..kill % 5 + 1 {
            let line = lines.next().unwrap().unwrap();
            acknowledged = line.parse::<u64>().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            acknowledged = line.parse::<u64>().unwrap_or(acknowledged);
        }
        let mut next = 1;
        let journal = Journal::open(folder.path(), |position, bytes| {
            assert_eq!(position, next);
            assert_eq!(bytes, next.to_le_bytes().repeat((next % 900) as usize));
            next += 1;
            Ok::<(), JournalError>(())
        });
        let last = journal.unwrap().last();
        assert_eq!(last + 1, next);
        assert!(last >= acknowledged, "{acknowledged} was acknowledged, {last} is there");
        acknowledged = last;
    }
    assert!(acknowledged >= KILLS);
}
