//! One word means one thing.

use std::collections::BTreeMap;

use super::crates;

/// How many public types of the workspace may have one name.
const SAME_MAX: usize = 3;

/// Names that more types have, and why.
const GRANTED: &[(&str, &str)] = &[
    ("Options", "always written with the crate or module that takes them"),
    ("Proof", "the result of each proof, in its module"),
];

#[test]
fn few_public_types_have_the_same_name() {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, modules) in crates() {
        for module in modules.0.into_values() {
            for (name, _) in module.types.into_iter().filter(|(_, is_public)| *is_public) {
                files.entry(name).or_default().push(module.file.display().to_string());
            }
        }
    }
    assert!(files.len() > 300, "only {} names of public types were found", files.len());
    let is_granted = |name: &str| GRANTED.iter().any(|(granted, _)| *granted == name);
    for (name, files) in &files {
        assert!(
            files.len() <= SAME_MAX || is_granted(name),
            "{} public types are called {name}; one of them needs a word of its own:\n{}",
            files.len(),
            files.join("\n")
        );
    }
    for (name, _) in GRANTED {
        let count = files.get(*name).map_or(0, Vec::len);
        assert!(count > SAME_MAX, "{name} names only {count} types: remove it from the list");
    }
}
