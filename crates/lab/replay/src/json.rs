//! How two documents of JSON differ by value.
//!
//! The texts are compared in place: values that are written alike are equal and are not read further,
//! and of the others only the members of one object at a time are held. Numbers keep all their digits,
//! which a tree of a library would round.

use std::borrow::Cow;
use std::collections::BTreeMap;

use record::{DifferenceKind, Pair, Side};
use serde::de::IgnoredAny;

use crate::answer::shortened;
use crate::decimal;
use crate::pointer::{JsonPattern, Segment, grouped};

/// Values at greater depth differ if they are written differently.
const DEPTH_MAX: usize = 128;

/// Kinds of difference of two documents that are told apart.
const KINDS_MAX: usize = 1_000;

/// Differences by kind, each with the values where it was found first.
pub(crate) type Differences = BTreeMap<DifferenceKind, Pair<String>>;

/// How two documents differ, except at the places to ignore; `None` if one of them is not JSON, or has
/// an object with two members of one name, whose value is not defined (RFC 8259, 4).
pub(crate) fn differences(old: &[u8], new: &[u8], ignored: &[JsonPattern]) -> Option<Differences> {
    let (old, new) = (document(old)?, document(new)?);
    let mut walk = Walk { ignored, path: Vec::new(), found: Differences::new() };
    walk.values(old, new).ok()?;
    Some(walk.found)
}

/// The text of a valid document without the space around it.
fn document(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    Some(text.trim_matches(SPACE))
}

/// The space of JSON (RFC 8259, 2).
const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// An object with two members of one name.
struct Ambiguity;

struct Walk<'a> {
    ignored: &'a [JsonPattern],
    path: Vec<Segment<'a>>,
    found: Differences,
}

impl<'a> Walk<'a> {
    /// Compares two values, which are valid and have no space around them.
    fn values(&mut self, old: &'a str, new: &'a str) -> Result<(), Ambiguity> {
        if old == new || self.is_ignored() {
            return Ok(());
        }
        let first = |text: &str| text.as_bytes().first().copied().unwrap_or_default();
        let is_number = |byte: u8| byte == b'-' || byte.is_ascii_digit();
        let are_equal = match (first(old), first(new)) {
            (b'{', b'{') if self.path.len() < DEPTH_MAX => return self.objects(old, new),
            (b'[', b'[') if self.path.len() < DEPTH_MAX => return self.arrays(old, new),
            (b'"', b'"') => unescaped(old) == unescaped(new),
            (a, b) if is_number(a) && is_number(b) => decimal::are_equal(old, new),
            _ => false,
        };
        if !are_equal {
            let pointer = grouped(&self.path);
            self.find(DifferenceKind::JsonValue { pointer }, old, new);
        }
        Ok(())
    }

    fn objects(&mut self, old: &'a str, new: &'a str) -> Result<(), Ambiguity> {
        let (old, new) = (members(old)?, members(new)?);
        for (name, value) in &old {
            self.path.push(Segment::Name(name.clone()));
            match new.get(name) {
                Some(other) => self.values(value, other)?,
                None => self.lone(Side::Old, value),
            }
            self.path.pop();
        }
        for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
            self.path.push(Segment::Name(name.clone()));
            self.lone(Side::New, value);
            self.path.pop();
        }
        Ok(())
    }

    /// Notes a member that only one object has.
    fn lone(&mut self, side: Side, value: &str) {
        if !self.is_ignored() {
            let kind = DifferenceKind::JsonMember { pointer: grouped(&self.path), side };
            match side {
                Side::Old => self.find(kind, value, "nothing"),
                Side::New => self.find(kind, "nothing", value),
            }
        }
    }

    /// Arrays of different lengths are not compared further: if an element was added in front, all
    /// others would differ.
    fn arrays(&mut self, old: &'a str, new: &'a str) -> Result<(), Ambiguity> {
        let counts = Pair { old: Parts::of(old).count(), new: Parts::of(new).count() };
        if counts.old != counts.new {
            let kind = DifferenceKind::JsonLength { pointer: grouped(&self.path) };
            let words = |count: usize| match count {
                1 => "1 element".to_owned(),
                _ => format!("{count} elements"),
            };
            self.find(kind, &words(counts.old), &words(counts.new));
            return Ok(());
        }
        for (index, (old, new)) in Parts::of(old).zip(Parts::of(new)).enumerate() {
            self.path.push(Segment::Index(index));
            self.values(old, new)?;
            self.path.pop();
        }
        Ok(())
    }

    fn is_ignored(&self) -> bool {
        self.ignored.iter().any(|pattern| pattern.matches(&self.path))
    }

    fn find(&mut self, kind: DifferenceKind, old: &str, new: &str) {
        if self.found.contains_key(&kind) || self.found.len() >= KINDS_MAX {
            return;
        }
        let is_secret = self
            .path
            .iter()
            .any(|segment| matches!(segment, Segment::Name(name) if base::is_secret_name(name)));
        let shown = |text: &str| match is_secret {
            true => "***".to_owned(),
            false => shortened(text.as_bytes()),
        };
        self.found.insert(kind, Pair { old: shown(old), new: shown(new) });
    }
}

/// The members of an object by name.
fn members(text: &str) -> Result<BTreeMap<Cow<'_, str>, &str>, Ambiguity> {
    let mut parts = Parts::of(text);
    let mut members = BTreeMap::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        if members.insert(unescaped(name), value).is_some() {
            return Err(Ambiguity);
        }
    }
    Ok(members)
}

/// A string without its quotes and escapes; one with half a surrogate pair, which is no text, as it is
/// written.
fn unescaped(text: &str) -> Cow<'_, str> {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    serde_json::from_str::<String>(text).map_or(Cow::Borrowed(inner), Cow::Owned)
}

/// The values in an array, or the names and values in an object, as they are written.
struct Parts<'a> {
    /// What follows, without the bracket at its end.
    rest: &'a str,
}

impl<'a> Parts<'a> {
    /// Those of a valid array or object.
    fn of(text: &'a str) -> Parts<'a> {
        Parts { rest: text.get(1..text.len().saturating_sub(1)).unwrap_or_default() }
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r', ',', ':']);
        if rest.is_empty() {
            return None;
        }
        let (part, rest) = rest.split_at(value_length(rest.as_bytes()));
        self.rest = rest;
        Some(part)
    }
}

/// The length of the value at the beginning of a valid text.
fn value_length(text: &[u8]) -> usize {
    let mut depth = 0u32;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at += string_length(&text[at..]),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            _ if depth > 0 => {
                at += 1;
                continue;
            }
            _ => {
                let is_end = |byte: &u8| matches!(byte, b',' | b' ' | b'\t' | b'\n' | b'\r');
                return text.iter().position(is_end).unwrap_or(text.len());
            }
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of the string at the beginning of a valid text, with its quotes.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn found(old: &str, new: &str, ignored: &[&str]) -> Option<Vec<String>> {
        let ignored: Vec<JsonPattern> = ignored.iter().map(|text| text.parse().unwrap()).collect();
        let found = differences(old.as_bytes(), new.as_bytes(), &ignored)?;
        let one = |(kind, values): (DifferenceKind, Pair<String>)| {
            let place = match kind {
                DifferenceKind::JsonValue { pointer } => format!("'{pointer}'"),
                DifferenceKind::JsonLength { pointer } => format!("length of '{pointer}'"),
                DifferenceKind::JsonMember { pointer, side } => {
                    format!("'{pointer}' only in {}", side.word())
                }
                other => format!("{other:?}"),
            };
            format!("{place}: {} | {}", values.old, values.new)
        };
        Some(found.into_iter().map(one).collect())
    }

    #[test]
    fn documents_that_mean_the_same_are_equal() {
        for (old, new) in [
            (r#"{"a":1,"b":[true,null]}"#, " { \"b\" : [ true , null ] ,\n\t\"a\" : 1.0 } \r\n"),
            (r#""é\/""#, r#""\u00e9/""#),
            (r#"{"\u0061":"x"}"#, r#"{"a":"\u0078"}"#),
            ("[]", "[ ]"),
            ("{}", "{\n}"),
            ("12e1", "120"),
            (r#"{"a":"b, c: {[\"","d":1}"#, r#"{"d":1, "a":"b, c: {[\u0022"}"#),
        ] {
            assert_eq!(found(old, new, &[]), Some(vec![]), "{old} {new}");
        }
    }

    #[test]
    fn each_kind_of_difference_has_its_place_and_values() {
        let old = r#"{"id":9007199254740993,"tags":["a"],"items":[{"n":1,"x":0},{"n":2}],"o":{}}"#;
        let new = r#"{"id":9007199254740992,"tags":[],"items":[{"n":1},{"n":"2"}],"o":[],"more":{"a":[1]}}"#;
        let all = [
            "'/id': 9007199254740993 | 9007199254740992",
            "'/items/*/n': 2 | \"2\"",
            "'/o': {} | []",
            "length of '/tags': 1 element | 0 elements",
            "'/items/*/x' only in old: 0 | nothing",
            "'/more' only in new: nothing | {\"a\":[1]}",
        ];
        assert_eq!(found(old, new, &[]).unwrap(), all);
        let ignored = ["/id", "/items/*/n", "/o", "/tags", "/items/0/x", "/more"];
        assert_eq!(found(old, new, &ignored).unwrap(), [""; 0]);
        assert_eq!(found(old, new, &["/*/*/*", "/*"]).unwrap(), [""; 0]);
        assert_eq!(found(old, new, &[""]).unwrap(), [""; 0]);
        assert_eq!(found("1", "2", &[]).unwrap(), ["'': 1 | 2"]);
        assert_eq!(found("null", "false", &[]).unwrap(), ["'': null | false"]);
    }

    #[test]
    fn values_that_are_secrets_are_not_shown() {
        let shown = found(r#"{"api_token":"a1"}"#, r#"{"api_token":"b2"}"#, &[]).unwrap();
        assert_eq!(shown, ["'/api_token': *** | ***"]);
    }

    #[test]
    fn what_has_no_value_is_not_compared_by_value() {
        for (old, new) in [
            ("{", "{}"),
            ("{}", "nonsense"),
            ("", "1"),
            ("1 2", "1"),
            (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#),
            ("\u{feff}1", "1"),
        ] {
            assert_eq!(found(old, new, &[]), None, "{old} {new}");
        }
        assert!(differences(b"\"\xff\"", b"\"\xfe\"", &[]).is_none());
    }

    #[test]
    fn deep_documents_are_compared_without_a_deep_stack() {
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(found(&deep("1"), &deep("1"), &[]), Some(vec![]));
        assert_eq!(found(&deep("1"), &deep("2"), &[]).unwrap().len(), 1);
    }

    /// A document, and how many of its values are inside others.
    fn document() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 48, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|members| members.into_iter().collect::<Value>()),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_difference_is_found_exactly_if_the_values_are_equal(a in document(), b in document()) {
            let (compact, pretty) = (a.to_string(), format!("{a:#}"));
            prop_assert_eq!(found(&compact, &pretty, &[]), Some(vec![]));
            let found = found(&compact, &format!("{b:#}"), &[]).unwrap();
            prop_assert_eq!(found.is_empty(), a == b, "{:?}", found);
        }

        #[test]
        fn a_leaf_that_is_changed_is_found_at_its_place(a in document(), pick: prop::sample::Index) {
            let mut leaves = Vec::new();
            pointers(&a, String::new(), &mut leaves);
            let pointer = pick.get(&leaves);
            let mut b = a.clone();
            *b.pointer_mut(pointer).unwrap() = Value::from("changed by the test");
            let found = differences(a.to_string().as_bytes(), b.to_string().as_bytes(), &[]).unwrap();
            prop_assert_eq!(found.len(), 1, "{:?}", found);
            let ignored = [pointer.parse().unwrap()];
            let rest = differences(a.to_string().as_bytes(), b.to_string().as_bytes(), &ignored);
            prop_assert!(pointer.split('/').any(|s| s == "*") || rest.unwrap().is_empty());
        }

        #[test]
        fn any_bytes_are_compared_without_panic(a: Vec<u8>, b in "[\\[\\]{}\",:\\\\u0-9a-f \\-.e]{0,40}") {
            let _ = differences(&a, b.as_bytes(), &[]);
            let _ = differences(b.as_bytes(), b"{}", &[]);
        }
    }

    /// The places of all leaves.
    fn pointers(value: &Value, at: String, leaves: &mut Vec<String>) {
        let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
        match value {
            Value::Array(values) if !values.is_empty() => {
                for (index, value) in values.iter().enumerate() {
                    pointers(value, format!("{at}/{index}"), leaves);
                }
            }
            Value::Object(members) if !members.is_empty() => {
                for (name, value) in members {
                    pointers(value, format!("{at}/{}", escaped(name)), leaves);
                }
            }
            _ => leaves.push(at),
        }
    }
}
