//! Parameters from the query and from a form, which may both have some.

use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::Method;
use graphite::GraphiteError;
use jiff::tz::TimeZone;

use crate::answer::RequestRefusal;

/// Limit on the bytes of a form.
const FORM_BYTES_MAX: usize = 1 << 20;

/// Limit on the number of parameters.
const PARAMETERS_MAX: usize = 2_000;

/// The parameters of a request, in order; names may repeat.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    pairs: Vec<(String, String)>,
}

impl<S: Send + Sync> FromRequest<S> for Parameters {
    type Rejection = RequestRefusal;

    async fn from_request(request: Request, _state: &S) -> Result<Parameters, RequestRefusal> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let mut pairs = parsed(query.as_bytes());
        if request.method() == Method::POST {
            let body = to_bytes(request.into_body(), FORM_BYTES_MAX).await.map_err(|_| {
                RequestRefusal::Request(format!(
                    "the form cannot be read: it must be complete, and at most {FORM_BYTES_MAX} \
                     bytes long"
                ))
            })?;
            pairs.extend(parsed(&body));
        }
        if pairs.len() > PARAMETERS_MAX {
            return Err(RequestRefusal::Request(format!(
                "the request has {} parameters, but the limit is {PARAMETERS_MAX}",
                pairs.len()
            )));
        }
        Ok(Parameters { pairs })
    }
}

fn parsed(text: &[u8]) -> Vec<(String, String)> {
    form_urlencoded::parse(text).into_owned().collect()
}

impl Parameters {
    /// The last value of a name that is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let values = self.pairs.iter().rev().filter(|(known, _)| known == name);
        values.map(|(_, value)| value.as_str()).find(|value| !value.is_empty())
    }

    /// All values of a name, also as in `name[]`.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let is_it = |known: &str| known == name || known.strip_suffix("[]") == Some(name);
        let values = self.pairs.iter().filter(|(known, _)| is_it(known));
        values.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty()).collect()
    }

    /// Whether a flag is given, and not 0 or false.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        let found = self.pairs.iter().rfind(|(known, _)| known == name);
        found.is_some_and(|(_, value)| !matches!(value.as_str(), "0" | "false"))
    }

    /// A positive number.
    pub(crate) fn count(&self, name: &str) -> Result<Option<usize>, RequestRefusal> {
        let Some(text) = self.get(name) else { return Ok(None) };
        // Grafana computes widths in fractions of a pixel.
        match text.parse::<f64>() {
            Ok(count) if (1.0..1e9).contains(&count) => Ok(Some(count as usize)),
            _ => Err(RequestRefusal::Request(format!("'{name}' must be a number of at least 1"))),
        }
    }

    /// The zone in `tz`; UTC without one.
    pub(crate) fn zone(&self) -> Result<TimeZone, GraphiteError> {
        graphite::zone(self.get("tz").unwrap_or_default())
    }

    /// A time; `None` if it is missing.
    pub(crate) fn time(
        &self,
        name: &str,
        now_s: i64,
        zone: &TimeZone,
    ) -> Result<Option<i64>, GraphiteError> {
        self.get(name).map(|text| graphite::parse_time(text, now_s, zone)).transpose()
    }
}
