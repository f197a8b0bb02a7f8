//! No file uses another one that uses it, directly or through others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use super::crates;
use super::modules::{ModulePath, Modules};

/// Uses that close a circle which cannot be opened: crate, file, used file, item.
const GRANTED: &[(&str, &str, &str, &str)] = &[
    // A query is a tree: a function evaluates its arguments, and these are calls of functions.
    ("graphite", "functions::arguments", "evaluate", "evaluate"),
];

/// The shortest circle from each file, once, as its files with what each uses of the next one.
fn circles(name: &str, modules: &Modules) -> Vec<Vec<(ModulePath, BTreeSet<String>)>> {
    let uses: BTreeMap<&ModulePath, BTreeMap<&ModulePath, BTreeSet<String>>> = modules
        .0
        .keys()
        .map(|path| {
            let mut uses = modules.uses(path);
            for (to, items) in &mut uses {
                let (from, to) = (path.join("::"), to.join("::"));
                items.retain(|item| !GRANTED.contains(&(name, &from[..], &to[..], &item[..])));
            }
            uses.retain(|_, items| !items.is_empty());
            (path, uses)
        })
        .collect();
    let mut circles: BTreeMap<BTreeSet<&ModulePath>, Vec<&ModulePath>> = BTreeMap::new();
    for start in uses.keys() {
        if let Some(circle) = way_back(&uses, start) {
            circles.entry(circle.iter().copied().collect()).or_insert(circle);
        }
    }
    let with_items = |circle: Vec<&ModulePath>| {
        let next = circle.iter().cycle().skip(1);
        let steps = circle.iter().zip(next);
        steps.map(|(from, to)| ((*from).clone(), uses[from][to].clone())).collect()
    };
    circles.into_values().map(with_items).collect()
}

/// The files of the shortest circle through a file, which is the first.
fn way_back<'m>(
    uses: &BTreeMap<&'m ModulePath, BTreeMap<&'m ModulePath, BTreeSet<String>>>,
    start: &'m ModulePath,
) -> Option<Vec<&'m ModulePath>> {
    let mut from: BTreeMap<&ModulePath, &ModulePath> = BTreeMap::new();
    let mut next = VecDeque::from([start]);
    while let Some(at) = next.pop_front() {
        for used in uses[at].keys() {
            if *used == start {
                let mut way = vec![at];
                while let Some(before) = from.get(way[way.len() - 1]) {
                    way.push(before);
                }
                way.reverse();
                return Some(way);
            }
            if !from.contains_key(used) {
                from.insert(used, at);
                next.push_back(used);
            }
        }
    }
    None
}

/// The circles of a crate in words, one per line.
fn told(name: &str, modules: &Modules) -> Vec<String> {
    let line = |circle: Vec<(ModulePath, BTreeSet<String>)>| {
        let file = |path: &ModulePath| modules.0[path].file.display().to_string();
        let mut line = file(&circle[0].0);
        for (place, (_, items)) in circle.iter().enumerate() {
            let items: Vec<&str> = items.iter().map(String::as_str).collect();
            let to = &circle[(place + 1) % circle.len()].0;
            line += &format!("\n    uses {} of {}", items.join(", "), file(to));
        }
        line
    };
    circles(name, modules).into_iter().map(line).collect()
}

#[test]
fn no_file_uses_one_that_uses_it() {
    let found: Vec<String> =
        crates().iter().flat_map(|(name, modules)| told(name, modules)).collect();
    assert!(
        found.is_empty(),
        "put what several of these files need into a file of its own:\n{}",
        found.join("\n")
    );
}

#[test]
fn what_is_granted_is_needed() {
    let crates = crates();
    for (name, from, to, item) in GRANTED {
        let split = |path: &str| path.split("::").map(str::to_owned).collect::<ModulePath>();
        let (_, modules) = crates.iter().find(|(known, _)| known == name).expect("a crate");
        let uses = modules.uses(&split(from));
        let items = uses.get(&split(to));
        assert!(items.is_some_and(|items| items.contains(*item)), "{from} does not use {item}");
    }
}

/// The circles of a crate of these files.
fn of_files(files: &[(&str, &str)]) -> Vec<String> {
    let read = |path: &Path| {
        let found = files.iter().find(|(name, _)| Path::new(name) == path);
        found.map(|(_, text)| (*text).to_owned())
    };
    told("", &Modules::read(Path::new("src/lib.rs"), &read))
}

#[test]
fn a_circle_is_told_with_the_items_that_make_it() {
    let root = ("src/lib.rs", "mod a; mod b; mod c; pub use c::Last;");
    let found = of_files(&[
        root,
        ("src/a.rs", "use crate::b::{First, other as another};"),
        ("src/b.rs", "fn x() { super::c::call() } struct First; fn other() {}"),
        // Through a re-export, and beside a comment on crate::b.
        ("src/c.rs", "pub struct Last; pub fn call() -> crate::a::Back { loop {} }"),
    ]);
    let expected = "src/a.rs\n    uses First, other of src/b.rs\n    uses call of src/c.rs\n    \
                    uses Back of src/a.rs";
    assert_eq!(found, [expected]);
    let straight = [
        root,
        ("src/a.rs", "use crate::b::First; use crate::Last;"),
        ("src/b.rs", "use super::c::call; // crate::a::Back\n pub struct First;"),
        ("src/c.rs", "pub struct Last; #[cfg(test)] mod tests { use crate::a::Back; }"),
    ];
    assert_eq!(of_files(&straight), [""; 0]);
}

#[test]
fn a_reexport_hides_no_circle() {
    let found = of_files(&[
        ("src/lib.rs", "mod a; mod b; pub use a::*; pub use b::Second as Other;"),
        ("src/a.rs", "pub struct First(crate::Other);"),
        ("src/b.rs", "use crate::First; pub struct Second(Box<First>);"),
    ]);
    assert_eq!(found, ["src/a.rs\n    uses Second of src/b.rs\n    uses First of src/a.rs"]);
}

#[test]
fn a_folder_may_share_what_its_first_file_defines() {
    let shared = "mod one; mod two; pub struct Shared; pub fn run() { one::run(); two::run() }";
    let root = ("src/lib.rs", "mod folder;");
    let fine = [
        root,
        ("src/folder/mod.rs", shared),
        ("src/folder/one.rs", "use super::Shared; pub fn run() {}"),
        ("src/folder/two.rs", "use super::{Shared, one}; pub fn run() { one::run() }"),
    ];
    assert_eq!(of_files(&fine), [""; 0]);
    // Siblings are not granted that, by whatever path they reach each other.
    let siblings = [
        root,
        ("src/folder/mod.rs", "mod one; mod two; use two::Two;"),
        ("src/folder/one.rs", "use super::Two; pub struct One;"),
        ("src/folder/two.rs", "mod inner { use super::super::one::One; } pub struct Two;"),
    ];
    let expected =
        "src/folder/one.rs\n    uses Two of src/folder/two.rs\n    uses One of src/folder/one.rs";
    assert_eq!(of_files(&siblings), [expected]);
}
