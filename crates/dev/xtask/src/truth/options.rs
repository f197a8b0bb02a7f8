//! Options of the task.

use std::path::PathBuf;

use base::Seed;

use super::comparisons::{COMPARISONS, Comparison};
use super::scenarios::{SCENARIOS, Scenario};
use super::tools::{TOOLS, Tool};
use crate::bench;

/// Options of the task.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) scenarios: Vec<&'static Scenario>,
    pub(super) comparisons: Vec<&'static Comparison>,
    pub(super) tools: Vec<&'static Tool>,
    pub(super) rounds: u32,
    pub(super) seed: Seed,
    /// A remark on the circumstances, for the page.
    pub(super) note: Option<String>,
    /// Where `scripts/truth-tools.sh` installed the tools.
    pub(super) installed: PathBuf,
    /// Where the page and its numbers are written.
    pub(super) docs: PathBuf,
}

impl Options {
    pub(super) fn parse(mut words: &[&str]) -> Result<Options, String> {
        let mut options = Options {
            scenarios: Vec::new(),
            comparisons: Vec::new(),
            tools: Vec::new(),
            rounds: 3,
            seed: Seed(1),
            note: None,
            installed: PathBuf::from("target/truth-tools"),
            docs: bench::docs(),
        };
        while let [name, rest @ ..] = words {
            let [value, rest @ ..] = rest else { return Err(format!("{name} lacks its value")) };
            let unfit = |wanted: &str| format!("{name} {value}: {wanted} is wanted");
            match *name {
                "--rounds" => {
                    let rounds = value.parse().ok().filter(|n| (1..=100).contains(n));
                    options.rounds = rounds.ok_or_else(|| unfit("a whole number from 1 to 100"))?;
                }
                "--seed" => options.seed = value.parse().map_err(|_| unfit("a whole number"))?,
                "--only" => {
                    let known = SCENARIOS.iter().map(|scenario| scenario.id);
                    let known = known.chain(COMPARISONS.iter().map(|comparison| comparison.id));
                    match (Scenario::named(value), Comparison::named(value)) {
                        (Some(scenario), _) => options.scenarios.push(scenario),
                        (_, Some(comparison)) => options.comparisons.push(comparison),
                        _ => return Err(unfit(&one_of(known))),
                    }
                }
                "--tool" => {
                    let known = TOOLS.iter().map(|tool| tool.name);
                    let found = TOOLS.into_iter().find(|tool| tool.name == *value);
                    options.tools.push(found.ok_or_else(|| unfit(&one_of(known)))?);
                }
                "--note" => options.note = Some((*value).to_owned()),
                "--tools" => options.installed = value.into(),
                "--docs" => options.docs = value.into(),
                _ => return Err(format!("{name} is no option of truth")),
            }
            words = rest;
        }
        if options.tools.is_empty() {
            options.tools = TOOLS.to_vec();
        }
        if options.scenarios.is_empty() && options.comparisons.is_empty() {
            options.scenarios = SCENARIOS.iter().collect();
            // The other tools do not compare.
            if options.tools.iter().any(|tool| tool.name == "tachograph") {
                let ids = COMPARISONS.map(|comparison| comparison.id);
                options.comparisons = ids.into_iter().filter_map(Comparison::named).collect();
            }
        }
        Ok(options)
    }
}

fn one_of<'a>(known: impl Iterator<Item = &'a str>) -> String {
    format!("one of {}", known.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_refused_with_a_sentence() {
        let options =
            Options::parse(&["--only", "stall", "--tool", "wrk", "--rounds", "7"]).unwrap();
        assert_eq!(
            (options.scenarios[0].id, options.tools[0].name, options.rounds),
            ("stall", "wrk", 7)
        );
        let all = Options::parse(&[]).unwrap();
        assert_eq!((all.scenarios.len(), all.tools.len(), all.rounds), (SCENARIOS.len(), 9, 3));
        assert_eq!(all.comparisons.len(), COMPARISONS.len());
        assert!(Options::parse(&["--tool", "wrk"]).unwrap().comparisons.is_empty());
        let one = Options::parse(&["--only", "compare-stops-by-time"]).unwrap();
        assert_eq!((one.scenarios.len(), one.comparisons[0].id), (0, "compare-stops-by-time"));
        for (words, sentence) in [
            (&["--rounds", "0"][..], "--rounds 0: a whole number from 1 to 100 is wanted"),
            (&["--seed", "x"], "--seed x: a whole number is wanted"),
            (
                &["--tool", "curl"],
                "--tool curl: one of wrk, ab, h2load, hey, oha, vegeta, k6, fortio, tachograph is wanted",
            ),
            (&["--what", "1"], "--what is no option of truth"),
            (&["--only"], "--only lacks its value"),
        ] {
            assert_eq!(Options::parse(words).map(|_| ()), Err(sentence.to_owned()));
        }
        let unknown = Options::parse(&["--only", "x"]).unwrap_err();
        assert!(unknown.starts_with("--only x: one of delay, stall, counts-time,"), "{unknown}");
    }
}
