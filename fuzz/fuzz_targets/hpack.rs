//! Blocks of headers mean what they mean to nghttp2, one after another on a connection, or both
//! refuse them.
//!
//! The input is the blocks, each ended by the bytes FF FE. Ours refuses only one thing more: a
//! number in more bytes than it needs, beyond the four that any number of use takes.

#![no_main]

use std::ptr;

use http2::hpack::{self, CommonFields, Decoder, HeaderField};
use libfuzzer_sys::fuzz_target;
use libnghttp2_sys as nghttp2;

/// Names and values.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fuzz_target!(|input: &[u8]| {
    let (mut ours, mut theirs) = (Decoder::default(), Inflater::new());
    for block in blocks(input) {
        let read = decoded(&mut ours, block);
        let expected = theirs.decode(block);
        let Some((fields, repeats)) = read else {
            assert!(expected.is_none() || has_long_number(block), "{block:x?} means {expected:x?}");
            return;
        };
        assert_eq!(Some(&fields), expected.as_ref(), "{block:x?}");
        if repeats {
            assert_eq!(decoded(&mut ours, block), Some((fields.clone(), true)), "{block:x?}");
        }
        assert_encodes(&fields);
    }
});

fn blocks(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(input);
    std::iter::from_fn(move || {
        let now = rest?;
        let end = now.windows(2).position(|pair| pair == [0xff, 0xfe]);
        rest = end.map(|end| &now[end + 2..]);
        Some(end.map_or(now, |end| &now[..end]))
    })
}

fn decoded(decoder: &mut Decoder, block: &[u8]) -> Option<(Fields, bool)> {
    let mut fields = Fields::new();
    let repeats = decoder
        .decode(block, &mut |name, value| fields.push((name.to_vec(), value.to_vec())))
        .ok()?;
    Some((fields, repeats))
}

/// Whether there may be a number of more than four bytes after its prefix.
fn has_long_number(block: &[u8]) -> bool {
    block.windows(4).any(|bytes| bytes.iter().all(|byte| byte & 0x80 != 0))
}

/// What we encode means the same to nghttp2.
fn assert_encodes(fields: &Fields) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let fields: Option<Vec<HeaderField>> =
        fields.iter().map(|(name, value)| Some((text(name)?, text(value)?))).collect();
    let Some(fields) = fields else { return };
    let common = CommonFields::of(std::slice::from_ref(&fields));
    if common.table_bytes() > hpack::TABLE_BYTES {
        return;
    }
    let expected: Fields =
        fields.iter().map(|(name, value)| (name.clone().into(), value.clone().into())).collect();
    let mut theirs = Inflater::new();
    for block in [
        hpack::literal(&fields),
        common.with_entries(&fields),
        common.with_indices(&fields),
        hpack::literal(&fields),
    ] {
        assert_eq!(theirs.decode(&block).as_ref(), Some(&expected), "{block:x?}");
    }
}

/// The decoder of nghttp2.
struct Inflater(*mut nghttp2::nghttp2_hd_inflater);

impl Inflater {
    fn new() -> Inflater {
        let mut inflater = ptr::null_mut();
        // SAFETY: it gets a place for a pointer.
        assert_eq!(unsafe { nghttp2::nghttp2_hd_inflate_new(&mut inflater) }, 0);
        Inflater(inflater)
    }

    fn decode(&mut self, block: &[u8]) -> Option<Fields> {
        let mut fields = Fields::new();
        let mut rest = block;
        loop {
            let mut field = nghttp2::nghttp2_nv {
                name: ptr::null_mut(),
                value: ptr::null_mut(),
                namelen: 0,
                valuelen: 0,
                flags: 0,
            };
            let mut flags = 0;
            // SAFETY: the inflater lives, and the pointers are to live values of the right lengths.
            let read = unsafe {
                nghttp2::nghttp2_hd_inflate_hd3(
                    self.0,
                    &mut field,
                    &mut flags,
                    rest.as_ptr(),
                    rest.len(),
                    1,
                )
            };
            rest = &rest[usize::try_from(read).ok()?..];
            if flags as u32 & nghttp2::NGHTTP2_HD_INFLATE_EMIT != 0 {
                // SAFETY: it has set both strings, which live until the next call.
                let text = |start: *mut u8, length| unsafe {
                    std::slice::from_raw_parts(start, length).to_vec()
                };
                fields.push((text(field.name, field.namelen), text(field.value, field.valuelen)));
            }
            if flags as u32 & nghttp2::NGHTTP2_HD_INFLATE_FINAL != 0 {
                // SAFETY: the inflater lives.
                unsafe { nghttp2::nghttp2_hd_inflate_end_headers(self.0) };
                return Some(fields);
            }
        }
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        // SAFETY: it was made by `nghttp2_hd_inflate_new`, and is not used any more.
        unsafe { nghttp2::nghttp2_hd_inflate_del(self.0) };
    }
}
