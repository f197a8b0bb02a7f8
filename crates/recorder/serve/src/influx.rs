//! Influx line protocol over HTTP: `/write`, `/api/v2/write`, `/ping`, and of `/query` what clients
//! need to start.
//!
//! As documented in "Write data with the InfluxDB API" for InfluxDB 1.x and 2.x. Databases, buckets
//! and organisations are ignored: there is one record.

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Query, RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_ENCODING, HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use formats::Precision;
use serde::Deserialize;
use serde_json::{Value, json};
use series::SECOND_US;
use store::Retention;

use crate::Readers;
use crate::body::{self, Failed};
use crate::ingest::{Format, Ingest};
use crate::metrics::Way;
use crate::requests::Peer;

/// The version of InfluxDB whose API this is, for clients that ask.
const VERSION: &str = "1.8.10";

/// The name of the record, for clients that ask for databases.
const DATABASE: &str = "tachograph";

/// The paths of InfluxDB's API.
pub(crate) fn router(ingest: Ingest, readers: Readers) -> Router {
    let queries = Router::new().route("/query", get(query).post(query)).with_state(readers);
    Router::new()
        .route("/write", post(write))
        .route("/api/v2/write", post(write))
        .route("/ping", get(ping).head(ping))
        .with_state(ingest)
        .merge(queries)
}

#[derive(Debug, Deserialize)]
struct WriteParameters {
    precision: Option<String>,
}

/// An answer as clients of InfluxDB expect it.
struct Shown(Failed);

impl From<Failed> for Shown {
    fn from(failed: Failed) -> Shown {
        Shown(failed)
    }
}

impl IntoResponse for Shown {
    fn into_response(self) -> Response {
        let Shown(failed) = self;
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
    State(ingest): State<Ingest>,
    Extension(peer): Extension<Peer>,
    Query(parameters): Query<WriteParameters>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Shown> {
    let precision = parameters.precision.as_deref().filter(|precision| !precision.is_empty());
    let precision = match precision {
        None => Precision::Nanoseconds,
        Some(text) => Precision::parse(text).ok_or_else(|| {
            let why = format!("precision '{text}' is not supported: use ns, us, ms or s");
            Failed::new(StatusCode::BAD_REQUEST, why)
        })?,
    };
    let mut lines = body::read(&ingest, body).await?;
    match headers.get(CONTENT_ENCODING).map(|encoding| encoding.as_bytes()) {
        None | Some(b"identity" | b"") => {}
        Some(b"gzip") => lines = body::unpack_gzip(&ingest, &lines)?,
        Some(_) => {
            let why = "this Content-Encoding is not supported: use gzip, or none";
            return Err(Failed::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why).into());
        }
    }
    if lines.bytes.is_empty() {
        return Ok(StatusCode::NO_CONTENT);
    }
    let way = (Way::influx_http, Format::Influx(precision));
    let refused = body::deliver(&ingest, peer, way, lines).await?;
    let Some((number, line, reason)) = refused.first else { return Ok(StatusCode::NO_CONTENT) };
    let why = format!(
        "partial write: line {number} ('{line}'): {reason}; refused lines: {}, the others were \
         written",
        refused.lines
    );
    Err(Failed::new(StatusCode::BAD_REQUEST, why).into())
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statement {
    /// There is one record, so there is nothing to create.
    CreateDatabase,
    ShowDatabases,
    ShowRetentionPolicies,
}

impl Statement {
    fn parse(text: &str) -> Option<Statement> {
        let mut words = text.split_ascii_whitespace().map(str::to_ascii_uppercase);
        let words: [Option<String>; 4] = std::array::from_fn(|_| words.next());
        match words.each_ref().map(Option::as_deref) {
            [Some("CREATE"), Some("DATABASE"), Some(_), _] => Some(Statement::CreateDatabase),
            [Some("SHOW"), Some("DATABASES"), None, _] => Some(Statement::ShowDatabases),
            [Some("SHOW"), Some("RETENTION"), Some("POLICIES"), None | Some("ON")] => {
                Some(Statement::ShowRetentionPolicies)
            }
            _ => None,
        }
    }

    /// Its rows.
    fn rows(self, retentions: &[Retention]) -> Option<Value> {
        match self {
            Statement::CreateDatabase => None,
            Statement::ShowDatabases => {
                Some(json!({ "name": "databases", "columns": ["name"], "values": [[DATABASE]] }))
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
                Some(json!({ "columns": columns, "values": values.collect::<Vec<_>>() }))
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
    State(readers): State<Readers>,
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
        match statement.rows(&retentions) {
            Some(rows) => json!({ "statement_id": number, "series": [rows] }),
            None => json!({ "statement_id": number }),
        }
    });
    axum::Json(json!({ "results": results.collect::<Vec<_>>() })).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_clients_send_when_they_start_are_understood() {
        for (text, statement) in [
            ("SHOW DATABASES", Some(Statement::ShowDatabases)),
            (" show  databases ", Some(Statement::ShowDatabases)),
            ("CREATE DATABASE \"telegraf\"", Some(Statement::CreateDatabase)),
            ("CREATE DATABASE a WITH DURATION 3d NAME b", Some(Statement::CreateDatabase)),
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
