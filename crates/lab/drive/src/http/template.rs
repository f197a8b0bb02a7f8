//! The fast path: heads that repeat except for some values.
//!
//! A server repeats the same head for the same request, except for the Date and perhaps a few other
//! values. Comparing it with an already parsed head costs a fraction of parsing it, and must give
//! the same result:
//!
//! ```text
//! HTTP/1.1 200 OK␍␊Server: x␍␊Date:          ␍␊Content-Length: 12␍␊␍␊
//! └────────── literal ────────────┘└─ hole ─┘└────── literal ────────┘
//! ```
//!
//! - The literals are compared byte for byte, from the first byte to the empty line.
//! - A hole is the whole value of a field without influence on framing. It accepts only printable
//!   ASCII, which the parser skips and which contains no line end, so the lines stay the same.
//!
//! Everything else goes to the parser.

use std::sync::OnceLock;

use super::HEAD_MAX;
use super::head::{ResponseHead, is_about_framing};

/// Number of heads kept. One is enough for a usual server; two more learn which other values vary;
/// a server with more different heads uses the parser.
const KEPT: usize = 4;

/// Limit on the length of a kept head.
const LENGTH_MAX: usize = 8192;

/// Parsed heads, shared by the readers of one session.
#[derive(Debug, Default)]
pub(super) struct Heads([OnceLock<Template>; KEPT]);

impl Heads {
    /// Matches the head at the beginning of `bytes` with the kept ones; its content and length.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<(ResponseHead, usize)> {
        // Newest first: it has all holes of the older ones, and more.
        self.0.iter().rev().filter_map(OnceLock::get).find_map(|template| {
            let length = template.fits(bytes)?;
            Some((template.head, length))
        })
    }

    /// Keeps the head `bytes`, which was parsed as `head`, if there is room. A value that differs
    /// from a kept head with the same field names becomes a hole.
    pub(super) fn learn(&self, bytes: &[u8], head: ResponseHead) {
        let Some(room) = self.0.iter().position(|slot| slot.get().is_none()) else { return };
        let alike = self.0[..room].iter().rev().filter_map(OnceLock::get);
        let template = alike
            .filter(|known| known.head == head)
            .find_map(|known| Template::new(bytes, head, Some(known)))
            .or_else(|| Template::new(bytes, head, None));
        if let Some(template) = template {
            // If another thread was faster, this head is parsed once more.
            let _ = self.0[room].set(template);
        }
    }
}

/// A head with holes for the values that vary.
#[derive(Debug)]
struct Template {
    /// The head without these values.
    text: Box<[u8]>,
    /// The positions of these values in `text`, ascending. Each is followed by CRLF.
    holes: Box<[usize]>,
    head: ResponseHead,
}

impl Template {
    /// The template of a head that was parsed as `head`. Holes are the Date and all values that
    /// differ from `known`, whose lines must have the same names.
    fn new(bytes: &[u8], head: ResponseHead, known: Option<&Template>) -> Option<Template> {
        if bytes.len() > LENGTH_MAX {
            return None;
        }
        let (mut text, mut holes) = (Vec::with_capacity(bytes.len()), Vec::new());
        let mut known_lines = known.map(|known| HeadLines(&known.text));
        for (i, line) in HeadLines(bytes).enumerate() {
            let line = line?;
            let known_line = match &mut known_lines {
                Some(lines) => Some(lines.next()??),
                None => None,
            };
            // The first line is not a field, even if it looks like one.
            let colon = memchr::memchr(b':', line).filter(|_| i > 0);
            let name = colon.map(|colon| &line[..colon]);
            let differs = known_line.is_some_and(|known| known != line);
            let same_name = match (name, known_line) {
                (Some(name), Some(known)) => known.get(..=name.len()) == line.get(..=name.len()),
                _ => true,
            };
            let varies = differs || name.is_some_and(|n| n.eq_ignore_ascii_case(b"date"));
            match name {
                Some(name) if varies && same_name && !is_about_framing(name) => {
                    text.extend_from_slice(&line[..=name.len()]);
                    holes.push(text.len());
                }
                _ if differs => return None,
                _ => text.extend_from_slice(line),
            }
            text.extend_from_slice(b"\r\n");
        }
        if known_lines.is_some_and(|mut lines| lines.next().is_some()) {
            return None;
        }
        Some(Template { text: text.into(), holes: holes.into(), head })
    }

    /// The length of the head at the beginning of `bytes`, if it matches.
    fn fits(&self, bytes: &[u8]) -> Option<usize> {
        let (mut rest, mut from) = (bytes, 0);
        for hole in &self.holes {
            rest = rest.strip_prefix(&self.text[from..*hole])?;
            let value = &rest[..memchr::memchr(b'\r', rest)?];
            if !is_printable(value) {
                return None;
            }
            rest = &rest[value.len()..];
            from = *hole;
        }
        rest = rest.strip_prefix(&self.text[from..])?;
        Some(bytes.len() - rest.len()).filter(|length| *length <= HEAD_MAX)
    }
}

/// Whether all bytes are printable ASCII. No early return, so that the loop is vectorised.
fn is_printable(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |all, byte| all & matches!(byte, b' '..=b'~'))
}

/// Lines without their CRLF; `None` for a line that does not end in CRLF.
struct HeadLines<'a>(&'a [u8]);

impl<'a> Iterator for HeadLines<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        if self.0.is_empty() {
            return None;
        }
        let end =
            memchr::memchr2(b'\r', b'\n', self.0).filter(|at| self.0[*at..].starts_with(b"\r\n"));
        let line = end.map(|end| &self.0[..end]);
        self.0 = end.map_or(&[], |end| &self.0[end + 2..]);
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head;

    fn crlf(text: &str) -> Vec<u8> {
        text.replace('\n', "\r\n").into_bytes()
    }

    /// Learns the heads one after another, as a reader does with heads that do not match.
    fn learned(texts: &[&str]) -> Heads {
        let heads = Heads::default();
        for text in texts {
            let bytes = crlf(text);
            if heads.find(&bytes).is_none() {
                heads.learn(&bytes, head::parse(&bytes, false).unwrap());
            }
        }
        heads
    }

    fn kept(heads: &Heads) -> usize {
        heads.0.iter().filter(|slot| slot.get().is_some()).count()
    }

    const HELLO: &str =
        "HTTP/1.1 200 OK\nServer: x\nDate: Thu, 01 Jan 1970 00:00:00 GMT\nContent-Length: 12\n\n";

    #[test]
    fn a_head_fits_with_another_date_and_with_bytes_after_it() {
        let heads = learned(&[HELLO]);
        for (from, to) in [("", ""), ("Jan", "Feb"), ("Thu, 01 Jan", ""), ("GMT", "GMT and more")] {
            let bytes = crlf(&HELLO.replace(from, to));
            let found = heads.find(&[&bytes[..], b"Hello World!"].concat());
            assert_eq!(found, Some((head::parse(&bytes, false).unwrap(), bytes.len())), "{to}");
        }
    }

    #[test]
    fn what_differs_anywhere_else_does_not_fit() {
        let heads = learned(&[HELLO]);
        for (from, to) in [
            ("200", "201"),
            ("200 OK", "200 Ok"),
            ("Server: x", "Server: y"),
            ("Server: x\n", ""),
            ("Server: x\n", "Server: x\nServer: x\n"),
            ("12", "13"),
            ("12", "12 "),
            ("Date", "date"),
            ("GMT", "GMT\u{7f}"),
            ("GMT", "G\tMT"),
            ("GMT", "GM\u{e9}"),
            ("GMT\n", "GMT\n folded\n"),
            ("GMT\n", "GMT\nConnection: close\n"),
            ("\n\n", "\n"),
        ] {
            assert_eq!(heads.find(&crlf(&HELLO.replace(from, to))), None, "{from:?} to {to:?}");
        }
        let bytes = crlf(HELLO);
        for end in 0..bytes.len() {
            assert_eq!(heads.find(&bytes[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn a_value_that_varies_is_learned_and_one_that_frames_is_not() {
        let id = |n: u32| format!("HTTP/1.1 200 OK\nX-Id: {n}\nContent-Length: 1\n\n");
        let heads = learned(&[&id(1), &id(2)]);
        assert_eq!(kept(&heads), 2);
        assert!(heads.find(&crlf(&id(333))).is_some());

        let length = |n: u32| format!("HTTP/1.1 200 OK\nContent-Length: {n}\n\n");
        let heads = learned(&[&length(1), &length(2)]);
        assert!(heads.find(&crlf(&length(2))).is_some());
        assert!(heads.find(&crlf(&length(3))).is_none());
    }

    #[test]
    fn fields_of_framing_never_become_holes() {
        for [first, second, third] in [
            ["Connection: x", "Connection: y", "Connection: z"],
            ["content-length: 7", "content-length: 07", "content-length: 007"],
            [
                "Transfer-Encoding: chunked",
                "Transfer-Encoding: Chunked",
                "Transfer-Encoding: chunkeD",
            ],
        ] {
            let text = |field: &str| format!("HTTP/1.1 200 OK\n{field}\n\n");
            let heads = learned(&[&text(first), &text(second)]);
            assert_eq!(kept(&heads), 2, "{first}");
            assert!(heads.find(&crlf(&text(second))).is_some(), "{second}");
            assert!(heads.find(&crlf(&text(third))).is_none(), "{third}");
        }
    }

    #[test]
    fn several_values_that_vary_become_several_holes() {
        let text = |a: &str, b: &str| {
            format!("HTTP/1.1 200 OK\nA: {a}\nDate: {a}\nContent-Length: 0\nB: {b}\n\n")
        };
        let heads = learned(&[&text("1", "1"), &text("2", "1"), &text("2", "2")]);
        assert_eq!(kept(&heads), 3);
        assert!(heads.find(&crlf(&text("some", "thing"))).is_some());
    }

    #[test]
    fn two_shapes_are_kept_beside_each_other_and_no_more_than_there_is_room_for() {
        let shape = |n: usize| format!("HTTP/1.1 200 OK\nX-{n}: y\nContent-Length: 1\n\n");
        let shapes: Vec<String> = (0..10).map(shape).collect();
        let texts: Vec<&str> = shapes.iter().map(String::as_str).collect();
        let heads = learned(&texts);
        for (n, text) in texts.iter().enumerate() {
            assert_eq!(heads.find(&crlf(text)).is_some(), n < KEPT, "{n}");
        }
    }

    #[test]
    fn lines_that_end_in_lf_alone_are_left_to_the_parser() {
        let bytes = b"HTTP/1.1 200 OK\nDate: x\r\n\r\n";
        let heads = Heads::default();
        heads.learn(bytes, head::parse(bytes, false).unwrap());
        assert_eq!(kept(&heads), 0);
    }

    #[test]
    fn a_status_line_with_a_colon_has_no_hole() {
        let heads = learned(&["HTTP/1.1 200 a:b\n\n", "HTTP/1.1 200 a:c\n\n"]);
        assert!(heads.find(b"HTTP/1.1 200 a:d\r\n\r\n").is_none());
    }

    #[test]
    fn a_hole_does_not_stretch_a_head_beyond_its_limit() {
        let heads = learned(&["HTTP/1.1 204 No\nDate: x\n\n"]);
        let long = crlf(&format!("HTTP/1.1 204 No\nDate: {}\n\n", "y".repeat(HEAD_MAX)));
        assert_eq!(heads.find(&long), None);
        let huge = crlf(&format!("HTTP/1.1 204 No\nA: {}\n\n", "y".repeat(LENGTH_MAX)));
        heads.learn(&huge, head::parse(&huge, false).unwrap());
        assert_eq!(heads.find(&huge), None);
    }
}
