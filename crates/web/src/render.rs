//! `/render`: series as JSON, CSV, lines of text or a picture.

use std::fmt::Write as _;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use graphite::{Context, Expression, GraphiteError, Series, SeriesSource, evaluate, parse};
use jiff::tz::TimeZone;
use series::Flavor;
use store::StoreError;

use crate::WebState;
use crate::answer::{RequestRefusal, WebResult, json};
use crate::fetch::{SLOTS_MAX, SeriesReader};
use crate::parameters::Parameters;
use crate::picture::Canvas;

/// Limit on the targets of a request.
const TARGETS_MAX: usize = 500;

/// Limit on the values that a call may produce.
const VALUES_MAX: usize = SLOTS_MAX;

/// The range without `from`.
const DEFAULT_RANGE_S: i64 = 86_400;

#[derive(Clone, Debug, PartialEq, Eq)]
enum RenderFormat {
    Json,
    Csv,
    Raw,
    Svg(Canvas),
}

/// A request for series.
#[derive(Clone, Debug)]
pub(crate) struct RenderRequest {
    targets: Vec<Expression>,
    from_s: i64,
    until_s: i64,
    now_s: i64,
    zone: TimeZone,
    points: Option<usize>,
    xff: Option<f64>,
}

/// The wall clock, in seconds since the epoch.
pub(crate) fn now_s() -> i64 {
    jiff::Timestamp::now().as_second()
}

impl RenderRequest {
    pub(crate) fn new(parameters: &Parameters) -> Result<RenderRequest, RequestRefusal> {
        let zone = parameters.zone()?;
        let now_s = parameters.time("now", now_s(), &zone)?.unwrap_or_else(now_s);
        let until_s = parameters.time("until", now_s, &zone)?.unwrap_or(now_s);
        let from_s = parameters.time("from", now_s, &zone)?.unwrap_or(until_s - DEFAULT_RANGE_S);
        if from_s >= until_s {
            return Err(GraphiteError::EmptyRange.into());
        }
        let targets = parameters.all("target");
        if targets.is_empty() {
            return Err(RequestRefusal::Request(
                "no target: add target=PATH, such as target=servers.*.cpu".to_owned(),
            ));
        }
        if targets.len() > TARGETS_MAX {
            return Err(RequestRefusal::Request(format!(
                "the request has {} targets, but the limit is {TARGETS_MAX}",
                targets.len()
            )));
        }
        let targets = targets.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let xff = match parameters.get("xFilesFactor").map(str::parse::<f64>) {
            None => None,
            Some(Ok(xff)) if (0.0..=1.0).contains(&xff) => Some(xff),
            Some(_) => {
                return Err(RequestRefusal::Request(
                    "'xFilesFactor' must be from 0 to 1".to_owned(),
                ));
            }
        };
        let points = parameters.count("maxDataPoints")?;
        Ok(RenderRequest { targets, from_s, until_s, now_s, zone, points, xff })
    }

    /// Evaluates all targets, and consolidates the result to the number of points.
    pub(crate) fn evaluate(
        &self,
        reader: &mut SeriesReader<'_>,
    ) -> Result<Vec<Series>, GraphiteError> {
        let found = self.evaluate_whole(reader)?.into_iter();
        Ok(match self.points {
            Some(points) => found.map(|series| series.fitted(points)).collect(),
            None => found.collect(),
        })
    }

    /// Evaluates all targets at the resolution that was read.
    pub(crate) fn evaluate_whole(
        &self,
        source: &mut dyn SeriesSource,
    ) -> Result<Vec<Series>, GraphiteError> {
        let mut context = Context::new(self.from_s, self.until_s, VALUES_MAX)?;
        context.zone = self.zone.clone();
        let mut all = Vec::new();
        for target in &self.targets {
            for mut series in evaluate(target, &context, source)? {
                series.xff = self.xff.unwrap_or(series.xff);
                all.push(series);
            }
        }
        Ok(all)
    }

    pub(crate) fn now_s(&self) -> i64 {
        self.now_s
    }

    pub(crate) fn points(&self) -> Option<usize> {
        self.points
    }
}

pub(crate) async fn render(State(shared): State<WebState>, parameters: Parameters) -> WebResult {
    let format = match parameters.get("format") {
        None | Some("json") => RenderFormat::Json,
        Some("csv") => RenderFormat::Csv,
        Some("raw") => RenderFormat::Raw,
        Some("svg") => RenderFormat::Svg(Canvas::new(&parameters)?),
        Some(other) => {
            return Err(RequestRefusal::Request(format!(
                "format '{}' is not supported: use json, csv, raw or svg",
                other.chars().take(40).collect::<String>()
            )));
        }
    };
    let known_only = parameters.is_set("noNullPoints");
    let mut request = RenderRequest::new(&parameters)?;
    if let RenderFormat::Svg(canvas) = &format {
        // More points than pixels cannot be seen.
        request.points = Some(request.points.unwrap_or(canvas.width as usize));
    }
    let zone = request.zone.clone();
    let (from_s, until_s) = (request.from_s, request.until_s);
    let kind = format.kind();
    let names = shared.catalogue.names(&shared.readers).await?;
    let budget = shared.budget;
    let done = shared.readers.read(move |store| {
        let mut reader =
            SeriesReader::new(store, &budget, names, request.now_s(), request.points())?;
        let found = request.evaluate(&mut reader);
        match reader.failure.take() {
            Some(failure) => Err(failure),
            None => Ok::<_, StoreError>(found.map(|found| {
                let text = match &format {
                    RenderFormat::Json => as_json(&found, known_only),
                    RenderFormat::Csv => as_csv(&found, &zone),
                    RenderFormat::Raw => as_raw(&found),
                    RenderFormat::Svg(canvas) => {
                        let are_counts = found
                            .iter()
                            .all(|series| reader.flavor(&series.path) == Some(Flavor::Flow));
                        canvas.draw(&found, from_s, until_s, &zone, are_counts)
                    }
                };
                drop(found);
                budget.answer(&reader.client(), text)
            })),
        }
    });
    let text = done.await???;
    Ok(match kind {
        None => json(text),
        Some(kind) => typed(kind, text),
    })
}

impl RenderFormat {
    /// The media type; `None` for JSON.
    fn kind(&self) -> Option<&'static str> {
        match self {
            RenderFormat::Json => None,
            RenderFormat::Csv => Some("text/csv; charset=utf-8"),
            RenderFormat::Raw => Some("text/plain; charset=utf-8"),
            RenderFormat::Svg(_) => Some("image/svg+xml; charset=utf-8"),
        }
    }
}

fn typed(kind: &'static str, text: Bytes) -> Response {
    // A picture has its style in itself, and nothing else.
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    ([(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, policy)], text).into_response()
}

/// Writes a number as JSON; `null` for unknown and infinite ones.
pub(crate) fn number(text: &mut String, value: f64) {
    // Writing to a string cannot fail.
    let _ = match value {
        value if !value.is_finite() => write!(text, "null"),
        value if value != 0.0 && !(1e-5..1e16).contains(&value.abs()) => write!(text, "{value:e}"),
        value => write!(text, "{value}"),
    };
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// `[{"target": …, "tags": {…}, "datapoints": [[value, time], …]}, …]`: the value comes first.
fn as_json(found: &[Series], known_only: bool) -> String {
    let mut text = String::from("[");
    for series in found {
        let points = series.shown().enumerate();
        let mut points = points.filter(|(_, value)| !known_only || value.is_finite()).peekable();
        if known_only && points.peek().is_none() {
            continue;
        }
        if text.len() > 1 {
            text.push_str(", ");
        }
        let tags: Vec<String> =
            series.tags.iter().map(|(k, v)| format!("{}: {}", quoted(k), quoted(v))).collect();
        text.push_str(&format!(
            "{{\"target\": {}, \"tags\": {{{}}}, \"datapoints\": [",
            quoted(&series.name),
            tags.join(", ")
        ));
        let mut is_first = true;
        for (place, value) in points {
            text.push_str(if std::mem::take(&mut is_first) { "[" } else { ", [" });
            number(&mut text, value);
            let _ = write!(text, ", {}]", series.at_s(place));
        }
        text.push_str("]}");
    }
    text.push(']');
    text
}

/// Lines `name,2015-05-04 01:01:22,value`; unknown values are empty.
fn as_csv(found: &[Series], zone: &TimeZone) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for series in found {
        for (place, value) in series.shown().enumerate() {
            let at = graphite::shown(series.at_s(place), zone);
            let value = if value.is_nan() { String::new() } else { value.to_string() };
            // Writing to memory cannot fail.
            let _ = writer.write_record([series.name.as_str(), &at, &value]);
        }
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// Lines `name,start,end,step|value,value`; unknown values are `None`.
fn as_raw(found: &[Series]) -> String {
    let mut text = String::new();
    for series in found {
        let value = |value: f64| match value.is_nan() {
            true => "None".to_owned(),
            false => format!("{value:?}"),
        };
        let values: Vec<String> = series.shown().map(value).collect();
        let (start_s, end_s, step_s) = (series.start_s, series.end_s, series.step_s);
        let name = series.name.replace(['\n', '\r'], " ");
        let _ = writeln!(text, "{name},{start_s},{end_s},{step_s}|{}", values.join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series() -> Series {
        Series::new("a \"b\"", 10, 10, vec![1.5, f64::NAN, f64::INFINITY, 1e300, 3.0])
    }

    #[test]
    fn values_come_before_times() {
        assert_eq!(
            as_json(&[series()], false),
            r#"[{"target": "a \"b\"", "tags": {"name": "a \"b\""}, "datapoints": [[1.5, 10], [null, 20], [null, 30], [1e300, 40], [3, 50]]}]"#
        );
        let known = as_json(&[series(), Series::new("b", 0, 1, vec![f64::NAN])], true);
        assert!(known.ends_with("\"datapoints\": [[1.5, 10], [1e300, 40], [3, 50]]}]"), "{known}");
        serde_json::from_str::<serde_json::Value>(&known).unwrap();
        assert_eq!(as_json(&[], false), "[]");
    }

    #[test]
    fn people_can_read_text() {
        assert_eq!(
            as_csv(&[Series::new("a,b", 0, 60, vec![1.5, f64::NAN])], &TimeZone::UTC),
            "\"a,b\",1970-01-01 00:00:00,1.5\n\"a,b\",1970-01-01 00:01:00,\n"
        );
        assert_eq!(
            as_raw(&[Series::new("a", 0, 60, vec![1.5, f64::NAN, 2.0])]),
            "a,0,180,60|1.5,None,2.0\n"
        );
    }
}
