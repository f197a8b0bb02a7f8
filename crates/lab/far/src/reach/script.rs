//! The command line for the far end's login shell.

use crate::reach::Options;

/// The script in its readable form.
const SCRIPT: &str = include_str!("far.sh");

/// The command for the far end: `exec sh -c SCRIPT sh VERSION OFFERS FOLDER WORDS…`, which every
/// login shell (also csh and fish) takes as one command with quoted words.
pub(crate) fn command(options: &Options) -> String {
    let offers: Vec<String> = options.programs.iter().map(|program| program.offer()).collect();
    // Without a commit in brackets: it becomes a part of a folder's name.
    let version = options.version.split_whitespace().next().unwrap_or_default().replace('/', "-");
    let mut words = vec![joined(SCRIPT), "sh".to_owned(), version];
    words.push(offers.join(" "));
    words.push(options.folder.clone().unwrap_or_default());
    words.extend(options.words.iter().cloned());
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("exec sh -c {}", words.join(" "))
}

/// The script without comments, in one line.
fn joined(script: &str) -> String {
    let mut line = String::new();
    for part in script.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        if !line.is_empty() {
            line.push_str("; ");
        }
        line.push_str(part);
    }
    line
}

/// A word in single quotes. csh replaces an exclamation mark even there.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''").replace('!', r"'\!'"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_script_is_one_line_that_every_shell_passes_on() {
        let line = joined(SCRIPT);
        assert!(!line.contains(['\'', '\\', '\n']));
        assert!(line.starts_with("set -f; v=$1; "));
        assert!(line.len() < 8_000, "{} bytes", line.len());
    }

    #[test]
    fn words_arrive_as_they_are() {
        let words = ["plain", "two words", "it's", "$HOME `x` \"q\"", "now!"];
        let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let command = format!("printf '%s\\n' {}", line.join(" "));
        let out = Command::new("sh").args(["-c", &command]).output().unwrap();
        assert_eq!(String::from_utf8(out.stdout).unwrap().lines().collect::<Vec<_>>(), words);
    }
}
