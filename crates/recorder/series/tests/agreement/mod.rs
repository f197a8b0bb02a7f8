//! Random sequences of updates through RRDtool and through our state machine, compared in print.
//!
//! Used by the test `rrd_agreement` and by the example of the same name, which
//! runs as many sequences as one asks for.

mod peer;
mod sequence;

use std::collections::BTreeMap;
use std::fmt;

use base::Seed;
use series::rrd::{FetchError, Reading, Rrd};

pub(crate) use peer::Peer;
pub(crate) use sequence::{Fetch, Sequence, Update};

/// What a comparison came to.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Sequences run.
    pub(crate) sequences: u64,
    /// Updates sent.
    pub(crate) updates: u64,
    /// Updates that both refused.
    pub(crate) refused: u64,
    /// Values compared.
    pub(crate) values: u64,
    /// Values of them that are known.
    pub(crate) known: u64,
    /// Known values by kind of data source.
    pub(crate) kinds: BTreeMap<&'static str, u64>,
    /// What differed, with all that is needed to see it again; the first ten are kept.
    pub(crate) mismatches: Vec<String>,
    /// How many sequences differed.
    pub(crate) differing: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} sequences, {} updates ({} refused by both), {} values compared ({} known), {} sequences differ",
            self.sequences, self.updates, self.refused, self.values, self.known, self.differing
        )?;
        for (kind, known) in &self.kinds {
            writeln!(f, "  {kind:9}{known:>10} known values")?;
        }
        Ok(())
    }
}

/// Runs `sequences` sequences that follow from `seed`.
///
/// # Errors
/// A sentence, when rrdtool cannot be run.
pub(crate) fn compare(seed: Seed, sequences: u64) -> Result<Tally, String> {
    let mut peer = Peer::start()?;
    let mut tally = Tally::default();
    for index in 0..sequences {
        let sequence = Sequence::random(seed, index);
        tally.sequences += 1;
        let known_before = tally.known;
        if let Err(difference) = run(&mut peer, &sequence, &mut tally)? {
            tally.differing += 1;
            if tally.mismatches.len() < 10 {
                let text = sequence.commands("differs.rrd").join("\n");
                tally.mismatches.push(format!("seed {seed} index {index}: {difference}\n{text}"));
            }
        }
        let kind = sequence.definition.kind.name();
        *tally.kinds.entry(kind).or_default() += tally.known - known_before;
    }
    Ok(tally)
}

/// Runs one sequence through both; the inner error says how they differ.
fn run(
    peer: &mut Peer,
    sequence: &Sequence,
    tally: &mut Tally,
) -> Result<Result<(), String>, String> {
    let theirs = peer.answers(&sequence.commands("sequence.rrd"))?;
    let mut rrd = sequence.create_ours()?;
    if let Err(refusal) = &theirs[0].end {
        return Ok(Err(format!("rrdtool refused to create: {refusal}")));
    }
    let mut answers = theirs.iter().skip(1);
    for batch in &sequence.batches {
        let Some(answer) = answers.next() else { return Err("an answer is missing".to_owned()) };
        tally.updates += batch.len() as u64;
        let ours = update_all(sequence, &mut rrd, batch);
        if ours.is_ok() != answer.end.is_ok() {
            return Ok(Err(format!("update {batch:?}: ours {ours:?}, rrdtool's {:?}", answer.end)));
        }
        tally.refused += u64::from(ours.is_err());
    }
    for fetch in &sequence.fetches {
        let Some(answer) = answers.next() else { return Err("an answer is missing".to_owned()) };
        let ours = fetch.of(&rrd);
        match (&ours, &answer.end) {
            (Err(_), Err(_)) => continue,
            (Ok(lines), Ok(())) => {
                tally.values += lines.len() as u64;
                tally.known += lines.iter().filter(|line| !line.ends_with("nan")).count() as u64;
                if let Some(difference) = first_difference(lines, &answer.lines) {
                    return Ok(Err(format!("{fetch:?}: {difference}")));
                }
            }
            _ => return Ok(Err(format!("{fetch:?}: ours {ours:?}, rrdtool's {:?}", answer.end))),
        }
    }
    Ok(Ok(()))
}

/// Applies the updates of one command; like rrdtool, stops at the first that is refused.
fn update_all(sequence: &Sequence, rrd: &mut Rrd, batch: &[Update]) -> Result<(), String> {
    for update in batch {
        let reading =
            Reading::parse(sequence.definition.kind, &update.reading).map_err(|e| e.to_string())?;
        rrd.update(update.at_us, reading).map_err(|e| e.to_string())?;
    }
    Ok(())
}

impl Sequence {
    fn create_ours(&self) -> Result<Rrd, String> {
        Rrd::new(self.definition.clone(), self.start_us)
            .map_err(|e| format!("a sequence that cannot be created: {e}"))
    }

    /// Our answer to each fetch, for a sequence that is sound throughout.
    #[allow(dead_code, reason = "the test uses it and the example does not")]
    pub(crate) fn fetched(&self) -> Result<Vec<Vec<String>>, String> {
        let mut rrd = self.create_ours()?;
        for batch in &self.batches {
            update_all(self, &mut rrd, batch)?;
        }
        let fetches = self.fetches.iter();
        fetches.map(|fetch| fetch.of(&rrd).map_err(|e| e.to_string())).collect()
    }
}

impl Fetch {
    /// Our answer, as lines.
    fn of(&self, rrd: &Rrd) -> Result<Vec<String>, FetchError> {
        let us = |s: i64| s * series::SECOND_US;
        let (start_us, end_us) = (us(self.start_s), us(self.end_s));
        let fetched = rrd.fetch(self.consolidation, start_us, end_us, us(self.resolution_s))?;
        Ok(fetched.lines().collect())
    }
}

fn first_difference(ours: &[String], theirs: &[String]) -> Option<String> {
    if ours.len() != theirs.len() {
        return Some(format!("{} rows, rrdtool has {}", ours.len(), theirs.len()));
    }
    let (ours, theirs) = ours.iter().zip(theirs).find(|(ours, theirs)| ours != theirs)?;
    Some(format!("ours '{ours}', rrdtool's '{theirs}'"))
}
