//! `--fail-if 'b.p99 > 1.05 * a.p99'`: conditions on measured values.
//!
//! ```text
//! condition  = all { "or" all }
//! all        = test { "and" test }
//! test       = sum ( "<" | "<=" | ">" | ">=" ) sum | "(" condition ")"
//! sum        = product { ( "+" | "-" ) product }
//! product    = factor { ( "*" | "/" ) factor }
//! factor     = NUMBER [ UNIT | "%" ] | measured | "-" factor | "(" sum ")"
//! measured   = [ [ PART "/" ] VARIANT "." ] METRIC
//! ```
//!
//! Parts and variants are names, quoted unless they are plain words; a variant can also be a
//! position: `a` is the first, `b` the second. With a single variant, as in `load`, the metric
//! alone is enough. A plan of several parts needs the part. Times are in nanoseconds unless a unit
//! is given (`5ms`), sizes in bytes (`64MiB`), throughput and capacity in requests per second.
//!
//! A measured value is an interval, so a condition has three outcomes: it holds, it does not hold,
//! or it is undecided.

mod algebra;
mod parse;
mod scan;

use std::fmt;
use std::ops::Range;

use crate::error::{SpecError, suggestion};
use crate::plan::{Part, Plan};
use crate::target::Target;

/// The metrics that a condition can name.
///
/// `failed` is the ledger's column; `errors` is an alias. `capacity` is for searches, and of the others
/// these have only those two.
pub const METRICS: [&str; 9] =
    ["throughput", "p50", "p90", "p99", "cpu", "memory", "failed", "errors", "capacity"];

/// A condition under which a run fails.
#[derive(Clone, Debug, PartialEq)]
pub struct FailIf {
    text: String,
    condition: Condition,
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    Any(Vec<Condition>),
    All(Vec<Condition>),
    Test(Test),
}

/// One comparison of two sums.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    left: Sum,
    comparison: Comparison,
    right: Sum,
}

/// How the two sides of a test are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A metric of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariantMetric {
    /// The part; always there after [`FailIf::with_parts`].
    pub part: Option<String>,
    /// The variant's name; never empty after [`FailIf::with_parts`].
    pub variant: String,
    /// One of [`METRICS`].
    pub metric: &'static str,
    span: Range<usize>,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    Holds,
    /// It does not hold.
    DoesNotHold,
    /// The intervals leave both possible.
    Undecided,
}

/// All values from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A test of a ratio: `of` ÷ `to`, compared with `bound`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioTest<'a> {
    /// The numerator.
    pub of: &'a VariantMetric,
    /// The denominator: the same metric of another variant of the same part.
    pub to: &'a VariantMetric,
    /// The comparison.
    pub comparison: Comparison,
    /// The right-hand side.
    pub bound: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Sum {
    Number(f64),
    Measured(VariantMetric),
    Negative(Box<Sum>),
    /// Evaluated from left to right. A list, not a tree, so that long sums are not deeply nested.
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
    /// Parses a condition.
    ///
    /// # Errors
    /// Text that is not a condition, with a caret below the position.
    pub fn parse(text: &str) -> Result<FailIf, SpecError> {
        let condition = parse::condition(text)?;
        Ok(FailIf { text: text.to_owned(), condition })
    }

    /// Resolves the part and the variant of every metric among `parts`, each with the names of its
    /// variants. Positions (`a`, `b`, …) become names; a variant's name takes precedence over a
    /// position.
    ///
    /// # Errors
    /// An unknown part or variant, or no part when there are several.
    pub fn with_parts(mut self, parts: &[(String, Vec<String>)]) -> Result<FailIf, SpecError> {
        let text = self.text.clone();
        self.condition.each_measured(&mut |measured| measured.find(parts, &text))?;
        Ok(self)
    }

    /// Parses conditions on a plan.
    ///
    /// # Errors
    /// Invalid conditions, unknown parts and variants, and metrics that the part does not measure.
    pub fn of_plan(texts: &[String], plan: &Plan) -> Result<Vec<FailIf>, SpecError> {
        let names = |part: &Part| part.variants.iter().map(|v| v.name.clone()).collect();
        let parts: Vec<(String, Vec<String>)> =
            plan.parts.iter().map(|part| (part.name.clone(), names(part))).collect();
        let is_search = |name: &Option<String>| {
            let mut parts = plan.parts.iter();
            parts.any(|part| Some(&part.name) == name.as_ref() && part.capacity.is_some())
        };
        let condition = |text| FailIf::parse(text)?.with_parts(&parts)?.measured(&is_search);
        texts.iter().map(|text| condition(text)).collect()
    }

    /// Parses conditions on a load of one target.
    ///
    /// # Errors
    /// Invalid conditions, and metrics that a load does not measure.
    pub fn of_load(texts: &[String], target: &Target) -> Result<Vec<FailIf>, SpecError> {
        let parts = [("load".to_owned(), vec![base::redact(&target.to_string())])];
        let condition = |text| FailIf::parse(text)?.with_parts(&parts)?.measured(&|_| false);
        texts.iter().map(|text| condition(text)).collect()
    }

    /// Fails for a metric that its part does not measure; `is_search` tells of a part's name whether it
    /// is a search for capacities.
    fn measured(
        mut self,
        is_search: &dyn Fn(&Option<String>) -> bool,
    ) -> Result<FailIf, SpecError> {
        let text = self.text.clone();
        self.condition.each_measured(&mut |measured| {
            let (metric, span) = (measured.metric, &measured.span);
            match (is_search(&measured.part), metric) {
                (true, "capacity" | "failed" | "errors") => Ok(()),
                (true, _) => {
                    let message = format!("a search for a capacity compares no {metric}");
                    Err(error(&text, span, message).help("there are: capacity, failed, errors"))
                }
                (false, "capacity") => {
                    let message = "only tachograph capacity measures a capacity";
                    Err(error(&text, span, message).help("write throughput, for example"))
                }
                (false, _) => Ok(()),
            }
        })?;
        Ok(self)
    }

    /// Decides the condition with `test`, which is called for every test, even if the outcome does
    /// not depend on it.
    pub fn decide(&self, test: &mut dyn FnMut(&Test) -> Truth) -> Truth {
        self.condition.decide(test)
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

impl Condition {
    fn each_measured(
        &mut self,
        change: &mut dyn FnMut(&mut VariantMetric) -> Result<(), SpecError>,
    ) -> Result<(), SpecError> {
        match self {
            Condition::Any(parts) | Condition::All(parts) => {
                parts.iter_mut().try_for_each(|part| part.each_measured(change))
            }
            Condition::Test(test) => {
                test.left.each_measured(change)?;
                test.right.each_measured(change)
            }
        }
    }

    fn decide(&self, test: &mut dyn FnMut(&Test) -> Truth) -> Truth {
        // One child with the value `settles` decides; otherwise all must be `otherwise`.
        let (parts, settles, otherwise) = match self {
            Condition::Test(one) => return test(one),
            Condition::Any(parts) => (parts, Truth::Holds, Truth::DoesNotHold),
            Condition::All(parts) => (parts, Truth::DoesNotHold, Truth::Holds),
        };
        let decided: Vec<Truth> = parts.iter().map(|part| part.decide(test)).collect();
        if decided.contains(&settles) {
            settles
        } else if decided.iter().all(|truth| *truth == otherwise) {
            otherwise
        } else {
            Truth::Undecided
        }
    }
}

impl Test {
    /// The metrics in the test, in order.
    pub fn measured(&self) -> Vec<&VariantMetric> {
        let mut all = Vec::new();
        self.left.collect(&mut all);
        self.right.collect(&mut all);
        all
    }

    /// The test as a test of a ratio, if it compares one metric of two variants of a part: `x >
    /// 1.05 * y`, `x / y > 1.05` and `x - y > 5% * y` are equivalent. Metrics are positive.
    pub fn as_ratio(&self) -> Option<RatioTest<'_>> {
        algebra::ratio(&self.left, self.comparison, &self.right)
    }

    /// Decides the test from the interval of each metric, by interval arithmetic.
    pub fn over(&self, value: &dyn Fn(&VariantMetric) -> Interval) -> Truth {
        let (left, right) = (self.left.over(value), self.right.over(value));
        self.comparison.decide(left, right)
    }
}

impl Comparison {
    /// Compares two intervals.
    pub fn decide(self, left: Interval, right: Interval) -> Truth {
        let no_value = [left.low, left.high, right.low, right.high].iter().any(|end| end.is_nan());
        let (surely, surely_not) = match self {
            Comparison::Less => (left.high < right.low, left.low >= right.high),
            Comparison::LessOrEqual => (left.high <= right.low, left.low > right.high),
            Comparison::Greater => (left.low > right.high, left.high <= right.low),
            Comparison::GreaterOrEqual => (left.low >= right.high, left.high < right.low),
        };
        match (surely, surely_not) {
            _ if no_value => Truth::Undecided,
            (true, _) => Truth::Holds,
            (_, true) => Truth::DoesNotHold,
            _ => Truth::Undecided,
        }
    }

    /// The comparison with its sides exchanged.
    fn turned(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        }
    }
}

impl VariantMetric {
    /// The same metric of another variant of the same part.
    fn is_counterpart_of(&self, other: &VariantMetric) -> bool {
        self.part == other.part && self.metric == other.metric && self.variant != other.variant
    }

    fn is(&self, other: &VariantMetric) -> bool {
        self.part == other.part && self.metric == other.metric && self.variant == other.variant
    }

    fn find(&mut self, parts: &[(String, Vec<String>)], text: &str) -> Result<(), SpecError> {
        let all = || parts.iter().map(|(name, _)| name.as_str());
        let (part, names) = match &self.part {
            Some(wanted) => parts.iter().find(|(name, _)| name == wanted).ok_or_else(|| {
                error(text, &self.span, format!("there is no part '{wanted}'"))
                    .help(suggestion(wanted, all()))
            })?,
            None => match parts {
                [only] => only,
                _ => {
                    let listed = all().collect::<Vec<_>>().join(", ");
                    let message = "name the part, because there are several";
                    return Err(error(text, &self.span, message).help(format!(
                        "write PART/{}; the parts are: {listed}",
                        &text[self.span.clone()]
                    )));
                }
            },
        };
        self.part = Some(part.clone());
        if self.variant.is_empty() {
            let [only] = names.as_slice() else {
                let message = "there are several variants, so the variant has to be named";
                return Err(error(text, &self.span, message).help(format!(
                    "write VARIANT.{}; the variants are: {}",
                    self.metric,
                    names.join(", ")
                )));
            };
            self.variant.clone_from(only);
        }
        if names.contains(&self.variant) {
            return Ok(());
        }
        match position(&self.variant).and_then(|position| names.get(position)) {
            Some(name) => {
                self.variant.clone_from(name);
                Ok(())
            }
            None => {
                let message = format!("there is no variant '{}'", self.variant);
                let help = suggestion(&self.variant, names.iter().map(String::as_str));
                Err(error(text, &self.span, message).help(help))
            }
        }
    }
}

impl Sum {
    fn each_measured(
        &mut self,
        change: &mut dyn FnMut(&mut VariantMetric) -> Result<(), SpecError>,
    ) -> Result<(), SpecError> {
        match self {
            Sum::Number(_) => Ok(()),
            Sum::Measured(measured) => change(measured),
            Sum::Negative(inner) => inner.each_measured(change),
            Sum::Chain(first, rest) => {
                first.each_measured(change)?;
                rest.iter_mut().try_for_each(|(_, sum)| sum.each_measured(change))
            }
        }
    }

    fn collect<'a>(&'a self, all: &mut Vec<&'a VariantMetric>) {
        match self {
            Sum::Number(_) => {}
            Sum::Measured(measured) => all.push(measured),
            Sum::Negative(inner) => inner.collect(all),
            Sum::Chain(first, rest) => {
                first.collect(all);
                rest.iter().for_each(|(_, sum)| sum.collect(all));
            }
        }
    }

    fn over(&self, value: &dyn Fn(&VariantMetric) -> Interval) -> Interval {
        match self {
            Sum::Number(number) => Interval::exactly(*number),
            Sum::Measured(measured) => value(measured),
            Sum::Negative(inner) => {
                let inner = inner.over(value);
                Interval { low: -inner.high, high: -inner.low }
            }
            Sum::Chain(first, rest) => {
                rest.iter().fold(first.over(value), |total, (operator, sum)| {
                    total.with(*operator, sum.over(value))
                })
            }
        }
    }
}

impl Interval {
    /// An interval of a single value.
    pub fn exactly(value: f64) -> Interval {
        Interval { low: value, high: value }
    }

    fn is_exact(self) -> bool {
        self.low == self.high
    }

    /// All results of the operator on the values of both intervals.
    fn with(self, operator: Operator, other: Interval) -> Interval {
        let of = |a: f64, b: f64| match operator {
            Operator::Plus => a + b,
            Operator::Minus => a - b,
            Operator::Times => a * b,
            Operator::Over => a / b,
        };
        if operator == Operator::Over && !other.is_exact() && other.low <= 0.0 && other.high >= 0.0
        {
            return Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };
        }
        let ends = [
            of(self.low, other.low),
            of(self.low, other.high),
            of(self.high, other.low),
            of(self.high, other.high),
        ];
        // An end without a value (0 ÷ 0, or infinite − infinite) leaves nothing certain.
        if ends.iter().any(|end| end.is_nan()) {
            return Interval::exactly(f64::NAN);
        }
        let low = ends.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ends.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Interval { low, high }
    }
}

/// The position that a single lower-case letter stands for.
fn position(name: &str) -> Option<usize> {
    match name.as_bytes() {
        [letter @ b'a'..=b'z'] => Some(usize::from(letter - b'a')),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
