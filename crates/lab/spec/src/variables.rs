//! `$PORT`, `$SOCKET` and the other variables: finding and expanding them.
//!
//! A variable is `$NAME` or `${NAME}`, where NAME begins with an upper-case letter and continues
//! with upper-case letters, digits and underscores, so nginx's `$host` and a shell's `$1` stay as
//! they are.

use std::borrow::Cow;
use std::ops::Range;

/// Whether the runner expands this name; see [`crate::Stack`].
pub(crate) fn is_built_in(name: &str) -> bool {
    let numbered = |rest: &str| rest.is_empty() || matches!(rest.as_bytes(), [b'2'..=b'9']);
    name.strip_prefix("PORT").is_some_and(numbered)
        || name.strip_prefix("SOCKET").is_some_and(numbered)
        || matches!(
            name,
            "HOST" | "DIR" | "FILES" | "COUNTERS" | "TACHOGRAPH" | "CPUS" | "ADDRESS" | "GATEWAY"
        )
}

/// `$HOST` where client and stack are in one network of one machine.
pub const LOOPBACK: &str = "127.0.0.1";

/// The built-in names, for messages.
pub(crate) const BUILT_IN: [&str; 12] = [
    "HOST",
    "PORT",
    "PORT2",
    "SOCKET",
    "SOCKET2",
    "DIR",
    "FILES",
    "COUNTERS",
    "TACHOGRAPH",
    "CPUS",
    "ADDRESS",
    "GATEWAY",
];

/// One variable in a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VariableSpan<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Its byte range, including dollar sign and braces.
    pub(crate) range: Range<usize>,
}

/// Every variable of a text, in order.
pub(crate) fn find(text: &str) -> Vec<VariableSpan<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(dollar) = text[at..].find('$') {
        let start = at + dollar;
        let braced = text[start + 1..].starts_with('{');
        let name_start = start + 1 + usize::from(braced);
        let name = &text[name_start..name_start + name_length(&text[name_start..])];
        let name_end = name_start + name.len();
        at = name_end;
        if name.is_empty() || (braced && !text[name_end..].starts_with('}')) {
            continue;
        }
        at = name_end + usize::from(braced);
        found.push(VariableSpan { name, range: start..at });
    }
    found
}

fn name_length(text: &str) -> usize {
    if !text.starts_with(|c: char| c.is_ascii_uppercase()) {
        return 0;
    }
    let is_part = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    let length = text.bytes().position(|b| !is_part(b)).unwrap_or(text.len());
    // `$Name` is not ours: upper case followed by lower case belongs to another program.
    if text[length..].starts_with(|c: char| c.is_ascii_lowercase()) { 0 } else { length }
}

/// Whether the text contains the variable of a port or a socket, such as `$PORT2`.
pub(crate) fn names_place(text: &str) -> bool {
    let is_place = |name: &str| name.starts_with("PORT") || name.starts_with("SOCKET");
    find(text).iter().any(|found| is_place(found.name) && is_built_in(found.name))
}

/// Whether the text contains this variable.
pub(crate) fn names(text: &str, name: &str) -> bool {
    find(text).iter().any(|found| found.name == name)
}

/// The text with every variable expanded for which `value` returns one.
pub(crate) fn replace<'v>(text: &str, value: impl Fn(&str) -> Option<Cow<'v, str>>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for VariableSpan { name, range } in find(text) {
        if let Some(value) = value(name) {
            out.push_str(&text[at..range.start]);
            out.push_str(&value);
            at = range.end;
        }
    }
    out.push_str(&text[at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn capitals_are_variables_and_all_else_is_not() {
        let found = |text: &'static str| -> Vec<&'static str> {
            find(text).into_iter().map(|found| found.name).collect()
        };
        assert_eq!(found("-b 127.0.0.1:$PORT app"), ["PORT"]);
        assert_eq!(found("${SOCKET}.lock $PORT2$DIR/x $A_1"), ["SOCKET", "PORT2", "DIR", "A_1"]);
        assert_eq!(found("$host $1 $$ $ $Host ${PORT $SOCKETs"), [] as [&str; 0]);
        assert!(names("unix:${SOCKET}", "SOCKET") && !names("$SOCKET2 $SOCKETS", "SOCKET"));
    }

    #[test]
    fn only_what_is_known_is_replaced() {
        let value = |name: &str| (name == "BIND").then(|| Cow::from("unix:$SOCKET"));
        assert_eq!(
            replace("listen $BIND; ${BIND}! $host $OTHER", value),
            "listen unix:$SOCKET; unix:$SOCKET! $host $OTHER"
        );
    }

    #[test]
    fn built_in_names_are_known() {
        for name in BUILT_IN {
            assert!(is_built_in(name), "{name}");
        }
        for name in ["PORT1", "PORT10", "SOCKETS", "HOME", "HOSTS"] {
            assert!(!is_built_in(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn replacing_each_by_itself_changes_nothing(text in "[$A-Z{}a-z0-9_é ]{0,40}") {
            let same = replace(&text, |name| Some(Cow::from(format!("${{{name}}}"))));
            let again = replace(&same, |name| Some(Cow::from(format!("${{{name}}}"))));
            prop_assert_eq!(&same, &again);
            prop_assert_eq!(replace(&text, |_| None), text);
        }
    }
}
