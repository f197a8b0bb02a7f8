//! Targets: what is read prints as what is read alike.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spec::Target;

fuzz_target!(|text: &str| {
    if let Ok(target) = Target::parse(text) {
        assert_eq!(Target::parse(&target.to_string()), Ok(target));
    }
    let _ = Target::parse_with_unix_socket(text, text);
});
