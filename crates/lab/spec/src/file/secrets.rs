//! The text of an experiment without its secrets, as it is recorded.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// The text in which the values of headers that may be secret, bodies of requests, and what
/// [`base::redact`] finds are replaced by `***`. Text that is not TOML is only searched by the latter.
pub(crate) fn without_secrets(text: &str) -> String {
    let mut found = Vec::new();
    if let Ok(root) = DeTable::parse(text) {
        collect(root.get_ref(), &mut found);
    }
    found.sort_unstable_by_key(|(span, _)| span.start);
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    for (span, value) in found {
        shown += &text[at..span.start];
        shown += &toml::Value::String(value).to_string();
        at = span.end;
    }
    base::redact(&(shown + &text[at..]))
}

/// What to write instead of the values at these places of the text.
fn collect(table: &DeTable<'_>, found: &mut Vec<(Range<usize>, String)>) {
    for (key, value) in table {
        let hide: fn(&str) -> String = match key.get_ref().as_ref() {
            "headers" => base::redact_header,
            "body" => base::redact_body,
            _ => {
                tables_in(value.get_ref(), found);
                continue;
            }
        };
        let texts = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        for text in texts {
            if let DeValue::String(plain) = text.get_ref()
                && let shown = hide(plain)
                && shown != *plain
            {
                found.push((text.span(), shown));
            }
        }
    }
}

fn tables_in(value: &DeValue<'_>, found: &mut Vec<(Range<usize>, String)>) {
    match value {
        DeValue::Table(table) => collect(table, found),
        DeValue::Array(items) => items.iter().for_each(|item| tables_in(item.get_ref(), found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_bodies_are_hidden_wherever_they_stand() {
        let text = "[load]\nheaders = ['X-One: a\\b', \"Accept: */*\"] # plain\nbody = \"\"\"x\ny\"\"\"\n\
                    [stack.app]\nload = { headers = [\"X: 1\"], body = \"@file\" }\n\
                    [[variant]]\nload.body = \"x\"\nvars = { DB_PASS = \"x\", NAME = \"ä\" }\n";
        let shown = "[load]\nheaders = [\"X-One: ***\", \"Accept: */*\"] # plain\nbody = \"***\"\n\
                     [stack.app]\nload = { headers = [\"X: ***\"], body = \"@file\" }\n\
                     [[variant]]\nload.body = \"***\"\nvars = { DB_PASS = \"***\", NAME = \"ä\" }\n";
        assert_eq!(without_secrets(text), shown);
        assert_eq!(without_secrets(shown), shown);
        assert_eq!(without_secrets("not TOML, --token x"), "not TOML, --token ***");
    }
}
