//! The functions: their names and parameters, and how arguments are read.

mod alias;
mod arguments;
mod calculate;
mod combine;
mod filter;
mod forecast;
mod special;
mod table;
mod transform;

pub(crate) use arguments::Arguments;
pub use table::FUNCTIONS;

use crate::{GraphiteError, Series};

/// A result of a function.
pub(crate) type FunctionResult = Result<Vec<Series>, GraphiteError>;

/// The kind of a parameter, with the name that Graphite's `/functions` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Series.
    SeriesList,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Float,
    /// A whole number.
    Integer,
    /// A length of time, as text.
    Interval,
    /// A number of points, or a length of time.
    IntOrInterval,
    /// A whole number or `inf`.
    IntOrInf,
    /// The place of a node in a path, from 0; negative ones count from the end.
    Node,
    /// The place of a node, or the name of a tag.
    NodeOrTag,
    /// The name of a tag.
    Tag,
    /// A text.
    Text,
    /// The name of an [`crate::Aggregation`].
    Aggregation,
    /// The name of an [`crate::Aggregation`] or of a function that combines series.
    AggregationOrFunction,
    /// Anything.
    Any,
}

impl Kind {
    /// The name in Graphite's list of functions.
    pub fn name(self) -> &'static str {
        match self {
            Kind::SeriesList => "seriesList",
            Kind::Boolean => "boolean",
            Kind::Float => "float",
            Kind::Integer => "integer",
            Kind::Interval => "interval",
            Kind::IntOrInterval => "intOrInterval",
            Kind::IntOrInf => "intOrInf",
            Kind::Node => "node",
            Kind::NodeOrTag => "nodeOrTag",
            Kind::Tag => "tag",
            Kind::Text => "string",
            Kind::Aggregation => "aggFunc",
            Kind::AggregationOrFunction => "aggOrSeriesFunc",
            Kind::Any => "any",
        }
    }
}

/// A parameter of a function.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name, for `name=value`.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Whether it must be given.
    pub required: bool,
    /// Whether it takes all remaining arguments.
    pub multiple: bool,
    /// The default, as text.
    pub default: Option<&'static str>,
}

/// A function.
#[derive(Clone, Copy)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The group in a menu.
    pub group: &'static str,
    /// One sentence.
    pub description: &'static str,
    /// The parameters, in order.
    pub parameters: &'static [Parameter],
    pub(crate) run: fn(&mut Arguments<'_>) -> FunctionResult,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The function of a name.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// `, did you mean 'x'?` for a name that is close to a known one.
pub(crate) fn nearest(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let distance = |function: &&Function| {
        strsim::damerau_levenshtein(&lower, &function.name.to_ascii_lowercase())
    };
    let near = FUNCTIONS.iter().min_by_key(distance);
    let near = near.filter(|function| name.len() <= 64 && distance(function) <= 1 + name.len() / 4);
    near.map_or(String::new(), |function| format!(", did you mean '{}'?", function.name))
}
