//! Influx line protocol over HTTP: `/write`, `/api/v2/write`, `/ping`, and of `/query` what clients
//! need to start.
//!
//! As documented in "Write data with the InfluxDB API" for InfluxDB 1.x and 2.x. There is one record,
//! so the names of database and retention policy, or organisation and bucket, become [tags](PLACES)
//! of each series.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Query, RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_ENCODING, HeaderMap, HeaderName};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use formats::Precision;
use formats::text::CommonTags;
use serde::Deserialize;
use serde_json::{Value, json};
use series::SECOND_US;
use store::Retention;

use crate::Readers;
use crate::body::{self, RequestFailure};
use crate::ingest::{Format, Ingest, MESSAGE_MAX};
use crate::metrics::Way;
use crate::requests::{RequestSender, while_wanted};

/// The version of InfluxDB whose API this is, for clients that ask.
const VERSION: &str = "1.8.10";

/// Limits on the lines of a request, and on their tags and fields: each may be a new series, which
/// takes about a kilobyte of memory.
const LINES_MAX: usize = 262_144;
const PAIRS_MAX: usize = 524_288;

/// The name of the record, for clients that ask for databases.
const DATABASE: &str = "tachograph";

/// The parameters of a request that say where its lines belong, and their tags. InfluxDB reserves
/// names that begin with an underscore for itself.
const PLACES: [(&str, &str); 5] =
    [("db", "_db"), ("rp", "_rp"), ("org", "_org"), ("orgID", "_org"), ("bucket", "_bucket")];

/// The databases or buckets that may be written; empty for all.
pub(crate) type Databases = Arc<[String]>;

/// The paths of InfluxDB's API.
pub(crate) fn router(ingest: Ingest, readers: Readers, databases: Databases) -> Router {
    let queries = Router::new()
        .route("/query", get(query).post(query))
        .with_state((readers, databases.clone()))
        .layer(middleware::from_fn(while_wanted));
    Router::new()
        .route("/write", post(write))
        .route("/api/v2/write", post(write))
        .route("/ping", get(ping).head(ping))
        .with_state((ingest, databases))
        .merge(queries)
}

/// The tags of the lines of a request.
fn tags(
    parameters: &HashMap<String, String>,
    databases: &Databases,
) -> Result<CommonTags, RequestFailure> {
    let named = |name: &str| parameters.get(name).filter(|value| !value.is_empty());
    let database = named("db").or_else(|| named("bucket"));
    if !databases.is_empty() && !database.is_some_and(|name| databases.contains(name)) {
        return Err(match database {
            Some(name) => RequestFailure::new(StatusCode::NOT_FOUND, not_found(name, databases)),
            None => RequestFailure::new(
                StatusCode::BAD_REQUEST,
                "database is required: add db or bucket",
            ),
        });
    }
    let mut tags: Vec<(&str, &str)> = Vec::new();
    for (name, tag) in PLACES {
        if let Some(value) = named(name)
            && !tags.iter().any(|(known, _)| *known == tag)
        {
            tags.push((tag, value));
        }
    }
    CommonTags::new(tags).map_err(|reason| {
        let why = format!("the name of the database or bucket cannot be used: {reason}");
        RequestFailure::new(StatusCode::BAD_REQUEST, why)
    })
}

/// InfluxDB's words, by which clients know the case, and what can be done.
fn not_found(name: &str, databases: &Databases) -> String {
    format!(
        "database not found: \"{name}\"; this daemon takes {}: add --database {name} to its options",
        databases.join(", ")
    )
}

/// An answer as clients of InfluxDB expect it.
struct InfluxFailure(RequestFailure);

impl From<RequestFailure> for InfluxFailure {
    fn from(failed: RequestFailure) -> InfluxFailure {
        InfluxFailure(failed)
    }
}

impl IntoResponse for InfluxFailure {
    fn into_response(self) -> Response {
        let InfluxFailure(failed) = self;
        failure(failed.status, &failed.why)
    }
}

/// A refusal with its reason. `error` is what clients of InfluxDB 1.x show, `code` and `message`
/// those of 2.x.
pub(crate) fn failure(status: StatusCode, why: &str) -> Response {
    let code = match status {
        StatusCode::PAYLOAD_TOO_LARGE => "request too large",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST => "forbidden",
        _ => "invalid",
    };
    let answer = json!({ "code": code, "message": why, "error": why });
    let mut response = (status, axum::Json(answer)).into_response();
    body::retry_after(status, response.headers_mut());
    response
}

/// 204 once all lines are in the journal; 400 with the first refused line, when the other lines are
/// in the journal.
async fn write(
    State((ingest, databases)): State<(Ingest, Databases)>,
    Extension(peer): Extension<RequestSender>,
    Query(parameters): Query<HashMap<String, String>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, InfluxFailure> {
    let tags = tags(&parameters, &databases)?;
    let precision = match parameters.get("precision").map(String::as_str) {
        None | Some("") => Precision::Nanoseconds,
        Some(text) => Precision::parse(text).ok_or_else(|| {
            let why = format!("precision '{text}' is not supported: use ns, us, ms or s");
            RequestFailure::new(StatusCode::BAD_REQUEST, why)
        })?,
    };
    let mut lines = body::read(&ingest, &peer, body).await?;
    match headers.get(CONTENT_ENCODING).map(|encoding| encoding.as_bytes()) {
        None | Some(b"identity" | b"") => {}
        Some(b"gzip") => lines = body::unpack_gzip(&ingest, &lines)?,
        Some(_) => {
            let why = "this Content-Encoding is not supported: use gzip, or none";
            return Err(RequestFailure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why).into());
        }
    }
    if lines.bytes.is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let count = |byte| memchr::memchr_iter(byte, &lines.bytes).count();
    if count(b'\n') > LINES_MAX || count(b'=') > PAIRS_MAX {
        let why = format!(
            "the request has more than {LINES_MAX} lines, or more than {PAIRS_MAX} tags and \
             fields: send less at a time"
        );
        return Err(RequestFailure::new(StatusCode::PAYLOAD_TOO_LARGE, why).into());
    }
    if !tags.is_empty() {
        lines = body::rewrite(&ingest, lines, |bytes| tags.add(bytes, MESSAGE_MAX))?;
    }
    let (way, format) = (Way::influx_http, Format::Influx(precision));
    let refused = body::deliver(&ingest, peer, &headers, way, format, lines).await?;
    let mut response = match &refused.first {
        None => StatusCode::NO_CONTENT.into_response(),
        Some((number, line, reason)) => {
            let why = format!(
                "partial write: line {number} ('{}'): {reason}; refused lines: {}, the others were \
                 written",
                tags.remove(line),
                refused.lines
            );
            failure(StatusCode::BAD_REQUEST, &why)
        }
    };
    body::mark_repeated(&refused, response.headers_mut());
    Ok(response)
}

#[derive(Debug, Deserialize)]
struct PingParameters {
    verbose: Option<String>,
}

/// 204, or with `verbose=true` 200 and the version as JSON.
async fn ping(Query(parameters): Query<PingParameters>) -> Response {
    let version = HeaderName::from_static("x-influxdb-version");
    let build = HeaderName::from_static("x-influxdb-build");
    let headers = [(version, VERSION), (build, "OSS")];
    match parameters.verbose.as_deref() {
        None | Some("" | "0" | "false") => (StatusCode::NO_CONTENT, headers).into_response(),
        Some(_) => (headers, axum::Json(json!({ "version": VERSION }))).into_response(),
    }
}

/// A statement of InfluxQL that clients send when they start.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Statement {
    /// Databases are tags, so there is nothing to create.
    CreateDatabase(String),
    ShowDatabases,
    ShowRetentionPolicies,
}

impl Statement {
    fn parse(text: &str) -> Option<Statement> {
        let mut words = text.split_ascii_whitespace();
        let words: [Option<&str>; 4] = std::array::from_fn(|_| words.next());
        let upper = words.map(|word| word.map(str::to_ascii_uppercase));
        match upper.each_ref().map(Option::as_deref) {
            [Some("CREATE"), Some("DATABASE"), Some(_), _] => {
                let name = words[2].unwrap_or_default().trim_matches('"');
                Some(Statement::CreateDatabase(name.to_owned()))
            }
            [Some("SHOW"), Some("DATABASES"), None, _] => Some(Statement::ShowDatabases),
            [Some("SHOW"), Some("RETENTION"), Some("POLICIES"), None | Some("ON")] => {
                Some(Statement::ShowRetentionPolicies)
            }
            _ => None,
        }
    }

    /// Its answer, without its number.
    fn answer(&self, retentions: &[Retention], databases: &Databases) -> Value {
        match self {
            Statement::CreateDatabase(name) => {
                match databases.is_empty() || databases.contains(name) {
                    true => json!({}),
                    false => json!({ "error": not_found(name, databases) }),
                }
            }
            Statement::ShowDatabases => {
                let names: Vec<[&str; 1]> = match databases.is_empty() {
                    true => vec![[DATABASE]],
                    false => databases.iter().map(|name| [name.as_str()]).collect(),
                };
                let rows = json!({ "name": "databases", "columns": ["name"], "values": names });
                json!({ "series": [rows] })
            }
            Statement::ShowRetentionPolicies => {
                let columns = ["name", "duration", "shardGroupDuration", "replicaN", "default"];
                let finest = retentions.iter().map(|retention| retention.step).min();
                let values = retentions.iter().map(|retention| {
                    let view = store::view_of(retention.step);
                    let name = view.strip_prefix("every_").unwrap_or(&view);
                    let is_finest = Some(retention.step) == finest;
                    json!([name, duration(retention.age_us), "0s", 1, is_finest])
                });
                let rows = json!({ "columns": columns, "values": values.collect::<Vec<_>>() });
                json!({ "series": [rows] })
            }
        }
    }
}

/// A duration as InfluxDB shows it: `168h0m0s`; `0s` is without end.
fn duration(age_us: Option<i64>) -> String {
    match age_us.map(|age_us| age_us / SECOND_US) {
        None => "0s".to_owned(),
        Some(age_s) => format!("{}h{}m{}s", age_s / 3_600, age_s / 60 % 60, age_s % 60),
    }
}

/// What clients ask when they start, in the query or in the body of a form; several statements are
/// separated by semicolons.
async fn query(
    State((readers, databases)): State<(Readers, Databases)>,
    RawQuery(query): RawQuery,
    body: String,
) -> Response {
    let named = |text: &str| {
        let mut pairs = form_urlencoded::parse(text.as_bytes());
        pairs.find(|(name, _)| name == "q").map(|(_, asked)| asked.into_owned())
    };
    let Some(asked) = query.as_deref().and_then(named).or_else(|| named(&body)) else {
        return failure(StatusCode::BAD_REQUEST, "missing required parameter \"q\"");
    };
    let statements = asked.split(';').filter(|text| !text.trim().is_empty());
    let statements: Option<Vec<_>> = statements.map(Statement::parse).collect();
    let Some(statements) = statements.filter(|statements| !statements.is_empty()) else {
        let why = "InfluxQL is not supported, except for CREATE DATABASE, SHOW DATABASES and SHOW \
                   RETENTION POLICIES: read the record with SQL, `tachograph query` or Grafana's \
                   Graphite data source";
        return failure(StatusCode::BAD_REQUEST, why);
    };
    let retentions = match readers.read(|store| store.retentions()).await {
        Ok(retentions) => retentions,
        Err(error) => return failure(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
    };
    let results = statements.iter().enumerate().map(|(number, statement)| {
        let mut answer = statement.answer(&retentions, &databases);
        answer["statement_id"] = number.into();
        answer
    });
    axum::Json(json!({ "results": results.collect::<Vec<_>>() })).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_clients_send_when_they_start_are_understood() {
        let create = |name: &str| Some(Statement::CreateDatabase(name.to_owned()));
        for (text, statement) in [
            ("SHOW DATABASES", Some(Statement::ShowDatabases)),
            (" show  databases ", Some(Statement::ShowDatabases)),
            ("CREATE DATABASE \"telegraf\"", create("telegraf")),
            ("create database A WITH DURATION 3d NAME b", create("A")),
            ("CREATE DATABASE", None),
            ("SHOW RETENTION POLICIES ON \"a\"", Some(Statement::ShowRetentionPolicies)),
            ("SHOW RETENTION POLICIES", Some(Statement::ShowRetentionPolicies)),
            ("SHOW MEASUREMENTS", None),
            ("DROP DATABASE a", None),
            ("SELECT * FROM a", None),
            ("", None),
        ] {
            assert_eq!(Statement::parse(text), statement, "{text}");
        }
    }
}
