//! Thrift's values as a tree, read and written with the `thrift` crate's binary protocol.
//!
//! A message contains the number and the type of each field, so it can be read without knowing the
//! struct; `service` knows what the numbers mean. The peer is not trusted: the depth and the number
//! of values are limited, and memory grows only with the bytes that arrive.

use std::io::{self, ErrorKind, Read};

use thrift::protocol::{
    TBinaryInputProtocol, TFieldIdentifier, TInputProtocol as _, TListIdentifier, TMapIdentifier,
    TOutputProtocol, TStructIdentifier, TType, field_id,
};
use thrift::{ProtocolErrorKind, new_protocol_error};

use crate::stream::ANSWER_MAX;

/// Limit on how deeply values are nested. HiveServer2's answers have fewer than ten levels.
const DEPTH_MAX: usize = 64;

/// Limit on the values of a message: an answer of `ANSWER_MAX` bytes has as many numbers of eight
/// bytes. Smaller values need much more memory than they have bytes.
const VALUES_MAX: usize = (ANSWER_MAX / 8) as usize;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    Double(f64),
    /// A string, a binary or a UUID. Messages do not tell strings and binaries apart.
    Bytes(Vec<u8>),
    /// A list or a set.
    List(Vec<Tree>),
    Map(Vec<(Tree, Tree)>),
    Struct(Fields),
}

/// The fields of a struct with their numbers, in the order of the message.
pub(crate) type Fields = Vec<(i16, Tree)>;

impl Tree {
    pub(crate) fn text(text: &str) -> Tree {
        Tree::Bytes(text.as_bytes().to_vec())
    }

    pub(crate) const fn kind(&self) -> TType {
        match self {
            Tree::Bool(_) => TType::Bool,
            Tree::I8(_) => TType::I08,
            Tree::I16(_) => TType::I16,
            Tree::I32(_) => TType::I32,
            Tree::I64(_) => TType::I64,
            Tree::Double(_) => TType::Double,
            Tree::Bytes(_) => TType::String,
            Tree::List(_) => TType::List,
            Tree::Map(_) => TType::Map,
            Tree::Struct(_) => TType::Struct,
        }
    }

    /// Writes the value. The elements of a list have one type, and so have the keys and the values
    /// of a map; where there are none, the type that is written has no meaning.
    pub(crate) fn write(&self, out: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let kind = |tree: Option<&Tree>| tree.map_or(TType::Struct, Tree::kind);
        match self {
            Tree::Bool(value) => out.write_bool(*value),
            Tree::I8(value) => out.write_i8(*value),
            Tree::I16(value) => out.write_i16(*value),
            Tree::I32(value) => out.write_i32(*value),
            Tree::I64(value) => out.write_i64(*value),
            Tree::Double(value) => out.write_double(*value),
            Tree::Bytes(bytes) => out.write_bytes(bytes),
            Tree::List(items) => {
                let size = items.len() as i32;
                out.write_list_begin(&TListIdentifier::new(kind(items.first()), size))?;
                items.iter().try_for_each(|item| item.write(out))?;
                out.write_list_end()
            }
            Tree::Map(pairs) => {
                let keys = kind(pairs.first().map(|(key, _)| key));
                let values = kind(pairs.first().map(|(_, value)| value));
                out.write_map_begin(&TMapIdentifier::new(keys, values, pairs.len() as i32))?;
                for (key, value) in pairs {
                    key.write(out)?;
                    value.write(out)?;
                }
                out.write_map_end()
            }
            Tree::Struct(fields) => {
                // The binary protocol does not write names.
                out.write_struct_begin(&TStructIdentifier::new(""))?;
                for (id, value) in fields {
                    out.write_field_begin(&TFieldIdentifier::new("", value.kind(), *id))?;
                    value.write(out)?;
                    out.write_field_end()?;
                }
                out.write_field_stop()?;
                out.write_struct_end()
            }
        }
    }
}

/// A type of Rust that a value can have.
pub(crate) trait TreeType: Sized {
    /// The type in messages.
    const KIND: TType;

    /// The content of a value of this type.
    fn content(tree: Tree) -> Option<Self>;
}

macro_rules! tree_type {
    ($($variant:ident, $kind:ident => $content:ty;)*) => {
        $(impl TreeType for $content {
            const KIND: TType = TType::$kind;

            fn content(tree: Tree) -> Option<Self> {
                match tree {
                    Tree::$variant(content) => Some(content),
                    _ => None,
                }
            }
        })*
    };
}

tree_type! {
    Bool, Bool => bool;
    I8, I08 => i8;
    I16, I16 => i16;
    I32, I32 => i32;
    I64, I64 => i64;
    Double, Double => f64;
    Bytes, String => Vec<u8>;
    List, List => Vec<Tree>;
    Struct, Struct => Fields;
}

/// Reads the values of one message.
pub(crate) struct TreeReader<'i, R: Read> {
    input: &'i mut TBinaryInputProtocol<R>,
    values_left: usize,
}

impl<'i, R: Read> TreeReader<'i, R> {
    pub(crate) fn new(input: &'i mut TBinaryInputProtocol<R>) -> TreeReader<'i, R> {
        TreeReader { input, values_left: VALUES_MAX }
    }

    /// Reads a struct.
    pub(crate) fn read_struct(&mut self) -> thrift::Result<Fields> {
        self.fields(DEPTH_MAX)
    }

    fn read(&mut self, kind: TType, depth_left: usize) -> thrift::Result<Tree> {
        let Some(depth_left) = depth_left.checked_sub(1) else {
            let text = format!("values are nested more than {DEPTH_MAX} levels deep");
            return Err(new_protocol_error(ProtocolErrorKind::DepthLimit, text));
        };
        let Some(values_left) = self.values_left.checked_sub(1) else {
            let text = format!("it has more than {VALUES_MAX} values");
            return Err(new_protocol_error(ProtocolErrorKind::SizeLimit, text));
        };
        self.values_left = values_left;
        Ok(match kind {
            TType::Bool => Tree::Bool(self.input.read_bool()?),
            TType::I08 => Tree::I8(self.input.read_i8()?),
            TType::I16 => Tree::I16(self.input.read_i16()?),
            TType::I32 => Tree::I32(self.input.read_i32()?),
            TType::I64 => Tree::I64(self.input.read_i64()?),
            TType::Double => Tree::Double(self.input.read_double()?),
            TType::String => Tree::Bytes(self.bytes()?),
            TType::Uuid => Tree::Bytes(self.input.read_uuid()?.as_bytes().to_vec()),
            TType::List => {
                let list = self.input.read_list_begin()?;
                Tree::List(self.items(list.element_type, list.size, depth_left)?)
            }
            TType::Set => {
                let set = self.input.read_set_begin()?;
                Tree::List(self.items(set.element_type, set.size, depth_left)?)
            }
            TType::Map => {
                let map = self.input.read_map_begin()?;
                // Only protocols that write no types for empty maps have none.
                let keys = map.key_type.unwrap_or(TType::Stop);
                let values = map.value_type.unwrap_or(TType::Stop);
                let mut pairs = Vec::new();
                for _ in 0..map.size {
                    pairs.push((self.read(keys, depth_left)?, self.read(values, depth_left)?));
                }
                Tree::Map(pairs)
            }
            TType::Struct => Tree::Struct(self.fields(depth_left)?),
            TType::Stop | TType::Void | TType::Utf7 => {
                let text = format!("a value of type {kind} cannot be read");
                return Err(new_protocol_error(ProtocolErrorKind::InvalidData, text));
            }
        })
    }

    fn items(&mut self, kind: TType, size: i32, depth_left: usize) -> thrift::Result<Vec<Tree>> {
        // The size is the peer's claim, so no memory is reserved for it.
        let mut items = Vec::new();
        for _ in 0..size {
            items.push(self.read(kind, depth_left)?);
        }
        Ok(items)
    }

    fn fields(&mut self, depth_left: usize) -> thrift::Result<Fields> {
        let mut fields = Vec::new();
        self.input.read_struct_begin()?;
        loop {
            let field = self.input.read_field_begin()?;
            if field.field_type == TType::Stop {
                break;
            }
            fields.push((field_id(&field)?, self.read(field.field_type, depth_left)?));
            self.input.read_field_end()?;
        }
        self.input.read_struct_end()?;
        Ok(fields)
    }

    /// Reads a string or a binary. The `thrift` crate would reserve the memory that its length
    /// claims.
    fn bytes(&mut self) -> thrift::Result<Vec<u8>> {
        let claimed = self.input.read_i32()?;
        let length = u64::try_from(claimed).ok().filter(|length| *length <= ANSWER_MAX);
        let length = length.ok_or_else(|| {
            let text = format!("a string has {claimed} bytes, but the limit is {ANSWER_MAX}");
            new_protocol_error(ProtocolErrorKind::SizeLimit, text)
        })?;
        let mut bytes = Vec::new();
        let arrived = self.input.transport.by_ref().take(length).read_to_end(&mut bytes)?;
        if (arrived as u64) < length {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use thrift::protocol::TBinaryOutputProtocol;

    use super::*;

    fn bytes(fields: Fields) -> Vec<u8> {
        let mut bytes = Vec::new();
        Tree::Struct(fields).write(&mut TBinaryOutputProtocol::new(&mut bytes, true)).unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> thrift::Result<Fields> {
        TreeReader::new(&mut TBinaryInputProtocol::new(bytes, true)).read_struct()
    }

    #[track_caller]
    fn fails(bytes: &[u8], text: &str) {
        let thrift::Error::Protocol(error) = read(bytes).unwrap_err() else {
            panic!("not an error of the protocol");
        };
        assert_eq!(error.message, text);
    }

    /// A value of every type.
    fn everything() -> Fields {
        vec![
            (1, Tree::Bool(true)),
            (2, Tree::I8(-2)),
            (3, Tree::I16(-3)),
            (4, Tree::I32(-4)),
            (5, Tree::I64(-5)),
            (6, Tree::Double(0.5)),
            (7, Tree::text("seven")),
            (8, Tree::List(vec![Tree::I32(1), Tree::I32(2)])),
            (9, Tree::Map(vec![(Tree::text("key"), Tree::Bool(false))])),
            (-1, Tree::Struct(vec![(1, Tree::List(Vec::new())), (2, Tree::Map(Vec::new()))])),
        ]
    }

    #[test]
    fn values_have_the_bytes_of_the_binary_protocol() {
        let fields = vec![(2, Tree::text("ab")), (3, Tree::List(vec![Tree::I16(258)]))];
        assert_eq!(bytes(fields), b"\x0b\0\x02\0\0\0\x02ab\x0f\0\x03\x06\0\0\0\x01\x01\x02\0");
    }

    #[test]
    fn values_are_read_as_they_were_written() {
        assert_eq!(read(&bytes(everything())).unwrap(), everything());
    }

    #[test]
    fn sets_are_lists_and_uuids_bytes() {
        let set = b"\x0e\0\x01\x02\0\0\0\x01\x01\0";
        assert_eq!(read(set).unwrap(), [(1, Tree::List(vec![Tree::Bool(true)]))]);
        let uuid = b"\x10\0\x010123456789abcdef\0";
        assert_eq!(read(uuid).unwrap(), [(1, Tree::text("0123456789abcdef"))]);
    }

    #[test]
    fn every_cut_is_an_error() {
        let bytes = bytes(everything());
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn no_changed_byte_makes_the_reader_panic() {
        let bytes = bytes(everything());
        for at in 0..bytes.len() {
            for value in 0..=255 {
                let mut changed = bytes.clone();
                changed[at] = value;
                let _ = read(&changed);
            }
        }
    }

    #[test]
    fn depth_is_limited() {
        let nested = |levels: usize| {
            // A field with a list of lists, the innermost of which is empty.
            let outer = b"\x0f\0\0\0\x01".repeat(levels - 1);
            [&b"\x0f\0\x01"[..], &outer, b"\x0f\0\0\0\0\0"].concat()
        };
        assert!(read(&nested(DEPTH_MAX)).is_ok());
        fails(&nested(DEPTH_MAX + 1), "values are nested more than 64 levels deep");
        // Structs are nested without a header.
        assert!(read(&b"\x0c\0\x01".repeat(100_000)).is_err());
    }

    #[test]
    fn the_number_of_values_is_limited() {
        let bytes = bytes(vec![(1, Tree::List(vec![Tree::Bool(true); 5]))]);
        let mut input = TBinaryInputProtocol::new(&bytes[..], true);
        assert!(TreeReader { input: &mut input, values_left: 6 }.read_struct().is_ok());
        let mut input = TBinaryInputProtocol::new(&bytes[..], true);
        let error = TreeReader { input: &mut input, values_left: 5 }.read_struct().unwrap_err();
        let thrift::Error::Protocol(error) = error else { panic!("{error}") };
        assert_eq!(error.message, "it has more than 33554432 values");
    }

    #[test]
    fn memory_follows_the_bytes_that_arrive_and_not_the_lengths_that_are_claimed() {
        let claims = [
            &b"\x0b\0\x01\x0f\xff\xff\xffshort"[..],
            b"\x0f\0\x01\x02\x05\xff\xff\xff\x01\x01",
            b"\x0d\0\x01\x02\x02\x02\xff\xff\xff\x01\x01",
        ];
        for claim in claims {
            let memory = allocation_counter::measure(|| assert!(read(claim).is_err()));
            assert!(memory.bytes_max < 4096, "{memory:?}");
        }
        let limit = "bytes, but the limit is 268435456";
        fails(b"\x0b\0\x01\x7f\xff\xff\xff", &format!("a string has 2147483647 {limit}"));
        fails(b"\x0b\0\x01\xff\xff\xff\xff", &format!("a string has -1 {limit}"));
    }

    #[test]
    fn values_without_a_type_are_refused() {
        fails(b"\x01\0\x01\0", "a value of type void cannot be read");
        fails(b"\x0f\0\x01\0\0\0\0\x01", "a value of type STOP cannot be read");
    }
}
