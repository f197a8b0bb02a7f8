//! Errors of a query. Each is one sentence for the person who wrote the target.

/// A query could not be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphiteError {
    /// A target that cannot be parsed.
    #[error("cannot parse the target '{target}' at character {at}: expected {expected}")]
    Syntax {
        /// The target.
        target: String,
        /// The position, from 1, in characters.
        at: usize,
        /// What should be there.
        expected: &'static str,
    },
    /// A function that does not exist here.
    #[error("unknown function '{name}'{hint}; see /functions for all of them")]
    UnknownFunction {
        /// Its name.
        name: String,
        /// `, did you mean 'x'?` or nothing.
        hint: String,
    },
    /// An argument of a function is missing or invalid.
    #[error("{function}(): {cause}")]
    Argument {
        /// The function.
        function: String,
        /// What is wrong.
        cause: String,
    },
    /// A time that cannot be parsed.
    #[error(
        "'{text}' is not a time: use a Unix time, 'now', an age such as -1h, HH:MM_YYYYMMDD or YYYYMMDD"
    )]
    Time {
        /// The text.
        text: String,
    },
    /// A length of time that cannot be parsed.
    #[error("'{0}' is not a length of time: use a number and a unit, such as 30s, 5min, 1h or 7d")]
    Length(String),
    /// A range that ends before it starts.
    #[error("the range is empty: 'until' must be after 'from'")]
    EmptyRange,
    /// An invalid path pattern or tag expression.
    #[error("'{text}' is not a valid {what}: {cause}")]
    Pattern {
        /// The text.
        text: String,
        /// What it should be: `path`, `regular expression`, `tag expression`.
        what: &'static str,
        /// What is wrong.
        cause: String,
    },
    /// A limit on what a query may ask for.
    #[error("the query {what}, but the limit is {limit}; {remedy}")]
    Limit {
        /// What it asks for: `selects 70000 series`.
        what: String,
        /// The limit.
        limit: u64,
        /// What to do.
        remedy: &'static str,
    },
    /// The source of series failed.
    #[error("{0}")]
    Source(String),
}
