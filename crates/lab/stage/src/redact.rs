//! Keeps secrets in the user's environment out of the record.
//!
//! Processes inherit the environment, and a failing one may print it. The end of its log enters
//! messages and the record, so the values of variables with telling names are replaced there.

use std::borrow::Cow;
use std::ffi::OsString;

/// Shorter values are often words such as `yes`.
const CHARS_MIN: usize = 8;

/// The values to replace, longest first, with their variables.
pub(crate) struct Secrets(Vec<(String, String)>);

impl Secrets {
    /// The secrets in our own environment, which processes inherit.
    pub(crate) fn of_environment() -> Secrets {
        Secrets::among(std::env::vars_os())
    }

    fn among(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Secrets {
        let mut secrets = Vec::new();
        for (name, value) in variables {
            let name = name.to_string_lossy().into_owned();
            if !base::is_secret_name(&name) {
                continue;
            }
            // A multi-line key is printed line by line.
            let value = value.to_string_lossy();
            let lines = value.lines().map(str::trim);
            let long = lines.filter(|line| line.chars().count() >= CHARS_MIN);
            secrets.extend(long.map(|line| (line.to_owned(), name.clone())));
        }
        secrets.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then(a.cmp(b)));
        Secrets(secrets)
    }

    /// Length of the longest value in bytes.
    pub(crate) fn longest(&self) -> usize {
        self.0.first().map_or(0, |(value, _)| value.len())
    }

    /// The text with each value replaced by `[NAME redacted]`.
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
            ("DB_PASS", "tr0ub4dor"),
            ("MY_PRIVATE_KEY", "-----BEGIN-----\nMIIEvQIBADAN\n"),
            ("SECRET_SHORT", "1234567"),
            ("HOME", "/home/somebody"),
        ]);
        let cases = [
            ("token ghp_0123456789.", "token [GITHUB_TOKEN redacted]."),
            ("ghp_0123456789-longer", "[STRIPE_APIKEY redacted]"),
            ("pw='correct horse'", "pw='[db_password redacted]'"),
            ("as tr0ub4dor", "as [DB_PASS redacted]"),
            ("| MIIEvQIBADAN |", "| [MY_PRIVATE_KEY redacted] |"),
            ("1234567 in /home/somebody", "1234567 in /home/somebody"),
        ];
        for (text, redacted) in cases {
            assert_eq!(secrets.redact(text), redacted);
        }
        assert_eq!(secrets.longest(), "ghp_0123456789-longer".len());
    }
}
