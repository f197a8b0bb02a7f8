//! Errors with their position in the text.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// Text that could not be parsed, with the position and what to write instead.
///
/// `Display` is plain text: the message, the source line with a caret, then the help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// What is wrong.
    pub message: String,
    /// What to do about it, unless `message` already says so.
    pub help: Option<String>,
    /// Position; `None` for errors without one.
    pub place: Option<Box<TextPosition>>,
}

/// A position in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPosition {
    /// The file, or the option (`--fail-if`).
    pub path: String,
    /// The whole text.
    pub text: String,
    /// Byte range.
    pub span: Range<usize>,
}

impl TextPosition {
    /// Line and column of the start, both from 1; columns count characters.
    pub fn line_and_column(&self) -> (usize, usize) {
        let before = &self.text[..self.span.start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

impl SpecError {
    /// An error without a position.
    pub(crate) fn new(message: impl Into<String>) -> SpecError {
        SpecError { message: message.into(), help: None, place: None }
    }

    /// Adds help.
    pub(crate) fn help(mut self, help: impl Into<String>) -> SpecError {
        self.help = Some(help.into());
        self
    }

    /// Adds the position. The span is moved to the nearest character boundaries, so rendering never
    /// fails.
    pub(crate) fn at(mut self, path: &str, text: &str, span: Range<usize>) -> SpecError {
        let start = floor_char_boundary(text, span.start);
        let end = floor_char_boundary(text, span.end).max(start);
        self.place = Some(Box::new(TextPosition {
            path: path.to_owned(),
            text: text.to_owned(),
            span: start..end,
        }));
        self
    }

    /// The error for a terminal with colour.
    pub fn styled(&self) -> String {
        self.render(&Renderer::styled())
    }

    fn render(&self, renderer: &Renderer) -> String {
        let title = Group::with_title(Level::ERROR.no_name().primary_title(self.message.as_str()));
        let Some(place) = &self.place else {
            let help = self.help.iter().map(|help| format!("\nhelp: {help}"));
            return renderer.render(&[title]) + &help.collect::<String>();
        };
        let snippet = Snippet::source(place.text.as_str())
            .path(place.path.as_str())
            .annotation(AnnotationKind::Primary.span(place.span.clone()));
        let help = self.help.iter().map(|help| Level::HELP.message(help.as_str()));
        renderer.render(&[title.element(snippet).elements(help)])
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&Renderer::plain()))
    }
}

impl std::error::Error for SpecError {}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The word of `known` nearest to `word` by edit distance, if near enough for its length.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (edit_distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().div_ceil(3).min(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `did you mean …?`, or the list of choices.
pub(crate) fn suggestion<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    match nearest(word, known.clone()) {
        Some(candidate) => format!("did you mean '{candidate}'?"),
        None => format!("there are: {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

/// Edit distance with insertions, deletions, substitutions and swaps of neighbours (optimal string
/// alignment), over the first 64 letters of each word.
pub(crate) fn edit_distance(a: &str, b: &str) -> usize {
    let beginning = |word: &str| word.chars().take(64).collect::<String>();
    strsim::osa_distance(&beginning(a), &beginning(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_error_shows_line_column_and_caret() {
        let error = SpecError::new("'connectoins' is not a key of [load]")
            .help("did you mean 'connections'?")
            .at("x.toml", "[load]\n  connectoins = 10\n", 9..20);
        insta::assert_snapshot!(error.to_string(), @r"
        'connectoins' is not a key of [load]
         --> x.toml:2:3
          |
        2 |   connectoins = 10
          |   ^^^^^^^^^^^
          |
          = help: did you mean 'connections'?
        ");
        assert_eq!(error.place.expect("a place").line_and_column(), (2, 3));
    }

    #[test]
    fn an_error_without_a_place_is_a_sentence() {
        assert_eq!(SpecError::new("no commands").to_string(), "no commands");
    }

    #[test]
    fn near_words_are_suggested_and_far_ones_are_not() {
        let known = ["connections", "threads", "timeout"];
        assert_eq!(nearest("conections", known), Some("connections"));
        assert_eq!(nearest("thread", known), Some("threads"));
        assert_eq!(nearest("tiemout", known), Some("timeout"));
        assert_eq!(nearest("rate", known), None);
        assert_eq!(suggestion("rate", known), "there are: connections, threads, timeout");
    }

    proptest! {
        #[test]
        fn any_span_in_any_text_is_rendered(text in any::<String>(), a in 0usize..100, b in 0usize..100) {
            let error = SpecError::new("wrong").at("file", &text, Range { start: a, end: b });
            prop_assert!(error.to_string().starts_with("wrong"));
        }
    }
}
