//! `--served-by`: the source of the server-side count, as a command-line argument.

use std::fmt;

use regex::Regex;

use crate::error::SpecError;
use crate::plan::ServedBy;
use crate::target::Target;

const FORMS: &str = "write wsgi, stub_status=URL, url=URL PATTERN, log=PATH, log=PATH PATTERN, \
                     file_size=PATH or counter_file=PATH";

impl ServedBy {
    /// Parses the value of `--served-by`: the same words as in an experiment's `served_by`.
    ///
    /// `url=URL PATTERN` and `log=PATH PATTERN` are split at the first space;
    /// the pattern for a URL has one group around the number.
    ///
    /// # Errors
    /// An unknown form, an invalid URL or an unusable pattern.
    pub fn parse(text: &str) -> Result<ServedBy, SpecError> {
        let wrong =
            |why: String| SpecError::new(format!("--served-by '{text}': {why}")).help(FORMS);
        let (form, rest) = text.split_once('=').unwrap_or((text, ""));
        let (place, pattern) = match rest.split_once(' ') {
            Some((place, pattern)) => (place.to_owned(), Some(pattern.to_owned())),
            None => (rest.to_owned(), None),
        };
        if form != "wsgi" && place.is_empty() {
            return Err(wrong("the location of the count is missing".to_owned()));
        }
        if pattern.is_some() && form != "url" && form != "log" {
            return Err(wrong("a pattern belongs to url or log".to_owned()));
        }
        if let Some(pattern) = &pattern {
            check_pattern(pattern, form == "url").map_err(wrong)?;
        }
        let target = || {
            Target::parse_with_placeholders(&place)
                .map(|_| place.clone())
                .map_err(|why| wrong(format!("'{place}' is not a target: {why}")))
        };
        match (form, pattern) {
            ("wsgi", _) if rest.is_empty() => Ok(ServedBy::Wsgi),
            ("stub_status", _) => target().map(ServedBy::StubStatus),
            ("url", Some(pattern)) => {
                let (discarded, per_request) = (None, 1);
                let target = target()?;
                Ok(ServedBy::Http { target, pattern, self_counting: false, discarded, per_request })
            }
            ("url", None) => Err(wrong("the pattern for the count is missing".to_owned())),
            ("log", pattern) => Ok(ServedBy::LogLines { path: place, pattern }),
            ("file_size", _) => Ok(ServedBy::FileSize(place)),
            ("counter_file", _) => Ok(ServedBy::CounterFile { path: place, per_request: 1 }),
            _ => Err(wrong(format!("unknown form '{form}'"))),
        }
    }
}

/// Checks a pattern; one for a URL needs a group around the number.
pub(crate) fn check_pattern(pattern: &str, of_url: bool) -> Result<(), String> {
    match Regex::new(pattern) {
        Err(_) => Err("the pattern is not a valid regular expression".to_owned()),
        Ok(regex) if of_url && regex.captures_len() != 2 => {
            Err("the pattern needs one group around the number, such as (\\d+)".to_owned())
        }
        Ok(_) => Ok(()),
    }
}

impl fmt::Display for ServedBy {
    /// The source in words, for the record: `the WSGI counter`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServedBy::Wsgi => f.write_str("the WSGI counter"),
            ServedBy::StubStatus(target) => write!(f, "nginx's stub_status at {target}"),
            ServedBy::Http { target, pattern, .. } => write!(f, "'{pattern}' at {target}"),
            ServedBy::LogLines { path, pattern: None } => write!(f, "the lines of {path}"),
            ServedBy::LogLines { path, pattern: Some(pattern) } => {
                write!(f, "the lines of {path} with '{pattern}'")
            }
            ServedBy::FileSize(path) => write!(f, "the bytes of {path}"),
            ServedBy::CounterFile { path, .. } => write!(f, "the number in {path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_form_is_parsed_and_described() {
        let cases = [
            ("wsgi", "the WSGI counter"),
            (
                "stub_status=http://127.0.0.1:$PORT2/",
                "nginx's stub_status at http://127.0.0.1:$PORT2/",
            ),
            (
                "url=http://localhost:1/m served=(\\d+) x",
                "'served=(\\d+) x' at http://localhost:1/m",
            ),
            ("log=$DIR/access.log", "the lines of $DIR/access.log"),
            ("log=/a.log GET /a=b", "the lines of /a.log with 'GET /a=b'"),
            ("file_size=$DIR/hits", "the bytes of $DIR/hits"),
            ("counter_file=$DIR/served", "the number in $DIR/served"),
        ];
        for (text, words) in cases {
            assert_eq!(
                ServedBy::parse(text).map(|by| by.to_string()),
                Ok(words.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn errors_name_the_forms() {
        let cases = [
            ("nobody", "the location of the count is missing"),
            ("wsgi=x", "unknown form 'wsgi'"),
            ("metric=x", "unknown form 'metric'"),
            ("log=", "the location of the count is missing"),
            ("url=http://localhost:1/", "the pattern for the count is missing"),
            (
                "url=x (.)",
                "'x' is not a target: use http://host:port/path, http://unix:/path/to.sock:/path, \
                 tcp://host:port or unix:/path/to.sock",
            ),
            (
                "url=http://localhost:1/ \\d+",
                "the pattern needs one group around the number, such as (\\d+)",
            ),
            ("log=/a (", "the pattern is not a valid regular expression"),
            ("file_size=/a b", "a pattern belongs to url or log"),
        ];
        for (text, why) in cases {
            let error = ServedBy::parse(text).expect_err(text);
            assert_eq!(error.message, format!("--served-by '{text}': {why}"));
            assert_eq!(error.help.as_deref(), Some(FORMS));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_but_never_panics(text in "(url=|log=|wsgi|=)?.{0,20}") {
            let _ = ServedBy::parse(&text);
        }
    }
}
