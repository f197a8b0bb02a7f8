//! The variables of a stack: `$PORT`, `$SOCKET`, `$DIR` and the like.

use std::collections::BTreeMap;

/// Names with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Adds a variable or replaces it.
    pub(crate) fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// A variable's value.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All variables, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Expands `$NAME` and `${NAME}`. Unknown names stay, because nginx and shells have their own
    /// variables, and so does `\\$`.
    pub(crate) fn expand(&self, text: &str) -> String {
        self.expand_if(text, |_| true)
    }

    /// The same for variables whose value `suits`.
    pub(crate) fn expand_if(&self, text: &str, suits: impl Fn(&str) -> bool) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let (name, length) = reference(rest).unwrap_or(("", 1));
            let ours = if out.ends_with('\\') { None } else { self.get(name) };
            match ours.filter(|value| suits(value)) {
                Some(value) => out.push_str(value),
                None => out.push_str(&rest[..length]),
            }
            rest = &rest[length..];
        }
        out.push_str(rest);
        out
    }

    /// Whether a text that begins with `$` begins with one of our variables.
    pub(crate) fn is_reference(&self, text: &str) -> bool {
        reference(text).is_some_and(|(name, _)| self.0.contains_key(name))
    }
}

/// The name after a `$`, and the length of the reference in bytes.
fn reference(text: &str) -> Option<(&str, usize)> {
    let after = text.strip_prefix('$')?;
    let (name_part, braces) = match after.strip_prefix('{') {
        Some(inner) => (inner, true),
        None => (after, false),
    };
    let end = name_part
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(name_part.len());
    let name = &name_part[..end];
    if name.is_empty() || (braces && !name_part[end..].starts_with('}')) {
        return None;
    }
    Some((name, 1 + name.len() + if braces { 2 } else { 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_variables_are_replaced_and_others_are_left() {
        let mut vars = Variables::default();
        for (name, value) in [("PORT", "8000"), ("PORT2", "8001"), ("DIR", "/tmp/a b")] {
            vars.set(name, value);
        }
        for (text, expanded) in [
            ("127.0.0.1:$PORT", "127.0.0.1:8000"),
            ("$PORT2$PORT", "80018000"),
            ("${PORT}2 ${DIR}/x", "80002 /tmp/a b/x"),
            ("$PORTAL ${PORT $host $", "$PORTAL ${PORT $host $"),
            ("$$PORT é$", "$8000 é$"),
            ("\\$PORT", "\\$PORT"),
            ("", ""),
        ] {
            assert_eq!(vars.expand(text), expanded, "{text}");
        }
        assert_eq!(vars.expand_if("$DIR $PORT", |value| !value.contains(' ')), "$DIR 8000");
    }
}
