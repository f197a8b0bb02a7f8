//! Lines of a message.

use formats::text::Reader;
use formats::{Line, Lines, Quotes};

/// Length of a line in an answer.
const SHOWN_MAX: usize = 200;

/// Calls `work` with every line.
pub(crate) fn each_line(
    bytes: &[u8],
    reader: &mut Reader,
    mut work: impl FnMut(&mut Reader, Line<'_>),
) {
    if reader.quotes() != Quotes::None {
        let mut lines = Lines::quoted(bytes, reader.quotes(), true);
        // Reading from memory does not fail.
        while let Ok(Some(line)) = lines.next() {
            work(reader, line);
        }
        return;
    }
    let mut number = 0;
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        number += 1;
        let bytes = line.strip_suffix(b"\r").unwrap_or(line);
        let too_long = bytes.len() > formats::LINE_MAX;
        work(reader, Line { number, bytes, too_long, first: true, last: true, torn: false });
    }
}

/// A line of a message, for an answer.
pub(crate) fn shown_line(lines: &[u8], number: u64) -> String {
    let at = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
    let line = lines.split(|byte| *byte == b'\n').nth(at).unwrap_or_default();
    String::from_utf8_lossy(&line[..line.len().min(SHOWN_MAX)]).trim_end().to_owned()
}
