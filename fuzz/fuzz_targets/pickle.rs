//! Graphite's pickle protocol: any stream is read or refused, in bounded time and memory, and what is
//! read is lines of three fields.
#![no_main]

use formats::pickle::{self, HEADER_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The bytes as a frame, and as a stream of frames.
    read(bytes);
    let mut stream = bytes;
    while let Ok(Some(length)) = pickle::frame_bytes(stream) {
        let Some((frame, rest)) = stream.split_at_checked(length) else { return };
        read(&frame[HEADER_BYTES..]);
        stream = rest;
    }
});

fn read(frame: &[u8]) {
    let mut lines = b"before\n".to_vec();
    let mut refused = 0;
    let done = pickle::lines(frame, &mut lines, &mut |_| refused += 1);
    let text = std::str::from_utf8(&lines).expect("lines are UTF-8");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("before"));
    let mut count = 0;
    for line in lines {
        let fields: Vec<&str> = line.split(' ').collect();
        assert!(fields.len() == 3 && fields.iter().all(|field| !field.is_empty()), "{line:?}");
        assert!(!line.starts_with('#'));
        count += 1;
    }
    assert!(done.is_ok() || count + refused == 0, "a frame is refused whole");
    assert!(count + refused <= frame.len());
}
