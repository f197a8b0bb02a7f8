//! The result of a comparison beside what is true, and the counts of all.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base::Seed;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, Normal};
use zoo::{Behaviour, Kind, Subject, simulate};

use super::comparison::{CompareResult, Interval, Pair};
use super::describe;

/// Smallest share of intervals that hold the truth.
pub(super) const COVERAGE_MIN: f64 = 0.93;
/// Smallest share of comparisons with a verdict: a proof that judges little proves little.
const WITH_VERDICT_MIN: f64 = 0.5;

/// How well a throughput is known: what loopback and waking threads add to a request is not part of
/// the behaviour. Beside others, only the ratio of two is known.
pub(crate) const KNOWN_TO: f64 = 0.005;
pub(super) const RATIO_KNOWN_TO_BESIDE_OTHERS: f64 = 0.02;
/// The same for a latency, besides the error of its simulation. Other comparisons add milliseconds, so
/// beside them only long latencies are known.
pub(super) const LATENCY_KNOWN_TO: f64 = 0.01;
pub(crate) const LATENCY_KNOWN_TO_S: f64 = 0.000_5;
pub(super) const LATENCY_KNOWN_TO_BESIDE_COMPARISONS_S: f64 = 0.02;
pub(super) const LATENCY_MIN_BESIDE_COMPARISONS_S: f64 = 0.1;

/// What ran beside a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConcurrentLoad {
    Nothing,
    OtherComparisons,
    Neighbours,
}

impl ConcurrentLoad {
    /// The true 99th percentile of an open loop's latency, if it is known.
    fn known_p99(self, behaviour: &Behaviour, rate_per_s: f64) -> Option<Interval> {
        match self {
            ConcurrentLoad::Nothing => Some(true_p99(behaviour, rate_per_s, LATENCY_KNOWN_TO_S)),
            ConcurrentLoad::OtherComparisons => {
                let way_s = LATENCY_KNOWN_TO_BESIDE_COMPARISONS_S;
                let truth = true_p99(behaviour, rate_per_s, way_s);
                (truth.low >= LATENCY_MIN_BESIDE_COMPARISONS_S).then_some(truth)
            }
            ConcurrentLoad::Neighbours => None,
        }
    }
}

/// A figure that `compare` reported, beside what is true.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ReportedAndTrue {
    pub(super) reported: Interval,
    /// The range within which the truth is known to lie.
    pub(super) truth: Interval,
}

impl ReportedAndTrue {
    fn new(reported: Option<Interval>, truth: f64, known_to: f64) -> Option<ReportedAndTrue> {
        let truth = Interval { low: truth * (1.0 - known_to), high: truth * (1.0 + known_to) };
        Some(ReportedAndTrue { reported: reported?, truth })
    }

    fn holds(&self) -> bool {
        self.reported.meets(self.truth)
    }
}

/// A comparison beside what is true.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct JudgedComparison {
    pub(super) run: u32,
    pub(super) kind: Kind,
    pub(super) against: String,
    servers: String,
    outcome: Result<CompareResult, String>,
    true_ratio: f64,
    pub(super) ratio: Option<ReportedAndTrue>,
    pub(super) levels: Vec<ReportedAndTrue>,
    pub(super) p99s: Vec<ReportedAndTrue>,
    wrong_sign: bool,
}

impl JudgedComparison {
    pub(super) const HEAD: &str = "\
| run | kind | against | servers | true ratio | verdict | interval | ratio | levels | p99 | blocks | warnings |
| --: | --- | --- | --- | --: | --- | --- | --- | --- | --- | --: | --- |";

    pub(super) fn new(
        run: u32,
        subject: &Subject,
        pair: &Pair,
        outcome: Result<CompareResult, String>,
        beside: ConcurrentLoad,
    ) -> JudgedComparison {
        let known_to =
            if beside == ConcurrentLoad::Nothing { KNOWN_TO } else { RATIO_KNOWN_TO_BESIDE_OTHERS };
        let true_ratio = pair.true_ratio();
        let [a, b] = pair.behaviours.map(describe);
        let implementation = if subject.asyncio { "asyncio" } else { "threads" };
        let mut judged = JudgedComparison {
            run,
            kind: subject.kind,
            against: pair.against().to_owned(),
            servers: format!("{a} → {b} ({implementation})"),
            true_ratio,
            ratio: None,
            levels: Vec::new(),
            p99s: Vec::new(),
            wrong_sign: false,
            outcome,
        };
        let Ok(compared) = &judged.outcome else { return judged };
        if compared.verdict == "invalid" {
            return judged;
        }
        judged.ratio = ReportedAndTrue::new(compared.ratio, true_ratio, known_to);
        judged.wrong_sign = judged.ratio.is_some_and(|held| {
            (held.truth.low > 1.0 && held.reported.high < 1.0)
                || (held.truth.high < 1.0 && held.reported.low > 1.0)
        });
        for (behaviour, level) in pair.behaviours.into_iter().zip(&compared.levels) {
            let capacity = behaviour.throughput_per_s(Subject::CONNECTIONS);
            if beside == ConcurrentLoad::Nothing {
                judged.levels.extend(ReportedAndTrue::new(
                    level.throughput_per_s,
                    capacity,
                    known_to,
                ));
            }
            let rate = level.rate_per_s.filter(|rate| *rate < 0.95 * capacity);
            if let (Some(rate), Some(reported)) = (rate, level.p99_s) {
                let truth = beside.known_p99(behaviour, rate);
                judged.p99s.extend(truth.map(|truth| ReportedAndTrue { reported, truth }));
            }
        }
        judged
    }

    fn has_verdict(&self) -> bool {
        self.ratio.is_some()
    }

    /// The probability that an interval of 95% as long as this one has the wrong sign. None has it
    /// if the truth cannot be told from 1.
    fn chance_of_wrong_sign(&self) -> f64 {
        let Some(ReportedAndTrue { reported, truth }) = self.ratio else { return 0.0 };
        let normal = Normal::standard();
        let standard_error =
            (reported.high / reported.low).ln() / (2.0 * normal.inverse_cdf(0.975));
        let least = truth.low.ln().max(-truth.high.ln());
        if least <= 0.0 {
            0.0
        } else {
            normal.cdf(-normal.inverse_cdf(0.975) - least / standard_error)
        }
    }

    /// Whether there is no verdict, or an interval without the truth.
    fn misses(&self) -> bool {
        let mut intervals = self.ratio.iter().chain(&self.levels).chain(&self.p99s);
        !self.has_verdict() || intervals.any(|interval| !interval.holds())
    }

    /// Why there is no verdict.
    fn reason(&self) -> String {
        match &self.outcome {
            Err(what) => what.clone(),
            Ok(compared) if compared.forbidden_by.is_empty() => "no interval".to_owned(),
            Ok(compared) => format!("INVALID: {}", compared.forbidden_by.join(", ")),
        }
    }

    /// The row of one comparison.
    pub(super) fn row(&self) -> String {
        let held = |all: &[ReportedAndTrue]| {
            let cells: Vec<String> = all
                .iter()
                .map(|held| if held.holds() { "holds".to_owned() } else { missed(held) })
                .collect();
            if cells.is_empty() { "–".to_owned() } else { cells.join(", ") }
        };
        let (verdict, blocks, warnings) = match &self.outcome {
            Ok(compared) => {
                (compared.verdict.clone(), compared.blocks, compared.warnings.join(", "))
            }
            Err(what) => (what.clone(), 0, String::new()),
        };
        let interval = self.ratio.map_or("–".to_owned(), |held| {
            format!("{:.3}–{:.3}", held.reported.low, held.reported.high)
        });
        let ratio =
            if self.wrong_sign { "**WRONG SIGN**".to_owned() } else { held(self.ratio.as_slice()) };
        format!(
            "| {} | {} | {} | {} | {:.3} | {verdict} | {interval} | {ratio} | {} | {} | {blocks} | {warnings} |",
            self.run,
            self.kind.name(),
            self.against,
            self.servers,
            self.true_ratio,
            held(&self.levels),
            held(&self.p99s),
        )
    }
}

/// An interval without the truth, in digits that fit its size.
fn missed(held: &ReportedAndTrue) -> String {
    let digits = |value: f64| match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.4}"),
    };
    let Interval { low, high } = held.reported;
    let truth = (held.truth.low * held.truth.high).sqrt();
    format!("**{}–{} without {}**", digits(low), digits(high), digits(truth))
}

/// The 99th percentile of an open loop, from two standard errors of its simulation below to two
/// above, and at most `way_s` more for what is not part of the behaviour.
pub(crate) fn true_p99(behaviour: &Behaviour, rate_per_s: f64, way_s: f64) -> Interval {
    let [p99] = simulate::latency_s(behaviour, Subject::CONNECTIONS, rate_per_s, [0.99], Seed(1));
    let off = 2.0 * p99.error + LATENCY_KNOWN_TO * p99.value;
    Interval { low: p99.value - off, high: p99.value + off + way_s }
}

/// Intervals, and those that hold the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    held: u32,
    of: u32,
    /// Those without an upper end.
    unbounded: u32,
}

impl Count {
    fn add<'h>(&mut self, all: impl IntoIterator<Item = &'h ReportedAndTrue>) {
        for one in all {
            self.of += 1;
            self.held += u32::from(one.holds());
            self.unbounded += u32::from(one.reported.is_unbounded());
        }
    }

    /// Whether no more miss the truth than the goal allows; one more is chance if there are few.
    fn passes(self) -> bool {
        f64::from(self.of - self.held) <= (1.0 - COVERAGE_MIN) * f64::from(self.of) + 1.0
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.held, self.of)?;
        match self.unbounded {
            0 => Ok(()),
            n => write!(f, " ({n} without an upper end)"),
        }
    }
}

/// The counts of some comparisons.
#[derive(Clone, Debug, Default)]
struct Tally {
    runs: u32,
    with_verdict: u32,
    ratio: Count,
    levels: Count,
    p99s: Count,
    wrong_signs: u32,
    wrong_signs_by_chance: f64,
    half_widths: Vec<f64>,
}

impl Tally {
    fn of<'j>(all: impl Iterator<Item = &'j JudgedComparison>) -> Tally {
        let mut tally = Tally::default();
        for judged in all {
            tally.runs += 1;
            tally.with_verdict += u32::from(judged.has_verdict());
            tally.ratio.add(&judged.ratio);
            tally.levels.add(&judged.levels);
            tally.p99s.add(&judged.p99s);
            tally.wrong_signs += u32::from(judged.wrong_sign);
            tally.wrong_signs_by_chance += judged.chance_of_wrong_sign();
            tally.half_widths.extend(judged.ratio.map(|held| held.reported.half_width()));
        }
        tally
    }

    /// Whether there are no more wrong signs than so many intervals of 95% have by chance, and two
    /// standard deviations more.
    fn has_few_wrong_signs(&self) -> bool {
        let by_chance = self.wrong_signs_by_chance;
        f64::from(self.wrong_signs) <= by_chance + 2.0 * by_chance.sqrt()
    }

    fn row(&self, name: &str) -> String {
        let Tally { runs, with_verdict, ratio, levels, p99s, wrong_signs, half_widths, .. } = self;
        let width = stats::median(half_widths)
            .map_or("–".to_owned(), |width| format!("±{:.1}%", 100.0 * width));
        format!(
            "| {name} | {runs} | {with_verdict} | {ratio} | {levels} | {p99s} | {wrong_signs} | {width} |\n"
        )
    }
}

/// All comparisons.
#[derive(Clone, Debug, Default)]
pub(super) struct Tallies(pub(super) Vec<JudgedComparison>);

impl Tallies {
    /// The highest number of a run.
    pub(super) fn runs(&self) -> u32 {
        self.0.iter().map(|judged| judged.run).max().unwrap_or(0)
    }

    /// The counts by kind, and of all.
    pub(super) fn table(&self) -> String {
        let mut table = "\
| kind | comparisons | with a verdict | ratio holds the truth | throughput holds it | p99 holds it | wrong sign | median half-width |
| --- | --: | --: | --: | --: | --: | --: | --: |
"
        .to_owned();
        for kind in Kind::ALL {
            for against in ["even", "worse"] {
                let of_kind =
                    self.0.iter().filter(|one| one.kind == kind && one.against == against);
                let tally = Tally::of(of_kind);
                if tally.runs > 0 {
                    table.push_str(&tally.row(&format!("{}, {against}", kind.name())));
                }
            }
        }
        table.push_str(&Tally::of(self.0.iter()).row("all"));
        table
    }

    /// The number of wrong signs that intervals of 95% have by chance.
    pub(super) fn wrong_signs_by_chance(&self) -> String {
        let by_chance = Tally::of(self.0.iter()).wrong_signs_by_chance;
        format!(
            "Wrong signs that intervals of 95%, as long as these, would have by chance: {by_chance:.1}\n"
        )
    }

    /// The comparisons without a verdict, by reason.
    pub(super) fn without_verdict(&self) -> String {
        let mut reasons: BTreeMap<String, u32> = BTreeMap::new();
        for judged in self.0.iter().filter(|one| !one.has_verdict()) {
            *reasons.entry(judged.reason()).or_default() += 1;
        }
        let mut text = format!("Without a verdict: {}\n", reasons.values().sum::<u32>());
        for (reason, count) in reasons {
            let _ = writeln!(text, "- {count}: {reason}");
        }
        text
    }

    /// The rows of the comparisons without a verdict, or with an interval without the truth.
    pub(super) fn rows_of_misses(&self) -> String {
        let mut rows: Vec<&JudgedComparison> = self.0.iter().filter(|one| one.misses()).collect();
        rows.sort_by_key(|one| one.run);
        let rows = rows.into_iter().map(JudgedComparison::row);
        [JudgedComparison::HEAD.to_owned()].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
    }

    pub(super) fn meet_their_goals(&self) -> bool {
        let all = Tally::of(self.0.iter());
        let kinds_pass = Kind::ALL
            .into_iter()
            .all(|kind| Tally::of(self.0.iter().filter(|one| one.kind == kind)).ratio.passes());
        kinds_pass
            && self.0.iter().all(|one| one.outcome.is_ok())
            && f64::from(all.with_verdict) >= WITH_VERDICT_MIN * f64::from(all.runs)
            && all.has_few_wrong_signs()
            && [all.ratio, all.levels, all.p99s].into_iter().all(Count::passes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo::comparison::Level;

    fn judged(verdict: &str, low: f64, high: f64) -> JudgedComparison {
        let subject = Kind::SlowStart.draw(Seed(1));
        let capacity = subject.behaviour.throughput_per_s(Subject::CONNECTIONS);
        let throughput = Interval { low: 0.9 * capacity, high: 1.02 * capacity };
        let level = Level { throughput_per_s: Some(throughput), ..Level::default() };
        let compared = CompareResult {
            verdict: verdict.to_owned(),
            blocks: 8,
            ratio: Some(Interval { low, high }),
            levels: [level, Level::default()],
            warnings: vec!["edges".to_owned()],
            forbidden_by: if verdict == "invalid" { vec!["ledger".to_owned()] } else { Vec::new() },
        };
        let pair = Pair::worse(&subject);
        JudgedComparison::new(1, &subject, &pair, Ok(compared), ConcurrentLoad::Nothing)
    }

    #[test]
    fn intervals_are_counted_beside_the_truth() {
        // A slow start that is followed by 5% slower service: 1 ÷ 1.05 in the long run.
        let mut tallies = Tallies::default();
        tallies.0.push(judged("slower", 0.94, 0.96));
        tallies.0.push(judged("inconclusive", 0.9, 1.1));
        tallies.0.push(judged("slower", 0.8, 0.9));
        tallies.0.push(judged("faster", 1.1, 1.2));
        tallies.0.push(judged("invalid", 1.1, 1.2));
        assert!(!tallies.meet_their_goals());
        let table = tallies.table();
        assert!(
            table
                .contains("| slow-start, worse | 5 | 4 | 2 of 4 | 4 of 4 | 0 of 0 | 1 | ±5.3% |\n"),
            "{table}"
        );
        assert!(table.contains("| all | 5 | 4 |"), "{table}");
        assert_eq!(tallies.without_verdict(), "Without a verdict: 1\n- 1: INVALID: ledger\n");
        let rows = tallies.rows_of_misses();
        assert!(!rows.contains("0.940–0.960") && !rows.contains("0.900–1.100"), "{rows}");
        assert!(rows.contains("| 0.952 | faster | 1.100–1.200 | **WRONG SIGN** | holds | – | 8 |"));
        assert!(rows.contains("| **0.8000–0.9000 without 0.9524** |"), "{rows}");
    }

    #[test]
    fn few_comparisons_may_miss_once_but_not_far_on_the_wrong_side() {
        let mut tallies = Tallies::default();
        tallies.0.push(judged("slower", 0.8, 0.9));
        assert!(tallies.meet_their_goals());
        tallies.0.push(judged("faster", 1.1, 1.2));
        assert!(!tallies.meet_their_goals());
    }

    #[test]
    fn of_very_many_comparisons_a_few_have_the_wrong_sign_by_chance() {
        let mut tallies = Tallies(vec![judged("inconclusive", 0.8, 1.1); 300]);
        tallies.0.push(judged("faster", 1.01, 1.3));
        assert!(tallies.meet_their_goals(), "{}", tallies.wrong_signs_by_chance());
        tallies.0.extend(vec![judged("faster", 1.01, 1.3); 9]);
        assert!(!tallies.meet_their_goals(), "{}", tallies.wrong_signs_by_chance());
    }

    #[test]
    fn comparisons_that_were_not_made_or_not_judged_prove_nothing() {
        let mut tallies = Tallies::default();
        tallies.0.push(judged("slower", 0.94, 0.96));
        let failed = JudgedComparison {
            outcome: Err("no result".to_owned()),
            ratio: None,
            ..judged("", 1.0, 1.0)
        };
        let mut with_a_failure = tallies.clone();
        with_a_failure.0.push(failed);
        assert!(tallies.meet_their_goals() && !with_a_failure.meet_their_goals());
        tallies.0.push(judged("invalid", 1.0, 1.0));
        assert!(tallies.meet_their_goals());
        tallies.0.push(judged("invalid", 1.0, 1.0));
        assert!(!tallies.meet_their_goals());
    }

    #[test]
    fn the_true_p99_of_a_stopping_server_is_in_its_stops() {
        let stops = Behaviour::with_stops(0.002, zoo::StopTime::Fixed(2.7), 0.3);
        let truth = true_p99(&stops, 100.0, LATENCY_KNOWN_TO_S);
        assert!(truth.low > 0.26 && truth.high < 0.29, "{truth:?}");
    }
}
