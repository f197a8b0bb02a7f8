//! Experiments: any text is a plan or an error that can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = spec::parse_plan(text, "fuzz.toml") {
        assert!(!error.to_string().is_empty());
    }
});
