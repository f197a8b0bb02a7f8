//! Tag expressions: `tag=value`, `tag!=value`, `tag=~regex`, `tag!=~regex`.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};

use crate::GraphiteError;
use crate::parse::shortened;

/// Limit on the compiled size of a regular expression, in bytes.
const COMPILED_MAX: usize = 1 << 20;

/// A condition on a tag. A series without the tag has the empty value.
#[derive(Clone, Debug)]
pub struct TagExpression {
    tag: String,
    negated: bool,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    Equals(String),
    Matches(Regex),
}

impl TagExpression {
    /// Parses an expression. Regular expressions are anchored at the start of the value.
    ///
    /// # Errors
    /// [`GraphiteError::Pattern`].
    pub fn parse(text: &str) -> Result<TagExpression, GraphiteError> {
        let wrong = || GraphiteError::Pattern {
            text: shortened(text),
            what: "tag expression",
            cause: "write tag=value, tag!=value, tag=~regex or tag!=~regex".to_owned(),
        };
        let at = text.find(['=', '!']).filter(|at| *at > 0).ok_or_else(wrong)?;
        let (tag, rest) = text.split_at(at);
        let (negated, rest) = match rest.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let value = rest.strip_prefix('=').ok_or_else(wrong)?;
        if tag.contains(';') || value.contains(';') {
            return Err(wrong());
        }
        let test = match value.strip_prefix('~') {
            Some(pattern) => Test::Matches(regex(&format!("^(?:{pattern})"), pattern)?),
            None => Test::Equals(value.to_owned()),
        };
        Ok(TagExpression { tag: tag.to_owned(), negated, test })
    }

    /// The tag.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Whether a series with these tags matches.
    pub fn matches(&self, tags: &BTreeMap<String, String>) -> bool {
        let value = tags.get(&self.tag).map_or("", String::as_str);
        let matches = match &self.test {
            Test::Equals(wanted) => value == wanted,
            Test::Matches(regex) => regex.is_match(value),
        };
        matches != self.negated
    }

    /// Whether it requires the tag: one expression must, or every series would match.
    pub fn requires_tag(&self) -> bool {
        !self.matches(&BTreeMap::new())
    }
}

/// Compiles a regular expression; `shown` is what the person wrote.
pub(crate) fn regex(pattern: &str, shown: &str) -> Result<Regex, GraphiteError> {
    RegexBuilder::new(pattern).size_limit(COMPILED_MAX).build().map_err(|error| {
        let cause = match error {
            regex::Error::CompiledTooBig(_) => "it is too long".to_owned(),
            error => error.to_string().lines().last().unwrap_or_default().trim().to_owned(),
        };
        let cause = cause.strip_prefix("error: ").unwrap_or(&cause).to_owned();
        GraphiteError::Pattern { text: shortened(shown), what: "regular expression", cause }
    })
}

/// The tags in `name;tag=value;tag=value`, including `name`.
pub(crate) fn tags_of(path: &str) -> BTreeMap<String, String> {
    let mut parts = path.split(';');
    let name = parts.next().unwrap_or_default();
    let tags = parts.filter_map(|part| part.split_once('='));
    let mut tags: BTreeMap<String, String> =
        tags.map(|(tag, value)| (tag.to_owned(), value.to_owned())).collect();
    tags.insert("name".to_owned(), name.to_owned());
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tag_is_an_empty_one() {
        let tags = tags_of("disk.used;host=web1;rack=a");
        for (expression, matches) in [
            ("name=disk.used", true),
            ("host=web1", true),
            ("host=web", false),
            ("host!=web2", true),
            ("host=~web", true),
            ("host=~eb1", false),
            ("host=~web1$", true),
            ("host=~a|web", true),
            ("host!=~web", false),
            ("zone=", true),
            ("zone!=", false),
            ("rack!=", true),
        ] {
            let parsed = TagExpression::parse(expression).unwrap();
            assert_eq!(parsed.matches(&tags), matches, "{expression}");
        }
        assert!(TagExpression::parse("a!=").unwrap().requires_tag());
        assert!(!TagExpression::parse("a=~.*").unwrap().requires_tag());
    }

    #[test]
    fn broken_expressions_are_errors() {
        for text in ["", "host", "=a", "host!web", "a;b=c"] {
            assert_eq!(
                TagExpression::parse(text).unwrap_err().to_string(),
                format!(
                    "'{text}' is not a valid tag expression: write tag=value, tag!=value, \
                     tag=~regex or tag!=~regex"
                )
            );
        }
        assert_eq!(
            TagExpression::parse("host=~(").unwrap_err().to_string(),
            "'(' is not a valid regular expression: unclosed group"
        );
    }
}
