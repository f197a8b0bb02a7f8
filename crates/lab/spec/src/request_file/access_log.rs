//! Access logs in the formats that web servers share: common and combined, and others in which the
//! request's line stands in quotes before the status.

use std::sync::LazyLock;

use regex::Regex;

use super::{RequestDefaults, RequestFile, SeenRequest, is_path, kinds_of};
use crate::error::SpecError;
use crate::requests::{HttpRequest, PathRequest};

/// `"GET /path HTTP/1.1" 200`; a quote in the path is escaped.
#[allow(clippy::expect_used)]
static REQUEST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#""([A-Z]+) ((?:[^"\\ ]|\\.)+)(?: HTTP/[0-9.]+)?" ([0-9]{3})\b"#)
        .expect("a constant expression")
});

pub(super) fn requests(
    path: &str,
    text: &str,
    defaults: &RequestDefaults,
) -> Result<RequestFile, SpecError> {
    let mut file = RequestFile::default();
    let mut seen = Vec::new();
    let mut leave_out = |why| *file.left_out.entry(why).or_default() += 1;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let Some(found) = REQUEST.captures(line) else {
            leave_out("lines without a request and its status");
            continue;
        };
        let status: u16 = found[3].parse().unwrap_or_default();
        // nginx's own codes: the client went away, and others without an answer.
        if !matches!(&found[1], "GET" | "HEAD" | "OPTIONS") {
            leave_out("requests whose body is not in the log");
        } else if !is_path(&found[2]) || found[2].contains('\\') {
            leave_out("requests with a path that cannot be sent");
        } else if !(200..=599).contains(&status) || (494..=499).contains(&status) {
            leave_out("requests without an answer");
        } else {
            let request = HttpRequest { method: found[1].to_owned(), ..defaults.request.clone() };
            seen.push(SeenRequest {
                request: PathRequest { path: found[2].to_owned(), request },
                status,
            });
        }
    }
    if seen.is_empty() {
        let message = format!("{path} is neither JSON lines, nor a HAR, nor an access log");
        return Err(SpecError::new(message).help(
            "a line of JSON is a request: {\"path\": \"/items\", \"weight\": 3}; a line of a log \
             has \"GET /items HTTP/1.1\" 200",
        ));
    }
    file.kinds = kinds_of(seen, &defaults.expect);
    Ok(file)
}
