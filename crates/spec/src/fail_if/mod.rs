//! `--fail-if 'b.p99 > 1.05 * a.p99'`: a condition on what was measured.
//!
//! ```text
//! condition  = all { "or" all }
//! all        = test { "and" test }
//! test       = sum ( "<" | "<=" | ">" | ">=" ) sum | "(" condition ")"
//! sum        = product { ( "+" | "-" ) product }
//! product    = factor { ( "*" | "/" ) factor }
//! factor     = NUMBER [ UNIT | "%" ] | VARIANT "." METRIC | "-" factor | "(" sum ")"
//! ```
//!
//! A variant is a name (quoted where it is not a plain word) or a position:
//! `a` is the first, `b` the second. Times are in nanoseconds unless a unit
//! says otherwise (`5ms`), sizes in bytes (`64MiB`), throughput in requests
//! per second.

mod parse;
mod scan;

use std::fmt;
use std::ops::Range;

use crate::error::{SpecError, suggestion};

/// The metrics that a condition can name, with what they hold.
pub const METRICS: [&str; 7] = ["throughput", "p50", "p90", "p99", "cpu", "memory", "errors"];

/// A condition under which a run has failed.
#[derive(Clone, Debug, PartialEq)]
pub struct FailIf {
    text: String,
    condition: Condition,
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    Any(Vec<Condition>),
    All(Vec<Condition>),
    Test(Sum, Comparison, Sum),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Sum {
    Number(f64),
    Measured {
        variant: String,
        metric: &'static str,
        span: Range<usize>,
    },
    Negative(Box<Sum>),
    /// Computed from left to right. A list and not a tree, so that long sums are not deep.
    Chain(Box<Sum>, Vec<(Operator, Sum)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Plus,
    Minus,
    Times,
    Over,
}

impl FailIf {
    /// Reads a condition.
    ///
    /// # Errors
    /// Anything that is not a condition, with a caret below the place.
    pub fn parse(text: &str) -> Result<FailIf, SpecError> {
        let condition = parse::condition(text)?;
        Ok(FailIf { text: text.to_owned(), condition })
    }

    /// Replaces positions (`a`, `b`, …) by the names of the variants, a name
    /// being stronger than a position, and refuses what is neither.
    ///
    /// # Errors
    /// A name that no variant has.
    pub fn with_variants(mut self, names: &[String]) -> Result<FailIf, SpecError> {
        let text = self.text.clone();
        self.condition.each_sum(&mut |sum| sum.name_variants(names, &text))?;
        Ok(self)
    }

    /// Whether the condition holds, given the value of each metric of each variant.
    ///
    /// Both sides of `and` and `or` are always computed, so that what was not
    /// measured is never passed over.
    ///
    /// # Errors
    /// A metric that was not measured (`None`), or arithmetic without a result (0 / 0).
    pub fn evaluate(&self, value: &dyn Fn(&str, &str) -> Option<f64>) -> Result<bool, SpecError> {
        self.condition
            .holds(&|variant, metric, span| {
                value(variant, metric).ok_or_else(|| {
                    let message = format!("'{metric}' of '{variant}' was not measured");
                    error(&self.text, span, message)
                })
            })
            .map(|holds| match holds {
                Some(holds) => Ok(holds),
                None => {
                    let message =
                        "the condition cannot be decided: a side of it has no value, such as 0 / 0";
                    Err(error(&self.text, &(0..self.text.len()), message))
                }
            })?
    }
}

impl fmt::Display for FailIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn error(text: &str, span: &Range<usize>, message: impl Into<String>) -> SpecError {
    SpecError::new(message).at("--fail-if", text, span.clone())
}

type Measured<'v> = dyn Fn(&str, &str, &Range<usize>) -> Result<f64, SpecError> + 'v;

impl Condition {
    fn each_sum(
        &mut self,
        change: &mut dyn FnMut(&mut Sum) -> Result<(), SpecError>,
    ) -> Result<(), SpecError> {
        match self {
            Condition::Any(parts) | Condition::All(parts) => {
                parts.iter_mut().try_for_each(|part| part.each_sum(change))
            }
            Condition::Test(left, _, right) => {
                change(left)?;
                change(right)
            }
        }
    }

    /// `None` where a side has no value.
    fn holds(&self, measured: &Measured<'_>) -> Result<Option<bool>, SpecError> {
        let decide = |parts: &[Condition]| -> Result<Option<Vec<bool>>, SpecError> {
            parts.iter().map(|part| part.holds(measured)).collect()
        };
        match self {
            Condition::Any(parts) => Ok(decide(parts)?.map(|parts| parts.contains(&true))),
            Condition::All(parts) => Ok(decide(parts)?.map(|parts| !parts.contains(&false))),
            Condition::Test(left, comparison, right) => {
                let (left, right) = (left.value(measured)?, right.value(measured)?);
                let decided = !left.is_nan() && !right.is_nan();
                Ok(decided.then_some(match comparison {
                    Comparison::Less => left < right,
                    Comparison::LessOrEqual => left <= right,
                    Comparison::Greater => left > right,
                    Comparison::GreaterOrEqual => left >= right,
                }))
            }
        }
    }
}

impl Sum {
    fn name_variants(&mut self, names: &[String], text: &str) -> Result<(), SpecError> {
        match self {
            Sum::Number(_) => Ok(()),
            Sum::Negative(inner) => inner.name_variants(names, text),
            Sum::Chain(first, rest) => {
                first.name_variants(names, text)?;
                rest.iter_mut().try_for_each(|(_, sum)| sum.name_variants(names, text))
            }
            Sum::Measured { variant, span, .. } => {
                if names.contains(variant) {
                    return Ok(());
                }
                match position(variant).and_then(|position| names.get(position)) {
                    Some(name) => {
                        variant.clone_from(name);
                        Ok(())
                    }
                    None => Err(error(text, span, format!("there is no variant '{variant}'"))
                        .help(suggestion(variant, names.iter().map(String::as_str)))),
                }
            }
        }
    }

    fn value(&self, measured: &Measured<'_>) -> Result<f64, SpecError> {
        Ok(match self {
            Sum::Number(number) => *number,
            Sum::Measured { variant, metric, span } => measured(variant, metric, span)?,
            Sum::Negative(inner) => -inner.value(measured)?,
            Sum::Chain(first, rest) => {
                let mut total = first.value(measured)?;
                for (operator, sum) in rest {
                    let value = sum.value(measured)?;
                    total = match operator {
                        Operator::Plus => total + value,
                        Operator::Minus => total - value,
                        Operator::Times => total * value,
                        Operator::Over => total / value,
                    };
                }
                total
            }
        })
    }
}

/// The position that a single small letter stands for.
fn position(name: &str) -> Option<usize> {
    match name.as_bytes() {
        [letter @ b'a'..=b'z'] => Some(usize::from(letter - b'a')),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
