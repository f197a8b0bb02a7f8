//! The messages of a load's calls.

use std::collections::BTreeSet;

use serde_json::Value;
use spec::{CallBodies, Calls, Exchange, HttpRequest, Load};

use crate::error::GrpcError;
use crate::json::{self, Misfit};
use crate::schema::Schema;

/// The services that a load calls.
pub fn services(load: &Load) -> BTreeSet<String> {
    let single = load.grpc.iter().filter_map(|calls| calls.method.clone());
    let paths = load.kinds.iter().flat_map(|kind| &kind.requests).map(|one| one.path.clone());
    single.chain(paths).filter_map(|called| Some(split(&called)?.0.to_owned())).collect()
}

/// Service and method of a path, which may begin with a slash.
fn split(called: &str) -> Option<(&str, &str)> {
    called.trim_start_matches('/').split_once('/')
}

/// Replaces the bodies of a load, which are JSON, by messages.
///
/// # Errors
/// Methods that are unknown or not unary, and bodies that do not fit their messages.
pub fn encode(load: &Load, schema: &Schema) -> Result<Load, GrpcError> {
    let mut load = load.clone();
    let Some(Calls { method, bodies }) = &mut load.grpc else { return Ok(load) };
    *bodies = CallBodies::Encoded;
    if let (Exchange::Http(request), Some(method)) = (&mut load.exchange, method) {
        encode_body(request, method, schema)?;
    }
    for one in load.kinds.iter_mut().flat_map(|kind| &mut kind.requests) {
        encode_body(&mut one.request, one.path.trim_start_matches('/'), schema)?;
    }
    Ok(load)
}

fn encode_body(request: &mut HttpRequest, called: &str, schema: &Schema) -> Result<(), GrpcError> {
    let method = schema.method(called)?;
    let not_json = |why: String| GrpcError::NotJson { method: called.to_owned(), why };
    let text =
        str::from_utf8(&request.body).map_err(|_| not_json("it is not a text".to_owned()))?;
    let text = if text.trim().is_empty() { "{}" } else { text };
    let value: Value = serde_json::from_str(text).map_err(|error| not_json(error.to_string()))?;
    let encoded = json::message(schema, &method.input, &value);
    let message = encoded.map_err(|Misfit { path, why }| GrpcError::Unfit {
        method: called.to_owned(),
        message: method.input.clone(),
        path,
        why,
    })?;
    request.body = spec::framed(&message);
    Ok(())
}
