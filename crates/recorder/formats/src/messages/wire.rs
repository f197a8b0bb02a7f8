//! Protobuf's wire format, read field by field without copying anything.
//!
//! As documented in "Encoding" of the Protocol Buffers documentation. A message is never
//! represented as a whole: an empty element takes two bytes on the wire, but a hundred in memory.
//!
//! So structs generated from `.proto` files could make a gigabyte of 8 MiB before any limit is checked.
//! The tests write their messages with `prost`, which shares no code with this reader.

use super::MessageError;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> Value<'a> {
    pub(super) fn varint(self) -> Result<u64, MessageError> {
        match self {
            Value::Varint(value) => Ok(value),
            _ => Err(MessageError::Wire),
        }
    }

    pub(super) fn fixed64(self) -> Result<u64, MessageError> {
        match self {
            Value::Fixed64(value) => Ok(value),
            _ => Err(MessageError::Wire),
        }
    }

    pub(super) fn double(self) -> Result<f64, MessageError> {
        self.fixed64().map(f64::from_bits)
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], MessageError> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(MessageError::Wire),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, MessageError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| MessageError::NotUtf8)
    }

    pub(super) fn fields(self) -> Result<Fields<'a>, MessageError> {
        self.bytes().map(fields)
    }

    /// The numbers of a repeated field of varints, packed or not.
    pub(super) fn varints(self) -> Result<Varints<'a>, MessageError> {
        match self {
            Value::Varint(value) => Ok(Varints { one: Some(value), rest: &[] }),
            Value::Bytes(rest) => Ok(Varints { one: None, rest }),
            _ => Err(MessageError::Wire),
        }
    }
}

/// A signed number of protobuf's types `sint32` and `sint64`.
pub(super) fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The fields of a message, in the order of the wire.
pub(super) fn fields(bytes: &[u8]) -> Fields<'_> {
    Fields { rest: bytes }
}

#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let key = varint(&mut self.rest)?;
        let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0)?;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut self.rest)?),
            1 => {
                let (value, rest) = self.rest.split_first_chunk()?;
                self.rest = rest;
                Value::Fixed64(u64::from_le_bytes(*value))
            }
            2 => {
                let length = usize::try_from(varint(&mut self.rest)?).ok()?;
                let (bytes, rest) = self.rest.split_at_checked(length)?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            5 => {
                self.rest = self.rest.get(4..)?;
                Value::Fixed32
            }
            _ => return None,
        };
        Some((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), MessageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or(MessageError::Wire))
    }
}

/// See [`Value::varints`].
#[derive(Clone, Debug)]
pub(super) struct Varints<'a> {
    one: Option<u64>,
    rest: &'a [u8],
}

impl Iterator for Varints<'_> {
    type Item = Result<u64, MessageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(one) = self.one.take() {
            return Some(Ok(one));
        }
        if self.rest.is_empty() {
            return None;
        }
        let value = varint(&mut self.rest);
        if value.is_none() {
            self.rest = &[];
        }
        Some(value.ok_or(MessageError::Wire))
    }
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wire_type_is_read_and_cut_messages_are_refused() {
        let bytes = [
            0x08, 0x96, 0x01, // field 1, varint 150
            0x11, 1, 0, 0, 0, 0, 0, 0, 0, // field 2, fixed64 1
            0x1a, 2, b'h', b'i', // field 3, text
            0x25, 0, 0, 0, 0, // field 4, fixed32
        ];
        let found: Result<Vec<_>, _> = fields(&bytes).collect();
        let wanted = vec![
            (1, Value::Varint(150)),
            (2, Value::Fixed64(1)),
            (3, Value::Bytes(b"hi")),
            (4, Value::Fixed32),
        ];
        assert_eq!(found, Ok(wanted));
        let whole = [3, 12, 16, 21];
        for cut in (1..bytes.len()).filter(|cut| !whole.contains(cut)) {
            assert!(fields(&bytes[..cut]).any(|field| field.is_err()), "{cut}");
        }
        for wrong in [&[0x00_u8, 1][..], &[0x0b], &[0x0e], &[0xff; 12], &[0x0a, 0xff, 0xff, 1]] {
            assert!(fields(wrong).any(|field| field == Err(MessageError::Wire)), "{wrong:?}");
        }
    }

    #[test]
    fn repeated_numbers_may_be_packed() {
        let numbers = |value: Value<'_>| value.varints().unwrap().collect::<Result<Vec<_>, _>>();
        assert_eq!(numbers(Value::Varint(7)), Ok(vec![7]));
        assert_eq!(numbers(Value::Bytes(&[1, 0x80, 1])), Ok(vec![1, 128]));
        assert_eq!(numbers(Value::Bytes(&[0x80])), Err(MessageError::Wire));
        assert_eq!([0, 1, 2, 3].map(zigzag), [0, -1, 1, -2]);
        assert_eq!(zigzag(u64::MAX), i64::MIN);
    }
}
