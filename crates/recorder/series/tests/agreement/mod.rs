//! Random sequences of updates through RRDtool and through our state machine, with their output
//! compared.
//!
//! Used by the test `rrd_agreement` and by the example of the same name, which runs any number of
//! sequences.

mod peer;
mod sequence;

use std::collections::BTreeMap;
use std::fmt;

use base::Seed;
use series::rrd::{FetchError, Reading, Rrd};

pub(crate) use peer::Peer;
pub(crate) use sequence::{Fetch, Sequence, Update};

/// Result of a comparison.
#[derive(Debug, Default)]
pub(crate) struct AgreementResult {
    /// Sequences run.
    pub(crate) sequences: u64,
    /// Updates sent.
    pub(crate) updates: u64,
    /// Updates refused by both.
    pub(crate) refused: u64,
    /// Values compared.
    pub(crate) values: u64,
    /// Known values among them.
    pub(crate) known: u64,
    /// Known values by kind of data source.
    pub(crate) kinds: BTreeMap<&'static str, u64>,
    /// Differences, with everything needed to reproduce them; the first ten.
    pub(crate) mismatches: Vec<String>,
    /// Number of sequences that differed.
    pub(crate) differing: u64,
}

impl fmt::Display for AgreementResult {
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

/// Runs `sequences` sequences from `seed`.
///
/// # Errors
/// A message if rrdtool cannot be run.
pub(crate) fn compare(seed: Seed, sequences: u64) -> Result<AgreementResult, String> {
    let mut peer = Peer::start()?;
    let mut result = AgreementResult::default();
    for index in 0..sequences {
        let sequence = Sequence::random(seed, index);
        result.sequences += 1;
        let known_before = result.known;
        if let Err(difference) = run(&mut peer, &sequence, &mut result)? {
            result.differing += 1;
            if result.mismatches.len() < 10 {
                let text = sequence.commands("differs.rrd").join("\n");
                result.mismatches.push(format!("seed {seed} index {index}: {difference}\n{text}"));
            }
        }
        let kind = sequence.definition.kind.name();
        *result.kinds.entry(kind).or_default() += result.known - known_before;
    }
    Ok(result)
}

/// Runs one sequence through both; the inner error says how they differ.
fn run(
    peer: &mut Peer,
    sequence: &Sequence,
    result: &mut AgreementResult,
) -> Result<Result<(), String>, String> {
    let theirs = peer.answers(&sequence.commands("sequence.rrd"))?;
    let mut rrd = sequence.create_ours()?;
    if let Err(refusal) = &theirs[0].end {
        return Ok(Err(format!("rrdtool refused to create: {refusal}")));
    }
    let mut answers = theirs.iter().skip(1);
    for batch in &sequence.batches {
        let Some(answer) = answers.next() else { return Err("an answer is missing".to_owned()) };
        result.updates += batch.len() as u64;
        let ours = update_all(sequence, &mut rrd, batch);
        if ours.is_ok() != answer.end.is_ok() {
            return Ok(Err(format!("update {batch:?}: ours {ours:?}, rrdtool's {:?}", answer.end)));
        }
        result.refused += u64::from(ours.is_err());
    }
    for fetch in &sequence.fetches {
        let Some(answer) = answers.next() else { return Err("an answer is missing".to_owned()) };
        let ours = fetch.of(&rrd);
        match (&ours, &answer.end) {
            (Err(_), Err(_)) => continue,
            (Ok(lines), Ok(())) => {
                result.values += lines.len() as u64;
                result.known += lines.iter().filter(|line| !line.ends_with("nan")).count() as u64;
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

    /// Our result of each fetch, for a sequence without errors.
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
    /// Our result, as lines.
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
