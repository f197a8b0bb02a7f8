//! `truth-stores`: what time-series stores keep of counts and rates whose totals are known; writes
//! docs/truth-stores.md.

mod causes;
mod clock;
mod disk;
mod grid;
mod history;
mod page;
mod processes;
mod results;
mod stores;
mod trials;
mod turn;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::thread::{self, ScopedJoinHandle};

use base::Seed;

use self::results::{Cell, Results, TrialResult};
use self::stores::{STORES, StoreKind};
use self::trials::{TRIALS, Trial};
use crate::options::one_of;
use crate::{pages, say};

/// The command line of `truth-stores`.
#[derive(Debug, clap::Args)]
pub(crate) struct Command {
    /// Only this trial; may be repeated
    #[arg(long, value_name = "TRIAL", value_parser = one_of(&TRIALS, |trial| trial.id))]
    only: Vec<&'static Trial>,
    /// Only this store; may be repeated
    #[arg(long = "store", value_name = "NAME", value_parser = one_of(&STORES, |store| store.name))]
    stores: Vec<&'static StoreKind>,
    /// Rounds, each with other messages
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Seed of all messages and kills
    #[arg(long, value_name = "N", default_value_t = Seed(1))]
    seed: Seed,
    /// A remark on the circumstances, for the page
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Measures nothing: writes the page from the numbers that are kept
    #[arg(long)]
    page: bool,
    /// Where the page and its numbers are written
    #[arg(long, value_name = "FOLDER", default_value_os_t = pages::docs())]
    docs: PathBuf,
}

impl Command {
    /// Measures what is requested, keeps the numbers and writes the page.
    pub(crate) fn run(&self) -> Result<(), String> {
        let folder = self.docs.join("results");
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{} cannot be written: {error}", folder.display()))?;
        let numbers = folder.join("truth-stores.json");
        let mut results: Results = pages::load(&numbers)?;
        let stop = stage::signals::install().map_err(|error| error.to_string())?;
        if !self.page {
            if let Err(why) = disk::own_mounts() {
                say(&format!("Without full disks and power cuts: {why}"));
            }
            let mut stores = Vec::new();
            for store in STORES.iter().filter(|store| self.wants(store)) {
                let result = results.stores.entry(store.name.to_owned()).or_default();
                match (store.version)() {
                    Some(version) => {
                        (result.version, result.missing) = (version, None);
                        stores.push(store);
                    }
                    None => {
                        say(&format!("{}: not installed ({})", store.name, store.install));
                        result.missing = Some(store.install.to_owned());
                    }
                }
            }
            for trial in TRIALS.iter().filter(|trial| self.makes(trial)) {
                for stores in stores.chunks(trial.at_once()) {
                    let measured = self.measure(stores, trial, &stop)?;
                    for (store, measured) in stores.iter().zip(measured) {
                        let result = results.stores.entry(store.name.to_owned()).or_default();
                        result.trials.insert(trial.id.to_owned(), measured);
                    }
                    // Each, so that a later failure loses nothing.
                    pages::save(&numbers, &results)?;
                }
            }
            pages::save(&numbers, &results)?;
        }
        pages::write(&self.docs.join("results/truth-stores.svg"), &grid::grid(&results))?;
        pages::write(&self.docs.join("truth-stores.md"), &page::page(&results))
    }

    fn wants(&self, store: &StoreKind) -> bool {
        self.stores.is_empty() || self.stores.iter().any(|wanted| wanted.name == store.name)
    }

    fn makes(&self, trial: &Trial) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted.id == trial.id)
    }

    /// Makes a trial of these stores, of all at the same time.
    fn measure(
        &self,
        stores: &[&StoreKind],
        trial: &Trial,
        stop: &AtomicBool,
    ) -> Result<Vec<TrialResult>, String> {
        let (date, machine, note, seed) =
            (pages::now(), pages::machine(), self.note.clone(), self.seed.0);
        let measured = TrialResult { date, machine, note, seed, rounds: Vec::new() };
        let mut measured = vec![measured; stores.len()];
        for round in 1..=self.rounds {
            let seed = self.seed.derive(trial.id, round);
            let cells = thread::scope(|scope| {
                let begin = |store| scope.spawn(move || turn::turn(store, trial, seed, stop));
                let running: Vec<_> = stores.iter().map(|store| begin(*store)).collect();
                let end = |turn: ScopedJoinHandle<'_, _>| {
                    turn.join().unwrap_or_else(|_| Err("a trial panicked".to_owned()))
                };
                running.into_iter().map(end).collect::<Result<Vec<Cell>, String>>()
            })?;
            for ((store, measured), cell) in stores.iter().zip(&mut measured).zip(cells) {
                say(&format!("{}, {}, round {round}: {}", store.name, trial.id, cell.words()));
                measured.rounds.push(cell);
            }
        }
        Ok(measured)
    }
}
