//! Graphite's pickle protocol: a frame is a list of `(path, (timestamp, value))` as Python pickles
//! it.
//!
//! A pickle is a program for a stack machine, and could import and call anything. This machine has
//! only the instructions that build data (protocols 0 to 4, as documented in Python's
//! `pickletools`), and of these only the ones for numbers, texts, tuples and lists. Everything else
//! is refused with the frame.
//!
//! As carbon does it (`MetricPickleReceiver`), numbers may be texts, and an item that cannot be read
//! spoils no other. Each item becomes a line of Graphite plaintext.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::{LINE_MAX, Malformed};

/// Limit on a frame in bytes, that of carbon.
pub const FRAME_MAX: usize = 1 << 20;

/// Bytes of the length before a frame, big-endian.
pub const HEADER_BYTES: usize = 4;

/// Limit on the lines of a frame in bytes: a pickle can use a long text many times.
const LINES_MAX: usize = 4 << 20;

/// Limit on open marks; a list of points has three.
const MARKS_MAX: usize = 64;

/// Limit on remembered values. Python remembers every text and tuple.
const MEMO_MAX: usize = 1 << 18;

/// A value on the stack. Tuples and lists hold the numbers of their values, so none is copied,
/// however often it is used, and none is deep.
#[derive(Debug)]
enum PickleValue<'a> {
    None,
    Integer(i128),
    Float(f64),
    Text(Cow<'a, str>),
    Sequence(Vec<u32>),
}

/// The machine.
#[derive(Debug, Default)]
struct Machine<'a> {
    values: Vec<PickleValue<'a>>,
    stack: Vec<u32>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: HashMap<u32, u32>,
}

/// Splits a stream: the length of its first frame, with its header.
///
/// # Errors
/// [`Malformed::FrameTooLong`]: the rest of the stream cannot be read.
pub fn frame_bytes(stream: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some((length, _)) = stream.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    match u32::from_be_bytes(*length) as usize {
        length if length > FRAME_MAX => Err(Malformed::FrameTooLong),
        length => Ok(Some(HEADER_BYTES + length)),
    }
}

/// Appends the items of a frame, without its header, to `lines`; `refuse` is called with the reason
/// for each item that is refused.
///
/// # Errors
/// Why the whole frame is refused. Then `lines` is as before.
pub fn lines(
    frame: &[u8],
    lines: &mut Vec<u8>,
    refuse: &mut dyn FnMut(Malformed),
) -> Result<(), Malformed> {
    if frame.len() > FRAME_MAX {
        return Err(Malformed::FrameTooLong);
    }
    let mut machine = Machine::default();
    let top = machine.run(frame)?;
    let Some(PickleValue::Sequence(items)) = machine.value(top) else {
        return Err(Malformed::NotAList);
    };
    let mut refused = Vec::new();
    let start = lines.len();
    for item in items {
        let before = lines.len();
        if let Err(reason) = machine.line(*item, lines) {
            lines.truncate(before);
            refused.push(reason);
        } else if lines.len() - start > LINES_MAX {
            lines.truncate(start);
            return Err(Malformed::PickleLimit);
        }
    }
    refused.into_iter().for_each(refuse);
    Ok(())
}

impl<'a> Machine<'a> {
    /// The number of the result.
    fn run(&mut self, mut code: &'a [u8]) -> Result<u32, Malformed> {
        loop {
            let (instruction, rest) = code.split_first().ok_or(Malformed::BadPickle)?;
            code = rest;
            match instruction {
                // PROTO, FRAME
                0x80 => {
                    if take::<1>(&mut code)?[0] > 4 {
                        return Err(Malformed::PickleProtocol);
                    }
                }
                0x95 => drop(take::<8>(&mut code)?),
                b'.' => return self.pop(),
                b'(' if self.marks.len() >= MARKS_MAX => return Err(Malformed::PickleLimit),
                b'(' => self.marks.push(self.stack.len()),
                // POP, which also takes a mark, and POP_MARK
                b'0' if self.marks.last() == Some(&self.stack.len()) => drop(self.marks.pop()),
                b'0' => drop(self.pop()?),
                b'1' => drop(self.since_mark()?),
                b'2' => self.stack.push(*self.stack.last().ok_or(Malformed::BadPickle)?),
                b'N' => self.push(PickleValue::None),
                0x88 => self.push(PickleValue::Integer(1)),
                0x89 => self.push(PickleValue::Integer(0)),
                b'J' => {
                    let integer = i32::from_le_bytes(take(&mut code)?);
                    self.push(PickleValue::Integer(integer.into()));
                }
                b'K' => {
                    let [integer] = take(&mut code)?;
                    self.push(PickleValue::Integer(integer.into()));
                }
                b'M' => {
                    let integer = u16::from_le_bytes(take(&mut code)?);
                    self.push(PickleValue::Integer(integer.into()));
                }
                b'I' | b'L' => {
                    let text = ascii(line(&mut code)?)?;
                    let integer = text.strip_suffix('L').unwrap_or(text).parse();
                    self.push(PickleValue::Integer(integer.map_err(|_| Malformed::BadPickle)?));
                }
                0x8a | 0x8b => {
                    let length = match instruction {
                        0x8a => usize::from(take::<1>(&mut code)?[0]),
                        _ => u32::from_le_bytes(take(&mut code)?) as usize,
                    };
                    let integer = little_endian(bytes(&mut code, length)?);
                    self.push(integer.map_or(PickleValue::None, PickleValue::Integer));
                }
                b'F' => {
                    let float = ascii(line(&mut code)?)?.parse();
                    self.push(PickleValue::Float(float.map_err(|_| Malformed::BadPickle)?));
                }
                b'G' => {
                    let float = f64::from_be_bytes(take(&mut code)?);
                    self.push(PickleValue::Float(float));
                }
                b'S' => {
                    let text = unquoted(line(&mut code)?)?;
                    self.push(PickleValue::Text(text));
                }
                b'V' => {
                    let text = unescaped(line(&mut code)?)?;
                    self.push(PickleValue::Text(text));
                }
                b'T' | b'U' | b'X' | b'B' | b'C' | 0x8c | 0x8d | 0x8e => {
                    let length = match instruction {
                        b'U' | b'C' | 0x8c => u64::from(take::<1>(&mut code)?[0]),
                        0x8d | 0x8e => u64::from_le_bytes(take(&mut code)?),
                        _ => u64::from(u32::from_le_bytes(take(&mut code)?)),
                    };
                    let length = usize::try_from(length).map_err(|_| Malformed::BadPickle)?;
                    let text = std::str::from_utf8(bytes(&mut code, length)?);
                    // A text that is not UTF-8 spoils only its item.
                    self.push(
                        text.map_or(PickleValue::None, |text| PickleValue::Text(text.into())),
                    );
                }
                b']' | b')' => self.push(PickleValue::Sequence(Vec::new())),
                b't' | b'l' => {
                    let values = self.since_mark()?;
                    self.push(PickleValue::Sequence(values));
                }
                0x85..=0x87 => {
                    let count = usize::from(instruction - 0x84);
                    let at = self.height(count)?;
                    let values = self.stack.split_off(at);
                    self.push(PickleValue::Sequence(values));
                }
                b'a' => {
                    let value = self.pop()?;
                    self.append(&[value])?;
                }
                b'e' => {
                    let values = self.since_mark()?;
                    self.append(&values)?;
                }
                b'p' | b'q' | b'r' => {
                    let key = index(*instruction, &mut code)?;
                    self.remember(key)?;
                }
                0x94 => {
                    self.remember(self.memo.len() as u32)?;
                }
                b'g' | b'h' | b'j' => {
                    let key = index(*instruction, &mut code)?;
                    self.stack.push(*self.memo.get(&key).ok_or(Malformed::BadPickle)?);
                }
                // GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, EXT1, EXT2, EXT4, PERSID, BINPERSID,
                // NEWOBJ_EX, STACK_GLOBAL
                b'c' | b'R' | b'b' | b'i' | b'o' | 0x81..=0x84 | b'P' | b'Q' | 0x92 | 0x93 => {
                    return Err(Malformed::PickleCode);
                }
                // DICT, EMPTY_DICT, SETITEM, SETITEMS, EMPTY_SET, ADDITEMS, FROZENSET
                b'd' | b'}' | b's' | b'u' | 0x8f..=0x91 => return Err(Malformed::NotAList),
                _ => return Err(Malformed::BadPickle),
            }
        }
    }

    fn value(&self, number: u32) -> Option<&PickleValue<'a>> {
        self.values.get(number as usize)
    }

    fn push(&mut self, value: PickleValue<'a>) {
        // A frame has fewer values than bytes.
        self.stack.push(self.values.len() as u32);
        self.values.push(value);
    }

    fn pop(&mut self) -> Result<u32, Malformed> {
        let at = self.height(1)?;
        Ok(self.stack.split_off(at)[0])
    }

    /// The height of the stack without its last values, all after the last mark.
    fn height(&self, count: usize) -> Result<usize, Malformed> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let height = self.stack.len().checked_sub(count).filter(|height| *height >= floor);
        height.ok_or(Malformed::BadPickle)
    }

    fn since_mark(&mut self) -> Result<Vec<u32>, Malformed> {
        let height = self.marks.pop().ok_or(Malformed::BadPickle)?;
        Ok(self.stack.split_off(height))
    }

    /// Adds values to the list at the top.
    fn append(&mut self, values: &[u32]) -> Result<(), Malformed> {
        let at = self.height(1)?;
        match self.values.get_mut(self.stack[at] as usize) {
            Some(PickleValue::Sequence(list)) => list.extend_from_slice(values),
            _ => return Err(Malformed::BadPickle),
        }
        Ok(())
    }

    fn remember(&mut self, key: u32) -> Result<(), Malformed> {
        if self.memo.len() >= MEMO_MAX {
            return Err(Malformed::PickleLimit);
        }
        let at = self.height(1)?;
        self.memo.insert(key, self.stack[at]);
        Ok(())
    }

    /// Writes an item as a line.
    fn line(&self, item: u32, to: &mut Vec<u8>) -> Result<(), Malformed> {
        let pair = |number: u32| match self.value(number) {
            Some(PickleValue::Sequence(values)) => <[u32; 2]>::try_from(values.as_slice()).ok(),
            _ => None,
        };
        let [path, point] = pair(item).ok_or(Malformed::NotAPoint)?;
        let [time, value] = pair(point).ok_or(Malformed::NotAPoint)?;
        let Some(PickleValue::Text(path)) = self.value(path) else {
            return Err(Malformed::NotAPath);
        };
        let is_path = |path: &str| {
            let is_blank = |c: char| c.is_ascii_whitespace() || c.is_control();
            !path.is_empty() && !path.starts_with(['#', '\u{feff}']) && !path.contains(is_blank)
        };
        if !is_path(path) {
            return Err(Malformed::NotAPath);
        }
        if path.len() > LINE_MAX / 2 {
            return Err(Malformed::NameTooLong);
        }
        to.extend_from_slice(path.as_bytes());
        to.push(b' ');
        self.number(value, to).ok_or(Malformed::NotANumber)?;
        to.push(b' ');
        self.number(time, to).ok_or(Malformed::BadTime)?;
        to.push(b'\n');
        Ok(())
    }

    fn number(&self, number: u32, to: &mut Vec<u8>) -> Option<()> {
        use std::io::Write as _;
        // Writing to a vector cannot fail.
        let _ = match self.value(number)? {
            PickleValue::Integer(integer) => write!(to, "{integer}"),
            PickleValue::Float(float) => write!(to, "{float}"),
            PickleValue::Text(text) => {
                // The parser of the line decides whether it is a number.
                let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
                let is_word = text.bytes().all(|byte| byte.is_ascii_graphic());
                (is_word && (1..=64).contains(&text.len()))
                    .then(|| to.write_all(text.as_bytes()))?
            }
            PickleValue::None | PickleValue::Sequence(_) => return None,
        };
        Some(())
    }
}

fn bytes<'a>(code: &mut &'a [u8], length: usize) -> Result<&'a [u8], Malformed> {
    let (bytes, rest) = code.split_at_checked(length).ok_or(Malformed::BadPickle)?;
    *code = rest;
    Ok(bytes)
}

fn take<const N: usize>(code: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (bytes, rest) = code.split_first_chunk::<N>().ok_or(Malformed::BadPickle)?;
    *code = rest;
    Ok(*bytes)
}

/// Up to the next line feed.
fn line<'a>(code: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let end = memchr::memchr(b'\n', code).ok_or(Malformed::BadPickle)?;
    let line = bytes(code, end)?;
    bytes(code, 1)?;
    Ok(line)
}

fn ascii(text: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(text).map(str::trim_ascii).map_err(|_| Malformed::BadPickle)
}

/// The key of PUT and GET, BINPUT and BINGET, or LONG_BINPUT and LONG_BINGET.
fn index(instruction: u8, code: &mut &[u8]) -> Result<u32, Malformed> {
    match instruction {
        b'p' | b'g' => ascii(line(code)?)?.parse().map_err(|_| Malformed::BadPickle),
        b'q' | b'h' => Ok(u32::from(take::<1>(code)?[0])),
        _ => Ok(u32::from_le_bytes(take(code)?)),
    }
}

/// An integer in two's complement; `None` for one beyond 64 bits and a sign.
fn little_endian(bytes: &[u8]) -> Option<i128> {
    let negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
    let mut whole = [if negative { 0xff } else { 0 }; 16];
    whole.get_mut(..bytes.len()).filter(|_| bytes.len() <= 9)?.copy_from_slice(bytes);
    Some(i128::from_le_bytes(whole))
}

/// The text of STRING: a byte string as Python 2 writes it, in quotes, with escapes.
fn unquoted(text: &[u8]) -> Result<Cow<'_, str>, Malformed> {
    let inner = match text {
        [first @ (b'\'' | b'"'), inner @ .., last] if first == last => inner,
        _ => return Err(Malformed::BadPickle),
    };
    if !inner.contains(&b'\\') {
        let text = std::str::from_utf8(inner).map_err(|_| Malformed::NotUtf8)?;
        return Ok(text.into());
    }
    let (mut out, mut rest) = (Vec::new(), inner);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let (escape, after) = rest.split_first().ok_or(Malformed::BadPickle)?;
        rest = after;
        out.push(match escape {
            b'\\' | b'\'' | b'"' => *escape,
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'x' => hexadecimal(bytes(&mut rest, 2)?)? as u8,
            _ => return Err(Malformed::BadPickle),
        });
    }
    String::from_utf8(out).map(Cow::Owned).map_err(|_| Malformed::NotUtf8)
}

/// The text of UNICODE: Latin-1, with `\u` and `\U`.
fn unescaped(text: &[u8]) -> Result<Cow<'_, str>, Malformed> {
    if !text.contains(&b'\\')
        && let Some(text) = std::str::from_utf8(text).ok().filter(|text| text.is_ascii())
    {
        return Ok(text.into());
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let digits = match (byte, rest.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                out.push(char::from(*byte));
                continue;
            }
        };
        bytes(&mut rest, 1)?;
        let code = hexadecimal(bytes(&mut rest, digits)?)?;
        out.push(char::from_u32(code).ok_or(Malformed::BadPickle)?);
    }
    Ok(out.into())
}

fn hexadecimal(digits: &[u8]) -> Result<u32, Malformed> {
    let all = digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| all);
    text.and_then(|text| u32::from_str_radix(text, 16).ok()).ok_or(Malformed::BadPickle)
}

#[cfg(test)]
#[path = "pickle_tests.rs"]
mod tests;
