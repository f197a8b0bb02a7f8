//! Reads TOML tables strictly: every key is known, every value has a position.
//!
//! It works on `toml`'s values with their spans, without serde. Values contain variables, which differ
//! between variants and parts: a table is read once for each, a number may be written as
//! `"$workers"`, and an error points at the variable inside its text. Unknown keys are reported with
//! the nearest known one, in words about the file instead of about Rust's types.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use base::{Bytes, Nanos, parse_fraction, parse_rate};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{SpecError, edit_distance, suggestion};
use crate::variables;

/// A value with its position.
pub(super) type Value<'a> = Spanned<DeValue<'a>>;

/// Variables that the experiment declares: name to text.
pub(super) type Vars = BTreeMap<String, String>;

/// The text being read, for errors.
#[derive(Clone, Copy)]
pub(super) struct SourceText<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

impl SourceText<'_> {
    /// An error at a position in the text.
    pub(super) fn error(&self, span: Range<usize>, message: impl Into<String>) -> SpecError {
        SpecError::new(message).at(self.path, self.text, span)
    }
}

/// The variables available while a table is read.
#[derive(Clone)]
pub(super) struct Scope {
    /// The values, fully expanded: no declared variable is left in them.
    pub(super) vars: Vars,
    /// Every name declared in the experiment, to distinguish a typing error from an environment
    /// variable.
    pub(super) declared: BTreeSet<String>,
}

/// A table whose keys are checked when it is opened.
#[derive(Clone)]
pub(super) struct Table<'a> {
    pub(super) source: SourceText<'a>,
    /// The table's name in messages: `[load]`.
    pub(super) title: String,
    pub(super) span: Range<usize>,
    map: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    /// Opens the root of a file.
    pub(super) fn root(
        source: SourceText<'a>,
        map: &'a DeTable<'a>,
        keys: &[&str],
    ) -> Result<Table<'a>, SpecError> {
        let table =
            Table { source, title: "the experiment".to_owned(), span: 0..source.text.len(), map };
        table.check_keys(keys).map(|()| table)
    }

    /// Opens a value as a table that may have only these keys.
    pub(super) fn open(
        source: SourceText<'a>,
        value: &'a Value<'a>,
        title: impl Into<String>,
        keys: &[&str],
    ) -> Result<Table<'a>, SpecError> {
        let table = Table::open_free(source, value, title)?;
        table.check_keys(keys).map(|()| table)
    }

    /// Opens a value as a table with arbitrary keys.
    pub(super) fn open_free(
        source: SourceText<'a>,
        value: &'a Value<'a>,
        title: impl Into<String>,
    ) -> Result<Table<'a>, SpecError> {
        let title = title.into();
        match value.get_ref() {
            DeValue::Table(map) => Ok(Table { source, title, span: value.span(), map }),
            other => {
                Err(source
                    .error(value.span(), format!("{title} must be a table, not {}", kind(other))))
            }
        }
    }

    fn check_keys(&self, keys: &[&str]) -> Result<(), SpecError> {
        let known = |key: &str| keys.contains(&key);
        match self.map.keys().find(|key| !known(key.get_ref())) {
            None => Ok(()),
            Some(key) => Err(self
                .source
                .error(key.span(), format!("'{}' is not a key of {}", key.get_ref(), self.title))
                .help(suggestion(key.get_ref(), keys.iter().copied()))),
        }
    }

    /// An error at the start of the table.
    pub(super) fn error(&self, message: impl Into<String>) -> SpecError {
        self.source.error(self.span.clone(), message)
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value<'a>> {
        self.map.get(key)
    }

    /// Every key with its value, in file order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, Range<usize>, &'a Value<'a>)> {
        let mut entries: Vec<_> = self.map.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries.into_iter().map(|(key, value)| (key.get_ref().as_ref(), key.span(), value))
    }

    /// A key whose value is a table with arbitrary keys.
    pub(super) fn free_table(&self, key: &str) -> Result<Option<Table<'a>>, SpecError> {
        self.get(key)
            .map(|value| Table::open_free(self.source, value, format!("{key} of {}", self.title)))
            .transpose()
    }

    /// A key whose value is one item or a list.
    pub(super) fn one_or_many(&self, key: &str) -> Vec<&'a Value<'a>> {
        match self.get(key).map(|value| (value, value.get_ref())) {
            None => Vec::new(),
            Some((_, DeValue::Array(array))) => array.iter().collect(),
            Some((value, _)) => vec![value],
        }
    }

    /// A text without variable expansion.
    pub(super) fn plain(&self, key: &str) -> Result<Option<String>, SpecError> {
        self.get(key).map(|value| plain(self.source, value, key)).transpose()
    }

    /// A text with its declared variables expanded.
    pub(super) fn text(&self, key: &str, scope: &Scope) -> Result<Option<String>, SpecError> {
        self.get(key).map(|value| text(self.source, value, key, scope)).transpose()
    }

    /// A whole number.
    pub(super) fn number(&self, key: &str, scope: &Scope) -> Result<Option<u32>, SpecError> {
        self.parsed(key, scope, "a whole number such as 10", |text| {
            text.replace('_', "").parse::<u32>().ok()
        })
    }

    /// A duration: `250ms`, `5s`; a bare number is seconds.
    pub(super) fn time(&self, key: &str, scope: &Scope) -> Result<Option<Nanos>, SpecError> {
        self.parsed(key, scope, "a time such as \"250ms\", \"5s\" or \"2m\"", |text| {
            Nanos::parse(text).ok()
        })
    }

    /// A size: `64KiB`; a bare number is bytes.
    pub(super) fn size(&self, key: &str, scope: &Scope) -> Result<Option<Bytes>, SpecError> {
        self.parsed(key, scope, "a size such as 12, \"4KiB\" or \"1MiB\"", |text| {
            Bytes::parse(text).ok()
        })
    }

    /// A fraction: `1%` or `0.01`.
    pub(super) fn fraction(&self, key: &str, scope: &Scope) -> Result<Option<f64>, SpecError> {
        self.parsed(key, scope, "a share such as \"1%\" or 0.01", |text| parse_fraction(text).ok())
    }

    /// A rate per second: `1837`, `10k`.
    pub(super) fn rate(&self, key: &str, scope: &Scope) -> Result<Option<f64>, SpecError> {
        self.parsed(key, scope, "a rate per second such as 1837", |text| parse_rate(text).ok())
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, SpecError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(Some(*flag)),
            other => Err(self
                .source
                .error(value.span(), format!("{key} must be true or false, not {}", kind(other)))),
        }
    }

    /// One of several words, after variable expansion.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
        scope: &Scope,
    ) -> Result<Option<T>, SpecError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let word = text(self.source, value, key, scope)?;
        match choices.iter().find(|(name, _)| *name == word) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => Err(self
                .source
                .error(value.span(), format!("{key} cannot be '{word}'"))
                .help(suggestion(&word, choices.iter().map(|(name, _)| *name)))),
        }
    }

    /// A list of texts without variable expansion, with their positions.
    pub(super) fn words(&self, key: &str) -> Result<Vec<(String, Range<usize>)>, SpecError> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let DeValue::Array(array) = value.get_ref() else {
            return Err(self.source.error(
                value.span(),
                format!("{key} must be a list of strings, not {}", kind(value.get_ref())),
            ));
        };
        array.iter().map(|item| Ok((plain(self.source, item, key)?, item.span()))).collect()
    }

    fn parsed<T>(
        &self,
        key: &str,
        scope: &Scope,
        wanted: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, SpecError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let (text, shown) = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => {
                (number.to_string(), number.to_string())
            }
            DeValue::Float(number) => (number.to_string(), number.to_string()),
            DeValue::String(_) => {
                let text = text(self.source, value, key, scope)?;
                (text.clone(), format!("\"{text}\""))
            }
            other => (String::new(), kind(other).to_owned()),
        };
        match parse(&text) {
            Some(parsed) => Ok(Some(parsed)),
            None => {
                Err(self.source.error(value.span(), format!("{key} must be {wanted}, not {shown}")))
            }
        }
    }
}

/// A text without variable expansion.
pub(super) fn plain(
    source: SourceText<'_>,
    value: &Value<'_>,
    key: &str,
) -> Result<String, SpecError> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        other => {
            Err(source.error(value.span(), format!("{key} must be a string, not {}", kind(other))))
        }
    }
}

/// A text with its declared variables expanded. An apparent misspelling of a declared variable is
/// an error; other names may be environment variables.
pub(super) fn text(
    source: SourceText<'_>,
    value: &Value<'_>,
    key: &str,
    scope: &Scope,
) -> Result<String, SpecError> {
    let raw = plain(source, value, key)?;
    let text = variables::replace(&raw, |name| scope.vars.get(name).map(Cow::from));
    for found in variables::find(&text) {
        if !variables::is_built_in(found.name) {
            check_slip(source, value, found.name, scope)?;
        }
    }
    Ok(text)
}

fn check_slip(
    source: SourceText<'_>,
    value: &Value<'_>,
    name: &str,
    scope: &Scope,
) -> Result<(), SpecError> {
    let span = variable_span(source, value, name);
    if scope.declared.contains(name) {
        return Err(source
            .error(span, format!("${name} has no value here"))
            .help("other variants or parts declare it in their vars; this one must too"));
    }
    let mut known =
        variables::BUILT_IN.into_iter().chain(scope.declared.iter().map(String::as_str));
    // Environment variable names are short and similar to ours: $PATH and $PORT differ in two
    // letters and must not be confused.
    let slips = if name.len() < 6 { 1 } else { 2 };
    match known.find(|known| edit_distance(name, known) <= slips) {
        Some(known) => Err(source
            .error(span, format!("${name} is not a variable"))
            .help(format!("did you mean ${known}?"))),
        None => Ok(()),
    }
}

/// Refuses unknown variables where an environment variable is impossible.
pub(super) fn require_known(
    source: SourceText<'_>,
    value: &Value<'_>,
    text: &str,
) -> Result<(), SpecError> {
    match variables::find(text).iter().find(|found| !variables::is_built_in(found.name)) {
        None => Ok(()),
        Some(found) => Err(source
            .error(
                variable_span(source, value, found.name),
                format!("${} is not a variable", found.name),
            )
            .help("declare it in vars, or use $PORT, $SOCKET or $DIR")),
    }
}

/// The position of the variable inside the value, or of the value itself.
fn variable_span(source: SourceText<'_>, value: &Value<'_>, name: &str) -> Range<usize> {
    let span = value.span();
    let inside = source.text.get(span.clone()).unwrap_or_default();
    variables::find(inside)
        .into_iter()
        .find(|found| found.name == name)
        .map_or(span.clone(), |found| span.start + found.range.start..span.start + found.range.end)
}

/// The type of a value, with its article.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
