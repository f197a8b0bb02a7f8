//! The ledger in words: one clause per equation, with the correct sign.

use base::format_count;
use ledger::Ledger;
use record::{Part, Variant};

use crate::disruption;
use crate::text::{width, wrap};

/// A clause of the ledger: an equation with its sign, or a count without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    /// The left-hand side: `sent 111,754`.
    pub(crate) left: String,
    /// The right-hand side, and whether it equals the left one; `None` without an equation.
    pub(crate) right: Option<(bool, String)>,
}

impl Clause {
    pub(crate) fn equation(left: (&str, u64), right: &[(u64, &str)]) -> Clause {
        // In 128 bits no sum of recorded counts overflows.
        let sum: u128 = right.iter().map(|(count, _)| u128::from(*count)).sum();
        let terms: Vec<String> = right
            .iter()
            .enumerate()
            .filter(|(index, (count, _))| *index == 0 || *count > 0)
            .map(|(_, (count, name))| format!("{} {name}", format_count(*count)))
            .collect();
        Clause {
            left: format!("{} {}", left.0, format_count(left.1)),
            right: Some((u128::from(left.1) == sum, terms.join(" + "))),
        }
    }

    /// A count that must equal the completed requests, which the previous clause gives.
    fn completed(name: &str, count: u64, completed: u64) -> Clause {
        let mut clause = Clause::equation((name, count), &[(completed, "completed")]);
        if count == completed {
            clause.right = Some((true, "completed".to_owned()));
        }
        clause
    }

    /// The server-side count, and what the server's kernel discarded: together the completed
    /// requests.
    fn arrived(served: u64, discarded: u64, completed: u64) -> Clause {
        let sum = u128::from(served) + u128::from(discarded);
        let right = match sum == u128::from(completed) {
            true => (true, "completed".to_owned()),
            false => (false, format!("{} completed", format_count(completed))),
        };
        let left =
            format!("served {} + {} discarded", format_count(served), format_count(discarded));
        Clause { left, right: Some(right) }
    }

    /// The server-side count, if it contains `lost` requests that were not completed.
    fn with_lost(served: u64, lost: u64) -> Clause {
        let right = format!("completed + {} of the lost", format_count(lost));
        Clause { left: format!("served {}", format_count(served)), right: Some((true, right)) }
    }

    fn words(words: String) -> Clause {
        Clause { left: words, right: None }
    }

    /// `=` or `≠`; `None` without an equation.
    pub(crate) fn sign(&self) -> Option<char> {
        self.right.as_ref().map(|(equal, _)| if *equal { '=' } else { '≠' })
    }

    /// Whether it is an equation that does not hold.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self.right, Some((false, _)))
    }
}

impl std::fmt::Display for Clause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.left)?;
        match (&self.right, self.sign()) {
            (Some((_, right)), Some(sign)) => write!(f, " {sign} {right}"),
            _ => Ok(()),
        }
    }
}

/// The text if there is no server-side count.
const NOT_SERVED: &str = "no server-side count";

/// The ledger of a variant, or of one of its trials.
pub(crate) struct Account<'r> {
    /// The variant's index.
    pub(crate) index: usize,
    /// The variant's name.
    pub(crate) name: &'r str,
    pub(crate) ledger: &'r Ledger,
    /// Whether the stack was acted on: the server may have counted requests that were lost
    /// afterwards.
    pub(crate) disrupted: bool,
}

/// The accounts of the variants that requests were meant for.
pub(crate) fn accounts(part: &Part) -> impl Iterator<Item = Account<'_>> {
    let all = (0..part.variants.len()).map(|index| Account::of(part, index));
    all.filter(|account| account.ledger.counts.offered > 0)
}

impl Account<'_> {
    /// The account of a variant.
    pub(crate) fn of(part: &Part, index: usize) -> Account<'_> {
        let Variant { name, ledger, .. } = &part.variants[index];
        Account { index, name, ledger, disrupted: disruption::is_disrupted(part, index) }
    }

    /// The clauses. `offered` is included if it differs from `sent`, and requests sent over a new
    /// connection because the server had closed an idle one if there are any.
    pub(crate) fn clauses(&self) -> Vec<Clause> {
        let Ledger { counts: c, served, discarded, series, .. } = self.ledger;
        let mut clauses = Vec::new();
        if c.dropped > 0 || c.offered != c.sent {
            let right = [(c.sent, "sent"), (c.dropped, "dropped")];
            clauses.push(Clause::equation(("offered", c.offered), &right));
        }
        let right = [(c.completed, "completed"), (c.failed, "failed"), (c.in_flight, "in flight")];
        clauses.push(Clause::equation(("sent", c.sent), &right));
        clauses.push(match (*served, *discarded) {
            (None, _) => Clause::words(NOT_SERVED.to_owned()),
            (Some(n), _)
                if self.disrupted
                    && (1..=c.failed + c.in_flight).contains(&n.wrapping_sub(c.completed)) =>
            {
                Clause::with_lost(n, n - c.completed)
            }
            (Some(n), Some(discarded)) => Clause::arrived(n, discarded, c.completed),
            (Some(n), None) => Clause::completed("served", n, c.completed),
        });
        clauses.extend(series.map(|n| Clause::completed("series", n, c.completed)));
        if c.reconnected > 0 {
            clauses.push(Clause::words(format!("{} reconnected", format_count(c.reconnected))));
        }
        clauses
    }

    /// The clauses in one line: `sent 120 = 119 completed + 1 failed; served 119 = completed; series
    /// 119 = completed`.
    pub(crate) fn line(&self) -> String {
        self.clauses().iter().map(Clause::to_string).collect::<Vec<_>>().join("; ")
    }

    /// The same in lines of at most `columns`, broken between clauses if possible.
    pub(crate) fn wrapped(&self, columns: usize) -> Vec<String> {
        let clauses = self.clauses();
        let mut lines: Vec<String> = Vec::new();
        for (index, clause) in clauses.iter().enumerate() {
            let end = if index + 1 < clauses.len() { ";" } else { "" };
            let clause = format!("{clause}{end}");
            match lines.last_mut() {
                Some(line) if width(line) + 1 + width(&clause) <= columns => {
                    line.push(' ');
                    line.push_str(&clause);
                }
                _ => lines.extend(wrap(&clause, columns, 2)),
            }
        }
        lines
    }

    /// Whether an equation does not hold.
    pub(crate) fn is_broken(&self) -> bool {
        self.clauses().iter().any(Clause::is_broken)
    }
}

/// Failures by kind: `62,353 status 502, 1 timeout`; empty without failures.
pub(crate) fn failures(errors: &ledger::Errors) -> String {
    let kinds = errors.iter().map(|(kind, n)| format!("{} {kind}", format_count(*n)));
    kinds.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::ledger::Counts;
    use proptest::prelude::*;

    fn of(counts: [u64; 6], served: Option<u64>, series: Option<u64>) -> Ledger {
        let [offered, dropped, sent, completed, failed, in_flight] = counts;
        let reconnected = in_flight % 3;
        let counts = Counts { offered, dropped, sent, completed, failed, in_flight, reconnected };
        Ledger { counts, served, series, ..Ledger::default() }
    }

    fn account(ledger: &Ledger) -> Account<'_> {
        Account { index: 0, name: "", ledger, disrupted: false }
    }

    #[test]
    fn each_clause_is_an_equation() {
        for (ledger, text) in [
            (
                of([111_754, 0, 111_754, 49_401, 62_353, 0], Some(49_401), Some(49_401)),
                "sent 111,754 = 49,401 completed + 62,353 failed; served 49,401 = completed; \
                 series 49,401 = completed",
            ),
            (
                of([120, 20, 100, 99, 0, 1], None, Some(98)),
                "offered 120 = 100 sent + 20 dropped; sent 100 = 99 completed + 1 in flight; \
                 no server-side count; series 98 ≠ 99 completed; 1 reconnected",
            ),
            (
                of([121, 20, 100, 99, 0, 0], Some(102), None),
                "offered 121 ≠ 100 sent + 20 dropped; sent 100 ≠ 99 completed; \
                 served 102 ≠ 99 completed",
            ),
            (
                of([7, 0, 6, 6, 0, 0], None, None),
                "offered 7 ≠ 6 sent; sent 6 = 6 completed; no server-side count",
            ),
            (
                of([0; 6], Some(0), Some(0)),
                "sent 0 = 0 completed; served 0 = completed; series 0 = completed",
            ),
        ] {
            assert_eq!(account(&ledger).line(), text);
            assert_eq!(account(&ledger).is_broken(), text.contains('≠'));
        }
    }

    #[test]
    fn what_was_discarded_is_beside_what_was_served() {
        let with = |served, discarded| Ledger {
            discarded: Some(discarded),
            ..of([100, 0, 100, 100, 0, 0], Some(served), None)
        };
        let all = with(93, 7);
        let text = "sent 100 = 100 completed; served 93 + 7 discarded = completed";
        assert_eq!(account(&all).line(), text);
        check(text, &all);
        let lost = with(92, 7);
        let text = "sent 100 = 100 completed; served 92 + 7 discarded ≠ 100 completed";
        assert_eq!(account(&lost).line(), text);
        check(text, &lost);
        assert!(account(&lost).is_broken());
    }

    #[test]
    fn lines_break_between_clauses() {
        let ledger = of([120, 20, 100, 99, 0, 1], Some(99), Some(99));
        let lines = account(&ledger).wrapped(40);
        assert_eq!(
            lines,
            [
                "offered 120 = 100 sent + 20 dropped;",
                "sent 100 = 99 completed + 1 in flight;",
                "served 99 = completed;",
                "series 99 = completed; 1 reconnected"
            ]
        );
        assert_eq!(lines.join(" "), account(&ledger).line());
    }

    /// The numbers of a side as a reader would add them up; `completed` stands for its count.
    fn sum(side: &str, completed: Option<u128>) -> u128 {
        let term = |term: &str| {
            let number: String = term.chars().filter(char::is_ascii_digit).collect();
            match number.parse() {
                Ok(number) => number,
                Err(_) => completed.expect("only `completed` stands without a number"),
            }
        };
        side.split(" + ").map(term).sum()
    }

    /// Reads a line as a person would and checks the sum of each clause.
    fn check(text: &str, ledger: &Ledger) {
        let mut completed = None;
        let mut named = Vec::new();
        let mut unsigned = Vec::new();
        for clause in text.split("; ") {
            let Some((left, equal, right)) = clause
                .split_once(" = ")
                .map(|(left, right)| (left, true, right))
                .or_else(|| clause.split_once(" ≠ ").map(|(left, right)| (left, false, right)))
            else {
                let reconnected = format_count(ledger.counts.reconnected);
                let known = [NOT_SERVED.to_owned(), format!("{reconnected} reconnected")];
                assert!(known.contains(&clause.to_owned()), "{text}");
                unsigned.push(clause.to_owned());
                continue;
            };
            named.push(left.split(' ').next().unwrap_or_default().to_owned());
            if left.starts_with("sent ") {
                let first = right.split(" + ").next().unwrap_or_default();
                assert!(first.ends_with(" completed"), "{text}");
                completed = Some(sum(first, None));
            }
            assert_eq!(sum(left, completed) == sum(right, completed), equal, "{text}");
        }
        let c = &ledger.counts;
        assert_eq!(completed, Some(u128::from(c.completed)), "{text}");
        assert_eq!(named.contains(&"offered".to_owned()), c.dropped > 0 || c.offered != c.sent);
        assert_eq!(named.contains(&"served".to_owned()), ledger.served.is_some());
        assert_eq!(unsigned.contains(&NOT_SERVED.to_owned()), ledger.served.is_none());
        assert_eq!(unsigned.iter().any(|c| c.ends_with("reconnected")), c.reconnected > 0);
        assert_eq!(named.contains(&"series".to_owned()), ledger.series.is_some());
    }

    fn count() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), 0u64..20, 0u64..1 << 40, Just(u64::MAX), any::<u64>()]
    }

    proptest! {
        #[test]
        fn the_sign_of_every_clause_is_that_of_its_sum(
            counts in prop::array::uniform6(count()),
            served in prop::option::of(count()),
            series in prop::option::of(count()),
        ) {
            let ledger = of(counts, served, series);
            check(&account(&ledger).line(), &ledger);
        }

        #[test]
        fn a_sound_ledger_has_no_unequal_sign(
            parts in prop::array::uniform4(0u64..1 << 40),
            counted: bool,
        ) {
            let [dropped, completed, failed, in_flight] = parts;
            let sent = completed + failed + in_flight;
            let other = counted.then_some(completed);
            let ledger = of([sent + dropped, dropped, sent, completed, failed, in_flight], other, other);
            let text = account(&ledger).line();
            check(&text, &ledger);
            prop_assert!(!text.contains('≠'));
        }
    }
}
