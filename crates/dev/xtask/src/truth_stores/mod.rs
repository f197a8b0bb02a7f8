//! `truth-stores`: what time-series stores keep of counts and rates whose totals are known; writes
//! docs/truth-stores.md.

mod causes;
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

use base::Seed;

use self::results::{Results, TrialResult};
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
            for store in STORES.iter().filter(|store| self.wants(store)) {
                let result = results.stores.entry(store.name.to_owned()).or_default();
                let Some(version) = (store.version)() else {
                    say(&format!("{}: not installed ({})", store.name, store.install));
                    result.missing = Some(store.install.to_owned());
                    continue;
                };
                (result.version, result.missing) = (version, None);
                for trial in TRIALS.iter().filter(|trial| self.makes(trial)) {
                    let measured = self.measure(store, trial, &stop)?;
                    let result = results.stores.entry(store.name.to_owned()).or_default();
                    result.trials.insert(trial.id.to_owned(), measured);
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

    fn measure(
        &self,
        store: &StoreKind,
        trial: &Trial,
        stop: &AtomicBool,
    ) -> Result<TrialResult, String> {
        let date = pages::now();
        let mut rounds = Vec::new();
        for round in 1..=self.rounds {
            let cell = turn::turn(store, trial, self.seed.derive(trial.id, round), stop)?;
            say(&format!("{}, {}, round {round}: {}", store.name, trial.id, cell.words()));
            rounds.push(cell);
        }
        let (machine, note, seed) = (pages::machine(), self.note.clone(), self.seed.0);
        Ok(TrialResult { date, machine, note, seed, rounds })
    }
}
