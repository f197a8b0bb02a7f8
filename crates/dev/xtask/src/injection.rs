//! `prove injection`: servers with known differences.

use crate::binary::{self, TwoFixtures, run_experiment};
use crate::options::Options;
use crate::say;

/// Maximum misses in 60 comparisons; proportional for other numbers.
const MISSES_MAX_OF_60: f64 = 7.0;

/// A way to make two servers differ by a known share.
struct Injection {
    name: &'static str,
    metric: &'static str,
    /// The fixture's flags for the baseline and for a server that differs by `share`.
    flags: fn(f64) -> (String, String),
    /// The true ratio variant ÷ baseline of the metric.
    truth: fn(f64) -> f64,
    offers: &'static str,
}

const INJECTIONS: [Injection; 3] = [
    Injection {
        name: "throughput, by a token bucket",
        metric: "throughput",
        flags: |share| ("--limit 4000".to_owned(), format!("--limit {}", 4000.0 * (1.0 - share))),
        truth: |share| 1.0 - share,
        offers: r#"["closed"]"#,
    },
    Injection {
        name: "p99, by a delay of one request in 50",
        metric: "p99",
        flags: |share| {
            let by = |ms: f64| format!("--delay-every 50 --delay {}us", ms * 1000.0);
            (by(20.0), by(20.0 * (1.0 + share)))
        },
        truth: |share| 1.0 + share,
        offers: r#"["closed", { open = "2000/s" }]"#,
    },
    Injection {
        name: "CPU per request, by burning it",
        metric: "cpu",
        flags: |share| ("--burn 400us".to_owned(), format!("--burn {}us", 400.0 * (1.0 + share))),
        truth: |share| 1.0 + share,
        offers: r#"["closed"]"#,
    },
];

const SHARES: [f64; 3] = [0.02, 0.05, 0.20];
/// The fixture's own cost dilutes the difference by at most this share of it.
const DILUTION: f64 = 0.06;

const SCHEDULE: &str =
    "pilot_blocks = 6\nmax_blocks = 12\nwindow = \"800ms\"\nwarmup = \"200ms\"\nprecision = \"1%\"";

fn experiment(injection: &Injection, share: f64) -> String {
    let (a, b) = (injection.flags)(share);
    let (primary, offers) = (injection.metric, injection.offers);
    TwoFixtures { primary, offers, connections: 8, schedule: SCHEDULE, flags: [&a, &b] }.toml()
}

/// Checks that known differences are found, with the right sign and size.
pub(crate) fn prove(options: Options) -> Result<bool, String> {
    let tachograph = binary::path()?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    say("| run | injected | truth | verdict | ratio | interval | blocks | outcome |");
    say("| --: | --- | --: | --- | --: | --- | --: | --- |");
    let (mut found, mut wrong) = (0, 0);
    for run in 0..options.runs {
        let injection = &INJECTIONS[run as usize % INJECTIONS.len()];
        let share = SHARES[run as usize / INJECTIONS.len() % SHARES.len()];
        let seed = options.seed.derive("run", u64::from(run)).0 >> 12;
        let toml = experiment(injection, share);
        let further = ["--quick", "--seed", &seed.to_string()];
        let o = run_experiment(&tachograph, folder.path(), &toml, &further, None)?;
        let truth = (injection.truth)(share);
        let is_right = (o.ratio > 1.0) == (truth > 1.0);
        let slack = DILUTION * (truth - 1.0).abs();
        let holds = o.low - slack <= truth && truth <= o.high + slack;
        let outcome = match (o.is_different(), is_right, holds) {
            (false, ..) => "missed: not decided",
            (true, false, _) => "WRONG SIGN",
            (true, true, true) => "found",
            (true, true, false) => "missed: interval without the truth",
        };
        found += u32::from(outcome == "found");
        wrong += u32::from(outcome == "WRONG SIGN");
        say(&format!(
            "| {} | {} | {truth:.3} | {} | {} | {outcome} |",
            run + 1,
            injection.name,
            o.cells(),
            o.blocks,
        ));
    }
    let (runs, allowed) = (options.runs, MISSES_MAX_OF_60 / 60.0 * f64::from(options.runs));
    let misses = runs - found - wrong;
    say(&format!("\nmisses: {misses} of {runs}, allowed {allowed:.0}; wrong signs: {wrong}"));
    Ok(f64::from(misses) <= allowed && wrong == 0)
}
