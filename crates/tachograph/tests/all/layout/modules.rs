//! The modules of a crate: what each defines, imports and names.
//!
//! A path is followed to the file that defines its item, through imports and re-exports. Names that
//! need the compiler (methods, derived code) are not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::tokens::{closed, product};

/// The path of a module from its crate; empty for the root.
pub(crate) type ModulePath = Vec<String>;

/// The modules of a crate that are files, by path.
pub(crate) struct Modules(pub(crate) BTreeMap<ModulePath, Module>);

/// A module that is a file.
#[derive(Default)]
pub(crate) struct Module {
    pub(crate) file: PathBuf,
    /// Names of its children that are files.
    children: BTreeSet<String>,
    /// Names of its items.
    items: BTreeSet<String>,
    imports: Vec<Import>,
    /// Every path in its text.
    paths: Vec<Named>,
    /// The names of its types.
    pub(crate) types: Vec<String>,
}

/// A name of a module that stands for a path; `*` for all names of that path.
#[derive(Clone)]
struct Import {
    name: String,
    path: Vec<String>,
}

/// A path in a text.
struct Named {
    path: Vec<String>,
    /// How many modules within the file it is in: so many `super` lead no further than the file.
    inner: usize,
    is_import: bool,
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    module: ModulePath,
    /// `None` for the module itself.
    item: Option<String>,
}

/// Re-exports that are followed one after the other.
const STEPS_MAX: usize = 20;

impl Modules {
    /// Reads a crate from its first file on.
    pub(crate) fn read(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Modules {
        let mut modules = Modules(BTreeMap::new());
        let folder = root.parent().expect("a folder").to_owned();
        modules.add(Vec::new(), root, &folder, read);
        modules
    }

    /// Adds a module whose children are in a folder.
    fn add(
        &mut self,
        path: ModulePath,
        file: &Path,
        folder: &Path,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> bool {
        let Some(text) = read(file) else { return false };
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        module.parse(&product(&text));
        for child in &module.children {
            let below = folder.join(child);
            let path = [path.as_slice(), std::slice::from_ref(child)].concat();
            let is_there =
                self.add(path.clone(), &folder.join(format!("{child}.rs")), &below, read)
                    || self.add(path, &below.join("mod.rs"), &below, read);
            assert!(is_there, "the module {child} of {} is nowhere", file.display());
        }
        self.0.insert(path, module);
        true
    }

    /// The items of other files that a module names, by module.
    ///
    /// Those of the modules that it is in are left out: a folder is read from its `mod.rs`, which
    /// may define what its files share.
    pub(crate) fn uses(&self, path: &ModulePath) -> BTreeMap<&ModulePath, BTreeSet<String>> {
        let mut uses: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for named in &self.0[path].paths {
            let Some(Place { module, item: Some(item) }) = self.follow(path, named, 0) else {
                continue;
            };
            if !path.starts_with(&module)
                && let Some((module, _)) = self.0.get_key_value(&module)
            {
                uses.entry(module).or_default().insert(item);
            }
        }
        uses
    }

    /// Where a path in a module leads; `None` for another crate.
    fn follow(&self, from: &ModulePath, named: &Named, steps: usize) -> Option<Place> {
        let mut module = from.clone();
        let mut rest = named.path.as_slice();
        let mut inner = named.inner;
        let (first, after) = rest.split_first()?;
        match first.as_str() {
            "crate" => {
                module.clear();
                rest = after;
            }
            "self" | "super" => {
                rest = if first == "self" { after } else { rest };
                while let Some((_, after)) = rest.split_first().filter(|(word, _)| *word == "super")
                {
                    match inner {
                        0 => drop(module.pop()),
                        _ => inner -= 1,
                    }
                    rest = after;
                }
            }
            // An import may have the name of the crate that it is from.
            _ if named.is_import && !self.0[from].children.contains(first) => {
                let mut imports = self.0[from].imports.iter();
                let is_other =
                    |import: &&Import| import.name == *first && import.path != named.path;
                imports.find(is_other)?;
            }
            _ if !self.knows(from, first, steps) => return None,
            _ => {}
        }
        self.find(&module, rest, steps)
    }

    /// Whether a module has a name.
    fn knows(&self, module: &ModulePath, name: &str, steps: usize) -> bool {
        let Module { children, items, imports, .. } = &self.0[module];
        children.contains(name)
            || items.contains(name)
            || imports.iter().any(|import| import.name == name)
            || self.globs(module, steps).iter().any(|glob| self.knows(glob, name, steps + 1))
    }

    /// The modules all of whose names a module has.
    fn globs(&self, module: &ModulePath, steps: usize) -> Vec<ModulePath> {
        if steps > STEPS_MAX {
            return Vec::new();
        }
        let globs = self.0[module].imports.iter().filter(|import| import.name == "*");
        let places = globs.filter_map(|glob| self.import(module, glob, steps));
        places.filter(|place| place.item.is_none()).map(|place| place.module).collect()
    }

    fn import(&self, module: &ModulePath, import: &Import, steps: usize) -> Option<Place> {
        let named = Named { path: import.path.clone(), inner: 0, is_import: true };
        self.follow(module, &named, steps + 1)
    }

    /// Where a path from a module on leads. A name that nothing shows, as one that a macro defines,
    /// belongs to the module.
    fn find(&self, module: &ModulePath, path: &[String], steps: usize) -> Option<Place> {
        let here =
            |item: Option<&String>| Some(Place { module: module.clone(), item: item.cloned() });
        let Some((first, rest)) = path.split_first() else { return here(None) };
        let Module { children, items, imports, .. } = &self.0[module];
        if steps > STEPS_MAX {
            return None;
        }
        if children.contains(first) {
            let child = [module.as_slice(), std::slice::from_ref(first)].concat();
            return self.find(&child, rest, steps);
        }
        if items.contains(first) {
            return here(Some(first));
        }
        if let Some(import) = imports.iter().find(|import| import.name == *first) {
            let place = self.import(module, import, steps)?;
            return match place.item {
                None => self.find(&place.module, rest, steps + 1),
                Some(_) => Some(place),
            };
        }
        let globs = self.globs(module, steps);
        match globs.iter().find(|glob| self.knows(glob, first, steps + 1)) {
            Some(glob) => self.find(glob, path, steps + 1),
            None => here(Some(first)),
        }
    }
}

impl Module {
    fn parse(&mut self, tokens: &[&str]) {
        // Where the modules within the file end.
        let mut inner: Vec<usize> = Vec::new();
        // Where the outermost braces end.
        let mut block_end = 0;
        let mut at = 0;
        while at < tokens.len() {
            inner.retain(|end| at < *end);
            let is_outside = at >= block_end;
            let before = at.checked_sub(1).map_or("", |before| tokens[before]);
            match &tokens[at..] {
                ["use", ..] if matches!(before, "" | ";" | "{" | "}" | ")" | "pub") => {
                    let mut imports = Vec::new();
                    at = imported(tokens, at + 1, &[], &mut imports);
                    for import in imports {
                        let path = import.path.clone();
                        self.paths.push(Named { path, inner: inner.len(), is_import: true });
                        if is_outside {
                            self.imports.push(import);
                        }
                    }
                    continue;
                }
                ["mod", name, ";", ..] if is_outside => {
                    self.children.insert((*name).to_owned());
                }
                ["mod", name, "{", ..] if is_word(name) => {
                    inner.push(closed(tokens, at + 2));
                    if is_outside {
                        self.items.insert((*name).to_owned());
                    }
                }
                ["macro_rules", "!", name, ..] => {
                    self.items.insert((*name).to_owned());
                }
                [kind, name, ..] if is_outside && DEFINING.contains(kind) && is_word(name) => {
                    self.items.insert((*name).to_owned());
                    if DEFINING_TYPES.contains(kind) {
                        self.types.push((*name).to_owned());
                    }
                }
                [first, "::", second, ..]
                    if is_word(first) && is_word(second) && before != "::" =>
                {
                    let mut path = vec![(*first).to_owned()];
                    while let ["::", word, ..] = &tokens[at + 1..]
                        && is_word(word)
                    {
                        path.push((*word).to_owned());
                        at += 2;
                    }
                    self.paths.push(Named { path, inner: inner.len(), is_import: false });
                }
                ["{" | "(" | "[", ..] if is_outside => block_end = closed(tokens, at),
                _ => {}
            }
            at += 1;
        }
    }
}

const DEFINING: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];
const DEFINING_TYPES: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_') && !DEFINING.contains(&token)
}

/// Adds what a tree of imports brings; returns the place after it.
fn imported(tokens: &[&str], mut at: usize, before: &[String], imports: &mut Vec<Import>) -> usize {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(at) {
        match *token {
            "{" => {
                let end = closed(tokens, at);
                at += 1;
                while at + 1 < end {
                    at = imported(tokens, at, &path, imports);
                    at += usize::from(tokens[at] == ",");
                }
                return end;
            }
            "*" => {
                imports.push(Import { name: "*".to_owned(), path });
                return at + 1;
            }
            "::" => {}
            "self" if !path.is_empty() => {}
            word => path.push(word.to_owned()),
        }
        at += 1;
        if tokens.get(at) != Some(&"::") && *token != "::" {
            let other = tokens.get(at + 1).filter(|_| tokens.get(at) == Some(&"as"));
            let name = other.map(|name| (*name).to_owned()).or_else(|| path.last().cloned());
            imports.extend(name.map(|name| Import { name, path }));
            return at + 2 * usize::from(other.is_some());
        }
    }
    at
}
