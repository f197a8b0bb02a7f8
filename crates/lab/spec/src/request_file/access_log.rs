//! Access logs in the formats that web servers share: common and combined, and others in which the
//! request's line stands in quotes before the status.

use std::sync::LazyLock;

use base::Timestamp;
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

/// `[29/Nov/2026:10:00:00 +0000]`, the time of the common log format.
#[allow(clippy::expect_used)]
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\[([0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4})\]")
        .expect("a constant expression")
});

pub(super) fn requests(
    path: &str,
    text: &str,
    defaults: &RequestDefaults,
) -> Result<RequestFile, SpecError> {
    let mut file = RequestFile::default();
    let mut seen = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match request(line, &defaults.request) {
            Ok(request) => seen.push(request),
            Err(why) => *file.left_out.entry(why).or_default() += 1,
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

/// The request of a line, or why it cannot be sent again.
pub(super) fn request(line: &str, defaults: &HttpRequest) -> Result<SeenRequest, &'static str> {
    let Some(found) = REQUEST.captures(line) else {
        return Err("lines without a request and its status");
    };
    let status: u16 = found[3].parse().unwrap_or_default();
    if !matches!(&found[1], "GET" | "HEAD" | "OPTIONS") {
        Err("requests whose body is not in the log")
    } else if !is_path(&found[2]) || found[2].contains('\\') {
        Err("requests with a path that cannot be sent")
    // nginx's own codes: the client went away, and others without an answer.
    } else if !(200..=599).contains(&status) || (494..=499).contains(&status) {
        Err("requests without an answer")
    } else {
        let request = HttpRequest { method: found[1].to_owned(), ..defaults.clone() };
        let request = PathRequest { path: found[2].to_owned(), request };
        Ok(SeenRequest { request, status })
    }
}

/// When the request of a line was made or answered, which depends on the server; in whole seconds.
pub(super) fn time(line: &str) -> Option<Timestamp> {
    Timestamp::strptime("%d/%b/%Y:%H:%M:%S %z", &TIME.captures(line)?[1]).ok()
}
