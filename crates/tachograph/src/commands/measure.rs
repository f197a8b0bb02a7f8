//! What `compare` and `run` share: carrying out a plan, recording it and saying how it ended.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use base::Seed;
use lab::Recording;
use record::{Run, RunKind, RunState};
use spec::Plan;
use stats::Verdict;

use crate::experiments;
use crate::failure::{Failure, Outcome, Status};
use crate::flags::Global;
use crate::flags::compare::{ScheduleFlags, VerdictFlags};
use crate::machine;
use crate::output;
use crate::progress::Progress;
use crate::store::runs_file;

/// Carries out a plan and does with the result what the flags say.
pub(crate) fn carry_out(
    plan: &Plan,
    kind: RunKind,
    keep_files: Option<&Path>,
    schedule: &ScheduleFlags,
    verdict: &VerdictFlags,
    global: &Global,
) -> Outcome {
    let names: Vec<String> = plan.parts[0].variants.iter().map(|v| v.name.clone()).collect();
    let conditions = verdict
        .fail_if
        .iter()
        .map(|text| spec::FailIf::parse(text)?.with_variants(&names))
        .collect::<Result<Vec<_>, _>>()?;
    let mut recording = Recording::open(runs_file(global, "runs are recorded")?)?;
    let stop = stage::signals::install().map_err(Failure::new)?;
    let _alone = stage::exclusive()?;
    let seed = schedule.seed.unwrap_or_else(Seed::from_time);
    let path_prepend = python_environments(plan, global)?;
    let mut machine = machine::describe();
    machine.facts.insert(report::CLIENT_ENGINE.to_owned(), engines(plan));
    let options = lab::Options {
        kind,
        seed,
        executable: executable()?,
        command_line: repeating_command(seed),
        machine,
        cpus: schedule.cpus.clone().unwrap_or_default(),
        keep_files: keep_files.map(folder_for_files).transpose()?,
        path_prepend,
        max_time: schedule.max_time,
        extra_env: vec![("PYTHONPATH".to_owned(), python_path()?)],
        stop,
    };
    let run = {
        let mut progress = Progress::new(global.quiet);
        lab::run(plan, &options, &mut recording, &mut progress)?
    };
    let status = conclude(&run, &conditions, verdict, global)?;
    Ok(status)
}

/// Makes the folder where stacks' files are kept, and says where it is whatever the stacks' own folder.
fn folder_for_files(folder: &Path) -> Result<PathBuf, Failure> {
    std::fs::create_dir_all(folder).and_then(|()| folder.canonicalize()).map_err(|error| {
        Failure::new(format!("cannot make the folder {} for files: {error}", folder.display()))
    })
}

/// What moves the client's bytes, for all variants that a plan has; `auto` is epoll where variants
/// are compared.
fn engines(plan: &spec::Plan) -> String {
    let name = |load: &spec::Load| match load.engine {
        spec::EngineChoice::Auto | spec::EngineChoice::Epoll => "epoll",
        spec::EngineChoice::IoUring => "io-uring",
    };
    let variants = plan.parts.iter().flat_map(|part| &part.variants);
    let names: BTreeSet<&str> = variants.map(|variant| name(&variant.load)).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// The folders of programs from the Python environments that the plan needs: one for all
/// stacks, or, if that cannot be made, one for each that can, so that a package which is not
/// to be had costs no more than the variants that need it.
fn python_environments(plan: &Plan, global: &Global) -> Result<Vec<PathBuf>, Failure> {
    if plan.python.is_empty() {
        return Ok(Vec::new());
    }
    let mut say = |line: &str| {
        if !global.quiet {
            output::note(line);
        }
    };
    let error = match stage::python::ensure_env(&plan.python, None, &mut say) {
        Ok(folder) => return Ok(vec![folder]),
        Err(error) => error,
    };
    let mut own: Vec<&Vec<String>> = Vec::new();
    for variant in plan.parts.iter().flat_map(|part| &part.variants) {
        if !variant.stack.python.is_empty() && !own.contains(&&variant.stack.python) {
            own.push(&variant.stack.python);
        }
    }
    if own.len() < 2 || error.is_interruption() {
        return Err(error.into());
    }
    let common: Vec<&String> = plan
        .python
        .iter()
        .filter(|requirement| !own.iter().any(|of_one| of_one.contains(requirement)))
        .collect();
    let mut folders = Vec::new();
    for of_one in own {
        let requirements: Vec<String> = common.iter().copied().chain(of_one).cloned().collect();
        match stage::python::ensure_env(&requirements, None, &mut say) {
            Ok(folder) => folders.push(folder),
            Err(error) if error.is_interruption() => return Err(error.into()),
            Err(error) => output::note(&format!("{error}; variants that need it are left out")),
        }
    }
    Ok(folders)
}

/// Turns a run into the text of one format.
pub(crate) type Render = fn(&Run) -> String;

fn conclude(
    run: &Run,
    conditions: &[spec::FailIf],
    verdict: &VerdictFlags,
    global: &Global,
) -> Outcome {
    let exports: [(&Option<PathBuf>, Render); 4] = [
        (&verdict.export_json, report_json),
        (&verdict.export_markdown, report::markdown),
        (&verdict.export_csv, report::csv),
        (&verdict.export_html, report::html),
    ];
    if verdict.json {
        output::print(&report_json(run));
    } else {
        output::print(&report::terminal(run, &output::style(global.color)));
    }
    for (file, render) in exports {
        if let Some(file) = file {
            output::write_file(file, &render(run))?;
        }
    }
    if run.parts.iter().all(|part| part.variants.iter().all(|v| v.skipped.is_some()))
        && run.state != RunState::Interrupted
    {
        return Err(Failure::new("nothing was measured, because no variant could be started"));
    }
    let measured = run.parts.iter().any(|part| part.blocks.iter().any(|block| block.index > 0));
    if !measured && run.state == RunState::Interrupted {
        return Err(Failure::new("stopped before anything was measured"));
    }
    // Fewer than two able variants leave nothing to compare, which is what `compare` was asked for.
    if run.kind == RunKind::Compare
        && let Some(skipped) = run.parts[0].variants.iter().find(|v| v.skipped.is_some())
    {
        let reason = skipped.skipped.as_deref().unwrap_or_default();
        return Err(Failure::new(format!("{} could not be measured: {reason}", skipped.name)));
    }
    let mut status = status_of(run);
    for condition in conditions {
        let holds = condition.evaluate(&|variant, metric| lookup(run, variant, metric))?;
        if holds {
            output::note(&format!("tachograph: failed, because {condition}"));
            status = Status::VerdictFailed;
        }
    }
    Ok(status)
}

/// The exit status that a run deserves.
pub(crate) fn status_of(run: &Run) -> Status {
    let invalid = !run.reasons.is_empty()
        || run.parts.iter().any(|part| {
            !part.reasons.is_empty()
                || part.comparisons.iter().any(|c| c.verdict == Verdict::Invalid)
        });
    if invalid { Status::VerdictFailed } else { Status::Well }
}

/// A variant's figure for `--fail-if`, in the first part of the run.
fn lookup(run: &Run, variant: &str, metric: &str) -> Option<f64> {
    let part = run.parts.first()?;
    let variant = part.variants.iter().find(|v| v.name == variant)?;
    if metric == "errors" {
        return Some(variant.ledger.counts.failed as f64);
    }
    let find = |offer: &str| variant.summaries.iter().find(|s| s.offer == offer);
    let closed = find("closed").or_else(|| find("open"))?;
    let timed = find("open").or_else(|| find("closed"))?;
    match metric {
        "throughput" => Some(closed.throughput_per_s.value),
        "p50" => Some(timed.p50_ns.value),
        "p90" => Some(timed.p90_ns.value),
        "p99" => Some(timed.p99_ns.value),
        "cpu" => closed.cpu_ns_per_request.map(|estimate| estimate.value),
        "memory" => closed.peak_memory_bytes.map(|bytes| bytes as f64),
        _ => None,
    }
}

/// Our own binary, by a path that stays good when it is replaced on disk while we run.
pub(crate) fn executable() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find our own binary: {error}")))
}

/// The command line as typed, with the seed that makes it repeat the same choices.
pub(crate) fn repeating_command(seed: Seed) -> Vec<String> {
    let mut words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(first) = words.first_mut() {
        *first = "tachograph".to_owned();
    }
    if !words.iter().any(|word| word == "--seed" || word.starts_with("--seed=")) {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    words
}

/// The folder of our WSGI counter before whatever PYTHONPATH already held.
fn python_path() -> Result<String, Failure> {
    let ours = experiments::python_path()?.display().to_string();
    Ok(match std::env::var("PYTHONPATH") {
        Ok(theirs) if !theirs.is_empty() => format!("{ours}:{theirs}"),
        _ => ours,
    })
}

/// A run as JSON, as people like to read it, ending in a newline.
pub(crate) fn report_json(run: &Run) -> String {
    format!("{:#}\n", report::json(run))
}
