//! The arguments of one call, by the place of their parameter.

use crate::evaluate::evaluate;
use crate::parse::Call;
use crate::{Aggregation, Context, Expression, Function, GraphiteError, Number, SeriesSource};
use crate::{parse_length, time};

use super::{FunctionResult, Kind};

/// A number of points, or a length of time.
pub(super) enum Size {
    Points(usize),
    Seconds(i64),
}

/// The place of a node, or the name of a tag.
pub(super) enum NodeOrTag {
    Node(i64),
    Tag(String),
}

/// The arguments of a call. Series are evaluated when a function asks for them.
pub(crate) struct Arguments<'a> {
    function: &'static Function,
    /// For each parameter; those that take several have all of them.
    values: Vec<Vec<&'a Expression>>,
    pub(super) call: &'a Call,
    pub(super) context: &'a Context,
    source: &'a mut dyn SeriesSource,
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(
        call: &'a Call,
        function: &'static Function,
        context: &'a Context,
        source: &'a mut dyn SeriesSource,
    ) -> Result<Arguments<'a>, GraphiteError> {
        let wrong = |cause: String| GraphiteError::Argument { function: call.name.clone(), cause };
        let parameters = function.parameters;
        let mut values: Vec<Vec<&Expression>> = vec![Vec::new(); parameters.len()];
        for (place, argument) in call.arguments.iter().enumerate() {
            let last = parameters.len().saturating_sub(1);
            match parameters.get(place.min(last)) {
                Some(parameter) if place <= last || parameter.multiple => {
                    values[place.min(last)].push(argument);
                }
                _ => {
                    let most = parameters.len();
                    return Err(wrong(format!("takes at most {most} arguments")));
                }
            }
        }
        for (name, argument) in &call.named {
            match parameters.iter().position(|parameter| parameter.name == name) {
                Some(place) if values[place].is_empty() => values[place].push(argument),
                Some(_) => return Err(wrong(format!("'{name}' is given twice"))),
                None => return Err(wrong(format!("has no parameter '{name}'"))),
            }
        }
        let missing = parameters.iter().zip(&values).find(|(p, v)| p.required && v.is_empty());
        if let Some((parameter, _)) = missing {
            return Err(wrong(format!("the argument '{}' is missing", parameter.name)));
        }
        Ok(Arguments { function, values, call, context, source })
    }

    /// An error about this call.
    pub(super) fn wrong(&self, cause: impl Into<String>) -> GraphiteError {
        GraphiteError::Argument { function: self.call.name.clone(), cause: cause.into() }
    }

    fn expected(&self, place: usize, expected: &str) -> GraphiteError {
        let name = self.function.parameters[place].name;
        self.wrong(format!("'{name}' must be {expected}"))
    }

    /// The argument, unless it is missing or `none`.
    pub(super) fn get(&self, place: usize) -> Option<&'a Expression> {
        let first = self.values.get(place)?.first().copied();
        first.filter(|argument| **argument != Expression::None)
    }

    /// The series of a parameter; those of all arguments if it takes several.
    pub(super) fn series(&mut self, place: usize) -> FunctionResult {
        self.series_in(place, self.context)
    }

    /// The same in another range.
    pub(super) fn series_between(
        &mut self,
        place: usize,
        from_s: i64,
        until_s: i64,
    ) -> FunctionResult {
        let context = self.context.between(from_s, until_s);
        self.series_in(place, &context)
    }

    fn series_in(&mut self, place: usize, context: &Context) -> FunctionResult {
        let mut all = Vec::new();
        for argument in self.values[place].clone() {
            all.extend(self.evaluated(place, argument, context)?);
        }
        Ok(all)
    }

    fn evaluated(
        &mut self,
        place: usize,
        argument: &Expression,
        context: &Context,
    ) -> FunctionResult {
        match argument {
            Expression::Path(_) | Expression::Call(_) => evaluate(argument, context, self.source),
            _ => Err(self.expected(place, "series")),
        }
    }

    /// The series for tag expressions.
    pub(super) fn tagged(&mut self, expressions: &[crate::TagExpression]) -> FunctionResult {
        let (from_s, until_s) = (self.context.from_s, self.context.until_s);
        self.source.fetch(&crate::Selection::Tags(expressions), from_s, until_s)
    }

    /// A number; `None` if it is missing.
    pub(super) fn number(&self, place: usize) -> Result<Option<Number>, GraphiteError> {
        match self.get(place) {
            None => Ok(None),
            Some(Expression::Number(number)) => Ok(Some(*number)),
            Some(Expression::Text(text)) => match Number::parse(text.trim()) {
                Some(number) => Ok(Some(number)),
                None => Err(self.expected(place, "a number")),
            },
            Some(Expression::Infinity) => {
                Ok(Some(Number { value: f64::INFINITY, is_integer: false }))
            }
            Some(_) => Err(self.expected(place, "a number")),
        }
    }

    /// A number, or a default.
    pub(super) fn number_or(&self, place: usize, otherwise: f64) -> Result<f64, GraphiteError> {
        Ok(self.number(place)?.map_or(otherwise, |number| number.value))
    }

    /// A number of things.
    pub(super) fn count(&self, place: usize, otherwise: usize) -> Result<usize, GraphiteError> {
        match self.number(place)? {
            None => Ok(otherwise),
            Some(number) if number.value >= 0.0 && number.value.fract() == 0.0 => {
                Ok(number.value as usize)
            }
            Some(number) if number.value == f64::INFINITY => Ok(usize::MAX),
            Some(_) => Err(self.expected(place, "a whole number from 0")),
        }
    }

    /// A text; `None` if it is missing.
    pub(super) fn text(&self, place: usize) -> Result<Option<String>, GraphiteError> {
        match self.get(place) {
            None => Ok(None),
            Some(Expression::Text(text)) => Ok(Some(text.clone())),
            Some(Expression::Number(number)) => Ok(Some(number.as_str())),
            Some(_) => Err(self.expected(place, "a quoted text")),
        }
    }

    /// A text that is there because its parameter is required, and empty otherwise.
    pub(super) fn required_text(&self, place: usize) -> Result<String, GraphiteError> {
        self.text(place)?.ok_or_else(|| self.expected(place, "a quoted text"))
    }

    /// `true` or `false`.
    pub(super) fn is_true(&self, place: usize) -> Result<bool, GraphiteError> {
        match self.get(place) {
            None => Ok(false),
            Some(Expression::Boolean(is_true)) => Ok(*is_true),
            Some(Expression::Number(number)) if number.value == 0.0 => Ok(false),
            Some(Expression::Number(number)) if number.value == 1.0 => Ok(true),
            Some(Expression::Text(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(Expression::Text(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(self.expected(place, "true or false")),
        }
    }

    /// A length of time as it was written, and in seconds.
    pub(super) fn length(&self, place: usize) -> Result<(String, i64), GraphiteError> {
        let text = self.required_text(place)?;
        let seconds = parse_length(&text)?;
        Ok((text, seconds))
    }

    /// A length of time that is not negative or 0.
    pub(super) fn positive_length(&self, place: usize) -> Result<(String, i64), GraphiteError> {
        let (text, seconds) = self.length(place)?;
        if seconds <= 0 {
            Err(self.expected(place, "longer than 0 s"))
        } else {
            Ok((text, seconds))
        }
    }

    /// A number of points or a length of time, with its text for names.
    pub(super) fn size(&self, place: usize) -> Result<(String, Size), GraphiteError> {
        let size = match self.get(place) {
            Some(Expression::Text(text)) => {
                (format!("\"{text}\""), Size::Seconds(parse_length(text)?.abs()))
            }
            Some(Expression::Number(number)) if number.value >= 1.0 => {
                (number.as_str(), Size::Points(number.value as usize))
            }
            _ => return Err(self.expected(place, "a number of points or a length such as '5min'")),
        };
        match size.1 {
            Size::Points(1_000_001..) | Size::Seconds(..=0) => {
                Err(self.expected(place, "from 1 to 1000000 points, or longer than 0 s"))
            }
            _ => Ok(size),
        }
    }

    /// An aggregation with its name.
    pub(super) fn aggregation(
        &self,
        place: usize,
        otherwise: &str,
    ) -> Result<(String, Aggregation), GraphiteError> {
        let name = self.text(place)?.unwrap_or_else(|| otherwise.to_owned());
        match Aggregation::named(&name) {
            Some(how) => Ok((name, how)),
            None => {
                let known: Vec<&str> = Aggregation::NAMES.iter().map(|(name, _)| *name).collect();
                Err(self.wrong(format!(
                    "'{}' is not an aggregation; use one of {}",
                    crate::parse::shortened(&name),
                    known.join(", ")
                )))
            }
        }
    }

    /// The nodes and tags from a place on.
    pub(super) fn nodes(&self, place: usize) -> Result<Vec<NodeOrTag>, GraphiteError> {
        let arguments = self.values.get(place).map(Vec::as_slice).unwrap_or_default();
        let node = |argument: &&Expression| match argument {
            Expression::Number(number) if number.is_integer => {
                Ok(NodeOrTag::Node(number.value as i64))
            }
            Expression::Text(text) => Ok(match text.parse() {
                Ok(node) => NodeOrTag::Node(node),
                Err(_) => NodeOrTag::Tag(text.clone()),
            }),
            _ => Err(self.expected(place, "numbers of nodes or names of tags")),
        };
        arguments.iter().map(node).collect()
    }

    /// All texts of a parameter.
    pub(super) fn texts(&self, place: usize) -> Result<Vec<String>, GraphiteError> {
        let text = |argument: &&Expression| match argument {
            Expression::Text(text) => Ok(text.clone()),
            _ => Err(self.expected(place, "quoted texts")),
        };
        self.values[place].iter().map(text).collect()
    }

    /// A regular expression.
    pub(super) fn regex(&self, place: usize) -> Result<regex::Regex, GraphiteError> {
        let pattern = self.required_text(place)?;
        crate::tags::regex(&pattern, &pattern)
    }

    /// The start of the unit of time that contains the beginning of the range.
    pub(super) fn floor_to_unit(&self, length_s: i64) -> i64 {
        time::floor_to_unit(self.context.from_s, length_s, &self.context.zone)
    }

    /// Whether a parameter's argument is a series rather than a number.
    pub(super) fn is_series(&self, place: usize) -> bool {
        matches!(self.get(place), Some(Expression::Path(_) | Expression::Call(_)))
    }
}

impl Kind {
    /// A required parameter.
    pub(super) const fn required(self, name: &'static str) -> super::Parameter {
        super::Parameter { name, kind: self, required: true, multiple: false, default: None }
    }

    /// An optional parameter.
    pub(super) const fn optional(self, name: &'static str) -> super::Parameter {
        super::Parameter { name, kind: self, required: false, multiple: false, default: None }
    }

    /// An optional parameter with a default.
    pub(super) const fn or(self, name: &'static str, default: &'static str) -> super::Parameter {
        super::Parameter {
            name,
            kind: self,
            required: false,
            multiple: false,
            default: Some(default),
        }
    }

    /// A parameter that takes all remaining arguments.
    pub(super) const fn several(self, name: &'static str, required: bool) -> super::Parameter {
        super::Parameter { name, kind: self, required, multiple: true, default: None }
    }
}
