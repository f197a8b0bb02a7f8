//! HTTP archives (HAR 1.2), as browsers and proxies save them.

use base::Timestamp;
use serde::Deserialize;

use super::{RequestDefaults, RequestFile, SeenRequest, is_path, is_token, kinds_of};
use crate::error::SpecError;
use crate::requests::{HttpRequest, PathRequest};

/// The part of an archive that matters here.
#[derive(Debug, Deserialize)]
pub(super) struct HarFile {
    log: HarLog,
}

#[derive(Debug, Deserialize)]
struct HarLog {
    entries: Vec<HarEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarEntry {
    started_date_time: Option<String>,
    request: HarRequest,
    response: HarResponse,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarRequest {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<HarHeader>,
    post_data: Option<HarBody>,
}

#[derive(Debug, Deserialize)]
struct HarHeader {
    name: String,
    value: String,
}

#[derive(Debug, Deserialize)]
struct HarBody {
    text: Option<String>,
}

#[derive(Debug, Deserialize)]
struct HarResponse {
    status: u16,
}

/// Headers that belong to the connection or follow from the rest of the request.
const OWN: [&str; 7] =
    ["host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "keep-alive"];

pub(super) fn requests(
    path: &str,
    har: &HarFile,
    defaults: &RequestDefaults,
) -> Result<RequestFile, SpecError> {
    let mut file = RequestFile::default();
    let mut seen = Vec::new();
    for entry in entries(har, &defaults.request) {
        match entry.request {
            Ok(request) => seen.push(request),
            Err(why) => *file.left_out.entry(why).or_default() += 1,
        }
    }
    if seen.is_empty() {
        return Err(SpecError::new(format!("there is no request in {path}")));
    }
    file.kinds = kinds_of(seen, &defaults.expect);
    Ok(file)
}

/// An entry of an archive.
pub(super) struct ArchivedRequest {
    /// The request, or why it cannot be sent again.
    pub(super) request: Result<SeenRequest, &'static str>,
    /// When it began, if the archive says so.
    pub(super) time: Option<Timestamp>,
}

/// The entries, in their order.
pub(super) fn entries<'a>(
    har: &'a HarFile,
    defaults: &'a HttpRequest,
) -> impl Iterator<Item = ArchivedRequest> + 'a {
    let mut host = None;
    har.log.entries.iter().map(move |HarEntry { started_date_time, request, response }| {
        let rest = request.url.split_once("://").map_or("", |(_, rest)| rest);
        let (to, place) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let place = place.split('#').next().unwrap_or_default();
        let place = if place.is_empty() { "/" } else { place };
        let request = if *host.get_or_insert(to) != to {
            Err("requests to other hosts than the first one")
        } else if !is_path(place) || !is_token(&request.method) {
            Err("requests with a path or method that cannot be sent")
        } else if !(200..=599).contains(&response.status) {
            Err("requests without an answer")
        } else {
            let path = place.to_owned();
            let request = PathRequest { path, request: sent(request, defaults) };
            Ok(SeenRequest { request, status: response.status })
        };
        let time = started_date_time.as_deref().and_then(|text| text.parse().ok());
        ArchivedRequest { request, time }
    })
}

fn sent(seen: &HarRequest, defaults: &HttpRequest) -> HttpRequest {
    let mut headers = defaults.headers.clone();
    for HarHeader { name, value } in &seen.headers {
        let lower = name.to_ascii_lowercase();
        let is_given = headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        // Names of HTTP/2 begin with a colon, which no token does.
        let is_ours = OWN.contains(&lower.as_str()) || !is_token(name);
        if !is_given && !is_ours && !value.contains(['\r', '\n', '\0']) {
            headers.push((name.clone(), value.clone()));
        }
    }
    let body = seen.post_data.as_ref().and_then(|body| body.text.clone()).unwrap_or_default();
    HttpRequest { method: seen.method.clone(), headers, body: body.into_bytes() }
}
