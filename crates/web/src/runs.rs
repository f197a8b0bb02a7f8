//! The recorded runs, and the report of each.

use std::path::PathBuf;

use archive::RecordError;
use axum::extract::{Path, State};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse as _;
use record::{RunLine, RunState};
use serde_json::{Value, json};
use store::StoreError;

use crate::WebState;
use crate::answer::{RequestRefusal, WebResult, json as answer};
use crate::render::now_s;

/// Limit on the runs of the list.
const RUNS_MAX: usize = 200;

/// A report has its style in itself, and nothing else.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'",
);

/// A run without a block for so long is not running any more.
const RUNNING_S: i64 = 600;

const NONE_YET: &str = "No runs yet. Record one: tachograph compare COMMAND COMMAND";

/// Calls `read` with the file of runs, on a thread where it may block.
async fn with_file<T: Send + 'static>(
    path: PathBuf,
    read: impl FnOnce(&std::path::Path) -> Result<T, RequestRefusal> + Send + 'static,
) -> Result<T, RequestRefusal> {
    let done = tokio::task::spawn_blocking(move || read(&path)).await;
    done.map_err(|_| RequestRefusal::Unavailable("the read was stopped: try again".to_owned()))?
}

fn unavailable(error: impl std::fmt::Display) -> RequestRefusal {
    RequestRefusal::Unavailable(error.to_string())
}

pub(crate) async fn list(State(shared): State<WebState>) -> WebResult {
    let Some(path) = shared.places.runs else {
        let note = "Runs are recorded only in SQLite files, and this record is a PostgreSQL \
                    database.";
        return Ok(answer(json!({ "runs": [], "note": note }).to_string()));
    };
    let runs = with_file(path, |path| match archive::Store::open_read_only(path) {
        Ok(store) => store.list(RUNS_MAX).map_err(unavailable),
        Err(RecordError::Empty(_)) => Ok(Vec::new()),
        Err(error) => Err(unavailable(error)),
    });
    let runs: Vec<Value> = runs.await?.iter().map(shown).collect();
    let note = if runs.is_empty() { NONE_YET } else { "" };
    Ok(answer(json!({ "runs": runs, "note": note }).to_string()))
}

/// When a run that has not ended did something last, in seconds before now; `None` if that is too
/// long ago. A killed run looks the same for a while.
fn quiet_s(run: &RunLine, now_s: i64) -> Option<i64> {
    let last_s = run.last_block.unwrap_or(run.started).as_second();
    let quiet_s = (now_s - last_s).max(0);
    (run.state == RunState::Running && quiet_s < RUNNING_S).then_some(quiet_s)
}

fn shown(run: &RunLine) -> Value {
    let title = match run.question.is_empty() {
        true => format!("{}: {}", run.name, run.title),
        false => format!("{}: {}", run.name, run.question),
    };
    let mut outcome = report::outcome(run);
    let quiet_s = quiet_s(run, now_s());
    if let Some(seconds) = quiet_s {
        let what = if run.last_block.is_some() { "last block" } else { "started" };
        outcome.push_str(&format!(", {what} {seconds} s ago"));
    }
    json!({
        "id": run.id.0,
        "title": title,
        "outcome": outcome,
        "started": run.started.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        "started_s": run.started.as_second(),
        "ended_s": run.finished.or(run.last_block).map(|end| end.as_second() + 1),
        "live": quiet_s.is_some(),
    })
}

pub(crate) async fn one(State(shared): State<WebState>, Path(id): Path<String>) -> WebResult {
    let missing =
        || RequestRefusal::Missing("unknown run; the page lists all runs under Runs".to_owned());
    let path = shared.places.runs.ok_or_else(missing)?;
    let page = with_file(path, move |path| {
        let store = archive::Store::open_read_only(path).map_err(unavailable)?;
        let mut run = match store.load(&id) {
            Ok(run) => run,
            Err(RecordError::Unknown { .. } | RecordError::Empty(_)) => return Err(missing()),
            Err(error) => return Err(unavailable(error)),
        };
        // The ledger's fourth column is read from the database again, as `tachograph report` does.
        match store::Sqlite::open_read_only(path) {
            Ok(mut series) => conduct::reread_series(&mut run, &mut series),
            Err(
                StoreError::NoSeries(_)
                | StoreError::Older { .. }
                | StoreError::Unreleased { .. }
                | StoreError::Record(RecordError::Newer { .. }),
            ) => conduct::reread_series(&mut run, &mut store::Memory::new()),
            Err(error) => return Err(unavailable(error)),
        }
        .map_err(unavailable)?;
        Ok(report::html(&run))
    });
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    Ok(([(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, POLICY)], page.await?).into_response())
}
