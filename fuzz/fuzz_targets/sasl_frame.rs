//! The frames of SASL over Thrift: no input makes the reader panic, take more than it was given, or
//! read anything but what would be written.
#![no_main]

use hive::frame::{FrameError, Message, frame, read_frame};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    loop {
        let before = rest;
        match Message::read(&mut rest) {
            Ok(message) => assert_eq!(message.to_bytes(), before[..before.len() - rest.len()]),
            Err(FrameError::Io(error)) => panic!("memory does not fail: {error}"),
            Err(_) => break,
        }
    }
    let mut rest = data;
    while let Ok(body) = {
        let before = rest.len();
        read_frame(&mut rest).inspect(|body| assert_eq!(before - rest.len(), body.len() + 4))
    } {
        assert_eq!(read_frame(&mut &frame(&body)[..]).ok(), Some(body));
    }
});
