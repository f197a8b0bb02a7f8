//! Parses targets: `alias(sumSeries(servers.*.{cpu,load}), 'all')`.
//!
//! The grammar is the one that Graphite's render API documents, with pipes
//! (`servers.*.cpu | scale(2)`), but without `template()`. Unlike Graphite's, it accepts no text
//! after the expression.

use crate::{GraphiteError, Number};

/// Limit on the length of a target, in bytes.
pub const TARGET_BYTES_MAX: usize = 64 * 1024;

/// Limit on the nesting of calls.
pub const DEPTH_MAX: usize = 64;

/// Limit on the arguments of all calls of a target.
const ARGUMENTS_MAX: usize = 4_096;

/// A parsed target or argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A path, possibly with wildcards.
    Path(String),
    /// A function call.
    Call(Call),
    /// A number.
    Number(Number),
    /// A quoted text.
    Text(String),
    /// `true` or `false`.
    Boolean(bool),
    /// `none`.
    None,
    /// `inf`.
    Infinity,
}

/// A function call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The function's name.
    pub name: String,
    /// The arguments without a name.
    pub arguments: Vec<Expression>,
    /// The arguments with a name: `func='max'`.
    pub named: Vec<(String, Expression)>,
    /// The call as it was written.
    pub text: String,
}

/// Parses a target.
///
/// # Errors
/// [`GraphiteError::Syntax`] with the position, and [`GraphiteError::Limit`].
pub fn parse(target: &str) -> Result<Expression, GraphiteError> {
    if target.len() > TARGET_BYTES_MAX {
        return Err(GraphiteError::Limit {
            what: format!("has a target of {} bytes", target.len()),
            limit: TARGET_BYTES_MAX as u64,
            remedy: "use wildcards instead of a list of names",
        });
    }
    let mut parser = Parser { target, at: 0, arguments: 0 };
    let parsed = parser.piped(0)?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(parsed),
        Some(_) => Err(parser.expected("the end of the target")),
    }
}

/// The first path in a name such as `scale(sumSeries(a.*.b),2)`; `None` if there is none.
pub(crate) fn first_path(name: &str) -> Option<String> {
    let mut expression = parse(name).ok()?;
    loop {
        match expression {
            Expression::Path(path) => return Some(path),
            Expression::Call(call) => expression = call.arguments.into_iter().next()?,
            _ => return None,
        }
    }
}

struct Parser<'t> {
    target: &'t str,
    /// The position, in bytes.
    at: usize,
    /// Number of arguments so far.
    arguments: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.target[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn take(&mut self, wanted: char) -> bool {
        self.skip_space();
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn expected(&self, expected: &'static str) -> GraphiteError {
        let at = self.target[..self.at].chars().count() + 1;
        GraphiteError::Syntax { target: shortened(self.target), at, expected }
    }

    /// An expression and the calls that it is piped to.
    fn piped(&mut self, depth: usize) -> Result<Expression, GraphiteError> {
        let start = self.at;
        let mut expression = self.expression(depth)?;
        let mut calls = 0;
        while self.take('|') {
            calls += 1;
            if depth + calls > DEPTH_MAX {
                return Err(self.too_deep());
            }
            self.skip_space();
            match self.expression(depth + 1)? {
                Expression::Call(mut call) => {
                    call.arguments.insert(0, expression);
                    call.text = self.target[start..self.at].to_owned();
                    expression = Expression::Call(call);
                }
                _ => return Err(self.expected("a function call after '|'")),
            }
        }
        Ok(expression)
    }

    fn too_deep(&self) -> GraphiteError {
        GraphiteError::Limit {
            what: "nests calls too deeply".to_owned(),
            limit: DEPTH_MAX as u64,
            remedy: "remove some of them",
        }
    }

    /// A path or a call.
    fn expression(&mut self, depth: usize) -> Result<Expression, GraphiteError> {
        if depth > DEPTH_MAX {
            return Err(self.too_deep());
        }
        self.skip_space();
        let start = self.at;
        let word = self.word()?;
        let is_name = is_identifier(&self.target[start..self.at]);
        if is_name && self.take('(') {
            let mut call =
                Call { name: word, arguments: Vec::new(), named: Vec::new(), text: String::new() };
            self.arguments_of(&mut call, depth)?;
            call.text = self.target[start..self.at].to_owned();
            return Ok(Expression::Call(call));
        }
        Ok(Expression::Path(word))
    }

    fn arguments_of(&mut self, call: &mut Call, depth: usize) -> Result<(), GraphiteError> {
        if self.take(')') {
            return Ok(());
        }
        loop {
            self.arguments += 1;
            if self.arguments > ARGUMENTS_MAX {
                return Err(GraphiteError::Limit {
                    what: "has too many arguments".to_owned(),
                    limit: ARGUMENTS_MAX as u64,
                    remedy: "use wildcards instead of a list of names",
                });
            }
            match self.name() {
                Some(name) => {
                    let value = self.argument(depth + 1)?;
                    call.named.push((name, value));
                }
                None if call.named.is_empty() => {
                    let value = self.argument(depth + 1)?;
                    call.arguments.push(value);
                }
                None => return Err(self.expected("name=value, as in the argument before")),
            }
            if self.take(')') {
                return Ok(());
            }
            if !self.take(',') {
                return Err(self.expected("',' or ')'"));
            }
        }
    }

    /// The name in `name=value`, which it skips together with the sign.
    fn name(&mut self) -> Option<String> {
        self.skip_space();
        let rest = self.rest();
        let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
        let (name, after) = rest.split_at(length);
        let after = after.trim_start();
        let value = after.strip_prefix('=')?;
        if !is_identifier(name) {
            return None;
        }
        let name = name.to_owned();
        self.at = self.target.len() - value.len();
        Some(name)
    }

    fn argument(&mut self, depth: usize) -> Result<Expression, GraphiteError> {
        self.skip_space();
        if let Some(quote @ ('"' | '\'')) = self.peek() {
            let start = self.at + 1;
            let length = self.target[start..].find(quote);
            let Some(length) = length else { return Err(self.expected("a closing quote")) };
            self.at = start + length + 1;
            return Ok(Expression::Text(self.target[start..start + length].to_owned()));
        }
        let start = self.at;
        let expression = self.piped(depth)?;
        let Expression::Path(_) = expression else { return Ok(expression) };
        let word = self.target[start..self.at].trim();
        let literal = match word.to_ascii_lowercase().as_str() {
            "true" => Some(Expression::Boolean(true)),
            "false" => Some(Expression::Boolean(false)),
            "none" => Some(Expression::None),
            "inf" => Some(Expression::Infinity),
            _ => Number::parse(word).map(Expression::Number),
        };
        Ok(literal.unwrap_or(expression))
    }

    /// The characters of a path or a name; a backslash makes the next one ordinary.
    fn word(&mut self) -> Result<String, GraphiteError> {
        let mut word = String::new();
        let mut braces = 0_usize;
        let mut characters = self.target[self.at..].char_indices();
        let mut end = self.target.len() - self.at;
        while let Some((at, c)) = characters.next() {
            match c {
                '\\' => match characters.next() {
                    Some((_, escaped)) => word.push(escaped),
                    None => {
                        self.at = self.target.len();
                        return Err(self.expected("a character after the backslash"));
                    }
                },
                '{' => {
                    braces += 1;
                    word.push(c);
                }
                '}' if braces > 0 => {
                    braces -= 1;
                    word.push(c);
                }
                ',' if braces > 0 => word.push(c),
                '(' | ')' | ',' | '\'' | '"' | '|' | '}' => {
                    end = at;
                    break;
                }
                c if c.is_whitespace() || c.is_control() => {
                    end = at;
                    break;
                }
                c => word.push(c),
            }
        }
        self.at += end;
        if braces > 0 {
            return Err(self.expected("'}'"));
        }
        if word.is_empty() {
            return Err(self.expected("a path or a function"));
        }
        Ok(word)
    }
}

fn is_identifier(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The beginning of a long text.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(target: &str) -> Call {
        match parse(target) {
            Ok(Expression::Call(call)) => call,
            other => panic!("{target}: {other:?}"),
        }
    }

    #[test]
    fn targets_as_grafana_sends_them() {
        let alias = call("alias(sumSeries(servers.*.{cpu,load}), 'all, of them')");
        assert_eq!(alias.name, "alias");
        assert_eq!(alias.arguments[1], Expression::Text("all, of them".to_owned()));
        let Expression::Call(sum) = &alias.arguments[0] else { panic!() };
        assert_eq!(sum.arguments, [Expression::Path("servers.*.{cpu,load}".to_owned())]);
        assert_eq!(sum.text, "sumSeries(servers.*.{cpu,load})");

        let named = call("summarize(a.b, \"1h\", func = 'max', alignToFrom=true)");
        assert_eq!(named.arguments.len(), 2);
        assert_eq!(named.named[0], ("func".to_owned(), Expression::Text("max".to_owned())));
        assert_eq!(named.named[1], ("alignToFrom".to_owned(), Expression::Boolean(true)));

        let tagged = call("seriesByTag('name=disk.used', 'host=~web(1|2)')");
        assert_eq!(tagged.arguments[1], Expression::Text("host=~web(1|2)".to_owned()));
        assert_eq!(parse("a;b=c"), Ok(Expression::Path("a;b=c".to_owned())));
        assert_eq!(parse(" a-b.c:d#A "), Ok(Expression::Path("a-b.c:d#A".to_owned())));
        assert_eq!(parse("a\\(b\\)"), Ok(Expression::Path("a(b)".to_owned())));
        assert_eq!(call("f( )").arguments, []);
    }

    #[test]
    fn literals_are_not_paths() {
        let numbers = call("f(1, -2.5, 1e3, 1.a, true, None, inf, 12)");
        let number = |value, is_integer| Expression::Number(Number { value, is_integer });
        assert_eq!(
            numbers.arguments,
            [
                number(1.0, true),
                number(-2.5, false),
                number(1e3, false),
                Expression::Path("1.a".to_owned()),
                Expression::Boolean(true),
                Expression::None,
                Expression::Infinity,
                number(12.0, true),
            ]
        );
    }

    #[test]
    fn a_pipe_is_the_first_argument() {
        let piped = call("a.* | scale(2) | alias('x')");
        assert_eq!(piped.name, "alias");
        let Expression::Call(scale) = &piped.arguments[0] else { panic!() };
        assert_eq!(scale.arguments[0], Expression::Path("a.*".to_owned()));
        assert_eq!(first_path("alias(scale(a.b,2),'x')").as_deref(), Some("a.b"));
        assert_eq!(first_path("seriesByTag('a=b')"), None);
    }

    #[test]
    fn errors_say_where() {
        for (target, at, expected) in [
            ("", 1, "a path or a function"),
            ("scale(a.b, 2", 13, "',' or ')'"),
            ("scale(a.b 2)", 11, "',' or ')'"),
            ("a.b)", 4, "the end of the target"),
            ("a.{b", 5, "'}'"),
            ("alias(a, 'x)", 10, "a closing quote"),
            ("alias(,a)", 7, "a path or a function"),
            ("f(a=1, b)", 8, "name=value, as in the argument before"),
            ("a | b", 6, "a function call after '|'"),
            ("über(", 5, "the end of the target"),
            ("a\\", 3, "a character after the backslash"),
        ] {
            let error = GraphiteError::Syntax { target: target.to_owned(), at, expected };
            assert_eq!(parse(target), Err(error), "{target}");
        }
        assert_eq!(
            parse("scale(a").unwrap_err().to_string(),
            "cannot parse the target 'scale(a' at character 8: expected ',' or ')'"
        );
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        let deep = "f(".repeat(10_000);
        assert!(matches!(parse(&deep), Err(GraphiteError::Limit { .. })));
        let pipes = format!("a{}", "|f()".repeat(10_000));
        assert!(matches!(parse(&pipes), Err(GraphiteError::Limit { .. })));
        let long = "a".repeat(TARGET_BYTES_MAX + 1);
        assert_eq!(
            parse(&long).unwrap_err().to_string(),
            "the query has a target of 65537 bytes, but the limit is 65536; use wildcards instead \
             of a list of names"
        );
    }
}
