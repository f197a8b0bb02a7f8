//! Answers and errors of handlers.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use graphite::GraphiteError;
use serve::ReadError;

/// Why a request was not answered: one sentence and a status.
#[derive(Debug)]
pub(crate) enum RequestRefusal {
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

impl From<GraphiteError> for RequestRefusal {
    fn from(error: GraphiteError) -> RequestRefusal {
        RequestRefusal::Query(error)
    }
}

impl From<ReadError> for RequestRefusal {
    fn from(error: ReadError) -> RequestRefusal {
        RequestRefusal::Read(error)
    }
}

impl IntoResponse for RequestRefusal {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            RequestRefusal::Query(error) => (StatusCode::BAD_REQUEST, error.to_string()),
            RequestRefusal::Request(text) => (StatusCode::BAD_REQUEST, text),
            RequestRefusal::Missing(text) => (StatusCode::NOT_FOUND, text),
            RequestRefusal::Read(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            RequestRefusal::Unavailable(text) => (StatusCode::SERVICE_UNAVAILABLE, text),
        };
        (status, format!("{text}\n")).into_response()
    }
}

/// An answer, or why there is none.
pub(crate) type WebResult = Result<Response, RequestRefusal>;

/// JSON as it is.
pub(crate) fn json(text: impl Into<Bytes>) -> Response {
    ([(CONTENT_TYPE, "application/json")], text.into()).into_response()
}
