//! The record for people and for Grafana: the page, and Graphite's HTTP API.
//!
//! ```text
//!  /render, /metrics/find, /tags/… ─→ Parameters ─→ graphite::evaluate
//!                                                      ↑ Source
//!                                     Catalogue (names) + SeriesReader (slots of a store)
//! ```
//!
//! The page in the folder `web/` is part of the binary. It reads `/api/…`, which is not for others:
//! it changes with the page.
//!
//! # Not in this crate
//!
//! Listening (crate `serve`), the functions (crate `graphite`), databases (crate `store`).

mod answer;
mod budget;
mod catalogue;
mod fetch;
mod find;
mod functions;
mod page;
mod parameters;
mod picture;
mod render;
mod runs;
mod sql;
mod tags;

use std::path::PathBuf;

use axum::Router;
use axum::response::IntoResponse as _;
use axum::routing::get;
use serve::Readers;

use budget::Budget;
use catalogue::Catalogue;

/// The version of Graphite whose API this is, for clients that ask.
const GRAPHITE_VERSION: &str = "1.1.10";

/// What the record consists of.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The file of runs, if there is one.
    pub runs: Option<PathBuf>,
    /// Whether the series are in PostgreSQL, whose SQL differs.
    pub is_postgres: bool,
}

/// What handlers share. Cloning shares it.
#[derive(Clone, Debug)]
pub(crate) struct WebState {
    readers: Readers,
    catalogue: Catalogue,
    budget: Budget,
    places: Places,
}

/// The page and Graphite's API, over the store of `readers`.
pub fn router(readers: &Readers, places: Places) -> Router {
    let (readers, catalogue, budget) = (readers.clone(), Catalogue::default(), Budget::default());
    let shared = WebState { readers, catalogue, budget, places };
    Router::new()
        .route("/", get(page::index))
        .route("/page.css", get(page::style))
        .route("/page.js", get(page::script))
        .route("/uplot.css", get(page::chart_style))
        .route("/uplot.js", get(page::chart_script))
        .route("/api/series", get(page::series))
        .route("/api/span", get(page::span))
        .route("/api/curves", get(page::curves))
        .route("/api/runs", get(runs::list))
        .route("/runs/{id}", get(runs::one))
        .route("/render", get(render::render).post(render::render))
        .route("/render/", get(render::render).post(render::render))
        .route("/metrics/find", get(find::find).post(find::find))
        .route("/metrics/find/", get(find::find).post(find::find))
        .route("/metrics/expand", get(find::expand).post(find::expand))
        .route("/metrics/index.json", get(find::index))
        .route("/functions", get(functions::list))
        .route("/functions/", get(functions::list))
        .route("/functions/{name}", get(functions::one))
        .route("/tags", get(tags::list))
        .route("/tags/findSeries", get(tags::find_series).post(tags::find_series))
        .route("/tags/autoComplete/tags", get(tags::complete_tags).post(tags::complete_tags))
        .route("/tags/autoComplete/values", get(tags::complete_values).post(tags::complete_values))
        .route("/tags/{tag}", get(tags::one))
        .route("/version", get(|| async { GRAPHITE_VERSION.into_response() }))
        .with_state(shared)
}
