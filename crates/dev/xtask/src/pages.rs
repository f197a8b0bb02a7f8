//! Numbers that are kept, and the pages that are made of them.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use stats::Estimate;

/// The project's docs folder: beside this package under cargo, else below the current folder.
pub(crate) fn docs() -> PathBuf {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(package) => Path::new(&package).join("../../../docs"),
        None => PathBuf::from("docs"),
    }
}

/// What is kept in a file of JSON; the default without one.
pub(crate) fn load<T: DeserializeOwned + Default>(path: &Path) -> Result<T, String> {
    let unfit = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| unfit(&error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(unfit(&error)),
    }
}

/// Keeps it.
pub(crate) fn save(path: &Path, kept: &impl Serialize) -> Result<(), String> {
    let kept = serde_json::to_value(kept).map_err(|error| error.to_string())?;
    let mut text = String::new();
    write_value(&mut text, &kept, 0);
    write(path, &(text + "\n"))
}

/// Objects within this many others have a line for each member; what is deeper is on one line, so that
/// the file has a line for each result.
const LINES_DEPTH: usize = 4;

fn write_value(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(members) if depth < LINES_DEPTH && !members.is_empty() => {
            text.push('{');
            for (at, (name, member)) in members.iter().enumerate() {
                let comma = if at > 0 { "," } else { "" };
                let indent = "  ".repeat(depth + 1);
                *text += &format!("{comma}\n{indent}{}: ", Value::from(name.as_str()));
                write_value(text, member, depth + 1);
            }
            *text += &format!("\n{}}}", "  ".repeat(depth));
        }
        other => *text += &other.to_string(),
    }
}

/// Writes a page.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text)
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// Replaces the text between two lines of a page.
pub(crate) fn write_between(
    page: &Path,
    [begin, end]: [&str; 2],
    text: impl FnOnce(&str) -> String,
) -> Result<(), String> {
    let before = std::fs::read_to_string(page);
    let before = before.map_err(|error| format!("{}: {error}", page.display()))?;
    let parts = before.split_once(begin).and_then(|(head, rest)| {
        let (known, tail) = rest.split_once(end)?;
        Some((head, known, tail))
    });
    let Some((head, known, tail)) = parts else {
        return Err(format!("{} lacks the lines {begin} and {end}", page.display()));
    };
    write(page, &format!("{head}{begin}\n{}\n{end}{tail}", text(known)))
}

/// The current time, RFC 3339.
pub(crate) fn now() -> String {
    base::timestamp_now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The machine in words.
pub(crate) fn machine() -> String {
    let facts = host::machine();
    let tracked = match facts.connection_tracking {
        Some(true) => "connections over loopback are tracked",
        Some(false) => "connections over loopback are not tracked",
        None => "it cannot be seen whether connections over loopback are tracked",
    };
    let beside =
        facts.hypervisor.map(|name| format!(", in a virtual machine ({name})")).unwrap_or_default();
    format!(
        "{}, {} CPUs, {}, {}, Linux {}{beside}; {tracked}",
        facts.cpu_model,
        facts.cpus,
        base::Bytes(facts.memory_bytes),
        facts.os,
        facts.kernel.trim(),
    )
}

/// The two ends of an interval in words; a dash if it has none.
pub(crate) fn ends(estimate: &Estimate, words: impl Fn(f64) -> String) -> String {
    match estimate.is_bounded() {
        true => format!("{}–{}", words(estimate.low), words(estimate.high)),
        false => "–".to_owned(),
    }
}

/// The middle one of the rounds' figures, which is one of them.
pub(crate) fn middle(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len().saturating_sub(1) / 2).copied()
}

/// The rounds' cells, or one if they are equal.
pub(crate) fn per_round(cells: impl Iterator<Item = String>) -> String {
    let mut cells: Vec<String> = cells.collect();
    if cells.iter().all(|cell| Some(cell) == cells.first()) {
        cells.truncate(1);
    }
    if cells.is_empty() { "–".to_owned() } else { cells.join("<br>") }
}

/// The last lines of a text.
pub(crate) fn ending(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_is_saved_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.json");
        assert_eq!(load(&path), Ok(BTreeMap::<String, u32>::new()));
        let kept = BTreeMap::from([("a".to_owned(), 1)]);
        save(&path, &kept).unwrap();
        assert_eq!(load(&path), Ok(kept));
        std::fs::write(&path, "nothing").unwrap();
        assert!(load::<BTreeMap<String, u32>>(&path).is_err());
    }

    #[test]
    fn a_page_keeps_what_stands_around_the_marks() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        std::fs::write(&page, "a\n<1>\nold\n<2>\nb\n").unwrap();
        let shown = |known: &str| format!("new, not {}", known.trim());
        assert_eq!(write_between(&page, ["<1>", "<2>"], shown), Ok(()));
        assert_eq!(std::fs::read_to_string(&page).unwrap(), "a\n<1>\nnew, not old\n<2>\nb\n");
        assert!(write_between(&page, ["<3>", "<2>"], shown).is_err());
    }
}
