//! Lines of a stream, however long, in bounded memory.

use std::io::{self, BufRead};

/// The longest line, in bytes, its end not counted.
pub const LINE_MAX: usize = 65_536;

/// A line, or a part of one that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// Its bytes without the end of the line.
    pub bytes: &'a [u8],
    /// Whether the line is longer than the limit, and this is a part of it.
    pub too_long: bool,
    /// Whether this is the beginning of the line.
    pub first: bool,
    /// Whether this is the end of the line.
    pub last: bool,
}

/// Lines that end with `\n` or `\r\n`; the last one may lack its end.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    number: u64,
    offset: u64,
    within: bool,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `input`.
    pub fn new(input: R) -> Lines<R> {
        Lines { input, buffer: Vec::new(), number: 0, offset: 0, within: false }
    }

    /// How many bytes have been read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next line. One that is too long comes in parts of at most [`LINE_MAX`]
    /// bytes and its end, so that it can be kept aside whole.
    ///
    /// # Errors
    /// Those of the input.
    #[expect(clippy::should_implement_trait, reason = "the line borrows from the reader")]
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let continued = std::mem::take(&mut self.within);
        let ended = self.fill()?;
        if self.buffer.is_empty() && !continued {
            return Ok(None);
        }
        if !continued {
            self.number += 1;
        }
        self.within = !ended;
        let bytes = strip_end(&self.buffer, ended);
        Ok(Some(Line {
            number: self.number,
            bytes,
            first: !continued,
            too_long: continued || !ended || bytes.len() > LINE_MAX,
            last: ended,
        }))
    }

    /// Reads up to the end of the line or the limit; says whether the line has ended.
    fn fill(&mut self) -> io::Result<bool> {
        // Room for the longest line with the longest end.
        const ROOM: usize = LINE_MAX + 2;
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                return Ok(true);
            }
            let room = ROOM - self.buffer.len();
            let available = &available[..available.len().min(room)];
            let (taken, ended) = match memchr::memchr(b'\n', available) {
                Some(at) => (at + 1, true),
                None => (available.len(), false),
            };
            self.buffer.extend_from_slice(&available[..taken]);
            self.input.consume(taken);
            self.offset += taken as u64;
            if ended {
                return Ok(true);
            }
            if self.buffer.len() == ROOM {
                return Ok(false);
            }
        }
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
    fn the_longest_line_is_whole_with_either_end() {
        for end in ["", "\n", "\r\n"] {
            let text = "x".repeat(LINE_MAX) + end;
            let lines = read(text.as_bytes(), 1000);
            assert!(!lines[0].2, "{end:?}");
            assert_eq!(lines[0].1.len(), LINE_MAX);
        }
    }
}
