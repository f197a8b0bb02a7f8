//! Every link in the project's documents that leads to a file leads to one that is there.

use std::fs;
use std::path::{Path, PathBuf};

/// The Markdown files of these folders, but not of those below them.
fn pages(top: &Path) -> Vec<PathBuf> {
    let folders =
        [".", "crates", "docs", "docs/proofs", "docs/results", "experiments", "packaging/wheel"];
    let files = folders.iter().flat_map(|folder| fs::read_dir(top.join(folder)).unwrap());
    files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect()
}

/// The targets of links and pictures, without those in blocks of code.
fn targets(page: &str) -> Vec<&str> {
    let text = page.split("```").step_by(2);
    text.flat_map(|text| text.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
        .filter(|target| !target.contains(':') && !target.contains(char::is_whitespace))
        .collect()
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().replace(' ', "-")
}

/// Why a link of this page leads nowhere.
fn broken(page: &Path, target: &str) -> Option<String> {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let file = match file {
        "" => page.to_owned(),
        file => page.with_file_name(file.replace("%20", " ")),
    };
    if !file.exists() {
        return Some(format!("{}: {target} does not exist", page.display()));
    }
    if heading.is_empty() || file.is_dir() {
        return None;
    }
    let text = fs::read_to_string(&file).unwrap();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let found = headings.map(|line| line.trim_start_matches('#')).any(|h| anchor(h) == heading);
    (!found).then(|| format!("{}: {target} is no heading", page.display()))
}

#[test]
fn no_link_leads_nowhere() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut links = 0;
    let mut nowhere = Vec::new();
    for page in pages(&top) {
        let text = fs::read_to_string(&page).unwrap();
        for target in targets(&text) {
            links += 1;
            nowhere.extend(broken(&page, target));
        }
    }
    assert_eq!(nowhere, Vec::<String>::new());
    assert!(links > 100, "only {links} links were found");
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let page = "[a](docs/a.md), ![b](b%20c.svg) and [c](https://c.example)\n```\n[d](d.md)\n```\n";
    assert_eq!(targets(page), ["docs/a.md", "b%20c.svg"]);
    assert_eq!(anchor(" The `[load]` table, again"), "the-load-table-again");
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    assert_eq!(broken(&here, "docs/method.md"), None);
    assert!(broken(&here, "docs/nothing.md").unwrap().ends_with("does not exist"));
    assert!(broken(&here, "docs/method.md#nothing").unwrap().ends_with("is no heading"));
}
