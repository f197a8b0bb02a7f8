//! Conditions: any text is decided or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spec::{FailIf, Truth};

fuzz_target!(|text: &str| {
    match FailIf::parse(text) {
        Ok(condition) => {
            let _ = condition.decide(&mut |_| Truth::Undecided);
            let _ = condition.with_parts(&[(String::new(), vec!["tcp".to_owned()])]);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
