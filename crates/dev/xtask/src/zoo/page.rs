//! The page docs/proofs/zoo.md: a section for each set of conditions. Those without new entries stay as
//! they are, so that a long proof need not be repeated for a short one.

use std::collections::BTreeMap;

use super::entry::{Conditions, Entry};
use super::tally::{
    COVERAGE_MIN, KNOWN_TO, LATENCY_KNOWN_TO, LATENCY_KNOWN_TO_BESIDE_COMPARISONS_S,
    LATENCY_KNOWN_TO_S, LATENCY_MIN_BESIDE_COMPARISONS_S, RATIO_KNOWN_TO_BESIDE_OTHERS, Tallies,
};
use crate::pages;

/// What each section begins with.
const SECTION: &str = "\n### ";

pub(super) fn write(entries: &[Entry]) -> Result<(), String> {
    let path = pages::docs().join("proofs/zoo.md");
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let mut sections = sections(&old);
    let mut all: Vec<&Conditions> = entries.iter().map(|entry| &entry.conditions).collect();
    all.sort();
    all.dedup();
    for conditions in all {
        let of_these = entries.iter().filter(|entry| entry.conditions == *conditions);
        let tallies = Tallies(of_these.map(|entry| entry.judged.clone()).collect());
        sections.insert(heading(conditions), section(conditions, &tallies));
    }
    let results = sections.iter().map(|(heading, text)| format!("{SECTION}{heading}\n{text}"));
    pages::write(&path, &page(&results.collect::<String>()))
}

/// The sections of a page by their headings.
fn sections(page: &str) -> BTreeMap<String, String> {
    let sections = page.split(SECTION).skip(1).filter_map(|text| text.split_once('\n'));
    sections.map(|(heading, text)| (heading.to_owned(), text.to_owned())).collect()
}

fn heading(conditions: &Conditions) -> String {
    let mut heading = match conditions.found {
        true => "The servers about which the method was wrong".to_owned(),
        false => "Drawn servers".to_owned(),
    };
    if conditions.together > 1 {
        heading.push_str(&format!(", {} comparisons at a time", conditions.together));
    }
    if conditions.neighbours {
        heading.push_str(", beside bursts on both CPUs");
    }
    heading
}

/// The results under one set of conditions.
fn section(conditions: &Conditions, tallies: &Tallies) -> String {
    let Conditions { seed, seconds, found, neighbours, together, version } = conditions;
    let date = base::timestamp_now().strftime("%Y-%m-%d").to_string();
    let mut command = String::new();
    if *found {
        command.push_str(" --found");
    }
    if *together > 1 {
        command.push_str(&format!(" --together {together}"));
    }
    if *neighbours {
        command.push_str(" --neighbours");
    }
    format!(
        "
`prove zoo --runs {} --seed {seed} --seconds {seconds}{command}`, {version}, measured up to {date} on {}:

{}
{}
{}
<details><summary>Those without a verdict, or with an interval without the truth</summary>

{}

</details>
",
        tallies.runs(),
        pages::machine(),
        tallies.table(),
        tallies.wrong_signs_by_chance(),
        tallies.without_verdict(),
        tallies.rows_of_misses(),
    )
}

fn page(results: &str) -> String {
    let percent = |share: f64| 100.0 * share;
    format!(
        "# The zoo: servers that are uneven in known ways

<!-- Made by `xtask prove zoo --page`. Do not edit. -->

Real servers are not even: some requests are slow, and now and then everything stops. Here `tachograph compare` measures servers whose unevenness is known, so its intervals can be compared with the truth. `cargo run --release -p xtask -- prove zoo` draws the servers by a seed (`--runs`, `--seed`, `--seconds`, `--kind`, `--neighbours`; `--together` makes several comparisons at the same time, `--keep` continues a proof that was interrupted, `--binary` measures another build). Each is compared with an even server, and with itself with 5% more of its trouble.

| kind | what is uneven |
| --- | --- |
| slow-requests, nth-slow | 0.1 to 10% of the requests take 20 ms to 2 s, by independent draws or every n-th |
| stops, periodic-stops | everything stops for 5 ms to 1 s, after a running time of 0.3 to 5 s that is exponential or fixed |
| stops-by-count | everything stops for 5 ms to 1 s after every 50 to 2,000 requests |
| lock | one request in a hundred holds a lock for 5 to 100 ms, and the others wait for it |
| slow-start | the first 0.2 to 1 s of the process are 3 times as slow |
| slow-connections | each accepted connection is fast or 3 times as slow |
| phases | a second fast, a second 2 to 3 times as slow |
| mixture | slow requests and stops |
| computing | slow requests that compute instead of sleeping |

A third of the servers run on asyncio, the others have a thread per connection. A fast request takes 4 to 10 ms (asyncio: 12 to 20 ms), so that no CPU is the limit.

**The truth.** The throughput of a closed loop of 10 connections in the long run follows from a formula (`crates/dev/zoo/src/formula.rs`), which a test compares with a simulation. The 99th percentile of the open loop's latency, at the rate that `compare` chose, is simulated. `prove zoo --load 30` compares both with `tachograph load`. A throughput and a ratio of two count as known to ±{:.1}%, a latency to ±{:.0}% and {:.1} ms, the way over loopback. Neighbours and other comparisons make all servers slower: beside them, the ratio counts as known to ±{:.0}%, and a single throughput as unknown; beside other comparisons, a latency above {:.0} ms counts as known to {:.0} ms more.

With `--found`, the servers are not drawn: they are those of docs/truth.md, about which an earlier version of the method was wrong, and each is compared with an even server of 5 ms.

**Goals.** At least {:.0}% of the intervals hold the truth, and no more exclude 1 on the wrong side than intervals of 95% do by chance (2.5% of comparisons of nearly equal servers).

## Results
{results}",
        percent(KNOWN_TO),
        percent(LATENCY_KNOWN_TO),
        1e3 * LATENCY_KNOWN_TO_S,
        percent(RATIO_KNOWN_TO_BESIDE_OTHERS),
        1e3 * LATENCY_MIN_BESIDE_COMPARISONS_S,
        1e3 * LATENCY_KNOWN_TO_BESIDE_COMPARISONS_S,
        percent(COVERAGE_MIN),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use zoo::Kind;

    #[test]
    fn sections_without_new_entries_stay() {
        let page = page("\n### A, 8 at a time\n\nold\n\n### B\n\n| 1 |\n");
        let found = sections(&page);
        assert_eq!(found["A, 8 at a time"], "\nold\n");
        assert_eq!(found["B"], "\n| 1 |\n");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn the_page_describes_every_kind() {
        let page = page("None.");
        let (kinds, _) = page.split_once("**The truth.**").unwrap();
        for kind in Kind::ALL {
            let named = |row: &str| {
                row.split('|')
                    .nth(1)
                    .is_some_and(|cell| cell.split(',').any(|name| name.trim() == kind.name()))
            };
            assert!(kinds.lines().any(named), "{}", kind.name());
        }
    }
}
