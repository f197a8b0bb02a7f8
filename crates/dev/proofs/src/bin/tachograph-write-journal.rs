//! Appends to the journal in a folder until it is killed, and prints each position that is on disk:
//! for the proof that acknowledged records survive kill −9.

use std::io::{Write as _, stdout};
use std::process::ExitCode;

use engine::{Journal, JournalError};

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else { return ExitCode::from(2) };
    match write(folder.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &std::path::Path) -> Result<(), JournalError> {
    let mut journal = Journal::open(folder, |_, _| Ok::<(), JournalError>(()))?;
    loop {
        // Groups of several records are committed together.
        for _ in 0..journal.last() % 7 + 1 {
            let next = journal.last() + 1;
            journal.append(&next.to_le_bytes().repeat((next % 900) as usize))?;
        }
        let committed = journal.commit()?;
        if writeln!(stdout(), "{committed}").is_err() {
            return Ok(());
        }
    }
}
