//! `/tags`: the tags of series, to be listed and completed.

use axum::extract::{Path, State};
use graphite::TagExpression;
use serde_json::{Value, json};

use crate::WebState;
use crate::answer::{RequestRefusal, WebResult, json as answer};
use crate::parameters::Parameters;

/// Limit on the answers of a completion, unless the request has one.
const COMPLETED: usize = 100;

/// Limit on the answers of a list.
const LISTED_MAX: usize = 100_000;

/// Limit on the expressions of a request.
const EXPRESSIONS_MAX: usize = 100;

fn expressions(parameters: &Parameters) -> Result<Vec<TagExpression>, RequestRefusal> {
    let texts = parameters.all("expr");
    if texts.len() > EXPRESSIONS_MAX {
        return Err(RequestRefusal::Request(format!(
            "the request has {} expressions, but the limit is {EXPRESSIONS_MAX}",
            texts.len()
        )));
    }
    let parsed = texts.into_iter().map(TagExpression::parse).collect::<Result<Vec<_>, _>>()?;
    Ok(parsed)
}

fn filter(parameters: &Parameters) -> Result<Option<TagExpression>, RequestRefusal> {
    let pattern = parameters.get("filter").map(|pattern| format!("value=~{pattern}"));
    Ok(pattern.map(|pattern| TagExpression::parse(&pattern)).transpose()?)
}

fn passes(filter: &Option<TagExpression>, value: &str) -> bool {
    let tags = [("value".to_owned(), value.to_owned())].into();
    filter.as_ref().is_none_or(|filter| filter.matches(&tags))
}

pub(crate) async fn list(State(shared): State<WebState>, parameters: Parameters) -> WebResult {
    let filter = filter(&parameters)?;
    let limit = parameters.count("limit")?.unwrap_or(LISTED_MAX);
    let names = shared.catalogue.names(&shared.readers).await?;
    let tags = names.index.tags(&[], "", LISTED_MAX).into_iter();
    let tags = tags.filter(|tag| passes(&filter, tag)).take(limit);
    Ok(answer(tags.map(|tag| json!({ "tag": tag })).collect::<Value>().to_string()))
}

pub(crate) async fn one(
    State(shared): State<WebState>,
    Path(tag): Path<String>,
    parameters: Parameters,
) -> WebResult {
    let filter = filter(&parameters)?;
    let limit = parameters.count("limit")?.unwrap_or(LISTED_MAX);
    let names = shared.catalogue.names(&shared.readers).await?;
    let values = names.index.values(&tag, &[], "", LISTED_MAX);
    if values.is_empty() {
        return Err(RequestRefusal::Missing(
            "no series has this tag; /tags lists all tags".to_owned(),
        ));
    }
    let values = values.into_iter().filter(|(value, _)| passes(&filter, value)).take(limit);
    let values: Value =
        values.map(|(value, count)| json!({ "value": value, "count": count })).collect();
    Ok(answer(json!({ "tag": tag, "values": values }).to_string()))
}

pub(crate) async fn find_series(
    State(shared): State<WebState>,
    parameters: Parameters,
) -> WebResult {
    let expressions = expressions(&parameters)?;
    if expressions.is_empty() {
        return Err(RequestRefusal::Request(
            "no expression: add expr=TAG=VALUE, such as expr=name=cpu".to_owned(),
        ));
    }
    let names = shared.catalogue.names(&shared.readers).await?;
    let found = names.index.by_tags(&expressions)?;
    let found: Value = found.into_iter().map(|entry| entry.full.as_str()).collect();
    Ok(answer(found.to_string()))
}

pub(crate) async fn complete_tags(
    State(shared): State<WebState>,
    parameters: Parameters,
) -> WebResult {
    let expressions = expressions(&parameters)?;
    let limit = parameters.count("limit")?.unwrap_or(COMPLETED);
    let names = shared.catalogue.names(&shared.readers).await?;
    let prefix = parameters.get("tagPrefix").unwrap_or_default();
    Ok(answer(json!(names.index.tags(&expressions, prefix, limit)).to_string()))
}

pub(crate) async fn complete_values(
    State(shared): State<WebState>,
    parameters: Parameters,
) -> WebResult {
    let expressions = expressions(&parameters)?;
    let limit = parameters.count("limit")?.unwrap_or(COMPLETED);
    let tag = parameters.get("tag").ok_or_else(|| {
        RequestRefusal::Request("no tag: add tag=NAME, such as tag=host".to_owned())
    })?;
    let names = shared.catalogue.names(&shared.readers).await?;
    let prefix = parameters.get("valuePrefix").unwrap_or_default();
    let values = names.index.values(tag, &expressions, prefix, limit);
    let values: Value = values.into_iter().map(|(value, _)| value).collect();
    Ok(answer(values.to_string()))
}
