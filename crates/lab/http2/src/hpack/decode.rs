//! Decoding blocks of headers.

use std::collections::VecDeque;

use super::{ENTRY_BYTES, HpackError, STATIC, TABLE_BYTES, huffman};

/// The decoding side of one direction of a connection.
#[derive(Debug)]
pub struct Decoder {
    /// Newest first.
    table: VecDeque<(Vec<u8>, Vec<u8>)>,
    table_bytes: usize,
    table_bytes_max: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder {
            table: VecDeque::new(),
            table_bytes: 0,
            table_bytes_max: TABLE_BYTES,
            name: Vec::new(),
            value: Vec::new(),
        }
    }
}

impl Decoder {
    /// Gives every header of a block to `each`, in order. Returns whether another block with the
    /// same bytes would have the same meaning: this one did not change the table.
    ///
    /// # Errors
    /// [`HpackError`], after which the decoder must not be used any more.
    pub fn decode(
        &mut self,
        block: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<bool, HpackError> {
        let mut at = Cursor(block);
        let (mut repeats, mut has_begun) = (true, false);
        while let Some(first) = at.0.first().copied() {
            if first & 0x80 != 0 {
                let index = at.integer(7)?;
                let (name, value) = self.entry(index)?;
                each(name, value);
            } else if first & 0xe0 == 0x20 {
                let size = at.integer(5)?;
                if has_begun || size > TABLE_BYTES {
                    return Err(HpackError);
                }
                self.table_bytes_max = size;
                self.evict();
                repeats = false;
                continue;
            } else {
                let is_added = first & 0x40 != 0;
                let index = at.integer(if is_added { 6 } else { 4 })?;
                let mut name = std::mem::take(&mut self.name);
                let mut value = std::mem::take(&mut self.value);
                name.clear();
                value.clear();
                match index {
                    0 => at.string(&mut name)?,
                    index => name.extend_from_slice(self.entry(index)?.0),
                }
                at.string(&mut value)?;
                each(&name, &value);
                if is_added {
                    repeats = false;
                    self.add(name.clone(), value.clone());
                }
                (self.name, self.value) = (name, value);
            }
            has_begun = true;
        }
        Ok(repeats)
    }

    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), HpackError> {
        let index = index.checked_sub(1).ok_or(HpackError)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let (name, value) = self.table.get(index - STATIC.len()).ok_or(HpackError)?;
        Ok((name, value))
    }

    fn add(&mut self, name: Vec<u8>, value: Vec<u8>) {
        self.table_bytes += name.len() + value.len() + ENTRY_BYTES;
        self.table.push_front((name, value));
        self.evict();
    }

    /// Removes the oldest entries until the others fit (RFC 7541, 4.3 and 4.4).
    fn evict(&mut self) {
        while self.table_bytes > self.table_bytes_max
            && let Some((name, value)) = self.table.pop_back()
        {
            self.table_bytes -= name.len() + value.len() + ENTRY_BYTES;
        }
    }
}

/// The rest of a block.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    /// An integer whose first byte has so many bits for it (RFC 7541, 5.1).
    fn integer(&mut self, bits: u32) -> Result<usize, HpackError> {
        let most = (1usize << bits) - 1;
        let mut value = usize::from(self.byte()?) & most;
        if value < most {
            return Ok(value);
        }
        let mut shift = 0;
        loop {
            let byte = self.byte()?;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            shift += 7;
            if shift > 21 {
                return Err(HpackError);
            }
        }
    }

    fn byte(&mut self) -> Result<u8, HpackError> {
        let (first, rest) = self.0.split_first().ok_or(HpackError)?;
        self.0 = rest;
        Ok(*first)
    }

    /// Adds a string to `out` (RFC 7541, 5.2).
    fn string(&mut self, out: &mut Vec<u8>) -> Result<(), HpackError> {
        let is_coded = self.0.first().ok_or(HpackError)? & 0x80 != 0;
        let length = self.integer(7)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(HpackError)?;
        self.0 = rest;
        if is_coded {
            return huffman::decode(bytes, out);
        }
        out.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(decoder: &mut Decoder, block: &[u8]) -> Result<(String, bool), HpackError> {
        let mut out = String::new();
        let repeats = decoder.decode(block, &mut |name, value| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            out += &format!("{}={};", text(name), text(value));
        })?;
        Ok((out, repeats))
    }

    /// The bytes of hexadecimal digits.
    fn bytes(hex: &str) -> Vec<u8> {
        let hex: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        hex.chunks(2)
            .map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn responses_of_the_rfc_fill_and_empty_the_table() {
        // RFC 7541, C.5, whose table has 256 bytes, after an update of its size.
        let mut decoder = Decoder::default();
        let first = "3f e1 01 48 03 333032 58 07 70726976617465 61 1d \
                     4d6f6e2c203231204f637420323031332032303a31333a323120474d54 \
                     6e 17 68747470733a2f2f7777772e6578616d706c652e636f6d";
        let (text, repeats) = decoded(&mut decoder, &bytes(first)).unwrap();
        assert_eq!(
            text,
            ":status=302;cache-control=private;date=Mon, 21 Oct 2013 20:13:21 GMT;\
             location=https://www.example.com;"
        );
        assert!(!repeats);
        assert_eq!(decoder.table_bytes, 222);
        let (text, _) = decoded(&mut decoder, &bytes("48 03 333037 c1 c0 bf")).unwrap();
        assert!(text.starts_with(":status=307;cache-control=private;date="), "{text}");
        assert_eq!((decoder.table_bytes, decoder.table.len()), (222, 4));
        let (text, repeats) = decoded(&mut decoder, &bytes("88 c1 c0 bf")).unwrap();
        assert!(text.starts_with(":status=200;cache-control=private;"), "{text}");
        assert!(repeats);
    }

    #[test]
    fn requests_of_the_rfc_with_huffman_codes() {
        // RFC 7541, C.4.1 and C.4.2.
        let mut decoder = Decoder::default();
        let first = bytes("82 86 84 41 8c f1e3 c2e5 f23a 6ba0 ab90 f4ff");
        let text = decoded(&mut decoder, &first).unwrap().0;
        assert_eq!(text, ":method=GET;:scheme=http;:path=/;:authority=www.example.com;");
        let text = decoded(&mut decoder, &bytes("82 86 84 be 58 86 a8eb 1064 9cbf")).unwrap().0;
        assert!(text.ends_with(":authority=www.example.com;cache-control=no-cache;"), "{text}");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for block in [
            "80",                // index 0
            "be",                // an entry that is not there
            "3f e2 1f",          // a larger table than agreed on
            "82 20",             // a new size after a header
            "40 0a 61",          // a string that is too short
            "ff ff ff ff ff 01", // an index beyond all sizes
            "7f",                // an index that does not end
        ] {
            let refused = decoded(&mut Decoder::default(), &bytes(block));
            assert_eq!(refused, Err(HpackError), "{block}");
        }
    }

    #[test]
    fn a_field_that_is_larger_than_the_table_empties_it() {
        let mut decoder = Decoder::default();
        decoded(&mut decoder, &bytes("40 01 61 01 62")).unwrap();
        assert_eq!(decoder.table.len(), 1);
        let mut large = bytes("40 01 61 7f 81 1f");
        large.extend(vec![b'x'; 4_096]);
        let (text, _) = decoded(&mut decoder, &large).unwrap();
        assert_eq!(text.len(), 4_096 + 3);
        assert_eq!((decoder.table.len(), decoder.table_bytes), (0, 0));
    }
}
