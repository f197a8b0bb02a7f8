//! JSON Pointers (RFC 6901) with `*` for any one segment.

use std::borrow::Cow;
use std::str::FromStr;

/// A step from a value of JSON to one inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment<'a> {
    /// The member of this name.
    Name(Cow<'a, str>),
    /// The element with this index.
    Index(usize),
}

/// Places in a document of JSON: a JSON Pointer (RFC 6901) in which `*` stands for any one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPattern {
    /// Its segments, unescaped; `None` is `*`.
    segments: Vec<Option<String>>,
}

/// A text that is not a pointer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a JSON Pointer; write /name/0/name, with * for any name or index, ~1 for a slash and \
     ~0 for a tilde in a name"
)]
pub struct PointerError(String);

impl FromStr for JsonPattern {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<JsonPattern, PointerError> {
        let error = || PointerError(text.to_owned());
        let segments = match text.strip_prefix('/') {
            Some(rest) => rest.split('/').collect(),
            None if text.is_empty() => Vec::new(),
            None => return Err(error()),
        };
        let segment = |segment: &str| match segment {
            "*" => Ok(None),
            // A tilde begins `~0` or `~1` (RFC 6901, 3).
            _ if segment.replace("~0", "").replace("~1", "").contains('~') => Err(error()),
            _ => Ok(Some(segment.replace("~1", "/").replace("~0", "~"))),
        };
        let segments = segments.into_iter().map(segment).collect::<Result<_, _>>()?;
        Ok(JsonPattern { segments })
    }
}

impl JsonPattern {
    /// Whether the value at the end of this path is one of those that are meant.
    pub(crate) fn matches(&self, path: &[Segment<'_>]) -> bool {
        self.segments.len() == path.len()
            && self.segments.iter().zip(path).all(|(wanted, segment)| match (wanted, segment) {
                (None, _) => true,
                (Some(wanted), Segment::Name(name)) => wanted == name,
                // An index has no zero before it (RFC 6901, 4).
                (Some(wanted), Segment::Index(index)) => *wanted == index.to_string(),
            })
    }
}

/// A path as a pointer with `*` instead of indices.
pub(crate) fn grouped(path: &[Segment<'_>]) -> String {
    let segment = |segment: &Segment<'_>| match segment {
        Segment::Index(_) => "/*".to_owned(),
        Segment::Name(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
    };
    path.iter().map(segment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Segment<'_> {
        Segment::Name(name.into())
    }

    #[test]
    fn a_pattern_matches_what_rfc_6901_says_and_any_segment_at_an_asterisk() {
        let path = [name("items"), Segment::Index(10), name("a/b~c")];
        for (pattern, matches) in [
            ("/items/10/a~1b~0c", true),
            ("/items/*/a~1b~0c", true),
            ("/*/*/*", true),
            ("/items/010/a~1b~0c", false),
            ("/items/10", false),
            ("/items/10/a~1b~0c/x", false),
            ("/items/1/a~1b~0c", false),
            ("", false),
        ] {
            assert_eq!(
                pattern.parse::<JsonPattern>().unwrap().matches(&path),
                matches,
                "{pattern}"
            );
        }
        assert!("".parse::<JsonPattern>().unwrap().matches(&[]));
        assert!("/".parse::<JsonPattern>().unwrap().matches(&[name("")]));
        assert_eq!(grouped(&path), "/items/*/a~1b~0c");
    }

    /// The examples of RFC 6901, 5, with the names that they lead to.
    #[test]
    fn the_examples_of_the_rfc() {
        for (pointer, wanted) in [
            ("/foo", "foo"),
            ("/", ""),
            ("/a~1b", "a/b"),
            ("/c%d", "c%d"),
            ("/e^f", "e^f"),
            ("/g|h", "g|h"),
            ("/i\\j", "i\\j"),
            ("/k\"l", "k\"l"),
            ("/ ", " "),
            ("/m~0n", "m~n"),
            ("/~01", "~1"),
        ] {
            assert!(pointer.parse::<JsonPattern>().unwrap().matches(&[name(wanted)]), "{pointer}");
            assert_eq!(grouped(&[name(wanted)]), pointer);
        }
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        for text in ["a", "$.a", "/a~", "/a~2b", "/~~"] {
            let error = text.parse::<JsonPattern>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("'{text}' is not a JSON Pointer; write ")),
                "{error}"
            );
        }
    }
}
