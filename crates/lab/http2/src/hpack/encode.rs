//! Encoding the headers of messages that are always the same.

use super::{ENTRY_BYTES, STATIC};

/// Name, in lower case, and value.
pub type HeaderField = (String, String);

/// The size of a table with these headers, without those of the static table (RFC 7541, 4.1).
pub fn sum_of_entries(fields: &[HeaderField]) -> usize {
    let entries = fields.iter().filter(|field| whole(field).is_none());
    entries.map(|(name, value)| name.len() + value.len() + ENTRY_BYTES).sum()
}

/// A block that adds its headers to the table (RFC 7541, 6.2.1).
pub fn with_entries(fields: &[HeaderField]) -> Vec<u8> {
    block(fields, 0x40, 6)
}

/// A block that leaves the table as it is (RFC 7541, 6.2.2).
pub fn literal(fields: &[HeaderField]) -> Vec<u8> {
    block(fields, 0x00, 4)
}

/// The block that means the same once a block with [`with_entries`] was the only one that changed the
/// table (RFC 7541, 6.1).
pub fn with_indices(fields: &[HeaderField]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut newer = fields.iter().filter(|field| whole(field).is_none()).count();
    for field in fields {
        let index = whole(field).unwrap_or_else(|| {
            newer -= 1;
            STATIC.len() + 1 + newer
        });
        integer(&mut out, 0x80, 7, index);
    }
    out
}

fn block(fields: &[HeaderField], kind: u8, bits: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        if let Some(index) = whole(field) {
            integer(&mut out, 0x80, 7, index);
            continue;
        }
        let (name, value) = field;
        let known = STATIC.iter().position(|(known, _)| known == name);
        integer(&mut out, kind, bits, known.map_or(0, |at| at + 1));
        if known.is_none() {
            string(&mut out, name);
        }
        string(&mut out, value);
    }
    out
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
        let mut decoder = Decoder::default();
        for block in
            [literal(&fields), with_entries(&fields), with_indices(&fields), literal(&fields)]
        {
            let mut found = Vec::new();
            decoder
                .decode(&block, &mut |name, value| {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    found.push((text(name), text(value)));
                })
                .unwrap();
            assert_eq!(found, fields);
        }
        assert_eq!(with_indices(&fields).len(), fields.len(), "a byte each");
        assert_eq!(sum_of_entries(&fields[..2]), 0);
        // RFC 7541, C.3.1: an entry of :authority: www.example.com has 57 bytes.
        assert_eq!(sum_of_entries(&[field(":authority", "www.example.com")]), 57);
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
