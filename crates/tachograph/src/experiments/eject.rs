//! A runnable copy of an experiment: its file, its included files and the files in `$FILES`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use include_dir::{Dir, DirEntry};
use spec::SourceFile;

use super::{EXPERIMENTS, ExperimentFiles};
use crate::failure::Failure;

/// The files written.
pub(crate) struct EjectedFiles {
    /// Every file that was written.
    pub(crate) files: Vec<String>,
    /// The experiment's own file.
    pub(crate) experiment: PathBuf,
}

/// The files to copy, by path below the experiment's folder.
type Copies = BTreeMap<PathBuf, Vec<u8>>;

impl ExperimentFiles {
    /// Writes the experiment and all its files to `folder`.
    ///
    /// # Errors
    /// If a file that the experiment refers to is missing, if a file would be overwritten, or if
    /// reading or writing fails.
    pub(crate) fn eject(&self, folder: &Path) -> Result<EjectedFiles, Failure> {
        self.experiment()?;
        let main = PathBuf::from(Path::new(&self.main.path).file_name().unwrap_or_default());
        let mut copies = Copies::new();
        copies.insert(main.clone(), self.main.text.clone().into_bytes());
        for file in &self.included {
            copies.insert(self.below(&file.path), file.text.clone().into_bytes());
        }
        for name in self.names_in_files()? {
            self.collect(Path::new(&name), &mut copies)?;
        }
        for (path, bytes) in &copies {
            let path = folder.join(path);
            if path.exists() && std::fs::read(&path).ok().as_ref() != Some(bytes) {
                return Err(Failure::new(format!(
                    "{} already exists and differs; choose another folder",
                    path.display()
                )));
            }
        }
        let mut files = Vec::new();
        for (path, bytes) in &copies {
            let path = folder.join(path);
            write(&path, bytes)?;
            files.push(path.display().to_string());
        }
        Ok(EjectedFiles { files, experiment: folder.join(main) })
    }

    /// What the text of the experiment lacks: `it also needs apps, in the folder of its file`.
    pub(crate) fn needs_in_words(&self) -> Option<String> {
        let names = self.names_in_files().ok()?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        (!names.is_empty())
            .then(|| format!("it also needs {}, in the folder of its file", names.join(" and ")))
    }

    /// Fails if the experiment's folder lacks files that its commands refer to as `$FILES/...`.
    pub(super) fn check_files(&self) -> Result<(), Failure> {
        let (Some(folder), false) = (&self.files, self.built_in) else { return Ok(()) };
        for name in references(&self.texts()).into_iter().flatten() {
            if !folder.join(&name).exists() {
                return Err(Failure::new(format!(
                    "{} refers to $FILES/{name}, but there is no {name} in {}; copy it there (tachograph run NAME --eject FOLDER copies a built-in experiment with all its files)",
                    self.main.path,
                    folder.display()
                )));
            }
        }
        Ok(())
    }

    fn texts(&self) -> Vec<&SourceFile> {
        std::iter::once(&self.main).chain(&self.included).collect()
    }

    /// The files and folders beside the experiment that it refers to.
    fn names_in_files(&self) -> Result<BTreeSet<String>, Failure> {
        references(&self.texts()).ok_or_else(|| {
            Failure::new(format!(
                "{} refers to $FILES as a whole, so its files are unknown; copy its folder",
                self.main.path
            ))
        })
    }

    /// A file's path below the experiment's folder.
    fn below(&self, path: &str) -> PathBuf {
        let path = Path::new(path);
        if self.built_in {
            return path.to_owned();
        }
        let folder = Path::new(&self.main.path).parent().unwrap_or(Path::new(""));
        let path = path.strip_prefix(folder).unwrap_or(path);
        path.strip_prefix(".").unwrap_or(path).to_owned()
    }

    /// Adds a file, or all files of a folder, to the copies.
    fn collect(&self, name: &Path, copies: &mut Copies) -> Result<(), Failure> {
        if self.built_in {
            match EXPERIMENTS.get_entry(name) {
                Some(DirEntry::File(file)) => {
                    copies.insert(file.path().to_owned(), file.contents().to_owned());
                }
                Some(DirEntry::Dir(dir)) => collect_built_in(dir, copies),
                None => {}
            }
            return Ok(());
        }
        let folder = self.files.clone().unwrap_or_default();
        collect_from_disk(&folder, name, copies).map_err(|error| {
            Failure::new(format!("cannot read {}: {error}", folder.join(name).display()))
        })
    }
}

fn collect_built_in(dir: &Dir<'_>, copies: &mut Copies) {
    for file in dir.files() {
        copies.insert(file.path().to_owned(), file.contents().to_owned());
    }
    dir.dirs().for_each(|dir| collect_built_in(dir, copies));
}

fn collect_from_disk(folder: &Path, name: &Path, copies: &mut Copies) -> std::io::Result<()> {
    let path = folder.join(name);
    if !path.is_dir() {
        copies.insert(name.to_owned(), std::fs::read(path)?);
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        let file = entry?.file_name();
        if file != "__pycache__" {
            collect_from_disk(folder, &name.join(file), copies)?;
        }
    }
    Ok(())
}

/// The first component of every path below `$FILES` in these texts; `None` if one of them is
/// computed.
fn references(texts: &[&SourceFile]) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let lines = texts.iter().flat_map(|file| file.text.lines());
    for line in lines.filter(|line| !line.trim_start().starts_with('#')) {
        for (at, name) in line.match_indices("$FILES") {
            let rest = &line[at + name.len()..];
            if rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
                continue;
            }
            let end = |c: char| !c.is_alphanumeric() && !"-_.+".contains(c);
            let component = rest.strip_prefix('/')?.split(end).next()?;
            if matches!(component, "" | "." | "..") {
                return None;
            }
            names.insert(component.to_owned());
        }
    }
    Some(names)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, bytes))
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Vec<String>> {
        let file = SourceFile { path: "x.toml".to_owned(), text: text.to_owned() };
        references(&[&file]).map(|names| names.into_iter().collect())
    }

    #[test]
    fn what_an_experiment_refers_to_is_found() {
        let text = "# $FILES is a folder\ncommand = \"cd $FILES/apps && x $FILES/apps/a.py $FILES/b.sh\"\n";
        assert_eq!(of(text).unwrap(), ["apps", "b.sh"]);
        assert_eq!(of("x = \"$FILES_MORE/y\"").unwrap(), [] as [&str; 0]);
        assert_eq!(of("x = \"ls $FILES\""), None);
        assert_eq!(of("x = \"$FILES/$NAME\""), None);
    }
}
