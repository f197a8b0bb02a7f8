//! Documents generated from the definition of the command line are up to date.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::Place;

/// Rewrites docs/commands.md instead of comparing it.
const UPDATE: &str = "TACHOGRAPH_UPDATE_DOCS";

const HEAD: &str = "# Every command and option\n\nGenerated from `tachograph --help`; \
`TACHOGRAPH_UPDATE_DOCS=1 cargo test -p tachograph --test all generated::` regenerates it.\n";

/// The names of all commands, from `tachograph --help`.
fn commands(help: &str) -> Vec<String> {
    let after = help.split_once("Commands:\n").unwrap().1;
    let list = after.split_once("\n\n").unwrap().0;
    let name = |line: &str| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned);
    list.lines().filter_map(name).filter(|name| !name.is_empty() && name != "help").collect()
}

#[test]
fn the_page_of_all_commands_equals_the_help() {
    let place = Place::new();
    let help = |args: &[&str]| place.run(args).status(0).out.trim_end().to_owned();
    let top = help(&["--help"]);
    let names = commands(&top);
    assert!(names.iter().any(|name| name == "load") && names.len() > 8, "{names:?}");
    let mut page = format!("{HEAD}\n## tachograph\n\n```text\n{top}\n```\n");
    for name in &names {
        let text = help(&[name, "--help"]);
        page += &format!("\n## tachograph {name}\n\n```text\n{text}\n```\n");
    }
    let page: String = page.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(page.lines()).find(|(kept, now)| kept != now);
    assert!(
        kept == page,
        "docs/commands.md is out of date ({UPDATE}=1 regenerates it): {differs:?}"
    );
}

#[test]
fn every_command_has_a_manual_page() {
    let place = Place::new();
    let top = place.run(&["--help"]).status(0).out.clone();
    let folder = place.path("man");
    place.run(&["man", "--out", folder.to_str().unwrap()]).status(0);
    for name in commands(&top) {
        let page = std::fs::read_to_string(folder.join(format!("tachograph-{name}.1"))).unwrap();
        for section in ["SYNOPSIS", "AUTHORS", "COPYRIGHT"] {
            let (_, text) = page.split_once(&format!(".SH {section}\n")).expect(&page);
            assert!(!text.starts_with('.'), "{name} has nothing about {section}: {page}");
        }
    }
    let whole = std::fs::read_to_string(folder.join("tachograph.1")).unwrap();
    assert_eq!(place.run(&["man"]).status(0).out, whole);
}

#[test]
fn bash_understands_its_completions_and_they_know_every_command() {
    let place = Place::new();
    let script = place.write("completions.bash", &place.run(&["completions", "bash"]).out);
    let asked = format!(
        "source {}; COMP_WORDS=(tachograph ''); COMP_CWORD=1; _tachograph tachograph '' tachograph; echo \"${{COMPREPLY[@]}}\"",
        script.display()
    );
    let ended =
        Command::new("bash").args(["-c", &asked]).stderr(Stdio::inherit()).output().unwrap();
    let offered = String::from_utf8(ended.stdout).unwrap();
    for name in commands(&place.run(&["--help"]).status(0).out) {
        assert!(offered.split_whitespace().any(|word| word == name), "{name} is not in {offered}");
    }
}
