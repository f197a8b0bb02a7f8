//! The pages in `docs/results/` say which method they were measured by.

use std::path::Path;

/// The version of the method in the last lines of a page; 0 for pages from before it was recorded,
/// `None` for pages that are not a run's.
fn method(page: &str) -> Option<u32> {
    let line = page.lines().rfind(|line| line.starts_with("Run `"))?;
    let number = line.split("method ").nth(1).and_then(|rest| rest.split('.').next());
    Some(number.map_or(0, |number| number.parse().unwrap()))
}

#[test]
fn a_page_that_is_older_than_the_method_says_so() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
    let mut pages = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let page = std::fs::read_to_string(&path).unwrap();
        let Some(method) = method(&page) else { continue };
        pages += 1;
        let words = format!(
            "\n> Older method: Measured by version {method} of the method, which is now at {}. ",
            record::METHOD
        );
        let (says, name) = (page.contains(&words), path.display());
        assert_eq!(says, method < record::METHOD, "{name}: run scripts/experiments.sh --mark");
        assert_eq!(
            page.contains("Older method"),
            says,
            "{name}: run scripts/experiments.sh --mark"
        );
    }
    assert!(pages > 5, "only {pages} pages of runs");
}

#[test]
fn the_version_of_the_method_is_read_from_a_page() {
    let page = |line: &str| format!("# Title\n\n{line}\n\n```sh\n");
    assert_eq!(method(&page("Run `x`, tachograph 0.1.0. Repeat it with:")), Some(0));
    assert_eq!(method(&page("Run `x`, tachograph 0.1.0, method 12. Repeat it with:")), Some(12));
    assert_eq!(method(&page("Nothing was loaded.")), None);
}
