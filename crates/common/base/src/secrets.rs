//! Finding secrets in command lines and other text, and hiding them.
//!
//! A run is recorded, exported and passed on. Its commands may contain passwords and its requests
//! tokens, which [`redact`] and [`redact_arguments`] replace by `***` before anything is recorded.
//!
//! That happens where the record is made (`conduct`; for errors and log lines `stage`; for experiment
//! files `spec`), so no exporter has to know about it. Of unknown headers only the name is recorded.

use std::ops::Range;

/// What is shown instead of a secret.
const HIDDEN: &str = "***";

/// Substrings of the names of options, variables, keys and headers whose values are secrets.
const NAMES: [&str; 14] = [
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "SECRET",
    "TOKEN",
    "APIKEY",
    "API_KEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
    "CREDENTIAL",
    "AUTHORIZATION",
    "COOKIE",
    "PGPASS",
    "MYSQL_PWD",
];

/// The last words of such names, besides `…_KEY` and `…_PWD`; `KEY` and `PWD` alone are none.
const LAST_WORDS: [&str; 4] = ["AUTH", "DSN", "JWT", "PASS"];

/// Headers whose values are shown. All others may contain a secret, whatever they are called.
const PLAIN_HEADERS: [&str; 14] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "if-modified-since",
    "if-none-match",
    "range",
    "user-agent",
];

/// The text with its secrets replaced by `***`: passwords in URLs and after `-u USER:`, and the values of options,
/// variables, keys and headers whose names tell that they are secret (`--password=…`, `PGPASSWORD=…`,
/// `token = "…"`, `Authorization: …`).
pub fn redact(text: &str) -> String {
    let mut spans = passwords_of_urls(text);
    spans.extend(passwords_of_users(text));
    spans.extend(telling_values(text));
    spans.sort_by_key(|span| span.start);
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    // The stage has already replaced values of variables: `TOKEN=[TOKEN redacted]`.
    let is_replaced = |at: usize| {
        let inner = text[at..].strip_prefix('[').and_then(|rest| rest.split_once(']'));
        inner.is_some_and(|(inner, _)| inner.ends_with(" redacted"))
    };
    for span in spans {
        if is_replaced(span.start) {
            continue;
        }
        if span.start >= at {
            shown += &text[at..span.start];
            shown += HIDDEN;
        }
        at = at.max(span.end);
    }
    shown + &text[at..]
}

/// A command line of tachograph, by argument, with its secrets replaced: those of [`redact`], the
/// values of headers that may contain secrets, and the request's body. Names of files (`@FILE`) are
/// shown.
pub fn redact_arguments(words: &[String]) -> Vec<String> {
    let mut shown: Vec<String> = Vec::with_capacity(words.len());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (option, value) = match word.strip_prefix("-H").filter(|rest| !rest.is_empty()) {
            Some(value) => ("-H", Some(value)),
            None => match word.split_once('=') {
                Some((option, value)) if option.starts_with("--") => (option, Some(value)),
                _ => (word.as_str(), None),
            },
        };
        let hide: fn(&str) -> String = match option {
            "-H" | "--header" => redact_header,
            "--body" => redact_body,
            _ => {
                shown.push(redact(word));
                continue;
            }
        };
        match value {
            Some(value) if option == "-H" => shown.push(format!("-H{}", hide(value))),
            Some(value) => shown.push(format!("{option}={}", hide(value))),
            None => {
                shown.push(option.to_owned());
                shown.extend(words.next().map(|value| hide(value)));
            }
        }
    }
    shown
}

/// `Name: value` with a value that may be a secret replaced; `@FILE` is shown.
pub fn redact_header(text: &str) -> String {
    match text.split_once(':') {
        _ if text.starts_with('@') => text.to_owned(),
        Some((name, _)) if PLAIN_HEADERS.contains(&name.trim().to_ascii_lowercase().as_str()) => {
            redact(text)
        }
        Some((name, _)) => format!("{name}: {HIDDEN}"),
        // Not a header: anything in it may be a secret.
        None => HIDDEN.to_owned(),
    }
}

/// A request's body: hidden, unless it is `@FILE`.
pub fn redact_body(text: &str) -> String {
    if text.starts_with('@') { text.to_owned() } else { HIDDEN.to_owned() }
}

/// The passwords in `scheme://user:password@host`.
fn passwords_of_urls(text: &str) -> Vec<Range<usize>> {
    let ends = |c: char| c.is_whitespace() || "'\"`<>".contains(c);
    let mut found = Vec::new();
    for (at, _) in text.match_indices("://") {
        let start = at + "://".len();
        let word = &text[start..];
        let word = &word[..word.find(ends).unwrap_or(word.len())];
        let authority = word.split(['/', '?', '#']).next().unwrap_or(word);
        // A password with a slash is not a valid URL, but many programs accept it. After a host
        // there is a port or nothing.
        let is_host = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit() || c == '$');
        let end = authority.rfind('@').or_else(|| {
            let (_, rest) = authority.split_once(':')?;
            (!is_host(rest)).then(|| word.rfind('@')).flatten()
        });
        let Some(end) = end else { continue };
        if let Some(colon) = word[..end].find(':') {
            found.push(start + colon + 1..start + end);
        }
    }
    found
}

/// The passwords in `curl -u user:password`. With other programs, `-u` may precede an address.
fn passwords_of_users(text: &str) -> Vec<Range<usize>> {
    const OPTIONS: [&str; 4] = ["-u", "--user", "-U", "--proxy-user"];
    let mut words = text.split_inclusive([' ', '=']).scan(0, |at, word| {
        *at += word.len();
        Some((*at - word.len(), word.trim_end_matches([' ', '='])))
    });
    let mut found = Vec::new();
    while let Some((_, option)) = words.next() {
        if !OPTIONS.contains(&option) {
            continue;
        }
        let Some((start, value)) = words.next() else { break };
        let password =
            value.split_once(':').map(|(_, password)| password.trim_matches(['\'', '"']));
        if let Some(password) = password.filter(|password| !password.is_empty())
            && text[..start].contains("curl")
            && let Some(at) = value.find(':')
        {
            found.push(start + at + 1..start + at + 1 + password.len());
        }
    }
    found
}

/// The values that follow a telling name.
fn telling_values(text: &str) -> Vec<Range<usize>> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].find(is_of_name) {
        let start = at + first;
        let rest = &text[start..];
        let name = &rest[..rest.find(|c: char| !is_of_name(c)).unwrap_or(rest.len())];
        at = start + name.len();
        if is_secret_name(name)
            && let Some(value) = value_after(&text[at..], name.starts_with("--"))
        {
            found.push(at + value.start..at + value.end);
            at += value.end;
        }
    }
    found
}

/// Whether the value of an option, a variable, a key or a header of this name is a secret.
pub fn is_secret_name(name: &str) -> bool {
    let is_option = name.starts_with("--");
    let name = name.trim_start_matches('-').to_ascii_uppercase().replace('-', "_");
    let last_word = match name.rsplit_once('_') {
        // The value of `--tls-key` is the name of a file.
        Some((_, word)) => {
            (word == "KEY" && !is_option) || word == "PWD" || LAST_WORDS.contains(&word)
        }
        None => LAST_WORDS.contains(&name.as_str()),
    };
    last_word || NAMES.iter().any(|part| name.contains(part))
}

/// Where the value is in the text after a name: after `=` or `:`, or after a space if the name is
/// that of an option.
fn value_after(text: &str, is_option: bool) -> Option<Range<usize>> {
    // A name in a JSON or TOML key may be quoted.
    let unquoted = text.trim_start_matches(['"', '\'']);
    let spaced = unquoted.trim_start_matches(' ');
    let (after, to_line_end) = match spaced.chars().next() {
        Some('=') => (&spaced[1..], false),
        Some(':') => (&spaced[1..], !is_option),
        _ if is_option && spaced.len() < unquoted.len() => (spaced, false),
        _ => return None,
    };
    let value = after.trim_start_matches(' ');
    let start = text.len() - value.len();
    let quote = value.chars().next().filter(|c| "'\"".contains(*c));
    let (start, value) = if quote.is_some() { (start + 1, &value[1..]) } else { (start, value) };
    let length = value.find(|c: char| match quote {
        Some(quote) => c == quote,
        // The value of a header has spaces and ends with its line, or with the quotes around it.
        None if to_line_end => "'\"\r\n".contains(c),
        None => c.is_whitespace() || "'\"&;|)".contains(c),
    });
    let length = length.unwrap_or(value.len());
    (length > 0).then(|| start..start + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_commands_and_texts_are_hidden() {
        for (text, shown) in [
            (
                "./app --db postgres://ada:hunter2@db:5432/x",
                "./app --db postgres://ada:***@db:5432/x",
            ),
            ("curl http://u:p@ss@h/ -v", "curl http://u:***@h/ -v"),
            ("redis://:hun/ter@h", "redis://:***@h"),
            ("./app --password=hunter2 --port $PORT", "./app --password=*** --port $PORT"),
            ("./app --password 'hunter 2' -x", "./app --password '***' -x"),
            ("./app --api-key hunter2", "./app --api-key ***"),
            (
                "env PGPASSWORD=hunter2 DB_TOKEN=\"a b\" ./app",
                "env PGPASSWORD=*** DB_TOKEN=\"***\" ./app",
            ),
            ("sh -c 'SECRET=x; ./app'", "sh -c 'SECRET=***; ./app'"),
            ("db_password = \"hunter2\"\nport = 1", "db_password = \"***\"\nport = 1"),
            ("headers = [\"Authorization: Bearer x y\"]", "headers = [\"Authorization: ***\"]"),
            ("Cookie: a=b; c=d\nAccept: */*", "Cookie: ***\nAccept: */*"),
            ("{\"token\": \"x\"}", "{\"token\": \"***\"}"),
            ("http://127.0.0.1:$PORT/?mail=a@b", "http://127.0.0.1:$PORT/?mail=a@b"),
            ("postgres://ada@db/x", "postgres://ada@db/x"),
            ("gunicorn -b 127.0.0.1:$PORT server:app", "gunicorn -b 127.0.0.1:$PORT server:app"),
            ("./app --password", "./app --password"),
            ("curl -u ada:hunter2 http://h/", "curl -u ada:*** http://h/"),
            ("curl --user='ada:hunter2' http://h/", "curl --user='ada:***' http://h/"),
            ("./app -u 127.0.0.1:$PORT", "./app -u 127.0.0.1:$PORT"),
            ("grüße --passwort=ß", "grüße --passwort=ß"),
            ("--secret=ß é", "--secret=*** é"),
            (
                "DB_PASS=x SMTP_PWD=y SIGNING_KEY=z ./app",
                "DB_PASS=*** SMTP_PWD=*** SIGNING_KEY=*** ./app",
            ),
            ("X-Auth: x y", "X-Auth: ***"),
            ("sentry_dsn = \"x\"", "sentry_dsn = \"***\""),
            ("PWD=/srv ./app --tls-key server.key", "PWD=/srv ./app --tls-key server.key"),
            ("cannot read server.key: no such file", "cannot read server.key: no such file"),
            ("passenger start --port $PORT", "passenger start --port $PORT"),
        ] {
            assert_eq!(redact(text), shown);
        }
    }

    #[test]
    fn headers_and_bodies_of_our_own_command_line_are_hidden() {
        for (words, shown) in [
            (
                vec!["load", "-H", "Authorization: Bearer x"],
                vec!["load", "-H", "Authorization: ***"],
            ),
            (
                vec!["-HX-Auth: x", "--header=Cookie: x"],
                vec!["-HX-Auth: ***", "--header=Cookie: ***"],
            ),
            (vec!["-H", "Accept: text/html"], vec!["-H", "Accept: text/html"]),
            (vec!["--header", "@secret.txt"], vec!["--header", "@secret.txt"]),
            (vec!["-H", "mistyped"], vec!["-H", "***"]),
            (vec!["--body", "x", "--body=y"], vec!["--body", "***", "--body=***"]),
            (vec!["--body", "@f", "-n", "5"], vec!["--body", "@f", "-n", "5"]),
            (vec!["./a --token=x", "-H"], vec!["./a --token=***", "-H"]),
        ] {
            let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
            assert_eq!(redact_arguments(&words), shown);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_redacted(text in "[ -=:/@'\"a-z]{0,20}(--password=|token: |x://u:)?\\PC{0,20}") {
            let shown = redact(&text);
            proptest::prop_assert_eq!(redact(&shown), shown);
        }
    }
}
