//! Commands to compare, one a line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spec::{CompareArgs, compare_plan};

fuzz_target!(|text: &str| {
    let commands = text.lines().take(8).map(str::to_owned).collect();
    let _ = compare_plan(&CompareArgs { commands, ..CompareArgs::default() });
});
