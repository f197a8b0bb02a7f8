//! Records of a stream, of any length, in bounded memory.

use std::io::{self, BufRead};

use crate::quotes::{QuoteTracker, Quotes};

/// Limit on a line, in bytes without its end.
pub const LINE_MAX: usize = 65_536;

/// A line, or a piece of one that is too long. If a format allows line ends in quoted texts, the
/// lines of one record are one line here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number, from 1; for a record, that of its first line.
    pub number: u64,
    /// Its bytes without the end of the line.
    pub bytes: &'a [u8],
    /// Whether this is a piece of a line that exceeds the limit.
    pub too_long: bool,
    /// Whether this is the beginning of the line.
    pub first: bool,
    /// Whether this is the end of the line.
    pub last: bool,
    /// Whether the stream ends before the line does: its end, or its closing quote, may still be
    /// written.
    pub torn: bool,
}

/// Lines that end with `\n` or `\r\n`; the last one may have no end.
#[derive(Debug)]
pub struct Lines<R> {
    input: PushbackInput<R>,
    buffer: Vec<u8>,
    number: u64,
    within: bool,
    quotes: Quotes,
    whole: bool,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `input`.
    pub fn new(input: R) -> Lines<R> {
        Lines::quoted(input, Quotes::None, false)
    }

    /// The lines of `input`, whose quoted texts may contain line ends. `whole` means that the last
    /// line of the stream is complete.
    ///
    /// A quote that is not closed within [`LINE_MAX`] bytes opens nothing: its line is a line of
    /// its own.
    pub fn quoted(input: R, quotes: Quotes, whole: bool) -> Lines<R> {
        let input = PushbackInput { input, ahead: Vec::new(), at: 0, offset: 0 };
        Lines { input, buffer: Vec::new(), number: 0, within: false, quotes, whole }
    }

    /// How many bytes have been read.
    pub fn offset(&self) -> u64 {
        self.input.offset - (self.input.ahead.len() - self.input.at) as u64
    }

    /// The next line. A longer one comes in pieces of at most [`LINE_MAX`] bytes and its end, so
    /// that it can be kept as a whole.
    ///
    /// # Errors
    /// I/O errors.
    #[expect(clippy::should_implement_trait, reason = "the line borrows from the reader")]
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let continued = std::mem::take(&mut self.within);
        let mut end = self.input.line(&mut self.buffer, ROOM)?;
        if self.buffer.is_empty() && !continued {
            return Ok(None);
        }
        let mut lines = 1;
        if !continued {
            self.number += 1;
            if end == End::Seen {
                (end, lines) = self.join()?;
            }
        }
        let number = self.number;
        self.number += lines - 1;
        self.within = end == End::Room;
        let ended = !self.within;
        let bytes = strip_end(&self.buffer, ended);
        Ok(Some(Line {
            number,
            bytes,
            first: !continued,
            too_long: continued || !ended || bytes.len() > LINE_MAX,
            last: ended,
            torn: end == End::Stream && !self.whole,
        }))
    }

    /// Continues while a quote is open at the end of the line; returns the number of lines.
    fn join(&mut self) -> io::Result<(End, u64)> {
        let mut open = QuoteTracker::new(self.quotes);
        let start: &[u8] = if self.number == 1 { b"\xef\xbb\xbf" } else { b"" };
        if !open.after(self.buffer.strip_prefix(start).unwrap_or(&self.buffer)) {
            return Ok((End::Seen, 1));
        }
        let first = self.buffer.len();
        let mut lines = 1;
        let end = loop {
            let from = self.buffer.len();
            // Room for an end after the longest record.
            let end = self.input.line(&mut self.buffer, ROOM)?;
            lines += u64::from(self.buffer.len() > from);
            let closed = end != End::Room && !open.after(&self.buffer[from..]);
            match end {
                End::Seen | End::Stream if closed => break end,
                End::Seen => {}
                End::Stream if !self.whole => break End::Stream,
                End::Stream | End::Room => {
                    // An unclosed quote was no quote.
                    self.input.give_back(&self.buffer[first..]);
                    self.buffer.truncate(first);
                    lines = 1;
                    break End::Seen;
                }
            }
        };
        Ok((end, lines))
    }
}

/// Room for the longest line with the longest end.
const ROOM: usize = LINE_MAX + 2;

/// Why the reading of a line ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its end was read.
    Seen,
    /// The stream ended.
    Stream,
    /// The buffer was full.
    Room,
}

/// An input with push-back.
#[derive(Debug)]
struct PushbackInput<R> {
    input: R,
    /// Pushed-back bytes, from `at` on.
    ahead: Vec<u8>,
    at: usize,
    offset: u64,
}

impl<R: BufRead> PushbackInput<R> {
    /// Reads up to the end of the line into a buffer that holds at most `room` bytes.
    fn line(&mut self, buffer: &mut Vec<u8>, room: usize) -> io::Result<End> {
        loop {
            let left = room - buffer.len();
            if left == 0 {
                return Ok(End::Room);
            }
            let taken_back = self.at < self.ahead.len();
            let available = match taken_back {
                true => &self.ahead[self.at..],
                false => match self.input.fill_buf() {
                    Ok(available) => available,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                },
            };
            if available.is_empty() {
                return Ok(End::Stream);
            }
            let available = &available[..available.len().min(left)];
            let (taken, ended) = match memchr::memchr(b'\n', available) {
                Some(at) => (at + 1, true),
                None => (available.len(), false),
            };
            buffer.extend_from_slice(&available[..taken]);
            if taken_back {
                self.at += taken;
            } else {
                self.input.consume(taken);
                self.offset += taken as u64;
            }
            if ended {
                return Ok(End::Seen);
            }
        }
    }

    /// Pushes back what was read last.
    fn give_back(&mut self, bytes: &[u8]) {
        let mut ahead = bytes.to_vec();
        ahead.extend_from_slice(&self.ahead[self.at..]);
        (self.ahead, self.at) = (ahead, 0);
    }
}

fn strip_end(bytes: &[u8], ended: bool) -> &[u8] {
    if !ended {
        return bytes;
    }
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], buffer: usize) -> Vec<(u64, Vec<u8>, bool, bool)> {
        let mut lines = Lines::new(io::BufReader::with_capacity(buffer, text));
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push((line.number, line.bytes.to_vec(), line.too_long, line.last));
        }
        assert_eq!(lines.offset(), text.len() as u64);
        all
    }

    #[test]
    fn lines_end_with_either_end_or_with_the_stream() {
        for buffer in [1, 2, 100] {
            let lines = read(b"a\r\n\nb\n\rc", buffer);
            let texts: Vec<_> = lines.iter().map(|(n, bytes, ..)| (*n, bytes.as_slice())).collect();
            assert_eq!(texts, [(1, &b"a"[..]), (2, b""), (3, b"b"), (4, b"\rc")]);
        }
        assert!(read(b"", 10).is_empty());
    }

    #[test]
    fn a_line_of_a_mebibyte_comes_in_parts_and_the_next_is_whole() {
        let mut text = vec![b'x'; 1 << 20];
        text.extend_from_slice(b"\nshort\n");
        let lines = read(&text, 4096);
        let (parts, rest) = lines.split_at(lines.len() - 1);
        assert!(parts.iter().all(|(number, bytes, too_long, _)| {
            *number == 1 && bytes.len() <= LINE_MAX + 2 && *too_long
        }));
        assert_eq!(parts.iter().map(|(_, bytes, ..)| bytes.len()).sum::<usize>(), 1 << 20);
        assert_eq!(parts.iter().filter(|(.., last)| *last).count(), 1);
        assert_eq!(rest, [(2, b"short".to_vec(), false, true)]);
    }

    #[test]
    fn a_last_line_without_its_end_is_torn_unless_the_stream_is_whole() {
        for (text, whole, torn) in [
            ("a\nb", false, &[false, true][..]),
            ("a\nb\n", false, &[false, false]),
            ("a\nb\r", false, &[false, true]),
            ("a\nb", true, &[false, false]),
        ] {
            let mut lines = Lines::quoted(text.as_bytes(), Quotes::None, whole);
            let mut found = Vec::new();
            while let Some(line) = lines.next().unwrap() {
                found.push(line.torn);
            }
            assert_eq!(found, torn, "{text:?}");
        }
    }

    #[test]
    fn a_quoted_text_that_holds_line_ends_is_one_line() {
        let far = "y\n".repeat(LINE_MAX);
        let open = format!("m s=\"x\n{far}");
        for (text, whole, found) in [
            ("m s=\"x\r\ny\" 1\nn v=1\n", false, &[(1, 12), (3, 5)][..]),
            ("m s=\"x\ny\" 1", true, &[(1, 11)]),
            ("m s=\"x\ny\nz", false, &[(1, 10)]),
            ("m s=\"x\ny\nz", true, &[(1, 6), (2, 1), (3, 1)]),
            (&open, false, &[(1, 6), (2, 1), (3, 1)]),
        ] {
            for buffer in [1, 7, 100_000] {
                let input = io::BufReader::with_capacity(buffer, text.as_bytes());
                let mut lines = Lines::quoted(input, Quotes::Influx, whole);
                let mut all = Vec::new();
                while let Some(line) = lines.next().unwrap() {
                    all.push((line.number, line.bytes.len()));
                    if all.len() == 3 {
                        break;
                    }
                }
                assert_eq!(all, found, "{:.20} {buffer}", text);
            }
        }
    }

    #[test]
    fn the_longest_line_is_whole_with_either_end() {
        for end in ["", "\n", "\r\n"] {
            let text = "x".repeat(LINE_MAX) + end;
            let lines = read(text.as_bytes(), 1000);
            assert!(!lines[0].2, "{end:?}");
            assert_eq!(lines[0].1.len(), LINE_MAX);
        }
    }
}
