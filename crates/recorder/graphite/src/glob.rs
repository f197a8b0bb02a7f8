//! Wildcards in paths: `*`, `?`, `[a-z]`, `[!a-z]` and `{a,b}`, each within one node.

use regex::{Regex, RegexBuilder};

use crate::{GraphiteError, parse::shortened};

/// Limit on the compiled size of a pattern, in bytes.
const COMPILED_MAX: usize = 1 << 20;

/// A path with wildcards. A node is the text between two dots.
#[derive(Clone, Debug)]
pub struct Glob {
    /// The path up to its first wildcard.
    prefix: String,
    /// Number of nodes.
    nodes: usize,
    /// `None` without wildcards.
    regex: Option<Regex>,
}

impl Glob {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// [`GraphiteError::Pattern`] for brackets that are not closed, and patterns that are too long.
    pub fn new(pattern: &str) -> Result<Glob, GraphiteError> {
        let wrong = |cause: &str| GraphiteError::Pattern {
            text: shortened(pattern),
            what: "path",
            cause: cause.to_owned(),
        };
        let wild = pattern.find(['*', '?', '[', '{']);
        let prefix = pattern[..wild.unwrap_or(pattern.len())].to_owned();
        let (regex, nodes) = translate(pattern).map_err(wrong)?;
        let regex = match wild {
            None => None,
            Some(_) => Some(
                RegexBuilder::new(&regex)
                    .size_limit(COMPILED_MAX)
                    .build()
                    .map_err(|_| wrong("it is too long"))?,
            ),
        };
        Ok(Glob { prefix, nodes, regex })
    }

    /// Whether a whole path matches.
    pub fn matches(&self, path: &str) -> bool {
        match &self.regex {
            Some(regex) => path.starts_with(&self.prefix) && regex.is_match(path),
            None => path == self.prefix,
        }
    }

    /// The path up to the first wildcard: every match begins with it.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether there are wildcards.
    pub fn is_wild(&self) -> bool {
        self.regex.is_some()
    }

    /// Number of nodes, as of every match.
    pub fn nodes(&self) -> usize {
        self.nodes
    }
}

/// The regular expression of a pattern, and its number of nodes.
fn translate(pattern: &str) -> Result<(String, usize), &'static str> {
    let mut regex = String::from("^(?s:");
    let mut nodes = 1;
    let mut braces = 0;
    let mut characters = pattern.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '*' => regex.push_str("[^.]*"),
            '?' => regex.push_str("[^.]"),
            '{' => {
                braces += 1;
                regex.push_str("(?:");
            }
            '}' if braces > 0 => {
                braces -= 1;
                regex.push(')');
            }
            ',' if braces > 0 => regex.push('|'),
            '[' => {
                let mut set = String::new();
                loop {
                    match characters.next() {
                        Some(']') if !set.is_empty() && set != "!" => break,
                        Some(c) => set.push(c),
                        None => return Err("a '[' is not closed"),
                    }
                }
                regex.push_str(&class(&set));
            }
            '.' => {
                nodes += usize::from(braces == 0);
                regex.push_str("\\.");
            }
            c => regex.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    if braces > 0 {
        return Err("a '{' is not closed");
    }
    regex.push_str(")$");
    Ok((regex, nodes))
}

/// The regular expression of `[a-z]`, given what is between the brackets.
fn class(set: &str) -> String {
    let (negated, set) = match set.strip_prefix('!') {
        Some(set) => (true, set),
        None => (false, set),
    };
    let mut class = String::from(if negated { "[^." } else { "[" });
    let characters: Vec<char> = set.chars().collect();
    for (place, c) in characters.iter().enumerate() {
        let inner = place > 0 && place + 1 < characters.len();
        if *c == '-' && inner && characters[place - 1] <= characters[place + 1] {
            class.push('-');
        } else {
            class.push_str(&format!("\\x{{{:x}}}", u32::from(*c)));
        }
    }
    class.push(']');
    class
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stay_within_a_node() {
        for (pattern, path, matches) in [
            ("a.*.c", "a.b.c", true),
            ("a.*.c", "a.b.d.c", false),
            ("a.*", "a.b.c", false),
            ("*", "a", true),
            ("*", "a.b", false),
            ("a?c", "abc", true),
            ("a?c", "a.c", false),
            ("web[0-9]", "web5", true),
            ("web[0-9]", "webx", false),
            ("web[!0-9]", "webx", true),
            ("web[!0-9]", "web.", false),
            ("web[]]", "web]", true),
            ("a.{b,c}.d", "a.c.d", true),
            ("a.{b,c*}.d", "a.cc.d", true),
            ("a.{b,{c,d}x}", "a.dx", true),
            ("a.{b,c}.d", "a.d.d", false),
            ("a.b", "a.b", true),
            ("a.b", "axb", false),
            ("a+.(b)*", "a+.(b)", true),
            ("a[z-a]", "a-", true),
        ] {
            assert_eq!(Glob::new(pattern).unwrap().matches(path), matches, "{pattern} {path}");
        }
        let glob = Glob::new("a.b*.{c,d}").unwrap();
        assert_eq!((glob.prefix(), glob.nodes(), glob.is_wild()), ("a.b", 3, true));
    }

    #[test]
    fn broken_patterns_are_errors() {
        assert_eq!(
            Glob::new("a.[b").unwrap_err().to_string(),
            "'a.[b' is not a valid path: a '[' is not closed"
        );
        assert_eq!(
            Glob::new("a.{b").unwrap_err().to_string(),
            "'a.{b' is not a valid path: a '{' is not closed"
        );
    }
}
