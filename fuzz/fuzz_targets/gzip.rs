//! Compressed streams: any bytes are unpacked or refused, to no more than the limit.
#![no_main]

use std::io::{Cursor, Read};

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut opened) = formats::open(Cursor::new(bytes.to_vec()), 1 << 20) else { return };
    let mut unpacked = Vec::new();
    let read = opened.stream.read_to_end(&mut unpacked).is_ok();
    assert!(!opened.gzip || unpacked.len() <= 1 << 20);
    assert_eq!(formats::check(Cursor::new(bytes.to_vec()), 1 << 20).is_ok(), read);
});
