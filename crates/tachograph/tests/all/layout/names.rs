//! A type's name is a noun that can be searched, and names few types.

use std::collections::BTreeMap;

use super::crates;

/// How many types of the product may have one name.
const SAME_MAX: usize = 3;

/// Names that more types have: each is used only in its module, or written with its crate or module.
const CUSTOMARY: [&str; 8] = ["Args", "Config", "Error", "Iter", "Kind", "Options", "Row", "State"];

/// Nouns that end as a participle does.
const NOUNS: &str = "Deed Feed Screen Seed Speed Token";

/// Participles and adjectives that end otherwise, and other words that are no nouns.
const NOT_NOUNS: &str = "After Ahead Among Before Beside Better Both Built By Done Due Earlier \
    Exclusive Foreign Found Held Kept Known Late Left Linear Live Lost Made Near Of Open Out Over \
    Own Patient Pending Plain Present Ran Rare Read Ready Recent Resident Said Sent Shown Silent \
    Since Slow Sparse Then Together Told Unavailable What When Which Whole";

/// The files that define each type, by its name.
fn types() -> BTreeMap<String, Vec<String>> {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for module in crates().into_iter().flat_map(|(_, modules)| modules.0.into_values()) {
        for name in module.types {
            files.entry(name).or_default().push(module.file.display().to_string());
        }
    }
    assert!(files.len() > 800, "only {} names of types were found", files.len());
    files
}

#[test]
fn few_types_have_the_same_name() {
    for (name, mut files) in types() {
        files.retain(|file| !file.starts_with("crates/dev/"));
        let (count, files) = (files.len(), files.join(", "));
        assert!(
            count <= SAME_MAX || CUSTOMARY.contains(&name.as_str()),
            "{count} types are called {name}; give all but the main one a fuller name: {files}"
        );
    }
}

#[test]
fn types_are_named_by_nouns() {
    let files = types();
    let has = |list: &str, name: &str| list.split_whitespace().any(|word| word == name);
    for (name, files) in &files {
        let is_word = name.matches(char::is_uppercase).count() == 1;
        let is_participle = is_word && (name.ends_with("ed") || name.ends_with("en"));
        let is_no_noun = is_participle && !has(NOUNS, name) || has(NOT_NOUNS, name);
        let files = files.join(", ");
        assert!(
            !is_no_noun,
            "{files}: the name {name} does not say what it is; add a noun, as in HeldLine for Held"
        );
    }
}
