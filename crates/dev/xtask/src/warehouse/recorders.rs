//! Three recorders that export to one folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use base::Seed;
use rand::RngExt as _;

use super::history::History;
use crate::process::output;

const RECORDERS: usize = 3;
/// Kills of an export, and the latest moment of one.
const KILLS: u32 = 10;
const KILL_MS_MAX: u64 = 300;

/// The recorders.
pub(super) struct Recorders<'a> {
    tachograph: &'a Path,
    folder: &'a Path,
    pub(super) rng: base::Rng,
    round: u32,
}

impl<'a> Recorders<'a> {
    pub(super) fn new(tachograph: &'a Path, folder: &'a Path, seed: Seed) -> Recorders<'a> {
        Recorders { tachograph, folder, rng: seed.rng("recorders"), round: 0 }
    }

    /// Lets each recorder import a part of the history, every file twice, and the last recorder
    /// be killed while it imports.
    pub(super) fn record(&mut self, history: &mut History) -> Result<(), String> {
        self.round += 1;
        for recorder in 0..RECORDERS {
            let file = self.folder.join(format!("r{recorder}-{}.influx", self.round));
            std::fs::write(&file, history.lines()).map_err(|error| error.to_string())?;
            let life = Duration::from_millis(self.rng.random_range(1..100));
            let words = ["import", "--format", "influx", "--precision", "s"];
            let import = || {
                let mut command = self.command(recorder, &words);
                command.arg(&file);
                command
            };
            if recorder + 1 == RECORDERS {
                kill(import(), life)?;
            }
            output(&mut import())?;
            output(&mut import())?;
        }
        Ok(())
    }

    /// Exports all records; with `kills`, the last recorder's export is killed again and again
    /// before it may end. Returns the number of exports that were killed before their end.
    pub(super) fn export(&mut self, kills: bool) -> Result<u32, String> {
        let place = self.place().display().to_string();
        let export = |proof: &Recorders<'_>, recorder| {
            proof.command(recorder, &["export", "--parquet", &place])
        };
        let mut killed = 0;
        for recorder in 0..RECORDERS {
            if kills && recorder + 1 == RECORDERS {
                for _ in 0..KILLS {
                    let life = Duration::from_millis(self.rng.random_range(0..KILL_MS_MAX));
                    killed += u32::from(kill(export(self, recorder), life)?);
                }
            }
            output(&mut export(self, recorder))?;
        }
        Ok(killed)
    }

    /// Publishes the folder; returns what was printed.
    pub(super) fn publish(
        &self,
        url: &str,
        options: &[&str],
        environment: &[(&str, PathBuf)],
    ) -> Result<String, String> {
        let mut command = self.command(0, &["publish", url, "--folder"]);
        command.arg(self.place()).args(options).envs(environment.iter().cloned());
        output(command.args(["--timeout", "120s"]))
    }

    /// A query of all series to each record.
    pub(super) fn queries(&self) -> Vec<Command> {
        (0..RECORDERS).map(|recorder| self.query(recorder)).collect()
    }

    /// A query of all series to one of them.
    pub(super) fn query(&self, recorder: usize) -> Command {
        self.command(recorder, &["query", "orders"])
    }

    fn place(&self) -> PathBuf {
        self.folder.join("slots")
    }

    fn command(&self, recorder: usize, words: &[&str]) -> Command {
        let mut command = Command::new(self.tachograph);
        command.args(words).stdin(Stdio::null());
        command.env("TACHOGRAPH_RECORD", self.folder.join(format!("r{recorder}.sqlite")));
        command
    }
}

/// Kills a command after this long; whether it had not ended by itself.
fn kill(mut command: Command, life: Duration) -> Result<bool, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(text)?;
    std::thread::sleep(life);
    child.kill().map_err(text)?;
    Ok(child.wait().map_err(text)?.code().is_none())
}
