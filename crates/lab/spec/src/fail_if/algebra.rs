//! Recognises a test about a ratio, however it is written.
//!
//! Each side becomes a fraction of two linear forms in the metrics. The test is about x ÷ y exactly
//! if their difference is αx + βy over an expression of known sign.

use super::{Comparison, Operator, RatioTest, Sum, VariantMetric};

/// A constant and multiples of metrics.
#[derive(Clone, Debug)]
struct LinearForm<'a> {
    constant: f64,
    terms: Vec<(&'a VariantMetric, f64)>,
}

/// `over` ÷ `under`.
#[derive(Clone, Debug)]
struct Fraction<'a> {
    over: LinearForm<'a>,
    under: LinearForm<'a>,
}

/// The test `left comparison right` as a test of a ratio, if it is one.
pub(super) fn ratio<'a>(
    left: &'a Sum,
    comparison: Comparison,
    right: &'a Sum,
) -> Option<RatioTest<'a>> {
    let difference = fraction(left)?.plus(&fraction(right)?, -1.0)?;
    let comparison = if difference.under.sign()? > 0.0 { comparison } else { comparison.turned() };
    // αx + βy compared with 0 is x ÷ y compared with −β ÷ α, reversed if α is negative.
    let [(of, alpha), (to, beta)] = difference.over.terms.as_slice() else { return None };
    let same_sign = (*alpha > 0.0) == (*beta > 0.0);
    if difference.over.constant != 0.0 || same_sign || !of.is_counterpart_of(to) {
        return None;
    }
    let comparison = if *alpha > 0.0 { comparison } else { comparison.turned() };
    Some(RatioTest { of, to, comparison, bound: -beta / alpha })
}

fn fraction(sum: &Sum) -> Option<Fraction<'_>> {
    Some(match sum {
        Sum::Number(number) => {
            Fraction { over: LinearForm::number(*number), under: LinearForm::number(1.0) }
        }
        Sum::Measured(measured) => Fraction {
            over: LinearForm { constant: 0.0, terms: vec![(measured, 1.0)] },
            under: LinearForm::number(1.0),
        },
        Sum::Negative(inner) => {
            let inner = fraction(inner)?;
            Fraction { over: inner.over.scaled(-1.0), ..inner }
        }
        Sum::Chain(first, rest) => {
            rest.iter().try_fold(fraction(first)?, |total, (operator, sum)| {
                let other = fraction(sum)?;
                match operator {
                    Operator::Plus => total.plus(&other, 1.0),
                    Operator::Minus => total.plus(&other, -1.0),
                    Operator::Times => Some(Fraction {
                        over: total.over.times(&other.over)?,
                        under: total.under.times(&other.under)?,
                    }),
                    Operator::Over => Some(Fraction {
                        over: total.over.times(&other.under)?,
                        under: total.under.times(&other.over)?,
                    }),
                }
            })?
        }
    })
}

impl<'a> Fraction<'a> {
    /// This plus `factor` times another fraction.
    fn plus(&self, other: &Fraction<'a>, factor: f64) -> Option<Fraction<'a>> {
        if self.under.equals(&other.under) {
            let over = self.over.plus(&other.over.scaled(factor));
            return Some(Fraction { over, under: self.under.clone() });
        }
        let crossed = other.over.scaled(factor).times(&self.under)?;
        Some(Fraction {
            over: self.over.times(&other.under)?.plus(&crossed),
            under: self.under.times(&other.under)?,
        })
    }
}

impl<'a> LinearForm<'a> {
    fn number(constant: f64) -> LinearForm<'a> {
        LinearForm { constant, terms: Vec::new() }
    }

    fn scaled(&self, factor: f64) -> LinearForm<'a> {
        let terms = self.terms.iter().map(|(of, n)| (*of, n * factor));
        LinearForm { constant: self.constant * factor, terms: terms.collect() }.tidied()
    }

    fn plus(&self, other: &LinearForm<'a>) -> LinearForm<'a> {
        let mut sum = self.clone();
        sum.constant += other.constant;
        for (of, n) in &other.terms {
            match sum.terms.iter_mut().find(|(mine, _)| mine.is(of)) {
                Some((_, mine)) => *mine += n,
                None => sum.terms.push((of, *n)),
            }
        }
        sum.tidied()
    }

    /// The product, unless both contain metrics.
    fn times(&self, other: &LinearForm<'a>) -> Option<LinearForm<'a>> {
        match (self.terms.is_empty(), other.terms.is_empty()) {
            (true, _) => Some(other.scaled(self.constant)),
            (_, true) => Some(self.scaled(other.constant)),
            _ => None,
        }
    }

    fn equals(&self, other: &LinearForm<'a>) -> bool {
        let difference = self.plus(&other.scaled(-1.0));
        difference.constant == 0.0 && difference.terms.is_empty()
    }

    /// Without terms that cancelled.
    fn tidied(mut self) -> LinearForm<'a> {
        self.terms.retain(|(_, n)| *n != 0.0);
        self
    }

    /// 1 or −1, if the sign does not depend on the metrics, which are positive.
    fn sign(&self) -> Option<f64> {
        let mut parts = self.terms.iter().map(|(_, n)| *n).collect::<Vec<_>>();
        if self.constant != 0.0 {
            parts.push(self.constant);
        }
        let all = |sign: f64| !parts.is_empty() && parts.iter().all(|n| n * sign > 0.0);
        [1.0, -1.0].into_iter().find(|sign| all(*sign))
    }
}
