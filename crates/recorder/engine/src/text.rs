//! Lines of a message.

use formats::text::{ParsedLine, Reader};
use formats::{Line, Lines, Quotes};

use crate::answer::{Message, TakenLines};

/// Length of a line in an answer.
const SHOWN_MAX: usize = 200;

/// Reads the lines of a message. `keep` gets the number and the content of those that are not refused.
pub(crate) fn read_lines(
    message: Message<'_>,
    reader: &mut Reader,
    taken: &mut TakenLines,
    mut keep: impl FnMut(u64, &ParsedLine),
) {
    let (arrival, quotes) = (message.arrival(), reader.quotes());
    let mut read = |line: Line<'_>| {
        let (number, first) = (line.number, line.first);
        // An error would be one of a whole file.
        let Ok(parsed) = reader.read(line, arrival) else { return };
        taken.counted.lines += u64::from(first);
        match parsed.reasons.first() {
            Some(reason) => taken.refuse(number, *reason),
            None => keep(number, parsed),
        }
    };
    if quotes != Quotes::None {
        let mut lines = Lines::quoted(message.lines, quotes, true);
        // Reading from memory does not fail.
        while let Ok(Some(line)) = lines.next() {
            read(line);
        }
        return;
    }
    let mut number = 0;
    let mut rest = message.lines;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        number += 1;
        let bytes = line.strip_suffix(b"\r").unwrap_or(line);
        let too_long = bytes.len() > formats::LINE_MAX;
        read(Line { number, bytes, too_long, first: true, last: true, torn: false });
    }
}

/// A line of a message, for an answer.
pub(crate) fn shown_line(lines: &[u8], number: u64) -> String {
    let at = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
    let line = lines.split(|byte| *byte == b'\n').nth(at).unwrap_or_default();
    String::from_utf8_lossy(&line[..line.len().min(SHOWN_MAX)]).trim_end().to_owned()
}
