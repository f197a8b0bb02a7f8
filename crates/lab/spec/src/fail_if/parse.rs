//! Recursive-descent parser for conditions.

use std::ops::Range;

use super::scan::{Token, scan};
use super::{Comparison, Condition, METRICS, Operator, Sum, Test, VariantMetric, error};
use crate::error::{SpecError, suggestion};

/// Limits on length and depth, so that no text can exhaust the stack.
const BYTES_MAX: usize = 4096;
const DEPTH_MAX: usize = 50;

/// Parses a condition up to the end of the text.
pub(super) fn condition(text: &str) -> Result<Condition, SpecError> {
    if text.len() > BYTES_MAX {
        let message = format!("a condition can have at most {BYTES_MAX} bytes, not {}", text.len());
        return Err(SpecError::new(message));
    }
    let mut parser = Parser { text, tokens: scan(text)?, at: 0, depth: 0 };
    let node = parser.or()?;
    match parser.peek() {
        Token::End => node.condition(&parser),
        _ => Err(parser.unexpected("'and', 'or' or the end")),
    }
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<(Token, Range<usize>)>,
    at: usize,
    depth: usize,
}

/// Parentheses enclose a condition or a sum; only what follows tells which.
enum Node {
    Condition(Condition),
    Sum(Sum, Range<usize>),
}

impl Node {
    fn condition(self, parser: &Parser<'_>) -> Result<Condition, SpecError> {
        match self {
            Node::Condition(condition) => Ok(condition),
            Node::Sum(_, span) => {
                let message = "this is a value, not a condition";
                Err(error(parser.text, &span, message).help("compare it with <, <=, > or >="))
            }
        }
    }

    fn sum(self, parser: &Parser<'_>) -> Result<Sum, SpecError> {
        match self {
            Node::Sum(sum, _) => Ok(sum),
            Node::Condition(_) => {
                Err(error(parser.text, &parser.before(), "a condition cannot be used as a value"))
            }
        }
    }
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }

    fn span(&self) -> Range<usize> {
        let end = self.text.len()..self.text.len();
        self.tokens.get(self.at).map_or(end, |(_, span)| span.clone())
    }

    /// The position of the previous token.
    fn before(&self) -> Range<usize> {
        self.tokens.get(self.at.saturating_sub(1)).map_or(0..0, |(_, span)| span.clone())
    }

    fn take(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        match self.peek() {
            Token::Sign(sign) if signs.contains(sign) => {
                let sign = *sign;
                self.at += 1;
                Some(sign)
            }
            _ => None,
        }
    }

    fn unexpected(&self, wanted: &str) -> SpecError {
        let found = match self.peek() {
            Token::End => "the condition ends where".to_owned(),
            _ => format!("'{}' stands where", &self.text[self.span()]),
        };
        error(self.text, &self.span(), format!("{found} {wanted} should be"))
    }

    fn or(&mut self) -> Result<Node, SpecError> {
        self.joined("or", Condition::Any, Parser::and)
    }

    fn and(&mut self) -> Result<Node, SpecError> {
        self.joined("and", Condition::All, Parser::test)
    }

    fn joined(
        &mut self,
        sign: &'static str,
        join: fn(Vec<Condition>) -> Condition,
        part: fn(&mut Self) -> Result<Node, SpecError>,
    ) -> Result<Node, SpecError> {
        let first = part(self)?;
        if self.peek() != &Token::Sign(sign) {
            return Ok(first);
        }
        let mut parts = vec![first.condition(self)?];
        while self.take(&[sign]).is_some() {
            parts.push(part(self)?.condition(self)?);
        }
        Ok(Node::Condition(join(parts)))
    }

    fn test(&mut self) -> Result<Node, SpecError> {
        let left = self.sum()?;
        let comparison = match self.take(&["<", "<=", ">", ">="]) {
            None => return Ok(left),
            Some("<") => Comparison::Less,
            Some("<=") => Comparison::LessOrEqual,
            Some(">") => Comparison::Greater,
            Some(_) => Comparison::GreaterOrEqual,
        };
        let (left, right) = (left.sum(self)?, self.sum()?.sum(self)?);
        if self.take(&["<", "<=", ">", ">="]).is_some() {
            let message = "comparisons cannot be chained";
            return Err(error(self.text, &self.before(), message).help("join them with 'and'"));
        }
        Ok(Node::Condition(Condition::Test(Test { left, comparison, right })))
    }

    fn sum(&mut self) -> Result<Node, SpecError> {
        self.chain(&["+", "-"], Parser::product)
    }

    fn product(&mut self) -> Result<Node, SpecError> {
        self.chain(&["*", "/"], Parser::factor)
    }

    fn chain(
        &mut self,
        signs: &[&'static str],
        operand: fn(&mut Self) -> Result<Node, SpecError>,
    ) -> Result<Node, SpecError> {
        let start = self.span().start;
        let first = operand(self)?;
        if !matches!(self.peek(), Token::Sign(sign) if signs.contains(sign)) {
            return Ok(first);
        }
        let first = Box::new(first.sum(self)?);
        let mut rest = Vec::new();
        while let Some(sign) = self.take(signs) {
            let operator = match sign {
                "+" => Operator::Plus,
                "-" => Operator::Minus,
                "*" => Operator::Times,
                _ => Operator::Over,
            };
            rest.push((operator, operand(self)?.sum(self)?));
        }
        Ok(Node::Sum(Sum::Chain(first, rest), start..self.before().end))
    }

    fn factor(&mut self) -> Result<Node, SpecError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let message = format!("the condition is nested more than {DEPTH_MAX} deep");
            return Err(error(self.text, &self.span(), message));
        }
        let node = self.nested();
        self.depth -= 1;
        node
    }

    fn nested(&mut self) -> Result<Node, SpecError> {
        let span = self.span();
        if self.take(&["-"]).is_some() {
            let inner = self.factor()?.sum(self)?;
            return Ok(Node::Sum(Sum::Negative(Box::new(inner)), span.start..self.before().end));
        }
        if self.take(&["("]).is_some() {
            let inner = self.or()?;
            return match self.take(&[")"]) {
                Some(_) => Ok(inner),
                None => Err(self.unexpected("')'")),
            };
        }
        let sum = match self.peek().clone() {
            Token::Number(number) => Sum::Number(number),
            Token::Measured { part, variant, metric, metric_span } => {
                let metric = self.metric(&metric, &metric_span)?;
                Sum::Measured(VariantMetric { part, variant, metric, span: span.clone() })
            }
            _ => return Err(self.unexpected("a number or VARIANT.METRIC")),
        };
        self.at += 1;
        Ok(Node::Sum(sum, span))
    }

    fn metric(&self, name: &str, span: &Range<usize>) -> Result<&'static str, SpecError> {
        METRICS.into_iter().find(|metric| *metric == name).ok_or_else(|| {
            error(self.text, span, format!("'{name}' is not a metric"))
                .help(suggestion(name, METRICS))
        })
    }
}
