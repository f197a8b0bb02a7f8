//! Names and texts in statements for Hive and Spark.

/// Whether a text can be the name of a database, table or column without surprises: letters,
/// digits and `_`, at most 128 of them (the limit of Hive's metastore).
pub fn is_name(text: &str) -> bool {
    let all = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    all && !text.is_empty() && text.len() <= 128
}

/// A name in backquotes.
pub fn name(text: &str) -> String {
    format!("`{}`", text.replace('`', "``"))
}

/// A text in single quotes, with the escapes that Hive and Spark share.
pub fn text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    for c in text.chars() {
        match c {
            '\'' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\0' => quoted.push_str("\\0"),
            _ => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_cannot_be_left() {
        assert_eq!(text(r"it's \ here"), r"'it\'s \\ here'");
        assert_eq!(text("a\nb"), r"'a\nb'");
        assert_eq!(name("a`b"), "`a``b`");
        assert!(is_name("every_10s") && !is_name("a-b") && !is_name("") && !is_name("a.b"));
        assert!(!is_name(&"a".repeat(129)));
    }
}
