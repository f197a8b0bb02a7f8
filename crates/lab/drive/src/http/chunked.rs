//! The chunked transfer coding (RFC 9112, section 7.1), read in pieces of any size.

use crate::Fault;

/// Limit on a size line, including extensions, and on all trailers together, in bytes.
const LINE_MAX: u32 = 8192;

/// The reader's position in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkedBody {
    state: State,
    /// Bytes of the current line, or of all trailers.
    line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the hexadecimal digits of a size; `digits` is true after the first.
    Size {
        value: u64,
        digits: bool,
    },
    /// In the rest of a size line.
    Extension {
        size: u64,
    },
    /// After the CR of a size line.
    SizeLf {
        size: u64,
    },
    /// In the data, with this many bytes left.
    Data {
        left: u64,
    },
    DataCr,
    DataLf,
    /// At the beginning of a trailer line.
    TrailerStart,
    /// In the name of a trailer, after its first byte.
    TrailerName,
    /// In the value of a trailer.
    TrailerValue,
    TrailerLf,
    /// After the CR of the last, empty line.
    EndLf,
}

/// The content of a piece of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// This many bytes were framing.
    Framing(usize),
    /// The first this many bytes are data.
    Data(usize),
    /// The body ended after this many bytes of framing.
    End(usize),
}

impl ChunkedBody {
    pub(super) fn new() -> ChunkedBody {
        ChunkedBody { state: State::Size { value: 0, digits: false }, line: 0 }
    }

    /// Reads the next piece of `bytes`, which must not be empty; consumes at least one byte.
    pub(super) fn step(&mut self, bytes: &[u8]) -> Result<Piece, Fault> {
        if let State::Data { left } = &mut self.state {
            let n = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
            *left -= n as u64;
            if *left == 0 {
                self.state = State::DataCr;
            }
            return Ok(Piece::Data(n));
        }
        for (i, byte) in bytes.iter().enumerate() {
            if self.framing(*byte)? {
                return Ok(Piece::End(i + 1));
            }
            if matches!(self.state, State::Data { .. }) {
                return Ok(Piece::Framing(i + 1));
            }
        }
        Ok(Piece::Framing(bytes.len()))
    }

    /// Consumes one framing byte; true at the end of the body.
    fn framing(&mut self, byte: u8) -> Result<bool, Fault> {
        self.line += 1;
        if self.line > LINE_MAX {
            return Err(Fault::BadChunk);
        }
        self.state = match (self.state, byte) {
            (State::Size { value, .. }, byte) if byte.is_ascii_hexdigit() => {
                if value >> 60 != 0 {
                    return Err(Fault::BadChunk);
                }
                let digit = (byte as char).to_digit(16).unwrap_or_default();
                State::Size { value: value << 4 | u64::from(digit), digits: true }
            }
            (State::Size { value, digits: true }, b'\r') => State::SizeLf { size: value },
            (State::Size { value, digits: true }, b';' | b' ' | b'\t') => {
                State::Extension { size: value }
            }
            (State::Extension { size }, b'\r') => State::SizeLf { size },
            (State::Extension { size }, byte) if byte != b'\n' => State::Extension { size },
            (State::SizeLf { size: 0 }, b'\n') => self.next_line(State::TrailerStart),
            (State::SizeLf { size }, b'\n') => State::Data { left: size },
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => self.next_line(State::Size { value: 0, digits: false }),
            (State::TrailerStart, b'\r') => State::EndLf,
            (State::TrailerStart | State::TrailerName, byte) if is_token(byte) => {
                State::TrailerName
            }
            (State::TrailerName, b':') => State::TrailerValue,
            (State::TrailerValue, b'\t' | b' '..=b'~' | 0x80..) => State::TrailerValue,
            (State::TrailerValue, b'\r') => State::TrailerLf,
            (State::TrailerLf, b'\n') => State::TrailerStart,
            (State::EndLf, b'\n') => return Ok(true),
            _ => return Err(Fault::BadChunk),
        };
        Ok(false)
    }

    fn next_line(&mut self, state: State) -> State {
        self.line = 0;
        state
    }
}

/// Whether a field name may contain this byte (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data of a whole body, and the number of bytes consumed.
    fn decode(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, Fault> {
        let (mut chunked, mut at, mut data) = (ChunkedBody::new(), 0, Vec::new());
        while at < bytes.len() {
            match chunked.step(&bytes[at..])? {
                Piece::Framing(n) => at += n,
                Piece::Data(n) => {
                    data.extend_from_slice(&bytes[at..at + n]);
                    at += n;
                }
                Piece::End(n) => return Ok(Some((data, at + n))),
            }
        }
        Ok(None)
    }

    #[test]
    fn bodies_with_extensions_and_trailers() {
        for (text, data) in [
            ("0\r\n\r\n", ""),
            ("5\r\nhello\r\n0\r\n\r\n", "hello"),
            ("2\r\nhe\r\n03\r\nllo\r\n000\r\n\r\n", "hello"),
            ("5;a=b;c=\"d\"\r\nhello\r\n0;x\r\n\r\n", "hello"),
            ("5 \r\nhello\r\n0\r\nA: b\r\nC: d\r\n\r\n", "hello"),
            ("5\r\nhello\r\n0\r\nA:\r\n!x:\tü\r\n\r\n", "hello"),
            ("a\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
            ("A\r\n01234\r\n789\r\n0\r\n\r\n", "01234\r\n789"),
        ] {
            let whole = decode(text.as_bytes()).unwrap().unwrap();
            assert_eq!(whole, (data.as_bytes().to_vec(), text.len()), "{text:?}");
            assert_eq!(decode(&text.as_bytes()[..text.len() - 1]), Ok(None), "{text:?}");
        }
    }

    #[test]
    fn what_breaks_the_framing_is_a_fault() {
        for text in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "5\nhello",
            "5\r\nhello0\r\n\r\n",
            "5\r\nhello\n",
            "11111111111111111\r\n",
            "0\r\n\n",
            "0\r\nA: b\n\r\n",
            "0\r\nno field\r\n\r\n",
            "0\r\n!\r\n\r\n",
            "0\r\n: b\r\n\r\n",
            "0\r\nA : b\r\n\r\n",
            "0\r\nA: \u{7f}\r\n\r\n",
            "0\r\n\rx",
        ] {
            assert_eq!(decode(text.as_bytes()), Err(Fault::BadChunk), "{text:?}");
        }
    }

    #[test]
    fn endless_lines_are_a_fault() {
        let extension = format!("5;{}", "x".repeat(10_000));
        assert_eq!(decode(extension.as_bytes()), Err(Fault::BadChunk));
        let trailers = format!("0\r\n{}", "A: b\r\n".repeat(2_000));
        assert_eq!(decode(trailers.as_bytes()), Err(Fault::BadChunk));
    }
}
