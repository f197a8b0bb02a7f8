//! `prove zoo`: `tachograph compare` held against servers that are uneven in known ways.
//!
//! Each subject is drawn by a seed and compared with an even server, and with itself with 5% more of
//! its trouble. What the intervals should hold is computed (`crates/dev/zoo`).

mod comparison;
mod load;
mod page;
mod server;
mod tally;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zoo::{Behaviour, Kind, Subject};

use crate::noise::{self, Neighbours};
use crate::options::Options;
use crate::{binary, say, task};
use comparison::Pair;
use tally::{Judged, Tallies};

#[cfg(test)]
pub(crate) use comparison::Level;
pub(crate) use comparison::{Asked, Compared, Interval, compare};
pub(crate) use tally::{KNOWN_TO, true_p99};

use server::Program;
pub(crate) use server::become_server;

/// One subject of each kind.
const RUNS: u32 = Kind::ALL.len() as u32;

/// Neighbours on both CPUs, 30% of the time.
const NEIGHBOURS: [noise::Kind; 2] =
    [noise::Kind::bursts(Some(0), 0.3), noise::Kind::bursts(Some(1), 0.3)];

/// The options.
#[derive(Debug)]
struct Wanted {
    options: Options,
    kind: Option<Kind>,
    seconds: u32,
    neighbours: bool,
    /// Instead of comparing, loads every server for so many seconds.
    load_seconds: Option<u32>,
    binary: Option<PathBuf>,
    page: bool,
}

impl Wanted {
    fn parse(words: &[&str]) -> Result<Wanted, String> {
        let mut shared = Vec::new();
        let mut wanted = Wanted {
            options: Options::parse(&[], RUNS)?,
            kind: None,
            seconds: 60,
            neighbours: false,
            load_seconds: None,
            binary: None,
            page: false,
        };
        let mut words = words.iter();
        while let Some(name) = words.next() {
            let mut value = || words.next().copied().ok_or(format!("{name} lacks its value"));
            let seconds = |text: &str| {
                let seconds = text.parse().ok().filter(|seconds| (1..=3_600).contains(seconds));
                seconds.ok_or(format!("{name} {text}: a whole number from 1 to 3600 is wanted"))
            };
            match *name {
                "--kind" => {
                    let text = value()?;
                    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == text);
                    let names = Kind::ALL.map(Kind::name).join(", ");
                    wanted.kind = Some(kind.ok_or(format!("--kind {text}: one of {names}"))?);
                }
                "--seconds" => wanted.seconds = seconds(value()?)?,
                "--load" => wanted.load_seconds = Some(seconds(value()?)?),
                "--binary" => wanted.binary = Some(PathBuf::from(value()?)),
                "--quiet" => wanted.neighbours = false,
                "--neighbours" => wanted.neighbours = true,
                "--page" => wanted.page = true,
                _ => shared.extend([*name, value()?]),
            }
        }
        wanted.options = Options::parse(&shared, RUNS)?;
        Ok(wanted)
    }

    /// The subjects, kind by kind in turn. Those of a kind do not depend on the others.
    fn subjects(&self) -> impl Iterator<Item = (u32, Subject)> {
        let kinds: Vec<Kind> = self.kind.map_or(Kind::ALL.to_vec(), |kind| vec![kind]);
        let seed = self.options.seed;
        (0..self.options.runs).map(move |run| {
            let kind = kinds[run as usize % kinds.len()];
            let round = u64::from(run) / kinds.len() as u64;
            (run, kind.draw(seed.derive(kind.name(), round)))
        })
    }

    /// The words that repeat the proof.
    fn command(&self) -> String {
        let Options { runs, seed } = &self.options;
        let kind = self.kind.map_or(String::new(), |kind| format!(" --kind {}", kind.name()));
        let neighbours = if self.neighbours { "neighbours" } else { "quiet" };
        let seconds = self.seconds;
        format!("prove zoo --runs {runs} --seed {seed} --seconds {seconds}{kind} --{neighbours}")
    }
}

/// Compares all subjects, prints the tables, and writes the page if that is wanted.
pub(crate) fn prove(words: &[&str]) -> ExitCode {
    task("prove zoo", Wanted::parse(words), |wanted| {
        let stop = stage::signals::install().map_err(|error| error.to_string())?;
        match wanted.load_seconds {
            Some(seconds) => load::table(wanted, seconds, &stop).map(|()| true),
            None => judge(wanted, &stop),
        }
    })
}

fn judge(wanted: &Wanted, stop: &Arc<AtomicBool>) -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let tachograph = wanted.binary.clone().map_or_else(binary::path, Ok)?;
    let mut tallies = Tallies::default();
    say(Judged::HEAD);
    for (run, subject) in wanted.subjects() {
        for (against, pair) in [("even", Pair::even(&subject)), ("worse", Pair::worse(&subject))] {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let seed = wanted.options.seed.derive(against, u64::from(run)).0 >> 12;
            let _neighbours = match wanted.neighbours {
                true => Some(Neighbours::start(&NEIGHBOURS, seed)?),
                false => None,
            };
            let asked = Asked {
                tachograph: &tachograph,
                folder: folder.path(),
                seconds: wanted.seconds,
                further: &[format!("--seed={seed}")],
                stop,
            };
            let compared = pair.compare(&asked);
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let judged = Judged::new(&subject, against, &pair, compared, wanted.neighbours);
            say(&judged.row(run + 1));
            tallies.add(judged);
        }
    }
    say(&format!("\n{}", tallies.table()));
    say(&tallies.without_verdict());
    if stop.load(Ordering::Relaxed) {
        return Err("stopped".to_owned());
    }
    if wanted.page {
        page::write(wanted, &tallies)?;
    }
    Ok(tallies.meet_their_goals())
}

/// A server's behaviour in a few words.
fn describe(behaviour: &Behaviour) -> String {
    use zoo::{Pace, When, Which};
    let ms = |seconds: f64| match seconds * 1e3 {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms => format!("{ms:.0} ms"),
    };
    let mut words = vec![ms(behaviour.fast_s)];
    if let Some(slow) = &behaviour.slow {
        let which = match slow.which {
            Which::Share(share) => format!("{:.2}%", 100.0 * share),
            Which::Every(n) => format!("every {n}th"),
        };
        let computing = if slow.computes { " computing" } else { "" };
        words.push(format!("{which} at {}{computing}", ms(slow.length_s)));
    }
    match &behaviour.pace {
        Pace::Even => {}
        Pace::Stops { when, length_s } => {
            let after = match when {
                When::Exponential(run_s) => format!("{} on average", ms(*run_s)),
                When::Fixed(run_s) => ms(*run_s),
                When::Requests(n) => format!("{n} requests"),
            };
            words.push(format!("stops for {} after {after}", ms(*length_s)));
        }
        Pace::Phases { length_s, factor } => {
            words.push(format!("every other {} {factor:.2}× as slow", ms(*length_s)));
        }
        Pace::SlowStart { length_s, factor } => {
            words.push(format!("first {} {factor:.0}× as slow", ms(*length_s)));
        }
    }
    if let Some(lock) = &behaviour.lock {
        words.push(format!("{:.0}% hold a lock for {}", 100.0 * lock.share, ms(lock.hold_s)));
    }
    if let Some(slow) = &behaviour.slow_connections {
        let share = 100.0 * slow.share;
        words.push(format!("{share:.0}% of connections {:.0}× as slow", slow.factor));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_refused_with_a_sentence() {
        let wanted = Wanted::parse(&["--kind", "lock", "--runs", "3", "--neighbours"]).unwrap();
        assert_eq!(
            wanted.command(),
            "prove zoo --runs 3 --seed 1 --seconds 60 --kind lock --neighbours"
        );
        assert_eq!(wanted.subjects().count(), 3);
        for (words, sentence) in [
            (&["--seconds", "0"][..], "--seconds 0: a whole number from 1 to 3600 is wanted"),
            (&["--kind"], "--kind lacks its value"),
            (&["--what", "1"], "--what is no option of this task"),
        ] {
            assert_eq!(Wanted::parse(words).unwrap_err(), sentence);
        }
        let unknown = Wanted::parse(&["--kind", "x"]).unwrap_err();
        assert!(unknown.starts_with("--kind x: one of slow-requests, nth-slow,"), "{unknown}");
    }

    #[test]
    fn a_kind_alone_has_the_same_subjects_as_among_others() {
        let all = Wanted::parse(&["--runs", "22"]).unwrap();
        let one = Wanted::parse(&["--runs", "2", "--kind", "lock"]).unwrap();
        let subjects = |wanted: &Wanted| -> Vec<Subject> {
            let subjects = wanted.subjects().map(|(_, subject)| subject);
            subjects.filter(|subject| subject.kind == Kind::Lock).collect()
        };
        assert_eq!(subjects(&all), subjects(&one));
    }

    #[test]
    fn behaviours_are_described() {
        let stops = Behaviour::with_stops(0.005, zoo::When::Requests(400), 0.06);
        assert_eq!(describe(&stops), "5.00 ms, stops for 60 ms after 400 requests");
        let slow = Behaviour::with_slow(0.002, 0.02, 0.5);
        assert_eq!(describe(&slow), "2.00 ms, 2.00% at 500 ms");
    }
}
