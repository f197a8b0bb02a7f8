//! `prove zoo`: `tachograph compare` held against servers that are uneven in known ways.
//!
//! Each subject is drawn by a seed and compared with an even server, and with itself with 5% more of
//! its trouble. What the intervals should hold is computed (`crates/dev/zoo`).

mod comparison;
mod entry;
mod load;
mod page;
mod server;
mod tally;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Seed;
use zoo::{Behaviour, Kind, Subject};

use crate::kept::ResultsFile;
use crate::noise::{self, Neighbours};
use crate::options::{Options, Runs, one_of};
use crate::{binary, say, tools, truth};
use comparison::Pair;
use entry::{Conditions, Entry};
use tally::{ConcurrentLoad, JudgedComparison, Tallies};

#[cfg(test)]
pub(crate) use comparison::Level;
pub(crate) use comparison::{CompareResult, ComparisonPlan, Interval, compare};
pub(crate) use tally::{KNOWN_TO, LATENCY_KNOWN_TO_S, true_p99};

use server::Program;
pub(crate) use server::serve;

/// One subject of each kind.
const RUNS: u32 = Kind::ALL.len() as u32;

/// Neighbours on both CPUs, 30% of the time.
const NEIGHBOURS: [noise::Kind; 2] =
    [noise::Kind::bursts(Some(0), 0.3), noise::Kind::bursts(Some(1), 0.3)];

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct ZooOptions {
    #[command(flatten)]
    options: Runs<RUNS>,
    /// Only servers of this kind
    #[arg(long, value_name = "NAME", value_parser = one_of(Kind::ALL, |kind| kind.name()))]
    kind: Option<Kind>,
    /// Limit on the time of a comparison
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// Instead of drawn servers, those about which an earlier method was wrong
    #[arg(long)]
    found: bool,
    /// Beside bursts on both CPUs, the same for all comparisons at a time
    #[arg(long)]
    neighbours: bool,
    /// Instead of comparing, load every server for so many seconds, and check the truth
    #[arg(long = "load", value_name = "S", value_parser = clap::value_parser!(u32).range(1..=3_600))]
    load_seconds: Option<u32>,
    /// Another build to measure
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Write docs/proofs/zoo.md
    #[arg(long)]
    page: bool,
    /// Comparisons at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    together: u32,
    /// Continue with what is in this file
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
}

impl ZooOptions {
    /// The subjects, kind by kind in turn. Those of a kind do not depend on the others.
    fn subjects(&self) -> impl Iterator<Item = (u32, Subject)> {
        let found = truth::subjects();
        let mut kinds: Vec<Kind> = match self.found {
            true => found.iter().map(|subject| subject.kind).collect(),
            false => Kind::ALL.to_vec(),
        };
        kinds.retain(|kind| self.kind.is_none_or(|wanted| wanted == *kind));
        let (Options { runs, seed }, is_found) = (self.options.into(), self.found);
        let runs = if kinds.is_empty() { 0 } else { runs };
        (0..runs).map(move |run| {
            let kind = kinds[run as usize % kinds.len()];
            let round = u64::from(run) / kinds.len() as u64;
            let known = found.iter().find(|subject| is_found && subject.kind == kind);
            let drawn = || kind.draw(seed.derive(kind.name(), round));
            (run, known.cloned().unwrap_or_else(drawn))
        })
    }

    /// What each subject is compared with.
    fn against(&self) -> &'static [&'static str] {
        if self.found { &["even"] } else { &["even", "worse"] }
    }

    fn conditions(&self, version: String) -> Conditions {
        Conditions {
            seed: Options::from(self.options).seed.0,
            seconds: self.seconds,
            found: self.found,
            neighbours: self.neighbours,
            together: self.together,
            version,
        }
    }
}

/// Compares all subjects, prints the tables, and writes the page if that is wanted.
pub(crate) fn prove(wanted: &ZooOptions) -> Result<bool, String> {
    let stop = stage::signals::install().map_err(|error| error.to_string())?;
    match wanted.load_seconds {
        Some(seconds) => load::table(wanted, seconds, &stop).map(|()| true),
        None => judge(wanted, &stop),
    }
}

fn judge(wanted: &ZooOptions, stop: &Arc<AtomicBool>) -> Result<bool, String> {
    let tachograph = wanted.binary.clone().map_or_else(binary::path, Ok)?;
    let conditions = wanted.conditions(tools::version(&tachograph, &["--version"]));
    let kept = ResultsFile::open(wanted.keep.as_deref())?;
    let missing: Vec<PendingComparison> = wanted
        .subjects()
        .flat_map(|(run, subject)| {
            wanted.against().iter().copied().map(move |against| PendingComparison {
                run: run + 1,
                subject: subject.clone(),
                against,
            })
        })
        .filter(|PendingComparison { run, subject, against }| {
            let is_this = |entry: &Entry| entry.is(&conditions, *run, subject.kind, against);
            !kept.entries.iter().any(is_this)
        })
        .collect();
    say(JudgedComparison::HEAD);
    let _neighbours = match wanted.neighbours {
        true => Some(Neighbours::start(&NEIGHBOURS, conditions.seed)?),
        false => None,
    };
    let (missing, kept) = (Mutex::new(missing.into_iter()), Mutex::new(kept));
    let worker = || -> Result<(), String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        loop {
            let asking = locked(&missing).next();
            let Some(asking) = asking.filter(|_| !stop.load(Ordering::Relaxed)) else {
                return Ok(());
            };
            let judged = asking.judge(&conditions, &tachograph, folder.path(), stop);
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            say(&judged.row());
            locked(&kept).add(Entry { conditions: conditions.clone(), judged })?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..wanted.together).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().map_err(|_| "a worker panicked".to_owned()).flatten()
        })
    })?;
    let kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    let of_these = kept.entries.iter().filter(|entry| entry.conditions == conditions);
    let tallies = Tallies(of_these.map(|entry| entry.judged.clone()).collect());
    say(&format!("\n{}", tallies.table()));
    say(&tallies.wrong_signs_by_chance());
    say(&tallies.without_verdict());
    if stop.load(Ordering::Relaxed) {
        return Err("stopped".to_owned());
    }
    if wanted.page {
        page::write(&kept.entries)?;
    }
    Ok(tallies.meet_their_goals())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A comparison that is still to be made.
struct PendingComparison {
    run: u32,
    subject: Subject,
    against: &'static str,
}

impl PendingComparison {
    fn judge(
        &self,
        conditions: &Conditions,
        tachograph: &Path,
        folder: &Path,
        stop: &AtomicBool,
    ) -> JudgedComparison {
        let PendingComparison { run, subject, against } = self;
        let seed = Seed(conditions.seed).derive(against, u64::from(*run)).0 >> 12;
        let further = [format!("--seed={seed}")];
        let seconds = conditions.seconds;
        let asked = ComparisonPlan { tachograph, folder, seconds, further: &further, stop };
        let pair = if *against == "even" { Pair::even(subject) } else { Pair::worse(subject) };
        let compared = pair.compare(&asked);
        let beside = match (conditions.neighbours, conditions.together) {
            (false, 1) => ConcurrentLoad::Nothing,
            (false, _) => ConcurrentLoad::OtherComparisons,
            (true, _) => ConcurrentLoad::Neighbours,
        };
        JudgedComparison::new(*run, subject, &pair, compared, beside)
    }
}

/// A server's behaviour in a few words.
fn describe(behaviour: &Behaviour) -> String {
    use zoo::{Pace, SlowSelection, StopTime};
    let ms = |seconds: f64| match seconds * 1e3 {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms => format!("{ms:.0} ms"),
    };
    let mut words = vec![ms(behaviour.fast_s)];
    if let Some(slow) = &behaviour.slow {
        let which = match slow.which {
            SlowSelection::Share(share) => format!("{:.2}%", 100.0 * share),
            SlowSelection::Every(n) => format!("every {n}th"),
        };
        let computing = if slow.computes { " computing" } else { "" };
        words.push(format!("{which} at {}{computing}", ms(slow.length_s)));
    }
    match &behaviour.pace {
        Pace::Even => {}
        Pace::Stops { when, length_s } => {
            let after = match when {
                StopTime::Exponential(run_s) => format!("{} on average", ms(*run_s)),
                StopTime::Fixed(run_s) => ms(*run_s),
                StopTime::Requests(n) => format!("{n} requests"),
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
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        wanted: ZooOptions,
    }

    fn wanted(words: &[&str]) -> ZooOptions {
        Line::parse_from([&["zoo"], words].concat()).wanted
    }

    #[test]
    fn servers_that_were_found_are_compared_with_an_even_one() {
        let six = wanted(&["--found", "--runs", "6"]);
        let kinds: Vec<Kind> = six.subjects().map(|(_, subject)| subject.kind).collect();
        assert_eq!(kinds[..3], [Kind::SlowRequests, Kind::StopsByCount, Kind::PeriodicStops]);
        assert_eq!((kinds.len(), six.against()), (6, &["even"][..]));
        let one = wanted(&["--found", "--runs", "2", "--kind", "periodic-stops"]);
        let even: Vec<Behaviour> = one.subjects().map(|(_, subject)| subject.even).collect();
        assert_eq!(even, [Behaviour::even(0.005), Behaviour::even(0.005)]);
        assert!(wanted(&["--found", "--kind", "lock"]).subjects().next().is_none());
    }

    #[test]
    fn a_kind_alone_has_the_same_subjects_as_among_others() {
        let all = wanted(&["--runs", "22"]);
        let one = wanted(&["--runs", "2", "--kind", "lock"]);
        let subjects = |wanted: &ZooOptions| -> Vec<Subject> {
            let subjects = wanted.subjects().map(|(_, subject)| subject);
            subjects.filter(|subject| subject.kind == Kind::Lock).collect()
        };
        assert_eq!(subjects(&all), subjects(&one));
    }

    #[test]
    fn behaviours_are_described() {
        let stops = Behaviour::with_stops(0.005, zoo::StopTime::Requests(400), 0.06);
        assert_eq!(describe(&stops), "5.00 ms, stops for 60 ms after 400 requests");
        let slow = Behaviour::with_slow(0.002, 0.02, 0.5);
        assert_eq!(describe(&slow), "2.00 ms, 2.00% at 500 ms");
    }
}
