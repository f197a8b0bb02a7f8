//! A program that answers each line of its input with lines.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use crate::process::KilledOnDrop;
use crate::server::{shown, tied};

/// The lines of an answer, or its error.
pub(super) type Lines = Result<Vec<String>, String>;

/// A running program.
pub(super) struct Pipe {
    process: KilledOnDrop,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// What the last line of an answer means; `None` if it is not the last.
    last: fn(&str) -> Option<Result<(), String>>,
}

impl Pipe {
    /// Starts a program, for whose answers `last` knows the last line.
    pub(super) fn start(
        command: Command,
        last: fn(&str) -> Option<Result<(), String>>,
    ) -> Result<Pipe, String> {
        let mut command = tied(command);
        // Its last words are for the person who starts the trial.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let shown = shown(&command);
        let child = command.spawn().map_err(|error| format!("{shown}: {error}"))?;
        let mut process = KilledOnDrop(child);
        match (process.0.stdin.take(), process.0.stdout.take()) {
            (Some(input), Some(output)) => {
                Ok(Pipe { process, input, output: BufReader::new(output), last })
            }
            _ => Err(format!("{shown} has no output")),
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.process.0.id()
    }

    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.process.0.try_wait(), Ok(None))
    }

    /// Writes a line, and reads the answer.
    ///
    /// # Errors
    /// If the program has ended.
    pub(super) fn ask(&mut self, line: &str) -> Result<Lines, String> {
        writeln!(self.input, "{line}").map_err(|error| error.to_string())?;
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
                return Err("it has ended".to_owned());
            }
            let line = line.trim_end();
            match (self.last)(line) {
                Some(Ok(())) => return Ok(Ok(lines)),
                Some(Err(error)) => return Ok(Err(error)),
                None => lines.push(line.to_owned()),
            }
        }
    }

    /// Ends its input, and waits until it has ended.
    pub(super) fn stop(self) -> Result<(), String> {
        let Pipe { mut process, input, .. } = self;
        drop(input);
        process.0.wait().map(drop).map_err(|error| error.to_string())
    }
}
