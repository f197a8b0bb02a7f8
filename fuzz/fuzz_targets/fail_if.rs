//! Conditions: any text is decided or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spec::FailIf;

fuzz_target!(|text: &str| {
    match FailIf::parse(text) {
        Ok(condition) => {
            let _ = condition.evaluate(&|_, _| Some(1.0));
            let _ = condition.with_variants(&["tcp".to_owned(), "unix".to_owned()]);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
