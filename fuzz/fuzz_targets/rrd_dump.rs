//! The output of `rrdtool dump`: what is read gives each instant once.
#![no_main]

use formats::files::Rrd;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(rrd) = Rrd::read(bytes) else { return };
    for field in rrd.extract() {
        for pair in field.stretches.windows(2) {
            assert!(pair[0].end_us <= pair[1].start_us);
        }
    }
});
