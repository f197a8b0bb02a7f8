//! What a person's shell keeps secret stays out of what is recorded.
//!
//! Processes inherit the environment, and one that fails may print it. The end of a
//! process's log enters messages and the record, so values of variables whose names
//! speak of secrets are replaced in it.

use std::borrow::Cow;
use std::ffi::OsString;

/// Parts of the names of variables that hold a secret.
const NAMES: [&str; 8] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "APIKEY", "API_KEY", "CREDENTIAL", "PRIVATE_KEY"];

/// Shorter values are words like `yes` as often as secrets.
const CHARS_MIN: usize = 8;

/// Values that are replaced, the longest first, with the variables that hold them.
pub(crate) struct Secrets(Vec<(String, String)>);

impl Secrets {
    /// Those of our own environment, which is what processes inherit.
    pub(crate) fn of_environment() -> Secrets {
        Secrets::among(std::env::vars_os())
    }

    fn among(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Secrets {
        let mut secrets = Vec::new();
        for (name, value) in variables {
            let name = name.to_string_lossy().into_owned();
            let upper = name.to_ascii_uppercase();
            if !NAMES.iter().any(|part| upper.contains(part)) {
                continue;
            }
            // A key of several lines is printed line by line.
            let value = value.to_string_lossy();
            let lines = value.lines().map(str::trim);
            let long = lines.filter(|line| line.chars().count() >= CHARS_MIN);
            secrets.extend(long.map(|line| (line.to_owned(), name.clone())));
        }
        secrets.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then(a.cmp(b)));
        Secrets(secrets)
    }

    /// How many bytes the longest value has.
    pub(crate) fn longest(&self) -> usize {
        self.0.first().map_or(0, |(value, _)| value.len())
    }

    /// The text with `[NAME redacted]` in place of each value.
    pub(crate) fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for (value, name) in &self.0 {
            if text.contains(value.as_str()) {
                text = Cow::Owned(text.replace(value.as_str(), &format!("[{name} redacted]")));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(variables: &[(&str, &str)]) -> Secrets {
        Secrets::among(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn values_of_secret_names_are_replaced() {
        let secrets = secrets(&[
            ("GITHUB_TOKEN", "ghp_0123456789"),
            ("db_password", "correct horse"),
            ("STRIPE_APIKEY", "ghp_0123456789-longer"),
            ("MY_PRIVATE_KEY", "-----BEGIN-----\nMIIEvQIBADAN\n"),
            ("SECRET_SHORT", "1234567"),
            ("HOME", "/home/somebody"),
        ]);
        let cases = [
            ("token ghp_0123456789.", "token [GITHUB_TOKEN redacted]."),
            ("ghp_0123456789-longer", "[STRIPE_APIKEY redacted]"),
            ("pw='correct horse'", "pw='[db_password redacted]'"),
            ("| MIIEvQIBADAN |", "| [MY_PRIVATE_KEY redacted] |"),
            ("1234567 in /home/somebody", "1234567 in /home/somebody"),
        ];
        for (text, redacted) in cases {
            assert_eq!(secrets.redact(text), redacted);
        }
        assert_eq!(secrets.longest(), "ghp_0123456789-longer".len());
    }
}
