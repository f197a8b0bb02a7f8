//! A complete answer.

use drive::http::Sink;
use sha2::{Digest as _, Sha256};

/// The part of a body that is kept; of the rest, only its length and its hash are.
pub(crate) const BODY_MAX: usize = 16 << 20;

/// Limit on the header lines of an answer, as the reader has it.
const HEADERS_MAX: usize = 128;

/// Limits on what is shown of a value, in characters, and on what is shown before its first difference.
const SHOWN_MAX: usize = 100;
const BEFORE_MAX: usize = 30;

/// A complete answer to a request.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The status line and the headers, as received.
    head: Vec<u8>,
    pub(crate) body: Body,
}

impl Answer {
    /// The values of the header of this name, in their order.
    pub(crate) fn header(&self, name: &str) -> Vec<&[u8]> {
        let mut lines = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut lines);
        // The reader has parsed it before.
        let _ = response.parse(&self.head);
        let named = response.headers.iter().filter(|line| line.name.eq_ignore_ascii_case(name));
        named.map(|line| line.value).collect()
    }

    /// Whether the headers are the same, byte by byte.
    pub(crate) fn has_head_of(&self, other: &Answer) -> bool {
        self.head == other.head
    }

    /// The body if all of it is there and its type says that it is JSON: `application/json`,
    /// `application/problem+json`.
    pub(crate) fn json(&self) -> Option<&[u8]> {
        let values = self.header("content-type");
        let media = values.first()?.split(|byte| *byte == b';').next().unwrap_or_default();
        let media = media.trim_ascii().to_ascii_lowercase();
        let is_json = media.ends_with(b"/json") || media.ends_with(b"+json");
        (is_json && self.body.rest.is_none()).then_some(&self.body.kept)
    }
}

impl Sink for Answer {
    fn head(&mut self, bytes: &[u8]) {
        self.head.extend_from_slice(bytes);
    }

    fn status(&mut self, status: u16) {
        self.status = status;
    }

    fn body(&mut self, bytes: &[u8]) {
        self.body.push(bytes);
    }
}

/// A body of any length.
#[derive(Debug, Default)]
pub(crate) struct Body {
    length: u64,
    /// Its beginning.
    kept: Vec<u8>,
    /// The hash of what follows.
    rest: Option<Sha256>,
}

impl Body {
    fn push(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        let (kept, rest) = bytes.split_at(bytes.len().min(BODY_MAX - self.kept.len()));
        self.kept.extend_from_slice(kept);
        if !rest.is_empty() {
            self.rest.get_or_insert_default().update(rest);
        }
    }

    /// Whether both have the same bytes.
    pub(crate) fn equals(&self, other: &Body) -> bool {
        let hash = |body: &Body| body.rest.clone().map(Sha256::finalize);
        self.length == other.length && self.kept == other.kept && hash(self) == hash(other)
    }

    /// What to show of it beside another one that differs: its length, and the bytes around the first
    /// difference.
    pub(crate) fn beside(&self, other: &Body) -> String {
        let pairs = self.kept.iter().zip(&other.kept);
        let at = pairs.take_while(|(a, b)| a == b).count();
        let from = match self.kept.len() {
            length if length <= SHOWN_MAX => 0,
            _ => at.saturating_sub(BEFORE_MAX),
        };
        let before = if from > 0 { "…" } else { "" };
        let bytes = base::format_count(self.length);
        let s = if self.length == 1 { "" } else { "s" };
        format!("{bytes} byte{s}: {before}{}", shortened(&self.kept[from..]))
    }
}

/// Bytes as a text on one line of a readable length.
pub(crate) fn shortened(bytes: &[u8]) -> String {
    let part = &bytes[..bytes.len().min(SHOWN_MAX * 4)];
    let text = String::from_utf8_lossy(part);
    let mut shown = String::new();
    let mut chars = text.chars();
    for c in chars.by_ref().take(SHOWN_MAX) {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    if chars.next().is_some() || part.len() < bytes.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(parts: &[&[u8]]) -> Body {
        let mut body = Body::default();
        parts.iter().for_each(|part| body.push(part));
        body
    }

    #[test]
    fn bodies_beyond_the_limit_are_compared_to_their_last_byte() {
        let most = vec![b'a'; BODY_MAX - 1];
        for (a, b, equal) in [
            (body(&[&most, b"bcd"]), body(&[&most, b"b", b"cd"]), true),
            (body(&[&most, b"bcd"]), body(&[&most, b"bce"]), false),
            (body(&[&most, b"bcd"]), body(&[&most, b"bc"]), false),
            (body(&[&most, b"b"]), body(&[&most, b"b"]), true),
            (body(&[]), body(&[b""]), true),
        ] {
            assert_eq!(a.equals(&b), equal);
            assert!(a.kept.len() <= BODY_MAX);
        }
    }

    #[test]
    fn a_difference_is_shown_with_what_is_before_it() {
        let text = |end: &str| body(&["x".repeat(200).as_bytes(), end.as_bytes()]);
        let shown = text("old\n").beside(&text("new\n"));
        assert_eq!(shown, format!("204 bytes: …{}old\\n", "x".repeat(30)));
        assert_eq!(body(&[b"a"]).beside(&body(&[])), "1 byte: a");
        assert_eq!(body(&[]).beside(&body(&[b"a"])), "0 bytes: ");
        let long = body(&["ü".repeat(300).as_bytes()]).beside(&body(&[]));
        assert_eq!(long, format!("600 bytes: {}…", "ü".repeat(100)));
    }
}
