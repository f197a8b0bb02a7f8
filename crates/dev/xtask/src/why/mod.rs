//! `prove why`: servers with fifty functions, one of which may cost twice as much, so that a request
//! needs 2% more CPU time. `--why` must name that function first, and none where both are equal.

mod cost;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::binary;
use crate::kept::ResultsFile;
use crate::options::{Options, Runs, one_of};
use crate::say;

const FUNCTIONS: u32 = 50;

/// How often in 20 the right function must be named first, and may one be named among equals.
const NAMED_OF_20: f64 = 19.0;
const FALSE_OF_20: f64 = 1.0;

/// How far the sum of the functions may be from the counted CPU time.
const APART_MAX: f64 = 0.01;

/// What a server is written in.
#[derive(Clone, Copy, Debug)]
struct Language {
    name: &'static str,
    source: &'static str,
    file: &'static str,
    /// The shell command that builds `fifty` from the file; empty if there is nothing to build.
    build: &'static str,
}

const LANGUAGES: [Language; 3] = [
    Language {
        name: "c",
        source: include_str!("fifty.c"),
        file: "fifty.c",
        build: "cc -O2 -o fifty fifty.c",
    },
    Language {
        name: "rust",
        source: include_str!("fifty.rs"),
        file: "fifty.rs",
        build: "rustc --edition 2024 -O -o fifty fifty.rs",
    },
    Language { name: "python", source: include_str!("fifty.py"), file: "fifty.py", build: "" },
];

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct WhyOptions {
    #[command(flatten)]
    options: Runs<20>,
    /// Only servers in this language
    #[arg(long, value_name = "NAME", value_parser = one_of(LANGUAGES, |language| language.name))]
    language: Option<Language>,
    /// Limit on the time of a comparison
    #[arg(long, value_name = "S", default_value_t = 180)]
    seconds: u32,
    /// Only servers with a difference, or only equal ones
    #[arg(long, value_name = "WHICH", value_parser = ["injected", "equal"])]
    only: Option<String>,
    /// The interpreter, 3.12 or later
    #[arg(long, value_name = "FILE", default_value = "python3")]
    python: PathBuf,
    /// Only what sampling costs, in so many pairs of turns of a tenth of a second with and without it
    #[arg(long, value_name = "N")]
    cost: Option<u32>,
    /// With --cost: sample so many times as often, and print that share of the cost, so that its
    /// interval is as much narrower
    #[arg(long, value_name = "N", default_value_t = 1, requires = "cost", value_parser = clap::value_parser!(u32).range(1..=20))]
    times: u32,
    /// Another build to measure
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Continue with what is in this file
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
}

/// One comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    language: String,
    seconds: u32,
    run: u32,
    /// The function that costs twice as much in the second variant.
    injected: Option<String>,
    /// The functions that were named, the first one first.
    named: Vec<String>,
    /// The same with what they call.
    with_callees: Vec<String>,
    /// How far samples and count are apart, as a share.
    apart: f64,
    blocks: u64,
    /// CPU time per request of the baseline, and the difference with its interval, in nanoseconds.
    baseline_ns: f64,
    difference_ns: [f64; 3],
}

impl Entry {
    fn is_right(&self) -> bool {
        match &self.injected {
            Some(injected) => self.named.first() == Some(injected),
            None => self.named.is_empty() && self.with_callees.is_empty(),
        }
    }

    fn line(&self) -> String {
        let [value, low, high] = self.difference_ns.map(|ns| ns / 1e3);
        format!(
            "| {} | {} | {} | {} | {} | {:.1} | {value:+.2} ({low:+.2} to {high:+.2}) | {:.2}% | {} |",
            self.language,
            self.run + 1,
            self.injected.as_deref().unwrap_or("none"),
            match self.named.as_slice() {
                [] => "none".to_owned(),
                [first, ..] if self.named.len() > 3 =>
                    format!("{first} and {} more", self.named.len() - 1),
                names => names.join(", "),
            },
            self.blocks,
            self.baseline_ns / 1e3,
            self.apart * 100.0,
            if self.is_right() { "right" } else { "WRONG" },
        )
    }
}

/// Prints a row per comparison; returns whether the goals are met.
pub(crate) fn prove(wanted: &WhyOptions) -> Result<bool, String> {
    let Options { runs, seed } = wanted.options.into();
    let tachograph = wanted.binary.clone().map_or_else(binary::path, Ok)?;
    // Servers start in a folder of their own.
    let tachograph = std::path::absolute(tachograph).map_err(|error| error.to_string())?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let languages = wanted.language.as_ref().map_or(&LANGUAGES[..], std::slice::from_ref);
    for language in languages {
        build(language, folder.path())?;
    }
    if let Some(turns) = wanted.cost {
        return costs(wanted, &tachograph, languages, folder.path(), turns);
    }
    let mut kept: ResultsFile<Entry> = ResultsFile::open(wanted.keep.as_deref())?;
    say("| server | run | injected | named | blocks | µs | difference, µs | apart | |");
    say("| --- | --: | --- | --- | --: | --: | --: | --: | --- |");
    for run in 0..runs {
        for language in languages {
            for is_injected in [true, false] {
                let which = if is_injected { "injected" } else { "equal" };
                let of_this = |entry: &&Entry| {
                    entry.language == language.name
                        && (entry.run, entry.seconds) == (run, wanted.seconds)
                        && entry.injected.is_some() == is_injected
                };
                let is_wanted = wanted.only.as_deref().is_none_or(|only| only == which);
                if !is_wanted || kept.entries.iter().any(|entry| of_this(&entry)) {
                    continue;
                }
                let seed = seed.derive(language.name, u64::from(run));
                let function = seed.rng(which).random_range(0..FUNCTIONS);
                let injected = is_injected.then_some(function);
                let seed = (seed.derive(which, 0).0 >> 12).to_string();
                let mut entry =
                    compare(&tachograph, folder.path(), wanted, language, injected, &seed)?;
                entry.run = run;
                say(&entry.line());
                kept.add(entry)?;
            }
        }
    }
    Ok(goals(&kept.entries))
}

/// Prints what sampling costs each server, and the fastest one that there is: tachograph's own.
fn costs(
    wanted: &WhyOptions,
    tachograph: &Path,
    languages: &[Language],
    folder: &Path,
    turns: u32,
) -> Result<bool, String> {
    let sampling =
        cost::Sampling { turns, times: wanted.times, seed: Options::from(wanted.options).seed };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let own = words(&["serve-fixture", "--listen", "tcp://127.0.0.1:$PORT"]);
    let mut met =
        wanted.language.is_some() || cost::measure("native", tachograph, &own, folder, &sampling)?;
    for language in languages {
        let here = folder.join(language.name);
        let script = here.join(language.file).display().to_string();
        let (program, words) = match language.build {
            "" => (wanted.python.clone(), words(&[&script, "$PORT"])),
            _ => (here.join("fifty"), words(&["$PORT"])),
        };
        met &= cost::measure(language.name, &program, &words, folder, &sampling)?;
    }
    Ok(met)
}

fn build(language: &Language, folder: &Path) -> Result<(), String> {
    let folder = folder.join(language.name);
    let text = |error: std::io::Error| error.to_string();
    std::fs::create_dir_all(&folder).map_err(text)?;
    std::fs::write(folder.join(language.file), language.source).map_err(text)?;
    let built = Command::new("sh").args(["-c", language.build]).current_dir(&folder).output();
    let built = built.map_err(text)?;
    match built.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}", language.build, String::from_utf8_lossy(&built.stderr))),
    }
}

fn compare(
    tachograph: &Path,
    folder: &Path,
    wanted: &WhyOptions,
    language: &Language,
    injected: Option<u32>,
    seed: &str,
) -> Result<Entry, String> {
    let here = folder.join(language.name);
    let program = match language.build {
        "" => format!("exec {} {}", wanted.python.display(), here.join(language.file).display()),
        _ => format!("exec {}", here.join("fifty").display()),
    };
    let second = injected.map(|function| format!(" {function}")).unwrap_or_default();
    let output = Command::new(tachograph)
        .args(["compare", "--why", "--closed-only", "--quiet", "--json", "--precision", "0.2%"])
        .args(["--max-time", &format!("{}s", wanted.seconds), "--seed", seed])
        .args(["-n", "before", "-n", "after"])
        .args([format!("{program} $PORT"), format!("{program} $PORT{second}")])
        .env("TACHOGRAPH_RECORD", folder.join("record.sqlite"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let json: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("no result: {}", said.trim()))?;
    entry(&json, language, wanted.seconds, injected)
        .ok_or_else(|| format!("no profile: {} {}", json["validity"], said.trim()))
}

fn entry(json: &Value, language: &Language, seconds: u32, injected: Option<u32>) -> Option<Entry> {
    let why = json["parts"][0]["why"].as_array()?.first()?;
    let names = |list: &str| -> Option<Vec<String>> {
        let name = |row: &Value| row["function"]["name"].as_str().map(short);
        why[list].as_array()?.iter().map(name).collect()
    };
    let ns = |cost: &str, side: &str| why[cost][side].as_f64();
    let apart = |side: &str| Some((ns("own", side)? / ns("counted", side)? - 1.0).abs());
    let end = |end: &str| why["own"]["difference_ns"][end].as_f64();
    Some(Entry {
        language: language.name.to_owned(),
        seconds,
        run: 0,
        injected: injected.map(|function| format!("f{function:02}")),
        named: names("functions")?,
        with_callees: names("with_callees")?,
        apart: apart("baseline_ns")?.max(apart("variant_ns")?),
        blocks: why["blocks"].as_u64()?,
        baseline_ns: ns("own", "baseline_ns")?,
        difference_ns: [end("value")?, end("low")?, end("high")?],
    })
}

/// The last part of a function's path.
fn short(name: &str) -> String {
    name.rsplit("::").next().unwrap_or(name).to_owned()
}

/// Prints what was reached; returns whether the goals are met.
fn goals(entries: &[Entry]) -> bool {
    let mut met = true;
    say("");
    for language in LANGUAGES {
        let of = |is_injected: bool| -> Vec<&Entry> {
            let of_this = |entry: &&Entry| {
                entry.language == language.name && entry.injected.is_some() == is_injected
            };
            entries.iter().filter(of_this).collect()
        };
        let (injected, equal) = (of(true), of(false));
        let right = |of: &[&Entry]| of.iter().filter(|entry| entry.is_right()).count();
        let apart = injected.iter().chain(&equal).map(|entry| entry.apart).fold(0.0, f64::max);
        let share = |count: usize, of: usize| count as f64 * 20.0 / of.max(1) as f64;
        met &= injected.is_empty() || share(right(&injected), injected.len()) >= NAMED_OF_20;
        let wrong = equal.len() - right(&equal);
        met &= equal.is_empty() || share(wrong, equal.len()) <= FALSE_OF_20;
        met &= apart <= APART_MAX;
        say(&format!(
            "{}: the injected function was named first in {} of {}; equal servers with a name: {wrong} \
             of {}; samples and count at most {:.2}% apart",
            language.name,
            right(&injected),
            injected.len(),
            equal.len(),
            apart * 100.0
        ));
    }
    met
}
