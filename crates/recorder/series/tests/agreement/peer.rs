//! The real rrdtool, through a pipe (`rrdtool -`).

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::TempDir;

/// Bytes of commands to write before reading their replies, so that neither pipe (64 KiB) fills up
/// while the other side waits.
const WRITTEN_MAX: usize = 16 << 10;

/// A running rrdtool with its own folder.
pub(crate) struct Peer {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    _folder: TempDir,
}

/// The reply to one command.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The rows it printed: `end: value`, with `-nan` as `nan`.
    pub(crate) lines: Vec<String>,
    /// Whether it succeeded; otherwise rrdtool's message.
    pub(crate) end: Result<(), String>,
}

impl Peer {
    /// Starts rrdtool.
    ///
    /// # Errors
    /// A sentence that says how to get rrdtool, when there is none.
    pub(crate) fn start() -> Result<Peer, String> {
        Peer::start_as("rrdtool")
    }

    /// Starts rrdtool by another name.
    pub(crate) fn start_as(program: &str) -> Result<Peer, String> {
        let folder = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
        let mut child = Command::new(program)
            .arg("-")
            .current_dir(folder.path())
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env_remove("RRDCACHED_ADDRESS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| {
                format!(
                    "{program} cannot be run ({e}). This test compares with the real rrdtool, \
                     1.7.2 or later: install it with 'apt-get install rrdtool', \
                     'dnf install rrdtool' or 'brew install rrdtool'"
                )
            })?;
        let commands = child.stdin.take().ok_or("rrdtool has no standard input")?;
        let answers = child.stdout.take().ok_or("rrdtool has no standard output")?;
        Ok(Peer { child, commands, answers: BufReader::new(answers), _folder: folder })
    }

    /// Sends commands, one per line, and reads their replies.
    ///
    /// # Errors
    /// A message if rrdtool stops responding.
    pub(crate) fn answers(&mut self, commands: &[String]) -> Result<Vec<Answer>, String> {
        let mut answers = Vec::with_capacity(commands.len());
        let mut begin = 0;
        while begin < commands.len() {
            let mut bytes = 0;
            let fits = |command: &&String| {
                bytes += command.len() + 1;
                bytes <= WRITTEN_MAX
            };
            let count = commands[begin..].iter().take_while(fits).count().max(1);
            let text = commands[begin..begin + count].join("\n") + "\n";
            let written = self.commands.write_all(text.as_bytes());
            written.and_then(|()| self.commands.flush()).map_err(|e| format!("rrdtool: {e}"))?;
            for _ in 0..count {
                answers.push(self.answer()?);
            }
            begin += count;
        }
        Ok(answers)
    }

    fn answer(&mut self) -> Result<Answer, String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let read = self.answers.read_line(&mut line).map_err(|e| format!("rrdtool: {e}"))?;
            if read == 0 {
                return Err("rrdtool ended before it had answered".to_owned());
            }
            let line = line.trim_end();
            if line.starts_with("OK u:") {
                return Ok(Answer { lines, end: Ok(()) });
            }
            if let Some(error) = line.strip_prefix("ERROR: ") {
                return Ok(Answer { lines, end: Err(error.to_owned()) });
            }
            // The first line of a fetch names the data source; it has no colon.
            if line.contains(':') {
                lines.push(line.replace("-nan", "nan"));
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have exited by itself; then nothing is left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
