//! Answers and errors of handlers.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use graphite::GraphiteError;
use serve::ReadError;

/// Why a request was not answered: one sentence and a status.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The request is wrong.
    Query(GraphiteError),
    /// The request is wrong in a way that only HTTP knows.
    Request(String),
    /// What was asked for does not exist.
    Missing(String),
    /// The store cannot be read.
    Read(ReadError),
    /// The file of runs cannot be read.
    Unavailable(String),
}

impl From<GraphiteError> for Refusal {
    fn from(error: GraphiteError) -> Refusal {
        Refusal::Query(error)
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Refusal {
        Refusal::Read(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Refusal::Query(error) => (StatusCode::BAD_REQUEST, error.to_string()),
            Refusal::Request(text) => (StatusCode::BAD_REQUEST, text),
            Refusal::Missing(text) => (StatusCode::NOT_FOUND, text),
            Refusal::Read(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            Refusal::Unavailable(text) => (StatusCode::SERVICE_UNAVAILABLE, text),
        };
        (status, format!("{text}\n")).into_response()
    }
}

/// An answer, or why there is none.
pub(crate) type WebResult = Result<Response, Refusal>;

/// JSON as it is.
pub(crate) fn json(text: impl Into<Bytes>) -> Response {
    ([(CONTENT_TYPE, "application/json")], text.into()).into_response()
}
