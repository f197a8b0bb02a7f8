//! The proof that an import which is killed and restarted stores every line exactly once.
//!
//! Files of counts over intervals, of points and of refused lines are imported by a program that is
//! killed at random moments and restarted until it finishes. The content of the store is compared
//! with that of an undisturbed import of the same file, and its counts with those in the file.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base::Seed;
use formats::text::{Influx, Reader};
use formats::{Arrival, Precision};
use import::{BackfillError, LineStream, Options, RefusedLine, Watch, import};
use rand::RngExt as _;
use series::{Accumulator, Kind, Limits, SECOND_US, SlotKey, Step};
use store::{Memory, Selector, Store, StoreError};

use crate::counts::{differences, steps};

/// 2026-01-01T00:00:00Z, the start of the files.
const START_S: i64 = 1_767_225_600;

/// Timeout of an import.
const PATIENCE: Duration = Duration::from_secs(120);

/// Size of a file.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Minimum number of lines.
    pub least: usize,
    /// Maximum number of lines.
    pub most: usize,
}

/// Result of the proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Number of kills.
    pub kills: u64,
    /// Imported files.
    pub files: u64,
    /// Their lines.
    pub lines: u64,
    /// Sum of the counts in the files.
    pub counted: i64,
    /// Sum of the counts in the store.
    pub stored: i64,
    /// Slots compared, in all retentions.
    pub slots: u64,
    /// Slots that were wrong.
    pub wrong: u64,
    /// Refused lines that were not kept in a file.
    pub not_kept: u64,
}

impl Proof {
    /// Whether nothing is missing, duplicated or wrong.
    pub fn holds(&self) -> bool {
        self.slots > 0 && self.wrong == 0 && self.not_kept == 0 && self.counted == self.stored
    }
}

/// A file with its content.
struct File {
    text: String,
    counted: i64,
    /// The numbers of the refused lines.
    refused: Vec<u64>,
}

/// File number `number`: all its series begin with `f<number>`.
fn file(seed: Seed, number: u64, size: Size) -> File {
    let mut rng = seed.derive("file", number).rng("lines");
    let count = rng.random_range(size.least..=size.most);
    let mut file = File { text: String::new(), counted: 0, refused: Vec::new() };
    for i in 0..count {
        let at_s = START_S + i as i64 / 20;
        let series = rng.random_range(0..20);
        file.text += &match rng.random_range(0..100) {
            0 => {
                file.refused.push(i as u64 + 1);
                format!("f{number},host=h{series} value=oops {at_s}\n")
            }
            1..40 => format!(
                "f{number}g,host=h{series} value={}.25 {at_s}\n",
                rng.random_range(0..1_000)
            ),
            _ => {
                let (events, seconds) =
                    (rng.random_range(0..1_000_i64), rng.random_range(1..90_i64));
                file.counted += events;
                let start_s = at_s - seconds;
                format!("f{number}c,host=h{series} n={events}i,_start={start_s}i,_end={at_s}i\n")
            }
        };
    }
    file
}

/// Imports files into `place`, killing the import `kills` times.
///
/// `program` starts an import of a file of Influx lines with times in seconds; it must end with
/// status 0 or 1. The files are created in `folder`.
///
/// # Errors
/// A program that fails by itself, with its output; a store that cannot be read.
pub fn prove(
    place: &str,
    folder: &Path,
    seed: Seed,
    kills: u64,
    size: Size,
    program: impl Fn(&Path) -> Command,
) -> Result<Proof, String> {
    let text = |error: StoreError| error.to_string();
    let mut proof = Proof::default();
    let mut rng = seed.rng("moments");
    // So that the program's steps are those that are compared.
    store::open(place).map_err(text)?.retain(&steps()).map_err(text)?;
    let mut usual = Duration::from_millis(100);
    for number in 0.. {
        if proof.kills >= kills {
            break;
        }
        let file = file(seed, number, size);
        let path = folder.join(format!("f{number}.txt"));
        std::fs::write(&path, &file.text).map_err(|error| error.to_string())?;
        loop {
            // If the import is over before, it is not killed.
            let life = usual.mul_f64(rng.random_range(0.0..1.1));
            let began = Instant::now();
            let limit = if proof.kills < kills { life } else { PATIENCE };
            match live(program(&path), limit)? {
                ProgramEnd::Killed if proof.kills < kills => proof.kills += 1,
                ProgramEnd::Killed => return Err("an import takes too long".to_owned()),
                ProgramEnd::ByItself => {
                    usual = usual.max(began.elapsed()).min(2 * began.elapsed());
                    break;
                }
            }
        }
        proof.files += 1;
        proof.counted += file.counted;
        compare(place, number, &file, &path, &mut proof).map_err(text)?;
    }
    Ok(proof)
}

enum ProgramEnd {
    Killed,
    ByItself,
}

/// Lets a program run for this long.
fn live(mut command: Command, life: Duration) -> Result<ProgramEnd, String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("the importing program: {error}"))?;
    let began = Instant::now();
    while began.elapsed() < life {
        if child.try_wait().map_err(|error| error.to_string())?.is_some() {
            return by_itself(child);
        }
        std::thread::sleep(Duration::from_micros(500).min(life.saturating_sub(began.elapsed())));
    }
    if child.try_wait().map_err(|error| error.to_string())?.is_some() {
        return by_itself(child);
    }
    child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
    Ok(ProgramEnd::Killed)
}

fn by_itself(child: Child) -> Result<ProgramEnd, String> {
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    match output.status.code() {
        Some(0 | 1) => Ok(ProgramEnd::ByItself),
        _ => Err(format!("the import failed: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Keeps no refused lines: the program does.
struct Quiet;

impl Watch for Quiet {
    fn refused(&mut self, _: RefusedLine<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// Compares the store's content of a file with that of an undisturbed import.
fn compare(
    place: &str,
    number: u64,
    file: &File,
    path: &Path,
    proof: &mut Proof,
) -> Result<(), StoreError> {
    let mut memory = Memory::new();
    memory.retain(&steps())?;
    let lines = LineStream {
        input: file.text.as_bytes(),
        reader: Reader::new(
            Box::new(Influx::new(Kind::Gauge, Precision::Seconds)),
            Limits::DEFAULT,
            1_000,
        ),
        arrival: Arrival { now_us: i64::MAX / 2, at_us: None },
        meaning: String::new(),
    };
    let step = steps().first().map(|r| r.step).ok_or(StoreError::NoRetention(0))?;
    match import(&mut memory, lines, &Options::new(step), &mut Quiet) {
        Ok(summary) => proof.lines += summary.lines,
        Err(BackfillError::Store(error)) => return Err(error),
        Err(error) => {
            return Err(StoreError::Value {
                place: path.display().to_string(),
                cause: error.to_string(),
            });
        }
    }
    let mut store = store::open(place)?;
    for retention in steps() {
        let wanted = contents(&mut memory, number, retention.step)?;
        let found = contents(&mut *store, number, retention.step)?;
        proof.slots += wanted.len() as u64;
        proof.wrong += differences(&wanted, &found);
        if retention.step == step {
            let counts =
                found.iter().filter(|((name, ..), _)| name.starts_with(&format!("f{number}c")));
            proof.stored += counts.map(|(_, row)| row.integral.as_f64() as i64).sum::<i64>();
        }
    }
    let mut refused_path = path.as_os_str().to_owned();
    refused_path.push(".refused");
    let kept = std::fs::read_to_string(refused_path).unwrap_or_default();
    let lacks = |line: &&u64| !kept.contains(&format!("# line {line}: "));
    proof.not_kept += file.refused.iter().filter(lacks).count() as u64;
    Ok(())
}

/// The store's content of a file: slots by series, time and lane.
fn contents(
    store: &mut dyn Store,
    number: u64,
    step: Step,
) -> Result<BTreeMap<(String, i64, i32), Accumulator>, StoreError> {
    let mut contents = BTreeMap::new();
    for measurement in [format!("f{number}c"), format!("f{number}g")] {
        let selector = Selector { measurement: Some(measurement), ..Selector::default() };
        let series = store.find(&selector)?;
        let names: BTreeMap<i64, String> =
            series.iter().map(|series| (series.id, series.identity.to_string())).collect();
        let ids: Vec<i64> = names.keys().copied().collect();
        let (from_us, until_us) = ((START_S - 3_600) * SECOND_US, (START_S + 86_400) * SECOND_US);
        for (SlotKey { slot_us, series, lane }, row) in
            store.slots(step, &ids, from_us, until_us)?
        {
            contents.insert((names[&series].clone(), slot_us, lane), row);
        }
    }
    Ok(contents)
}
