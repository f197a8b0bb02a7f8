//! An experiment in several files: files named by `include` are appended to it.
//!
//! The files become one self-contained text, which is recorded with the run and printed by
//! `--show`. Errors name the original file.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::reader::{SourceText, Table};
use super::{EXPERIMENT_KEYS, ROOT_KEYS, parse_plan};
use crate::error::SpecError;
use crate::plan::Plan;

/// The keys allowed in an included file.
const INCLUDED_KEYS: [&str; 2] = ["stack", "variant"];

/// A file of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path, for errors.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// The files that an experiment includes, relative to its own folder: `folder/name.toml`, or
/// `folder/*.toml` for all of a folder, in alphabetical order.
///
/// # Errors
/// If the text is not TOML, or `include` is not a list of such names.
pub fn includes(text: &str, path: &str) -> Result<Vec<String>, SpecError> {
    let source = SourceText { path, text };
    let root = DeTable::parse(text).map_err(|error| super::not_toml(source, &error))?;
    let Some(experiment) = open_experiment(source, root.get_ref())? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for (name, span) in experiment.words("include")? {
        let outside = name.starts_with('/') || name.split('/').any(|part| part == "..");
        let star = name.matches('*').count();
        let fits = star == 0 || (star == 1 && name.ends_with("/*.toml"));
        if outside || !fits || !name.ends_with(".toml") {
            return Err(source
                .error(span, format!("'{name}' cannot be included"))
                .help("write \"folder/name.toml\", or \"folder/*.toml\" for all of a folder"));
        }
        names.push(name);
    }
    Ok(names)
}

/// Reads an experiment that includes others.
///
/// # Errors
/// Those of [`parse_plan`], with the file that each is in.
pub fn parse_plan_files(main: &SourceFile, included: &[SourceFile]) -> Result<Plan, SpecError> {
    for file in included {
        check_included(file)?;
    }
    let joined = JoinedText::new(main, included);
    parse_plan(&joined.text, &main.path).map_err(|error| joined.in_original_file(error))
}

/// The experiment and its included files as one self-contained text.
pub fn join_files(main: &SourceFile, included: &[SourceFile]) -> String {
    JoinedText::new(main, included).text
}

fn open_experiment<'a>(
    source: SourceText<'a>,
    map: &'a DeTable<'a>,
) -> Result<Option<Table<'a>>, SpecError> {
    let root = Table::root(source, map, &ROOT_KEYS)?;
    root.get("experiment")
        .map(|value| Table::open(source, value, "[experiment]", &EXPERIMENT_KEYS))
        .transpose()
}

fn check_included(file: &SourceFile) -> Result<(), SpecError> {
    let source = SourceText { path: &file.path, text: &file.text };
    let root = DeTable::parse(&file.text).map_err(|error| super::not_toml(source, &error))?;
    Table::root(source, root.get_ref(), &INCLUDED_KEYS).map(drop).map_err(|error| {
        error.help(
            "an included file may contain only [stack.NAME] and \
            [[variant]]",
        )
    })
}

/// The joined text, and where each file begins in it.
struct JoinedText<'f> {
    text: String,
    files: Vec<(Range<usize>, &'f SourceFile)>,
}

impl<'f> JoinedText<'f> {
    fn new(main: &'f SourceFile, included: &'f [SourceFile]) -> JoinedText<'f> {
        let mut text = without_include(&main.text);
        let mut files = vec![(0..text.len(), main)];
        for file in included {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text += &format!("\n# --- {}\n\n", file.path);
            let start = text.len();
            text += &file.text;
            files.push((start..text.len(), file));
        }
        JoinedText { text, files }
    }

    fn in_original_file(&self, mut error: SpecError) -> SpecError {
        if let Some(place) = &mut error.place {
            let found = self.files.iter().find(|(range, _)| {
                range.contains(&place.span.start) && place.span.end <= range.end
            });
            if let Some((range, file)) = found {
                place.span = place.span.start - range.start..place.span.end - range.start;
                place.path.clone_from(&file.path);
                place.text.clone_from(&file.text);
            }
        }
        error
    }
}

/// The text with its `include` overwritten by spaces, so that all positions stay the same: the
/// included files follow in the same text and must not be read again.
fn without_include(text: &str) -> String {
    let span = || {
        let root = DeTable::parse(text).ok()?;
        let DeValue::Table(experiment) = root.get_ref().get("experiment")?.get_ref() else {
            return None;
        };
        let (key, value) = experiment.get_key_value("include")?;
        Some(key.span().start..value.span().end)
    };
    let Some(span) = span() else { return text.to_owned() };
    let blank: String =
        text[span.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
    format!("{}{blank}{}", &text[..span.start], &text[span.end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: &str = "[experiment]\nname = \"x\"\ntitle = \"t\"\nquestion = \"q\"\ninclude = [\n  \"servers/*.toml\",\n] # all of them\n";
    const ONE: &str = "[[variant]]\nname = \"one\"\ntarget = \"http://127.0.0.1:$PORT\"\nprocess = { command = \"one\" }\n";

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn included_files_are_read_as_if_they_stood_at_the_end() {
        assert_eq!(includes(MAIN, "x.toml").unwrap(), ["servers/*.toml"]);
        let main = file("x.toml", MAIN);
        let included =
            [file("servers/1.toml", ONE), file("servers/2.toml", &ONE.replace("one", "two"))];
        let plan = parse_plan_files(&main, &included).unwrap();
        let names: Vec<&str> = plan.parts[0].variants.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names, ["one", "two"]);
        let joined = join_files(&main, &included);
        assert_eq!(joined, plan.source);
        assert_eq!(includes(&joined, "x.toml").unwrap(), [] as [&str; 0]);
        assert_eq!(parse_plan(&joined, "x.toml").unwrap(), plan);
    }

    #[test]
    fn errors_name_the_original_file() {
        let main = file("x.toml", MAIN);
        let two = ONE.replace("\"one", "\"two").replace("command", "comand");
        let wrong = file("servers/2.toml", &two);
        let error = parse_plan_files(&main, &[file("servers/1.toml", ONE), wrong]).unwrap_err();
        insta::assert_snapshot!(error.to_string(), @r#"
        'comand' is not a key of a process of [[variant]]
         --> servers/2.toml:4:13
          |
        4 | process = { comand = "two" }
          |             ^^^^^^
          |
          = help: did you mean 'command'?
        "#);
        let error = parse_plan_files(&main, &[file("1.toml", "[load]\n")]).unwrap_err();
        insta::assert_snapshot!(error.to_string(), @r"
        'load' is not a key of the experiment
         --> 1.toml:1:2
          |
        1 | [load]
          |  ^^^^
          |
          = help: an included file may contain only [stack.NAME] and [[variant]]
        ");
    }

    #[test]
    fn only_files_below_the_experiment_can_be_included() {
        for name in ["/etc/x.toml", "../x.toml", "a*.toml", "a/*", "a/b.txt"] {
            let error = includes(&MAIN.replace("servers/*.toml", name), "x.toml").unwrap_err();
            assert_eq!(error.message, format!("'{name}' cannot be included"));
            assert_eq!(
                error.help.as_deref(),
                Some("write \"folder/name.toml\", or \"folder/*.toml\" for all of a folder")
            );
        }
    }
}
