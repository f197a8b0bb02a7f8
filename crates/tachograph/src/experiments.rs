//! The built-in experiments: files that are part of the binary, so that it needs no folder beside it.

use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};

use crate::failure::Failure;

static EXPERIMENTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../experiments");
static PYTHON: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../python");

/// Names and texts of the built-in experiments.
pub(crate) fn built_in() -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<(&str, &str)> = EXPERIMENTS
        .files()
        .filter(|file| file.path().extension().is_some_and(|e| e == "toml"))
        .filter_map(|file| Some((file.path().file_stem()?.to_str()?, file.contents_utf8()?)))
        .collect();
    all.sort_unstable();
    all
}

/// What an experiment's file asks for.
pub(crate) enum Experiment {
    /// To compare servers.
    Plan(Box<spec::Plan>),
    /// To give the same updates to several recorders.
    Accuracy(accuracy::Experiment),
}

/// Reads an experiment's text, which messages call `path`.
pub(crate) fn parse(text: &str, path: &str) -> Result<Experiment, Failure> {
    if accuracy::Experiment::is_one(text) {
        return Ok(Experiment::Accuracy(accuracy::Experiment::parse(text, path)?));
    }
    Ok(Experiment::Plan(Box::new(spec::parse_plan(text, path)?)))
}

impl Experiment {
    /// Its title in one line.
    pub(crate) fn title(&self) -> &str {
        match self {
            Experiment::Plan(plan) => &plan.title,
            Experiment::Accuracy(experiment) => &experiment.experiment.title,
        }
    }
}

/// An experiment's text, the name for error messages, and the folder that `$FILES` stands for.
pub(crate) struct Found {
    pub(crate) text: String,
    pub(crate) path: String,
    pub(crate) files: PathBuf,
}

/// Finds an experiment by the path of a file or by a built-in name.
pub(crate) fn find(name: &str) -> Result<Found, Failure> {
    let path = Path::new(name);
    if name.contains('/') || name.ends_with(".toml") || path.is_file() {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(format!("cannot read the experiment {name}: {error}")))?;
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let files = folder
            .canonicalize()
            .map_err(|error| Failure::new(format!("cannot find the folder of {name}: {error}")))?;
        return Ok(Found { text, path: name.to_owned(), files });
    }
    let known = built_in();
    match known.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => Ok(Found {
            text: (*text).to_owned(),
            path: format!("{name}.toml"),
            files: extract(&EXPERIMENTS, "experiments")?,
        }),
        None => {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            Err(Failure::new(format!(
                "there is no experiment '{name}'; built in are {}; a file of your own needs a path, e.g. ./{name}.toml",
                names.join(", ")
            )))
        }
    }
}

/// The folder that holds the WSGI counter, for PYTHONPATH.
pub(crate) fn python_path() -> Result<PathBuf, Failure> {
    extract(&PYTHON, "python")
}

/// Writes a part of the binary to the cache folder, once per content, and returns where.
fn extract(dir: &Dir<'_>, name: &str) -> Result<PathBuf, Failure> {
    let folder = cache_folder()?.join(format!("{name}-{:016x}", fingerprint(dir)));
    if folder.join(".complete").exists() {
        return Ok(folder);
    }
    let wrong = |error: std::io::Error| {
        Failure::new(format!(
            "cannot write {}: {error}; XDG_CACHE_HOME chooses another cache folder",
            folder.display()
        ))
    };
    std::fs::create_dir_all(&folder).map_err(wrong)?;
    dir.extract(&folder).map_err(wrong)?;
    std::fs::write(folder.join(".complete"), "").map_err(wrong)?;
    Ok(folder)
}

/// Our folder below the XDG cache folder (XDG Base Directory Specification 0.8).
fn cache_folder() -> Result<PathBuf, Failure> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("tachograph"))
        .ok_or_else(|| Failure::new("neither XDG_CACHE_HOME nor HOME is set; set one of them"))
}

/// A number that changes when any file of `dir` does.
fn fingerprint(dir: &Dir<'_>) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    fn walk(dir: &Dir<'_>, hasher: &mut DefaultHasher) {
        for file in dir.files() {
            file.path().hash(hasher);
            file.contents().hash(hasher);
        }
        dir.dirs().for_each(|sub| walk(sub, hasher));
    }
    let mut hasher = DefaultHasher::new();
    walk(dir, &mut hasher);
    hasher.finish()
}
