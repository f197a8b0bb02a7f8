//! The page docs/proofs/noise.md.

use super::tally::{Conditions, Entry, table};
use crate::pages;

pub(super) fn write(entries: &[Entry]) -> Result<(), String> {
    let date = base::timestamp_now().strftime("%Y-%m-%d").to_string();
    let mut all: Vec<&Conditions> = entries.iter().map(|entry| &entry.conditions).collect();
    all.sort();
    all.dedup();
    let sections: Vec<String> = all
        .into_iter()
        .map(|conditions| {
            let Conditions { seed, seconds, closed_only, version } = conditions;
            let of_these: Vec<&Entry> =
                entries.iter().filter(|entry| entry.conditions == *conditions).collect();
            let runs = of_these.iter().map(|entry| entry.run + 1).max().unwrap_or(0);
            let only = if *closed_only { " --closed-only" } else { "" };
            format!(
                "\n`prove noise --runs {runs} --seed {seed} --seconds {seconds}{only}`, {version}:\n\n{}",
                table(&of_these)
            )
        })
        .collect();
    let machine = pages::machine();
    let text = format!(
        "# The noise laboratory

<!-- Made by `xtask prove noise --page`. Do not edit. -->

Comparisons beside neighbours that the proof itself starts: `cargo run --release -p xtask -- prove noise` (`--runs`, `--seconds`, `--profile`, `--closed-only`; `--keep` continues a proof that was interrupted, `--binary` measures another build). Each profile is measured with two equal servers and with two that differ by a known 5% (1 ms and 1.05 ms of CPU time per request). The stack runs on CPU 0 and the client on CPU 1. The last column is the median error of two successive runs of wrk, together as long as a comparison.

| profile | neighbours |
| --- | --- |
| quiet | none |
| stack-30, stack-60, client-30, client-60, both-30, unpinned-60 | bursts of 0.1 to 3 s on that CPU, 30% or 60% of the time |
| compiler | `cc -O2` in a loop |
| every-second | 150 ms of work every second on the stack's CPU |
| memory | copies 64 MiB in a loop |
| near-the-slice | 25 ms of work in every 50 ms on the stack's CPU |
| quota | a quota of 1.3 CPUs for client and stacks together, in periods of half a second |

**Goals**, on every profile: at least 95% of runs end with a verdict (not INVALID), no more than 7 false alarms in 60, and at least 93% of the intervals contain the true ratio. The command fails if a goal is missed by more than chance allows.

## Results

Measured up to {date} on {machine}.
{}",
        sections.concat()
    );
    pages::write(&pages::docs().join("proofs/noise.md"), &text)
}
