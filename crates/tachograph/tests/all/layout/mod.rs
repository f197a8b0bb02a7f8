//! How files depend on each other, and that one word means one thing, read from the text of all
//! crates.

mod circles;
mod modules;
mod names;
mod tokens;

use std::fs;
use std::path::{Path, PathBuf};

use modules::Modules;

/// The modules of each crate of the workspace, with the crate's name.
fn crates() -> Vec<(String, Modules)> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder of crates");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let halves = below(&top.join("crates"));
    let mut folders: Vec<PathBuf> = halves.iter().filter(|path| path.is_dir()).cloned().collect();
    folders.extend(folders.clone().iter().flat_map(|half| below(half)));
    folders.sort();
    let read = |path: &Path| fs::read_to_string(top.join(path)).ok();
    let of_crate = |folder: PathBuf| {
        let source = folder.strip_prefix(&top).expect("below the top").join("src");
        let roots = ["lib.rs", "main.rs"].map(|root| source.join(root));
        let root = roots.into_iter().find(|root| top.join(root).exists())?;
        let name = folder.file_name()?.to_str()?.to_owned();
        Some((name, Modules::read(&root, &read)))
    };
    let crates: Vec<_> = folders.into_iter().filter_map(of_crate).collect();
    assert!(crates.len() >= 30, "only {} crates were found", crates.len());
    crates
}
