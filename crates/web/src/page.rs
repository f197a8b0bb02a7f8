//! The page, and the JSON that it reads.

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use graphite::{Entry, GraphiteError, Series};
use serde_json::{Value, json};
use series::Flavor;
use store::StoreError;

use crate::WebState;
use crate::answer::{WebResult, json as answer};
use crate::fetch::{Finder, SeriesReader};
use crate::parameters::Parameters;
use crate::render::{RenderRequest, number, quoted};
use crate::sql;

/// Limit on the series of a list.
const LISTED_MAX: usize = 1_000;

/// Limit on the statements that are shown.
const STATEMENTS_MAX: usize = 10;

/// The page runs and fetches only what this daemon serves.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

fn asset(kind: &'static str, text: &'static str) -> Response {
    let kind = HeaderValue::from_static(kind);
    let headers = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        // A newer version of the program may have another page.
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, text).into_response()
}

pub(crate) async fn index() -> Response {
    asset(HTML, include_str!("../assets/index.html"))
}

pub(crate) async fn style() -> Response {
    asset(CSS, include_str!("../assets/page.css"))
}

pub(crate) async fn script() -> Response {
    asset(JAVASCRIPT, include_str!("../assets/page.js"))
}

pub(crate) async fn chart_style() -> Response {
    asset(CSS, include_str!("../assets/uplot/uplot.min.css"))
}

pub(crate) async fn chart_script() -> Response {
    asset(JAVASCRIPT, include_str!("../assets/uplot/uplot.min.js"))
}

/// Series whose names contain all words of a search, whatever their case.
pub(crate) async fn series(State(shared): State<WebState>, parameters: Parameters) -> WebResult {
    let limit = parameters.count("limit")?.unwrap_or(LISTED_MAX).min(LISTED_MAX);
    let words = parameters.get("search").unwrap_or_default().to_lowercase();
    let words: Vec<&str> = words.split_whitespace().collect();
    let names = shared.catalogue.names(&shared.readers).await?;
    let matches = |entry: &&Entry| {
        let full = entry.full.to_lowercase();
        words.iter().all(|word| full.contains(word))
    };
    let found: Vec<&Entry> = names.index.entries().iter().filter(matches).collect();
    let one = |entry: &&Entry| {
        let tags = entry.full.strip_prefix(entry.name.as_str()).unwrap_or_default();
        json!({
            "name": entry.name,
            "tags": tags.trim_start_matches(';').replace(';', ", "),
            "path": escaped(&entry.full),
        })
    };
    let listed: Vec<Value> = found.iter().take(limit).map(one).collect();
    let stored = names.index.entries().len();
    Ok(answer(json!({ "stored": stored, "count": found.len(), "series": listed }).to_string()))
}

/// A name as a target: characters that mean something there are escaped.
fn escaped(name: &str) -> String {
    let mut target = String::with_capacity(name.len());
    for c in name.chars() {
        if "(){},'\"|\\ \t".contains(c) {
            target.push('\\');
        }
        target.push(c);
    }
    target
}

/// The range in which the series of a target have data.
pub(crate) async fn span(State(shared): State<WebState>, parameters: Parameters) -> WebResult {
    let request = RenderRequest::new(&parameters)?;
    let names = shared.catalogue.names(&shared.readers).await?;
    let mut finder = Finder::new(names);
    request.evaluate_whole(&mut finder)?;
    let found = shared.readers.read(move |store| finder.span(store)).await?;
    let (from_s, until_s) = found.unzip();
    Ok(answer(json!({ "from": from_s, "until": until_s }).to_string()))
}

/// The curves of targets, each with its total, and the statements that read the same.
pub(crate) async fn curves(State(shared): State<WebState>, parameters: Parameters) -> WebResult {
    let request = RenderRequest::new(&parameters)?;
    let names = shared.catalogue.names(&shared.readers).await?;
    let is_postgres = shared.places.is_postgres;
    let budget = shared.budget;
    let done = shared.readers.read(move |store| {
        let mut reader =
            SeriesReader::new(store, &budget, names, request.now_s(), request.points())?;
        let found = request.evaluate_whole(&mut reader);
        if let Some(failure) = reader.failure.take() {
            return Err(failure);
        }
        let text = found.map(|found| as_json(found, &request, &reader, is_postgres));
        Ok::<_, StoreError>(text.map(|text| budget.answer(&reader.client(), text)))
    });
    let text = done.await?.map_err(|error: GraphiteError| error)??;
    Ok(answer(text))
}

fn as_json(
    found: Vec<Series>,
    request: &RenderRequest,
    reader: &SeriesReader<'_>,
    is_postgres: bool,
) -> String {
    let curves: Vec<String> = found
        .into_iter()
        .map(|series| {
            // An alias has another name, but the same values.
            let kind = match reader.flavor(&series.path) {
                Some(Flavor::Flow) => "flow",
                _ => "level",
            };
            let range_s = series.step_s * series.values.len() as i64;
            let known_s = series.known_seconds();
            let (total, has_any) = (series.total(), known_s > 0.0);
            let mean = if has_any { total / known_s } else { f64::NAN };
            let total = if has_any { total } else { f64::NAN };
            let (min, max) = series.extremes();
            let series = match request.points() {
                Some(points) => series.fitted(points),
                None => series,
            };
            let mut text = format!(
                "{{\"name\":{},\"kind\":\"{kind}\",\"start\":{},\"step\":{},\"range\":{range_s}",
                quoted(&series.name),
                series.start_s,
                series.step_s
            );
            let figures =
                [("known", known_s), ("total", total), ("mean", mean), ("min", min), ("max", max)];
            for (name, figure) in figures {
                text.push_str(&format!(",\"{name}\":"));
                number(&mut text, figure);
            }
            text.push_str(",\"values\":[");
            for (place, value) in series.shown().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                number(&mut text, value);
            }
            text.push_str("]}");
            text
        })
        .collect();
    let read = reader.read_series();
    let mut statements: Vec<String> =
        read.iter().take(STATEMENTS_MAX).map(|read| sql::statement(read, is_postgres)).collect();
    if read.len() > STATEMENTS_MAX {
        statements.push(format!("-- and {} more series", read.len() - STATEMENTS_MAX));
    }
    format!("{{\"curves\":[{}],\"sql\":{}}}", curves.join(","), json!(statements))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_special_characters_is_a_target() {
        let target = escaped("a b(c),d;host=x'y");
        assert_eq!(target, "a\\ b\\(c\\)\\,d;host=x\\'y");
        let parsed = graphite::parse(&target);
        assert_eq!(parsed, Ok(graphite::Expression::Path("a b(c),d;host=x'y".to_owned())));
    }
}
