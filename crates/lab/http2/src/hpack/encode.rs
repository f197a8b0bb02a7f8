//! Encoding the headers of messages that are sent again and again.
//!
//! What all messages of a connection have in common is added to the table by the first of them; the
//! rest is sent as it is.

use super::{ENTRY_BYTES, STATIC};

/// Name, in lower case, and value.
pub type HeaderField = (String, String);

/// The headers that the table has, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct CommonFields(Vec<HeaderField>);

impl CommonFields {
    /// The headers that all these messages have, unless their order differs. Those of the static
    /// table need no entry.
    pub fn of(messages: &[Vec<HeaderField>]) -> CommonFields {
        let Some((first, others)) = messages.split_first() else { return CommonFields::default() };
        let is_common = |field: &&HeaderField| {
            whole(field).is_none() && others.iter().all(|other| other.contains(field))
        };
        let common: Vec<HeaderField> = first.iter().filter(is_common).cloned().collect();
        let is_alike = |message: &Vec<HeaderField>| {
            message.iter().filter(|field| common.contains(field)).eq(common.iter())
        };
        match messages.iter().all(is_alike) {
            true => CommonFields(common),
            false => CommonFields::default(),
        }
    }

    /// The size of a table with these headers (RFC 7541, 4.1).
    pub fn table_bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len() + ENTRY_BYTES).sum()
    }

    /// A block of a message with these headers, which adds them to the table (RFC 7541, 6.2.1).
    pub fn with_entries(&self, fields: &[HeaderField]) -> Vec<u8> {
        self.block(fields, |out, field, _| literal_field(out, field, 0x40, 6))
    }

    /// The block that means the same once a block with [`CommonFields::with_entries`] was the only
    /// one that changed the table (RFC 7541, 6.1).
    pub fn with_indices(&self, fields: &[HeaderField]) -> Vec<u8> {
        self.block(fields, |out, _, at| {
            integer(out, 0x80, 7, STATIC.len() + self.0.len() - at);
        })
    }

    /// A block with a way to write the fields of the table, which also have a place in it.
    fn block(
        &self,
        fields: &[HeaderField],
        write: impl Fn(&mut Vec<u8>, &HeaderField, usize),
    ) -> Vec<u8> {
        let (mut out, mut next) = (Vec::new(), 0);
        for field in fields {
            if self.0.get(next) == Some(field) {
                write(&mut out, field, next);
                next += 1;
            } else {
                literal_field(&mut out, field, 0x00, 4);
            }
        }
        out
    }
}

/// A block that leaves the table as it is (RFC 7541, 6.2.2).
pub fn literal(fields: &[HeaderField]) -> Vec<u8> {
    CommonFields::default().with_entries(fields)
}

/// A field of the static table by its index, any other by its name and value.
fn literal_field(out: &mut Vec<u8>, field: &HeaderField, kind: u8, bits: u32) {
    if let Some(index) = whole(field) {
        return integer(out, 0x80, 7, index);
    }
    let (name, value) = field;
    let known = STATIC.iter().position(|(known, _)| known == name);
    integer(out, kind, bits, known.map_or(0, |at| at + 1));
    if known.is_none() {
        string(out, name);
    }
    string(out, value);
}

/// The index of a header in the static table.
fn whole(field: &HeaderField) -> Option<usize> {
    let is_this = |(name, value): &(&str, &str)| *name == field.0 && *value == field.1;
    STATIC.iter().position(is_this).map(|at| at + 1)
}

/// An integer with a prefix (RFC 7541, 5.1).
fn integer(out: &mut Vec<u8>, kind: u8, bits: u32, value: usize) {
    let most = (1usize << bits) - 1;
    if value < most {
        return out.push(kind | value as u8);
    }
    out.push(kind | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A string as it is, without Huffman codes.
fn string(out: &mut Vec<u8>, text: &str) {
    integer(out, 0x00, 7, text.len());
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::Decoder;

    fn field(name: &str, value: &str) -> HeaderField {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn all_forms_mean_the_same() {
        let long = "x".repeat(300);
        let fields = [
            field(":method", "GET"),
            field(":scheme", "https"),
            field(":path", "/a?b"),
            field(":authority", "localhost:8443"),
            field("x-own", &long),
            field("accept", "*/*"),
        ];
        let common = CommonFields::of(&[fields.to_vec()]);
        let (first, next) = (common.with_entries(&fields), common.with_indices(&fields));
        let mut decoder = Decoder::default();
        for block in [&literal(&fields), &first, &next, &literal(&fields)] {
            assert_eq!(decoded(&mut decoder, block), fields);
        }
        assert_eq!(next.len(), fields.len(), "a byte each");
        assert_eq!(CommonFields::of(&[fields[..2].to_vec()]).table_bytes(), 0);
        // RFC 7541, C.3.1: an entry of :authority: www.example.com has 57 bytes.
        let authority = field(":authority", "www.example.com");
        assert_eq!(CommonFields::of(&[vec![authority]]).table_bytes(), 57);
    }

    fn decoded(decoder: &mut Decoder, block: &[u8]) -> Vec<HeaderField> {
        let mut found = Vec::new();
        decoder
            .decode(block, &mut |name, value| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                found.push((text(name), text(value)));
            })
            .unwrap();
        found
    }

    #[test]
    fn different_messages_share_what_they_have_in_common() {
        let message = |path: &str, extra: &[HeaderField]| {
            let mut fields = vec![
                field(":method", if extra.is_empty() { "GET" } else { "PUT" }),
                field(":scheme", "http"),
                field(":authority", "localhost"),
                field(":path", path),
                field("user-agent", "x"),
            ];
            fields.extend_from_slice(extra);
            fields
        };
        let length = [field("content-length", "3")];
        let messages = [message("/a", &[]), message("/b", &length), message("/", &[])];
        let common = CommonFields::of(&messages);
        assert_eq!(common.0, [field(":authority", "localhost"), field("user-agent", "x")]);
        // Whichever is the first of a connection.
        for first in 0..3 {
            let mut decoder = Decoder::default();
            let block = common.with_entries(&messages[first]);
            assert_eq!(decoded(&mut decoder, &block), messages[first]);
            for message in &messages {
                let block = common.with_indices(message);
                assert_eq!(decoded(&mut decoder, &block), *message);
            }
        }
        // In another order the table would be another one.
        let mut turned = messages[0].clone();
        turned.swap(2, 4);
        let none = CommonFields::of(&[messages[0].clone(), turned.clone()]);
        assert_eq!(none.table_bytes(), 0);
        assert_eq!(decoded(&mut Decoder::default(), &none.with_indices(&turned)), turned);
        // The same field twice in one of them.
        let twice = [message("/a", &length), message("/b", &[&length[..], &length].concat())];
        let common = CommonFields::of(&twice);
        let mut decoder = Decoder::default();
        for block in [common.with_entries(&twice[0]), common.with_indices(&twice[1])] {
            let found = decoded(&mut decoder, &block);
            assert!(twice.contains(&found), "{found:?}");
        }
    }

    #[test]
    fn integers_of_the_rfc() {
        // RFC 7541, C.1.
        let of = |bits, value| {
            let mut out = Vec::new();
            integer(&mut out, 0, bits, value);
            out
        };
        assert_eq!(of(5, 10), [10]);
        assert_eq!(of(5, 1337), [31, 154, 10]);
        assert_eq!(of(8, 42), [42]);
    }
}
