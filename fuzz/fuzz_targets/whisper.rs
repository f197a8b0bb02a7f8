//! Whisper files: what is read gives each instant once.
#![no_main]

use formats::files::Whisper;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(whisper) = Whisper::parse(bytes) else { return };
    for pair in whisper.extract().windows(2) {
        assert!(pair[0].end_us <= pair[1].start_us);
    }
});
