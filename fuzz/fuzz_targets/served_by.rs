//! The value of --served-by.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = spec::ServedBy::parse(text).map(|served_by| served_by.to_string());
});
