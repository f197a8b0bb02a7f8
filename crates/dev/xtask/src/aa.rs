//! `prove aa` and `prove sixty`: gunicorn compared with itself.

use std::process::ExitCode;

use crate::binary::{Outcome, run_experiment};
use crate::options::Options;
use crate::{say, task};

/// Maximum false alarms in 60 runs; proportional for other numbers. Binomial(60, 0.05) exceeds 7
/// once in a hundred times.
const ALARMS_MAX_OF_60: f64 = 7.0;
/// Target half-width after a minute.
const SIXTY_HALF_WIDTH: f64 = 0.005;

/// Two equal variants.
const EXPERIMENT: &str = r#"
[experiment]
name = "aa"
title = "gunicorn against itself"
question = "Is a server faster than itself?"
python = ["gunicorn==27.0.1"]
baseline = "a"
offers = ["closed"]

[schedule]
@@SCHEDULE@@

[stack.hello]
target = "http://127.0.0.1:$PORT/"
served_by = "wsgi"
files."hello.py" = """
from tachograph_counter import count
def app(environ, start_response):
    start_response('200 OK', [('Content-Length', '12')])
    return [b'Hello World!']
app = count(app)
"""
process.command = "gunicorn --bind 127.0.0.1:$PORT --workers 1 --pythonpath $DIR hello:app"
process.ready = "127.0.0.1:$PORT"

[[variant]]
name = "a"
stack = "hello"

[[variant]]
name = "b"
stack = "hello"
"#;

/// Blocks as with `--quick`, without a target precision, so that each run costs the same.
const SHORT: &str =
    "pilot_blocks = 6\nmax_blocks = 6\nwindow = \"800ms\"\nwarmup = \"300ms\"\nprecision = \"1%\"";
/// The default schedule, limited to a minute.
const MINUTE: &str = "max_time = \"60s\"\nprecision = \"0.5%\"";

/// Counts how often a server seems to differ from itself.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    task("prove aa", Options::parse(words, 60), |options| {
        let outcomes = series(options, SHORT, &["--quick".to_owned()])?;
        let alarms = outcomes.iter().filter(|o| ["faster", "slower"].contains(&o.verdict.as_str()));
        let alarms = alarms.count();
        let allowed = ALARMS_MAX_OF_60 / 60.0 * outcomes.len() as f64;
        summary(&outcomes);
        say(&format!("false alarms: {alarms} of {}, allowed {allowed:.0}", outcomes.len()));
        Ok(alarms as f64 <= allowed)
    })
}

/// Measures the width of the interval between two equal servers after 60 seconds.
pub(crate) fn prove_sixty(words: &[&str]) -> ExitCode {
    task("prove sixty", Options::parse(words, 3), |options| {
        let outcomes = series(options, MINUTE, &[])?;
        summary(&outcomes);
        let mut widths: Vec<f64> = outcomes.iter().map(Outcome::half_width).collect();
        widths.sort_by(f64::total_cmp);
        let median = widths[widths.len() / 2];
        say(&format!(
            "median half-width after 60 s: {:.2}%, wanted at most {:.1}%",
            100.0 * median,
            100.0 * SIXTY_HALF_WIDTH
        ));
        Ok(median <= SIXTY_HALF_WIDTH)
    })
}

fn series(options: &Options, schedule: &str, flags: &[String]) -> Result<Vec<Outcome>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let toml = EXPERIMENT.replace("@@SCHEDULE@@", schedule);
    say("| run | verdict | ratio | interval | half-width | blocks |");
    say("| --: | --- | --: | --- | --: | --: |");
    let mut outcomes = Vec::new();
    for run in 0..options.runs {
        let seed = options.seed.derive("run", u64::from(run)).0 >> 12;
        let further = [vec!["--seed".to_owned(), seed.to_string()], flags.to_vec()].concat();
        let o = run_experiment(folder.path(), &toml, &further)?;
        say(&format!(
            "| {} | {} | {:.4} | {:.4}–{:.4} | {:.2}% | {} |",
            run + 1,
            o.verdict,
            o.ratio,
            o.low,
            o.high,
            100.0 * o.half_width(),
            o.blocks
        ));
        outcomes.push(o);
    }
    Ok(outcomes)
}

fn summary(outcomes: &[Outcome]) {
    let invalid: Vec<&Outcome> = outcomes.iter().filter(|o| o.verdict == "invalid").collect();
    say(&format!("\ninvalid runs: {} of {}", invalid.len(), outcomes.len()));
    for outcome in invalid {
        say(&format!("- {}", outcome.reasons));
    }
}
