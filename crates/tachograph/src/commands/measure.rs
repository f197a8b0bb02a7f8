//! Shared by `compare` and `run`: executing a plan, recording it and reporting how it ended.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::Seed;
use conduct::{Machines, Recording};
use record::{GateOutcome, Run, RunKind, RunState};
use spec::Plan;

use super::neighbours;
use crate::experiments;
use crate::failure::{Failure, Outcome, Status};
use crate::flags::GlobalFlags;
use crate::flags::compare::ScheduleFlags;
use crate::flags::shared::ResultFlags;
use crate::machine;
use crate::output;
use crate::progress::Progress;
use crate::stores::runs_file;

/// Executes a plan and handles the result as the flags say.
pub(crate) fn carry_out(
    plan: &Plan,
    kind: RunKind,
    keep_files: Option<&Path>,
    schedule: &ScheduleFlags,
    result: &ResultFlags,
    global: &GlobalFlags,
) -> Outcome {
    result.check()?;
    let conditions = spec::FailIf::of_plan(&result.fail_if, plan)?;
    check_exports(result)?;
    let run = measure(plan, kind, keep_files, None, schedule, result, global)?;
    publish(&run, result, global)?;
    if let Some(failure) = unmeasured(&run) {
        return Err(failure);
    }
    let outcomes = decide(&run, &conditions);
    // A failure that was seen stays one, however much more should have been measured.
    let verdict = report::RunVerdict::of(&run);
    let failed = verdict == report::RunVerdict::Invalid
        || outcomes.iter().any(|outcome| outcome.fails(false));
    match too_little(&run).filter(|_| !failed) {
        Some(failure) => Err(failure),
        None if verdict == report::RunVerdict::Incomplete && !failed => Ok(Status::Incomplete),
        None => Ok(status(failed, &outcomes, result)),
    }
}

/// Executes a plan and records the run. Its other machines are connected unless they are `connected`.
pub(crate) fn measure(
    plan: &Plan,
    kind: RunKind,
    keep_files: Option<&Path>,
    connected: Option<Vec<Arc<far::Machine>>>,
    schedule: &ScheduleFlags,
    result: &ResultFlags,
    global: &GlobalFlags,
) -> Result<Run, Failure> {
    let mut recording = Recording::open(runs_file(global, "runs are recorded")?)?;
    let stop = stage::signals::install().map_err(Failure::new)?;
    let _alone = alone(schedule, &stop)?;
    if !global.quiet {
        tell_of_neighbours(schedule);
        tell_of_untold(plan, kind);
    }
    let seed = schedule.machine.seed.unwrap_or_else(Seed::from_time);
    let path_prepend = match plan.parts.iter().all(is_far) {
        true => Vec::new(),
        false => python_environments(plan, global)?,
    };
    if keep_files.is_some()
        && plan.parts.iter().any(|part| part.variants.iter().any(|v| v.on.is_some()))
    {
        return Err(Failure::new(
            "--keep-files keeps the files of stacks on this machine; leave it out, or remove on",
        ));
    }
    let connected = match connected {
        Some(machines) => machines,
        None => super::far::connected_for(plan, &stop)?,
    };
    super::far::claim(&connected, &typed_command(), !schedule.no_wait)?;
    let machines = Machines::new(connected);
    let options = conduct::Options {
        kind,
        name: result.name.clone(),
        seed,
        executable: executable()?,
        command_line: repeating_command(seed),
        machine: machine::describe(),
        cpus: schedule.machine.cpus.clone().unwrap_or_default(),
        keep_files: keep_files.map(folder_for_files).transpose()?,
        path_prepend,
        max_time: schedule.max_time,
        extra_env: python_env(plan)?,
        machines,
        stop,
    };
    let mut progress = Progress::new(global.quiet);
    Ok(conduct::run(plan, &options, &mut recording, &mut progress)?)
}

/// Whether all stacks of a part run on other machines.
fn is_far(part: &spec::Part) -> bool {
    part.variants.iter().all(|variant| variant.on.is_some())
}

/// The command line as typed, without secrets: other measurements show it.
fn typed_command() -> String {
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    base::redact_arguments(&words).join(" ")
}

/// Claims the CPUs of the run, after waiting for other measurements that use them. Prints whom it
/// waits for even with --quiet, because a silent command seems to hang.
fn alone(schedule: &ScheduleFlags, stop: &AtomicBool) -> Result<stage::CpuLock, Failure> {
    let cpus = schedule.machine.cpus.clone().unwrap_or_default();
    let command = typed_command();
    if schedule.no_wait {
        return Ok(stage::exclusive(&cpus, &command)?);
    }
    let mut waited = false;
    let exclusive = stage::exclusive_when_free(&cpus, &command, stop, &mut |holder| {
        waited = true;
        output::note(&format!(
            "note: waiting for another measurement on this machine ({holder}); use --no-wait to \
             fail instead"
        ));
    })?;
    if waited {
        output::note("note: the other measurement has ended");
    }
    Ok(exclusive)
}

/// Prints what else is busy, to explain wide intervals.
fn tell_of_neighbours(schedule: &ScheduleFlags) {
    let cpus = schedule.machine.cpus.clone().unwrap_or_default();
    // If the machine does not report it, the measurement goes on.
    let Ok(seen) = host::Neighbours::observe() else { return };
    if let Some(words) = neighbours::words(&seen, &cpus) {
        output::note(&format!("note: {words}: {}", neighbours::COST));
    }
}

/// Prints which commands of a comparison can learn their port only from the environment.
fn tell_of_untold(plan: &Plan, kind: RunKind) {
    let stacks = plan.parts.iter().flat_map(|part| &part.variants).map(|variant| &variant.stack);
    let mut untold: Vec<&str> = stacks
        .filter(|stack| kind != RunKind::Run && !stack.names_place())
        .flat_map(|stack| &stack.processes)
        .map(|process| process.command.as_str())
        .collect();
    untold.dedup();
    for command in untold {
        // A shell replaces a variable that it does not know by nothing.
        let is_replaced = command.ends_with(' ') || command.contains("  ");
        let hint = match is_replaced {
            true => "; if you used double quotes, the shell replaced it: use single quotes",
            false => "",
        };
        output::note(&format!(
            "note: the command '{}' does not mention $PORT; it is given by the environment variable \
             PORT{hint}",
            base::redact(command)
        ));
    }
}

/// Creates the folder for the stacks' files, and returns its absolute path.
fn folder_for_files(folder: &Path) -> Result<PathBuf, Failure> {
    std::fs::create_dir_all(folder).and_then(|()| folder.canonicalize()).map_err(|error| {
        Failure::new(format!("cannot create the folder {} for files: {error}", folder.display()))
    })
}

/// The folders of programs from the Python environments that the plan needs: one for all stacks or,
/// if that cannot be created, one for each stack that can, so that a missing package affects only
/// the variants that need it.
fn python_environments(plan: &Plan, global: &GlobalFlags) -> Result<Vec<PathBuf>, Failure> {
    if plan.python.is_empty() {
        return Ok(Vec::new());
    }
    let mut say = |line: &str| {
        if !global.quiet {
            output::note(line);
        }
    };
    let interpreter = plan.interpreter.as_deref().map(Path::new);
    let error = match stage::python::ensure_env(&plan.python, interpreter, &mut say) {
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
        match stage::python::ensure_env(&requirements, interpreter, &mut say) {
            Ok(folder) => folders.push(folder),
            Err(error) if error.is_interruption() => return Err(error.into()),
            Err(error) => output::note(&format!("{error}; variants that need it are skipped")),
        }
    }
    Ok(folders)
}

/// Renders a run in one format.
pub(crate) type Render = fn(&Run) -> String;

/// Why a run has too little data for its verdicts, and what to do.
pub(crate) fn too_little(run: &Run) -> Option<Failure> {
    let shortfalls = report::shortfalls(run);
    if shortfalls.is_empty() {
        return None;
    }
    Some(match run.state {
        RunState::Interrupted => Failure::new(
            "stopped before every comparison had its verdict; the data so far are recorded",
        ),
        _ => Failure::new(format!(
            "{}; allow more time with --max-time (the data so far are recorded)",
            shortfalls.join("; ")
        )),
    })
}

/// Prints a run's report and writes the requested files.
pub(crate) fn publish(
    run: &Run,
    result: &ResultFlags,
    global: &GlobalFlags,
) -> Result<(), Failure> {
    // What cannot be printed or written must not keep the rest from being written.
    let mut published = output::print(&match result.json {
        true => report_json(run),
        false => report::terminal(run, &output::style(global.color)),
    });
    let renders: [Render; 4] = [report_json, report::markdown, report::csv, report::html];
    for (file, render) in exports(result).into_iter().zip(renders) {
        if let Some(file) = file {
            published = published.and(output::write_file(file, &render(run)));
        }
    }
    published
}

/// Fails if a file cannot be written, before anything is measured.
pub(crate) fn check_exports(result: &ResultFlags) -> Result<(), Failure> {
    exports(result).into_iter().flatten().try_for_each(|file| output::check_writable(file))
}

/// The files for JSON, Markdown, CSV and HTML.
fn exports(result: &ResultFlags) -> [Option<&PathBuf>; 4] {
    let ResultFlags { export_json, export_markdown, export_csv, export_html, .. } = result;
    [export_json.as_ref(), export_markdown.as_ref(), export_csv.as_ref(), export_html.as_ref()]
}

/// The exit status of a load, including its conditions; prints each condition's outcome.
pub(crate) fn gated(run: &Run, conditions: &[spec::FailIf], result: &ResultFlags) -> Status {
    let outcomes = decide(run, conditions);
    status(report::is_invalid(run), &outcomes, result)
}

/// Decides the conditions on a run, and prints each outcome.
fn decide(run: &Run, conditions: &[spec::FailIf]) -> Vec<GateOutcome> {
    let outcomes = report::decide_conditions(run, conditions);
    outcomes.iter().for_each(|outcome| output::note(&report::gate(outcome)));
    outcomes
}

fn status(failed: bool, outcomes: &[GateOutcome], result: &ResultFlags) -> Status {
    match failed || outcomes.iter().any(|outcome| outcome.fails(result.fail_if_inconclusive)) {
        true => Status::VerdictFailed,
        false => Status::Well,
    }
}

/// Why a run measured nothing of what was requested, whether complete or stopped.
pub(crate) fn unmeasured(run: &Run) -> Option<Failure> {
    let skipped = |v: &record::Variant| v.skipped.is_some();
    let variants = || run.parts.iter().flat_map(|part| &part.variants);
    // With fewer than two runnable variants there is nothing to compare.
    let needs_all = matches!(run.kind, RunKind::Compare | RunKind::Capacity);
    if let Some(variant) = variants().find(|v| skipped(v)).filter(|_| needs_all) {
        let error = variant.skipped.as_deref().unwrap_or_default();
        return Some(Failure::new(format!("{} could not be measured: {error}", variant.name)));
    }
    (run.state != RunState::Interrupted && variants().all(skipped))
        .then(|| Failure::new("nothing was measured: no variant could be started"))
}

/// Our own binary, by a path that stays valid if the file is replaced during the run.
pub(crate) fn executable() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find tachograph's own binary: {error}")))
}

/// The command line as typed, with the seed that repeats its random choices.
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

/// `PYTHONPATH` with our WSGI counter. Most servers are not in Python, so a cache that cannot be
/// written is an error only for plans with Python packages or a declared WSGI counter.
fn python_env(plan: &Plan) -> Result<Vec<(String, String)>, Failure> {
    let mut variants = plan.parts.iter().flat_map(|part| &part.variants);
    let is_needed = !plan.python.is_empty()
        || variants.any(|v| v.on.is_none() && v.served_by == Some(spec::ServedBy::Wsgi));
    match python_path() {
        Ok(path) => Ok(vec![("PYTHONPATH".to_owned(), path)]),
        Err(failure) if is_needed => Err(failure),
        Err(_) => Ok(Vec::new()),
    }
}

/// The folder of our WSGI counter, followed by the existing PYTHONPATH.
pub(super) fn python_path() -> Result<String, Failure> {
    let ours = experiments::python_path()?.display().to_string();
    Ok(match std::env::var("PYTHONPATH") {
        Ok(theirs) if !theirs.is_empty() => format!("{ours}:{theirs}"),
        _ => ours,
    })
}

/// A run as indented JSON, ending in a newline.
pub(crate) fn report_json(run: &Run) -> String {
    format!("{:#}\n", report::json(run))
}
