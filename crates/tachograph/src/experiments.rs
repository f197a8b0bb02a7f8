//! The built-in experiments, which are part of the binary.

mod eject;

use std::path::{Path, PathBuf};

use include_dir::{Dir, File, include_dir};
use spec::{Plan, SourceFile};

use crate::failure::Failure;

static EXPERIMENTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/experiments");
static PYTHON: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/python");

/// An experiment's files, and the folder of `$FILES`.
pub(crate) struct ExperimentFiles {
    main: SourceFile,
    included: Vec<SourceFile>,
    files: Option<PathBuf>,
    /// Whether it is built in.
    built_in: bool,
}

/// The kinds of experiments.
pub(crate) enum Experiment {
    /// Compares servers.
    Plan(Box<Plan>),
    /// Sends the same updates to several recorders.
    Accuracy(accuracy::Experiment),
}

impl Experiment {
    /// Its short name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Experiment::Plan(plan) => &plan.name,
            Experiment::Accuracy(experiment) => &experiment.experiment.name,
        }
    }

    /// Its one-line title.
    pub(crate) fn title(&self) -> &str {
        match self {
            Experiment::Plan(plan) => &plan.title,
            Experiment::Accuracy(experiment) => &experiment.experiment.title,
        }
    }
}

impl ExperimentFiles {
    /// The experiment as one self-contained text.
    pub(crate) fn text(&self) -> String {
        spec::join_files(&self.main, &self.included)
    }

    /// The parsed experiment.
    pub(crate) fn experiment(&self) -> Result<Experiment, Failure> {
        if accuracy::Experiment::is_one(&self.main.text) {
            let experiment = accuracy::Experiment::parse(&self.main.text, &self.main.path)?;
            return Ok(Experiment::Accuracy(experiment));
        }
        let mut plan = spec::parse_plan_files(&self.main, &self.included)?;
        self.check_files()?;
        plan.files.clone_from(&self.files);
        Ok(Experiment::Plan(Box::new(plan)))
    }
}

/// The built-in experiments in alphabetical order.
pub(crate) fn built_in() -> Result<Vec<ExperimentFiles>, Failure> {
    let mut names = built_in_names();
    names.sort_unstable();
    names.into_iter().map(|name| from_binary(name, None)).collect()
}

fn built_in_names() -> Vec<&'static str> {
    let is_experiment = |path: &Path| path.extension().is_some_and(|e| e == "toml");
    let name = |path: &'static Path| is_experiment(path).then(|| path.file_stem()?.to_str())?;
    EXPERIMENTS.files().filter_map(|file| name(file.path())).collect()
}

/// Finds an experiment by file path or built-in name.
pub(crate) fn find(name: &str) -> Result<ExperimentFiles, Failure> {
    let path = Path::new(name);
    if name.contains('/') || name.ends_with(".toml") || path.is_file() {
        return from_disk(name, path);
    }
    let mut known = built_in_names();
    known.sort_unstable();
    if known.contains(&name) {
        return from_binary(name, Some(extract(&EXPERIMENTS, "experiments")?));
    }
    Err(Failure::new(format!(
        "no experiment '{name}'; built-in experiments are {}; a file needs a path, e.g. \
         ./{name}.toml",
        known.join(", ")
    )))
}

fn from_binary(name: &str, files: Option<PathBuf>) -> Result<ExperimentFiles, Failure> {
    let read = |path: &str| {
        let text = EXPERIMENTS.get_file(path).and_then(File::contents_utf8).unwrap_or_default();
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    };
    let main = read(&format!("{name}.toml"));
    let mut included = Vec::new();
    for pattern in includes(&main)? {
        match pattern.strip_suffix("/*.toml") {
            None => included.push(read(&pattern)),
            Some(folder) => {
                let files = EXPERIMENTS.get_dir(folder).into_iter().flat_map(Dir::files);
                let mut paths: Vec<&str> = files.filter_map(|file| file.path().to_str()).collect();
                paths.retain(|path| path.ends_with(".toml"));
                paths.sort_unstable();
                included.extend(paths.into_iter().map(read));
            }
        }
    }
    Ok(ExperimentFiles { main, included, files, built_in: true })
}

/// The patterns of included files; an experiment for recorders has none.
fn includes(main: &SourceFile) -> Result<Vec<String>, Failure> {
    if accuracy::Experiment::is_one(&main.text) {
        return Ok(Vec::new());
    }
    Ok(spec::includes(&main.text, &main.path)?)
}

fn from_disk(name: &str, path: &Path) -> Result<ExperimentFiles, Failure> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let read = |path: &Path| match std::fs::read_to_string(path) {
        Ok(text) => Ok(SourceFile { path: path.display().to_string(), text }),
        Err(error) => {
            let what = format!("cannot read the experiment {}: {error}", path.display());
            Err(Failure::new(what))
        }
    };
    let mut main = read(path)?;
    main.path = name.to_owned();
    let mut included = Vec::new();
    for pattern in includes(&main)? {
        for file in fitting(folder, &pattern)? {
            included.push(read(&file)?);
        }
    }
    let files = folder
        .canonicalize()
        .map_err(|error| Failure::new(format!("cannot find the folder of {name}: {error}")))?;
    Ok(ExperimentFiles { main, included, files: Some(files), built_in: false })
}

/// The files that match an `include` pattern, in alphabetical order.
fn fitting(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, Failure> {
    let Some(inner) = pattern.strip_suffix("/*.toml") else {
        return Ok(vec![folder.join(pattern)]);
    };
    let inner = folder.join(inner);
    let wrong = |error: std::io::Error| {
        Failure::new(format!("cannot read the folder {}: {error}", inner.display()))
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&inner).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The folder of the WSGI counter, for PYTHONPATH.
pub(crate) fn python_path() -> Result<PathBuf, Failure> {
    extract(&PYTHON, "python")
}

/// Writes a part of the binary to the cache folder, once per content, and returns its path.
fn extract(dir: &Dir<'_>, name: &str) -> Result<PathBuf, Failure> {
    let folder = cache_folder()?.join(format!("{name}-{:016x}", fingerprint(dir)));
    let wrong = |error: std::io::Error| {
        Failure::new(format!(
            "cannot write {}: {error}; XDG_CACHE_HOME chooses another cache folder",
            folder.display()
        ))
    };
    if !folder.join(".complete").exists() {
        std::fs::create_dir_all(&folder).map_err(wrong)?;
        dir.extract(&folder).map_err(wrong)?;
        std::fs::write(folder.join(".complete"), "").map_err(wrong)?;
    }
    stage::python::share(&folder).map_err(wrong)?;
    Ok(folder)
}

fn cache_folder() -> Result<PathBuf, Failure> {
    stage::python::cache_root()
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
