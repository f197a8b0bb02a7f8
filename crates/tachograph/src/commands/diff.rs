//! `tachograph diff`: two commits of a repository, checked out, built and compared.

mod sent_commits;
mod worktrees;

use std::path::{Path, PathBuf};

use record::{Diff, DiffOutcome, Metric, Revision, Run, RunKind};
use spec::{CompareArgs, Plan, ServedBy};
use stage::{Stage, StageOptions};

use super::compare::served_by;
use super::hooks::around;
use super::measure::{check_exports, executable, measure, too_little};
use crate::failure::{Failure, Outcome, Status};
use crate::flags::GlobalFlags;
use crate::flags::diff::DiffFlags;
use crate::output;
use crate::repository::Repository;
use worktrees::Worktrees;

/// Default margin: a regression must lie wholly beyond it.
const MARGIN: f64 = 0.02;

/// Names of the variants.
const NAMES: [&str; 2] = ["base", "head"];

/// The metrics that decide by default.
const METRICS: [Metric; 4] = [Metric::Throughput, Metric::P50, Metric::P99, Metric::Cpu];

pub(crate) fn run(flags: &DiffFlags, global: &GlobalFlags) -> Outcome {
    check_files(flags)?;
    let result = diff(flags, global);
    if let Err(failure) = &result {
        write_failure(flags, failure);
    }
    result
}

fn diff(flags: &DiffFlags, global: &GlobalFlags) -> Outcome {
    let commits = Commits::of(flags)?;
    if commits.is_nothing {
        output::note(&nothing(&commits));
        write_nothing(flags, &commits)?;
        return Ok(Status::Well);
    }
    let stop = stage::signals::install().map_err(Failure::new)?;
    let id = base::RunId::new(base::timestamp_now(), base::Seed::from_time().0);
    let stage = Stage::new(StageOptions::new(executable()?, id.clone()))?;
    let worktrees = Worktrees::new(&stage, &commits.repository, flags, &stop)?;
    let mut plan = plan_of(flags, &commits, &worktrees)?;
    let texts = conditions(flags);
    let conditions = spec::FailIf::of_plan(&texts, &plan)?;
    let (worktrees, machines) = match &flags.site.on {
        None => (worktrees, None),
        Some(name) => {
            let machines = super::far::connected_for(&plan, &stop)?;
            let there = machines.iter().find(|machine| machine.name() == name);
            let there = there.ok_or_else(|| Failure::new(format!("{name} is not connected")))?;
            let worktrees = worktrees.on(there, &id, &commits)?;
            // In the folders of that machine.
            plan = plan_of(flags, &commits, &worktrees)?;
            (worktrees, Some(machines))
        }
    };
    let hooks = &flags.comparison.servers.hooks;
    let each = |text: &Option<String>| text.iter().cloned().collect::<Vec<_>>();
    worktrees.make(&commits, &|line| {
        if !global.quiet {
            output::note(line);
        }
    })?;
    let (setup, cleanup) = (each(&hooks.setup), each(&hooks.cleanup));
    around(&setup, &cleanup, || {
        let comparison = &flags.comparison;
        let (schedule, result) = (&comparison.schedule, &comparison.result);
        let run = measure(&plan, RunKind::Compare, None, machines, schedule, result, global)?;
        check_started(&run, &commits)?;
        let gates = report::decide_conditions(&run, &conditions);
        let margin = result.fail_if.is_empty().then(|| margin(flags));
        let outcome = report::outcome_of_diff(&run, &gates, margin.is_some());
        let Commits { base, head, .. } = &commits;
        let (base, head, primary) = (base.clone(), head.clone(), primary(flags));
        let diff = Diff { base, head, primary, margin, gates, outcome };
        publish(&run, &diff, flags, global)?;
        status(&run, &diff, flags)
    })
}

/// Fails if the server of a commit did not start.
fn check_started(run: &Run, commits: &Commits) -> Result<(), Failure> {
    let variants = run.parts.iter().flat_map(|part| &part.variants);
    let sides = [&commits.base, &commits.head];
    for (variant, Revision { short, subject, .. }) in variants.zip(sides) {
        if let Some(error) = &variant.skipped {
            let name = &variant.name;
            return Err(Failure::new(format!(
                "{name} {short} ({subject}) could not be measured: {error}"
            )));
        }
    }
    Ok(())
}

/// The two commits.
struct Commits {
    repository: Repository,
    base: Revision,
    head: Revision,
    /// What the user called the base.
    base_name: String,
    /// Whether there is no difference between them.
    is_nothing: bool,
}

impl Commits {
    fn of(flags: &DiffFlags) -> Result<Commits, Failure> {
        let (base_name, head_name, command) = flags.parts();
        check_command(command)?;
        if flags.dirty && head_name.is_some() {
            return Err(Failure::new(
                "--dirty measures the working tree, so it cannot be combined with a HEAD",
            ));
        }
        if let Some(machine) = flags.site.on.as_ref().filter(|_| flags.dirty) {
            return Err(Failure::new(format!(
                "--dirty measures the working tree, and only commits are sent to {machine}: commit \
                 the changes, or leave out --on"
            )));
        }
        let repository = Repository::here()?;
        let head_name = head_name.unwrap_or("HEAD");
        let mut head = repository.commit(head_name)?;
        let base_name = match base_name {
            Some(name) => name.to_owned(),
            None => repository.main_branch()?.to_owned(),
        };
        let named = repository.commit(&base_name)?;
        let base = repository.merge_base([&named, &head], [&base_name, head_name])?;
        let changed = repository.changed_files()?;
        head.dirty = flags.dirty && !repository.uncommitted()?.is_empty();
        if changed > 0 && !flags.dirty && head_name == "HEAD" {
            let files = if changed == 1 { "file has" } else { "files have" };
            output::note(&format!(
                "warning: {changed} {files} uncommitted changes, which are not measured; --dirty \
                 measures the working tree"
            ));
        }
        let is_nothing = base.id == head.id && !head.dirty;
        Ok(Commits { repository, base, head, base_name, is_nothing })
    }
}

fn check_command(command: &str) -> Result<(), Failure> {
    if command.starts_with("http://") || command.starts_with("https://") {
        return Err(Failure::new(
            "diff starts the servers of two commits itself; to compare running servers: \
             tachograph compare URL URL",
        ));
    }
    Ok(())
}

/// The sentence if there is nothing to compare.
fn nothing(commits: &Commits) -> String {
    let Commits { head, base_name, .. } = commits;
    format!(
        "nothing to compare: {} is the merge base with {base_name} itself; to compare it with its \
         parent: tachograph diff HEAD^ …; to measure uncommitted changes: --dirty",
        head.short
    )
}

/// The plan; the first variant is the base.
fn plan_of(
    flags: &DiffFlags,
    commits: &Commits,
    worktrees: &Worktrees<'_>,
) -> Result<Plan, Failure> {
    let comparison = &flags.comparison;
    let command = flags.parts().2.to_owned();
    let folders = worktrees.folders();
    let counts = served_by(&comparison.servers.served_by)?;
    let counts = match counts.as_slice() {
        [one] => folders.iter().map(|folder| in_folder(one, folder)).collect(),
        _ => counts,
    };
    let by_default = comparison.result.fail_if.is_empty();
    let mut plan = spec::compare_plan(&CompareArgs {
        commands: vec![command.clone(), command],
        names: NAMES.map(str::to_owned).to_vec(),
        served_by: counts,
        prepare: comparison.servers.prepare.iter().flat_map(|p| [p.clone(), p.clone()]).collect(),
        margin: comparison.schedule.margin.or(by_default.then_some(MARGIN)),
        working_dirs: folders.to_vec(),
        deciding_secondaries: if by_default { METRICS.len() as u32 - 1 } else { 0 },
        ..flags.site.place(comparison.args()?)
    })?;
    let Commits { base, head, .. } = commits;
    let dirty = if head.dirty { " with uncommitted changes" } else { "" };
    plan.name = "diff".to_owned();
    plan.title = format!("base {} vs head {}{dirty}", base.short, head.short);
    plan.question = format!(
        "Is {} ({}){dirty} slower than {} ({})?",
        head.short, head.subject, base.short, base.subject
    );
    plan.parts[0].question = plan.question.clone();
    Ok(plan)
}

/// A server-side count whose relative path is that of a file in a worktree.
fn in_folder(by: &ServedBy, folder: &Path) -> ServedBy {
    let place = |path: &str| match path.starts_with(['/', '$']) {
        true => path.to_owned(),
        false => folder.join(path).display().to_string(),
    };
    match by {
        ServedBy::LogLines { path, pattern } => {
            ServedBy::LogLines { path: place(path), pattern: pattern.clone() }
        }
        ServedBy::FileSize(path) => ServedBy::FileSize(place(path)),
        ServedBy::CounterFile { path, per_request } => {
            ServedBy::CounterFile { path: place(path), per_request: *per_request }
        }
        other => other.clone(),
    }
}

fn margin(flags: &DiffFlags) -> f64 {
    flags.comparison.schedule.margin.unwrap_or(MARGIN)
}

fn primary(flags: &DiffFlags) -> Metric {
    match flags.comparison.primary {
        spec::Metric::Throughput => Metric::Throughput,
        spec::Metric::P50 => Metric::P50,
        spec::Metric::P99 => Metric::P99,
        spec::Metric::Cpu => Metric::Cpu,
        spec::Metric::Memory => Metric::Memory,
    }
}

/// The conditions: the user's, or one per metric, the primary one first.
fn conditions(flags: &DiffFlags) -> Vec<String> {
    let given = &flags.comparison.result.fail_if;
    if !given.is_empty() {
        return given.clone();
    }
    let primary = primary(flags);
    let others = METRICS.into_iter().filter(|metric| *metric != primary);
    let rounded = |value: f64| (value * 1e6).round() / 1e6;
    let condition = |metric: Metric| match metric {
        Metric::Throughput => {
            format!("head.throughput < {} * base.throughput", rounded(1.0 - margin(flags)))
        }
        other => {
            let name = other.word();
            format!("head.{name} > {} * base.{name}", rounded(1.0 + margin(flags)))
        }
    };
    std::iter::once(primary).chain(others).map(condition).collect()
}

/// Fails if a file cannot be written, before anything is built, and empties the summary and the
/// variables, so that a failure leaves no older result in them.
fn check_files(flags: &DiffFlags) -> Result<(), Failure> {
    check_exports(&flags.comparison.result)?;
    own_files(flags).into_iter().flatten().try_for_each(|file| output::check_writable(file))?;
    for file in summary_files(flags).into_iter().flatten().filter(|file| file.is_file()) {
        output::write_file(file, "")?;
    }
    Ok(())
}

/// The files that are also written if nothing could be measured.
fn summary_files(flags: &DiffFlags) -> [Option<&PathBuf>; 2] {
    [flags.comparison.result.export_markdown.as_ref(), flags.export_env.as_ref()]
}

fn own_files(flags: &DiffFlags) -> [Option<&PathBuf>; 4] {
    let DiffFlags { export_env, export_bmf, .. } = flags;
    let bigger = flags.export_bigger_is_better.as_ref();
    [export_env.as_ref(), flags.export_smaller_is_better.as_ref(), bigger, export_bmf.as_ref()]
}

fn json(run: &Run, diff: &Diff) -> String {
    let mut json = report::json(run);
    json["diff"] = report::diff_json(run, diff);
    format!("{json:#}\n")
}

fn publish(run: &Run, diff: &Diff, flags: &DiffFlags, global: &GlobalFlags) -> Result<(), Failure> {
    let result = &flags.comparison.result;
    // What cannot be printed or written must not keep the rest from being written.
    let printed = output::print(&match result.json {
        true => json(run, diff),
        false => {
            let style = output::style(global.color);
            let answer = report::indented(&report::diff_sentence(run, diff), 0, style.width);
            format!("{}\n{answer}\n", report::terminal(run, &style))
        }
    });
    let indented = |value: serde_json::Value| format!("{value:#}\n");
    let tracked = |direction| indented(report::tracked(run, diff, direction));
    let files: [(&Option<PathBuf>, &dyn Fn() -> String); 8] = [
        (&result.export_json, &|| json(run, diff)),
        (&result.export_markdown, &|| report::diff_markdown(run, diff)),
        (&result.export_csv, &|| report::csv(run)),
        (&result.export_html, &|| report::html(run)),
        (&flags.export_env, &|| report::diff_variables(run, diff)),
        (&flags.export_smaller_is_better, &|| tracked(report::Direction::Smaller)),
        (&flags.export_bigger_is_better, &|| tracked(report::Direction::Bigger)),
        (&flags.export_bmf, &|| indented(report::metric_format(run, diff))),
    ];
    files.into_iter().fold(printed, |published, (file, text)| match file {
        Some(file) => published.and(output::write_file(file, &text())),
        None => published,
    })
}

fn status(run: &Run, diff: &Diff, flags: &DiffFlags) -> Outcome {
    match diff.outcome {
        DiffOutcome::Passed => Ok(Status::Well),
        DiffOutcome::Regression | DiffOutcome::HeadFailed => Ok(Status::VerdictFailed),
        DiffOutcome::Undecided if flags.comparison.result.fail_if_inconclusive => {
            Ok(Status::VerdictFailed)
        }
        DiffOutcome::Undecided => Ok(Status::Well),
        DiffOutcome::NotMeasured => {
            Err(too_little(run).unwrap_or_else(|| Failure::new(report::diff_sentence(run, diff))))
        }
        DiffOutcome::Invalid => Err(Failure::new(report::diff_sentence(run, diff))),
    }
}

/// Writes summary and variables if there was nothing to compare.
fn write_nothing(flags: &DiffFlags, commits: &Commits) -> Result<(), Failure> {
    let markdown = format!("**Nothing to compare**: {}\n", nothing(commits));
    let texts = [markdown, variables_without_result("nothing_to_compare")];
    for (file, text) in summary_files(flags).into_iter().zip(texts) {
        if let Some(file) = file {
            output::write_file(file, &text)?;
        }
    }
    Ok(())
}

/// Writes summary and variables of a comparison that failed, unless its result is already there.
fn write_failure(flags: &DiffFlags, failure: &Failure) {
    let is_empty =
        |path: &Path| path.metadata().is_ok_and(|data| data.is_file() && data.len() == 0);
    let markdown = report::diff_failure_markdown(&failure.to_string());
    let texts = [markdown, variables_without_result("not_measured")];
    for (file, text) in summary_files(flags).into_iter().zip(texts) {
        if let Some(file) = file.filter(|file| is_empty(file))
            && let Err(failure) = output::write_file(file, &text)
        {
            output::error(&failure);
        }
    }
}

fn variables_without_result(verdict: &str) -> String {
    format!("verdict={verdict}\nmetric=\nratio=\nlow=\nhigh=\n")
}
