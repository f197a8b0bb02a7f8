//! Options shared by the tasks.

use base::Seed;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;

/// Number of runs, and the seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) runs: u32,
    pub(crate) seed: Seed,
}

/// The same on the command line, with a usual number of runs. That is no default of clap's: a derived
/// one is a static, which all numbers would share.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Runs<const USUAL: u32> {
    #[arg(long, value_name = "N", help = format!("How often [default: {USUAL}]"), value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = Seed(1))]
    seed: Seed,
}

impl<const USUAL: u32> From<Runs<USUAL>> for Options {
    fn from(Runs { runs, seed }: Runs<USUAL>) -> Options {
        Options { runs: runs.unwrap_or(USUAL), seed }
    }
}

/// Reads the name of one of these values.
pub(crate) fn one_of<T: Clone + Send + Sync + 'static>(
    known: impl IntoIterator<Item = T>,
    name: fn(&T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let known: Vec<T> = known.into_iter().collect();
    PossibleValuesParser::new(known.iter().map(name))
        .try_map(move |text| known.iter().find(|one| name(one) == text).cloned().ok_or("unknown"))
}

/// Reads a value that this program has written for a process of its own.
pub(crate) fn json<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text)
}
