//! The names of functions.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Symbolizer};
use object::{Object as _, ObjectSymbol as _};
use record::Function;

use crate::chain::Chain;
use crate::maps::{FileId, Mapping, ProcessMaps, VDSO, is_cpython, vdso};
use crate::perf_map::{PYTHON, PerfMap};

/// The names found so far. Starts of the same program share them, because they are kept by place in a
/// file.
#[derive(Default)]
pub(crate) struct Names {
    in_kernel: HashMap<u64, Arc<Function>>,
    in_files: HashMap<(FileId, u64), Option<String>>,
}

/// What is needed to name the addresses of one process, read while it lives.
pub(crate) struct ProcessNames {
    pid: u32,
    maps: ProcessMaps,
    /// Its own generated code, and that of the processes that it was forked from: a process that
    /// forks goes on executing what its parent has generated.
    generated: Vec<PerfMap>,
    /// Folders that are left out of the names of files, because they differ between starts.
    folders: Vec<PathBuf>,
    /// What was named so far.
    known: RefCell<HashMap<u64, NamedAddress>>,
    /// The process, as the caller of its outermost functions.
    itself: OnceCell<Arc<Function>>,
}

/// The function at an address of a program.
#[derive(Clone)]
struct NamedAddress {
    function: Arc<Function>,
    language: Language,
}

/// What a function is written in, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    /// Code that CPython generated for a function.
    Python,
    /// CPython itself.
    Interpreter,
    Other,
}

impl ProcessNames {
    /// Reads what is mapped by a process that lives.
    pub(crate) fn of(pid: u32, ancestors: &[u32], folders: &[PathBuf]) -> ProcessNames {
        let with_ancestors = std::iter::once(pid).chain(ancestors.iter().copied());
        let maps = ProcessMaps::of(pid);
        let generated = match &maps.program {
            Some(program) if file_name(program) == "java" => vec![PerfMap::of_java(pid, program)],
            _ => with_ancestors.map(PerfMap::of).collect(),
        };
        ProcessNames {
            pid,
            maps,
            generated,
            folders: folders.to_vec(),
            known: RefCell::default(),
            itself: OnceCell::new(),
        }
    }

    /// For an idle CPU, which executes only the kernel.
    pub(crate) fn idle() -> ProcessNames {
        let maps = ProcessMaps::default();
        ProcessNames {
            pid: 0,
            maps,
            generated: Vec::new(),
            folders: Vec::new(),
            known: RefCell::default(),
            itself: OnceCell::new(),
        }
    }

    /// The process, as the caller of its outermost functions.
    pub(crate) fn itself(&self) -> Arc<Function> {
        let itself = || {
            let name = Some(unnamed(self).module);
            Arc::new(Function { name, module: Function::PROCESS.to_owned(), is_program: true })
        };
        Arc::clone(self.itself.get_or_init(itself))
    }

    fn generated_name(&self, address: u64) -> Option<&str> {
        self.generated.iter().find_map(|map| map.name(address))
    }
}

impl Names {
    /// Finds the names of all addresses in these chains that are not known yet. Reading the symbols of a
    /// program takes long, so all its addresses are looked up at once.
    pub(crate) fn learn<'a>(
        &mut self,
        chains: impl Iterator<Item = (&'a Chain, &'a ProcessNames)>,
    ) {
        let mut in_kernel: BTreeSet<u64> = BTreeSet::new();
        let mut in_files: BTreeMap<FileId, (PathBuf, BTreeSet<u64>)> = BTreeMap::new();
        let mut seen: HashSet<(u32, u64)> = HashSet::new();
        for (chain, process) in chains {
            let unknown = |address: &u64| !self.in_kernel.contains_key(address);
            in_kernel.extend(inside_calls(&chain.kernel).filter(unknown));
            let is_new = |address: &u64| seen.insert((process.pid, *address));
            for address in inside_calls(&chain.user).filter(is_new) {
                let Some(mapping) = process.maps.find(address) else { continue };
                let place = (mapping.file, mapping.offset_of(address));
                if !self.in_files.contains_key(&place) {
                    let seen_from_here = || (mapping.seen_from_here(process.pid), BTreeSet::new());
                    in_files.entry(place.0).or_insert_with(seen_from_here).1.insert(place.1);
                }
            }
        }
        if !in_kernel.is_empty() {
            let addresses: Vec<u64> = in_kernel.into_iter().collect();
            let source = Source::Kernel(Kernel::default());
            let names = look_up(&source, Input::AbsAddr(&addresses));
            let functions = names.into_iter().map(|name| Arc::new(of_kernel(name)));
            self.in_kernel.extend(addresses.into_iter().zip(functions));
        }
        for (file, (path, offsets)) in in_files {
            let offsets: Vec<u64> = offsets.into_iter().collect();
            let names = look_up_in_file(&path, &offsets);
            let places = offsets.into_iter().map(|offset| (file, offset));
            self.in_files.extend(places.zip(names));
        }
    }

    /// The functions of a chain, the outermost first.
    pub(crate) fn functions(&self, chain: &Chain, process: &ProcessNames) -> Vec<Arc<Function>> {
        let in_kernel = inside_calls(&chain.kernel).map(|address| self.in_kernel.get(&address));
        let mut inner_first: Vec<Arc<Function>> = in_kernel
            .map(|known| known.cloned().unwrap_or_else(|| Arc::new(of_kernel(None))))
            .collect();
        let of_program: Vec<NamedAddress> =
            inside_calls(&chain.user).map(|address| self.named(address, process)).collect();
        let has_python = of_program.iter().any(|named| named.language == Language::Python);
        // An interpreter's own functions are what its language's functions do.
        let is_told = |named: &NamedAddress| !has_python || named.language != Language::Interpreter;
        let told = of_program.into_iter().filter(is_told);
        inner_first.extend(told.map(|named| named.function));
        if inner_first.is_empty() {
            inner_first.push(Arc::new(unnamed(process)));
        }
        inner_first.reverse();
        inner_first
    }

    fn named(&self, address: u64, process: &ProcessNames) -> NamedAddress {
        if let Some(named) = process.known.borrow().get(&address) {
            return named.clone();
        }
        let (function, language) = match process.maps.find(address) {
            Some(mapping) if is_cpython(&mapping.path) => {
                (self.of_file(address, mapping, process), Language::Interpreter)
            }
            Some(mapping) => (self.of_file(address, mapping, process), Language::Other),
            None => match process.generated_name(address) {
                Some(name) if name.starts_with(PYTHON) => {
                    (of_generated(name, &process.folders), Language::Python)
                }
                Some(name) => (of_generated(name, &process.folders), Language::Other),
                None => (unnamed(process), Language::Other),
            },
        };
        let named = NamedAddress { function: Arc::new(function), language };
        process.known.borrow_mut().insert(address, named.clone());
        named
    }

    fn of_file(&self, address: u64, mapping: &Mapping, process: &ProcessNames) -> Function {
        let place = (mapping.file, mapping.offset_of(address));
        let name = self.in_files.get(&place).cloned().flatten();
        let is_program = Some(&mapping.path) == process.maps.program.as_ref();
        Function { name, module: file_name(&mapping.path), is_program }
    }
}

fn of_kernel(name: Option<String>) -> Function {
    Function { name, module: Function::KERNEL.to_owned(), is_program: false }
}

/// Addresses that lie in the calls of a chain: all but the first are those to return to, which may be
/// the first of another function.
fn inside_calls(chain: &[u64]) -> impl Iterator<Item = u64> + '_ {
    chain.iter().enumerate().map(|(depth, address)| address.wrapping_sub(u64::from(depth > 0)))
}

/// The names of places in a program or a library: those of its own symbols, and where it has none
/// those of its debug information, which takes longer to read and may be another file.
fn look_up_in_file(path: &Path, offsets: &[u64]) -> Vec<Option<String>> {
    if path.ends_with(VDSO) {
        return look_up_in_vdso(offsets).unwrap_or_else(|| vec![None; offsets.len()]);
    }
    let mut elf = Elf::new(path);
    elf.debug_syms = false;
    let own = look_up(&Source::Elf(elf), Input::FileOffset(offsets));
    if own.iter().all(Option::is_some) {
        return own;
    }
    let debug = look_up(&Source::Elf(Elf::new(path)), Input::FileOffset(offsets));
    own.into_iter().zip(debug).map(|(own, debug)| own.or(debug)).collect()
}

/// The same in the library that is no file.
fn look_up_in_vdso(offsets: &[u64]) -> Option<Vec<Option<String>>> {
    let image = vdso()?;
    let file = object::File::parse(image.as_slice()).ok()?;
    let name = |offset: &u64| {
        let holds = |symbol: &object::Symbol<'_, '_>| {
            (symbol.address()..symbol.address() + symbol.size()).contains(offset)
        };
        file.dynamic_symbols().find(holds)?.name().ok().map(str::to_owned)
    };
    Some(offsets.iter().map(name).collect())
}

/// The names of addresses, as far as they have one.
fn look_up(source: &Source<'_>, addresses: Input<&[u64]>) -> Vec<Option<String>> {
    let symbolizer = symbolizer();
    match symbolizer.symbolize(source, addresses) {
        Ok(found) => found.into_iter().map(|found| Some(plain(&found.into_sym()?.name))).collect(),
        // A file that cannot be read has no names.
        Err(_) => match addresses {
            Input::AbsAddr(all) | Input::VirtOffset(all) | Input::FileOffset(all) => {
                vec![None; all.len()]
            }
        },
    }
}

/// One that looks for functions only: lines and inlined calls cost seconds for each program.
fn symbolizer() -> Symbolizer {
    Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).build()
}

/// A function's name without what differs between builds: the hash that ends Rust's names, and what
/// compilers append to the names of a function's copies (`.constprop.0`, `.isra.0`, `.part.0`, `.cold`).
fn plain(name: &str) -> String {
    let is_hash = |end: &str| {
        end.len() == 17 && end.starts_with('h') && end[1..].bytes().all(|b| b.is_ascii_hexdigit())
    };
    let name = match name.rsplit_once("::") {
        Some((path, end)) if is_hash(end) => path,
        _ => name,
    };
    let copies = [".constprop.", ".isra.", ".part.", ".cold", ".lto_priv.", ".llvm."];
    let end = copies.iter().filter_map(|copy| name.find(copy)).min();
    name[..end.unwrap_or(name.len())].to_owned()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The code of a process that is in no file and has no name.
fn unnamed(process: &ProcessNames) -> Function {
    let module = match (&process.maps.program, process.maps.is_empty()) {
        (_, true) => "ended processes".to_owned(),
        (Some(program), false) => file_name(program),
        (None, false) => "unknown".to_owned(),
    };
    Function { name: None, module, is_program: false }
}

/// A function from its name in a map of generated code.
///
/// CPython writes `py::NAME:FILE`, Java signatures (`int app.Server.handle(byte[])`), V8 `LazyCompile:*NAME FILE:LINE:COLUMN` or `JS:~NAME FILE…` with a
/// mark for how it was compiled (`~` not, `^` fast, `+` better, `*` best).
fn of_generated(name: &str, folders: &[PathBuf]) -> Function {
    let function = |name: &str, module: &str| Function {
        name: Some(name.to_owned()),
        module: short_path(module, folders),
        is_program: false,
    };
    if let Some((name, file)) = name.strip_prefix(PYTHON).and_then(|rest| rest.rsplit_once(':')) {
        return function(name, file);
    }
    let script = ["LazyCompile:", "JS:", "Function:", "Script:"];
    if let Some(rest) = script.iter().find_map(|kind| name.strip_prefix(kind)) {
        let rest = rest.trim_start_matches(['~', '^', '+', '*']);
        let (name, file) = rest.split_once(' ').unwrap_or((rest, ""));
        let file = file.split(':').find(|part| !matches!(*part, "file" | "")).unwrap_or("");
        let name = if name.is_empty() { "(anonymous)" } else { name };
        return function(name, file);
    }
    match java_method(name) {
        Some((package, method)) => function(method, package),
        None => function(name, "generated code"),
    }
}

/// Package and method of a Java signature such as `byte[] com.example.App.handle(int, long)`.
fn java_method(signature: &str) -> Option<(&str, &str)> {
    let (before, _) = signature.strip_suffix(')')?.split_once('(')?;
    let (_, path) = before.split_once(' ')?;
    let (class, _) = path.rsplit_once('.')?;
    let package = class.rsplit_once('.').map_or("", |(package, _)| package);
    Some((package, path[package.len()..].trim_start_matches('.')))
}

/// A source file's name without what differs between starts, revisions and machines.
fn short_path(path: &str, folders: &[PathBuf]) -> String {
    if let Some((_, package)) = path.rsplit_once("/site-packages/") {
        return package.to_owned();
    }
    if let Some((_, rest)) = path.split_once("/lib/python3.")
        && let Some((_, module)) = rest.split_once('/')
    {
        return module.to_owned();
    }
    let below = |folder: &PathBuf| Path::new(path).strip_prefix(folder).ok();
    folders.iter().find_map(below).map_or(path.to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_code_is_named_as_in_its_language() {
        let folders = [PathBuf::from("/srv/head")];
        for (text, name, module) in [
            ("py::handle:/srv/head/app.py", "handle", "app.py"),
            ("py::dumps:/usr/lib/python3.12/json/__init__.py", "dumps", "json/__init__.py"),
            (
                "py::Flask.wsgi_app:/v/lib/python3.13/site-packages/flask/app.py",
                "Flask.wsgi_app",
                "flask/app.py",
            ),
            ("LazyCompile:*serve /srv/head/app.js:3:1", "serve", "app.js"),
            ("JS:~ /srv/app.js:1:1", "(anonymous)", "/srv/app.js"),
            ("JS:+read file:///srv/app.js:1:1", "read", "///srv/app.js"),
            ("byte[] com.example.App$1.handle(int, long)", "App$1.handle", "com.example"),
            ("Interpreter", "Interpreter", "generated code"),
            ("Lcom/example/App;::run", "Lcom/example/App;::run", "generated code"),
        ] {
            let function = of_generated(text, &folders);
            assert_eq!((function.name.as_deref(), function.module.as_str()), (Some(name), module));
        }
    }

    #[test]
    fn names_are_the_same_in_every_build() {
        for (name, same) in [
            ("app::handle::h0123456789abcdef", "app::handle"),
            ("app::h", "app::h"),
            ("finish_task_switch.isra.0", "finish_task_switch"),
            ("sum.constprop.0.isra.1", "sum"),
            ("fail.cold", "fail"),
            ("std::vector<int>::push_back(int&&)", "std::vector<int>::push_back(int&&)"),
        ] {
            assert_eq!(plain(name), same);
        }
    }

    #[test]
    fn our_own_functions_have_names() {
        let me = ProcessNames::of(std::process::id(), &[], &[]);
        let here = file_name as fn(&Path) -> String as usize as u64;
        let chain = Chain { user: vec![here, here + 2], ..Chain::default() };
        let mut names = Names::default();
        names.learn([(&chain, &me)].into_iter());
        let functions = names.functions(&chain, &me);
        assert_eq!(functions.len(), 2);
        for function in functions {
            assert!(
                function.name.as_deref().is_some_and(|name| name.contains("file_name")),
                "{function:?}"
            );
            assert!(function.is_program);
        }
    }
}
