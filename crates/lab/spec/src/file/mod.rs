//! From an experiment file to a plan.
//!
//! A file has `[experiment]` (the question), `[load]` and `[schedule]`, `[stack.NAME]` (shared by
//! several variants), `[[variant]]` (what is compared) and, if a question has several parts,
//! `[[part]]`. Everything is checked here, so every plan that is returned can run. Stacks and
//! variants may be in separate files, see [`includes`].
//!
//! A file and its includes become one text, which is recorded with the run and printed by `--show`;
//! errors name the original file.

mod action;
mod axes;
mod capacity;
mod choice;
mod include;
mod load;
mod part;
mod reader;
mod secrets;
mod stack;
mod variant;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::error::SpecError;
use crate::plan::Plan;
pub use include::{SourceFile, includes, join_files, parse_plan_files};
use reader::{Scope, SourceText, Table, Vars};
pub(crate) use secrets::without_secrets;

const ROOT_KEYS: [&str; 7] =
    ["experiment", "load", "schedule", "stack", "variant", "part", "published"];

const EXPERIMENT_KEYS: [&str; 16] = [
    "name",
    "include",
    "title",
    "question",
    "about",
    "python",
    "interpreter",
    "offers",
    "baseline",
    "contrasts",
    "primary",
    "layout",
    "on",
    "address",
    "from",
    "capacity",
];

/// A file's tables, with their keys checked but not yet interpreted.
struct File<'a> {
    source: SourceText<'a>,
    experiment: Table<'a>,
    load: Option<Table<'a>>,
    schedule: Option<Table<'a>>,
    stacks: BTreeMap<&'a str, Table<'a>>,
    variants: Vec<Table<'a>>,
    parts: Vec<Table<'a>>,
    published: Vec<Table<'a>>,
    /// Every name declared in any `vars` or `each`.
    declared: BTreeSet<String>,
}

/// Parses an experiment.
///
/// `path` appears in errors and determines `$FILES` (the folder of the file); nothing is read from
/// disk.
///
/// # Errors
/// Anything in the text that is unknown, contradictory or impossible to run, with line, column and
/// what to write instead.
pub fn parse_plan(text: &str, path: &str) -> Result<Plan, SpecError> {
    let source = SourceText { path, text };
    let root = DeTable::parse(text).map_err(|error| not_toml(source, &error))?;
    let file = File::open(source, root.get_ref())?;
    let name = required(&file.experiment, "name")?;
    check_name(&file.experiment, &name)?;
    let title = required(&file.experiment, "title")?;
    let question = required(&file.experiment, "question")?;
    let parts = part::parts(&file, &name)?;
    let mut python: Vec<String> =
        file.experiment.words("python")?.into_iter().map(|(word, _)| word).collect();
    for requirement in parts.iter().flat_map(|part| &part.variants).flat_map(|v| &v.stack.python) {
        if !python.contains(requirement) {
            python.push(requirement.clone());
        }
    }
    let plan = Plan {
        title,
        question,
        about: file.experiment.plain("about")?.unwrap_or_default().trim().to_owned(),
        python,
        interpreter: interpreter(&file.experiment)?,
        files: Path::new(path).parent().map(Path::to_path_buf),
        parts,
        source: text.to_owned(),
        name,
    };
    Ok(plan)
}

fn not_toml(source: SourceText<'_>, error: &toml::de::Error) -> SpecError {
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    source.error(error.span().unwrap_or(0..0), format!("invalid TOML: {message}"))
}

/// The interpreter of the Python packages: a program on PATH, or its path.
fn interpreter(experiment: &Table<'_>) -> Result<Option<String>, SpecError> {
    let Some(value) = experiment.get("interpreter") else { return Ok(None) };
    let name = experiment.plain("interpreter")?.unwrap_or_default();
    if name.is_empty() || name.contains(char::is_whitespace) {
        let message = "interpreter must be one program, such as \"python3.6\"";
        return Err(experiment.source.error(value.span(), message));
    }
    Ok(Some(name))
}

fn required(table: &Table<'_>, key: &str) -> Result<String, SpecError> {
    match table.plain(key)? {
        Some(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        _ => Err(table.error(format!("{} has no {key}", table.title))),
    }
}

fn check_name(table: &Table<'_>, name: &str) -> Result<(), SpecError> {
    if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Ok(());
    }
    let span = table.get("name").map_or(table.span.clone(), |value| value.span());
    Err(table.source.error(span, "a name must consist of letters, digits and dashes"))
}

impl<'a> File<'a> {
    fn open(source: SourceText<'a>, map: &'a DeTable<'a>) -> Result<File<'a>, SpecError> {
        let root = Table::root(source, map, &ROOT_KEYS)?;
        let table = |key: &str, keys: &[&str]| {
            root.get(key)
                .map(|value| Table::open(source, value, format!("[{key}]"), keys))
                .transpose()
        };
        let experiment = table("experiment", &EXPERIMENT_KEYS)?.ok_or_else(|| {
            source
                .error(0..0, "there is no [experiment]")
                .help("a file begins with [experiment] and its name, title and question")
        })?;
        let mut stacks = BTreeMap::new();
        for (name, _, value) in root.free_table("stack")?.iter().flat_map(Table::entries) {
            let keys = [&stack::SHARED_KEYS[..], &["extends"]].concat();
            stacks.insert(name, Table::open(source, value, format!("[stack.{name}]"), &keys)?);
        }
        let mut file = File {
            source,
            experiment,
            load: table("load", &load::LOAD_KEYS)?,
            schedule: table("schedule", &part::SCHEDULE_KEYS)?,
            stacks,
            variants: tables(&root, "variant", "[[variant]]", &variant::keys())?,
            parts: tables(&root, "part", "[[part]]", &part::PART_KEYS)?,
            published: tables(&root, "published", "[[published]]", &part::PUBLISHED_KEYS)?,
            declared: BTreeSet::new(),
        };
        file.declared = file.declare()?;
        Ok(file)
    }

    /// Collects every declared name, wherever it is declared.
    fn declare(&self) -> Result<BTreeSet<String>, SpecError> {
        let mut declared = BTreeSet::new();
        let own = self
            .parts
            .iter()
            .map(|part| tables(part, "variant", "[[part.variant]]", &variant::keys()));
        let own = own.collect::<Result<Vec<_>, _>>()?.into_iter().flatten();
        let all = self.stacks.values().cloned().chain(self.variants.iter().cloned()).chain(own);
        for table in all.chain(self.parts.iter().cloned()) {
            let vars = table.free_table("vars")?;
            let vars = vars.iter().flat_map(Table::entries).map(|(name, span, _)| (name, span));
            for (name, span) in vars.chain(axes::declares(&table)?) {
                check_variable(self.source, name, span)?;
                declared.insert(name.to_owned());
            }
        }
        Ok(declared)
    }

    fn scope(&self, vars: Vars) -> Scope {
        Scope { vars, declared: self.declared.clone() }
    }
}

/// Opens `[[key]]`, or `[key]` if there is only one.
fn tables<'a>(
    parent: &Table<'a>,
    key: &str,
    title: &str,
    keys: &[&str],
) -> Result<Vec<Table<'a>>, SpecError> {
    parent
        .one_or_many(key)
        .into_iter()
        .map(|value| Table::open(parent.source, value, title, keys))
        .collect()
}

/// The `vars` of a table: upper-case names with texts that contain no other declared variable.
fn vars(table: &Table<'_>, declared: &BTreeSet<String>) -> Result<Vars, SpecError> {
    match table.free_table("vars")? {
        Some(inner) => vars_of(&inner, declared),
        None => Ok(Vars::new()),
    }
}

/// All keys of a table as variables.
fn vars_of(table: &Table<'_>, declared: &BTreeSet<String>) -> Result<Vars, SpecError> {
    let mut vars = Vars::new();
    for (name, _, value) in table.entries() {
        let text = reader::plain(table.source, value, name)?;
        let mut found = crate::variables::find(&text).into_iter();
        if let Some(found) = found.find(|found| declared.contains(found.name)) {
            return Err(table.source.error(
                value.span(),
                format!("a variable cannot refer to another one (${})", found.name),
            ));
        }
        vars.insert(name.to_owned(), text);
    }
    Ok(vars)
}

fn check_variable(
    source: SourceText<'_>,
    name: &str,
    span: std::ops::Range<usize>,
) -> Result<(), SpecError> {
    let whole = format!("${name}");
    match crate::variables::find(&whole).as_slice() {
        [found] if found.range == (0..whole.len()) && !crate::variables::is_built_in(name) => {
            Ok(())
        }
        [_] if crate::variables::is_built_in(name) => {
            Err(source.error(span, format!("${name} is set by tachograph; choose another name")))
        }
        _ => Err(source.error(
            span,
            "a variable's name must consist of capitals, digits and underscores, such as BIND",
        )),
    }
}

/// Whether a value is a table, where both a word and a table are allowed.
fn is_table(value: &reader::Value<'_>) -> bool {
    matches!(value.get_ref(), DeValue::Table(_))
}

#[cfg(test)]
mod tests;
