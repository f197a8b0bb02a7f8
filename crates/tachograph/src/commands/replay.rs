//! `tachograph replay`: the requests of a log to two servers.

use std::time::Duration;

use base::{Seed, format_count};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use record::{Replay, RunState};
use replay::{Options, Progress};

use super::hooks::around;
use super::measure::executable;
use crate::failure::{Failure, Outcome, Status};
use crate::flags::GlobalFlags;
use crate::flags::replay::ReplayFlags;
use crate::output;

pub(crate) fn run(flags: &ReplayFlags, global: &GlobalFlags) -> Outcome {
    let files = [&flags.export_json, &flags.export_markdown];
    files.into_iter().flatten().try_for_each(|file| output::check_writable(file))?;
    let plan = flags.plan()?;
    let commands = |command: &Option<String>| command.iter().cloned().collect::<Vec<_>>();
    around(&commands(&flags.hooks.setup), &commands(&flags.hooks.cleanup), || {
        let stop = stage::signals::install().map_err(Failure::new)?;
        let names: Vec<&str> = flags.on.iter().map(String::as_str).collect();
        let options = Options {
            executable: executable()?,
            command_line: command_line(),
            seed: Seed::from_time(),
            machine: super::far::connected(&names, &stop)?.pop(),
            stop,
        };
        let replayed = {
            let bar = bar(global);
            replay::replay(&plan, &options, &mut |progress| {
                bar.iter().for_each(|bar| bar.set_message(words(progress)));
            })?
        };
        publish(&replayed, flags, global)?;
        status(&replayed)
    })
}

/// The command line as typed.
fn command_line() -> Vec<String> {
    let typed = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    std::iter::once("tachograph".to_owned()).chain(typed).collect()
}

/// A line with the counts so far, on terminals.
fn bar(global: &GlobalFlags) -> Option<Spinner> {
    (!global.quiet && output::progress_wanted()).then(|| {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{elapsed:>4}  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(500));
        Spinner(bar)
    })
}

/// A line that is removed when the replay has ended.
struct Spinner(ProgressBar);

impl Spinner {
    fn set_message(&self, text: String) {
        self.0.set_message(text);
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn words(progress: Progress) -> String {
    let Progress { asked, different, failed } = progress;
    let [asked, different, failed] = [asked, different, failed].map(format_count);
    format!("{asked} requests, {different} different, {failed} failed")
}

fn publish(replayed: &Replay, flags: &ReplayFlags, global: &GlobalFlags) -> Result<(), Failure> {
    let json = format!("{:#}\n", report::replay_json(replayed));
    let mut published = output::print(&match flags.json {
        true => json.clone(),
        false => report::replay_terminal(replayed, &output::style(global.color)),
    });
    // What cannot be printed or written must not keep the rest from being written.
    if let Some(file) = &flags.export_json {
        published = published.and(output::write_file(file, &json));
    }
    if let Some(file) = &flags.export_markdown {
        published = published.and(output::write_file(file, &report::replay_markdown(replayed)));
    }
    published
}

/// A failure that was seen stays one, however much more there was to compare, unless the user stopped.
fn status(replayed: &Replay) -> Outcome {
    let Replay { same, different, failed, .. } = replayed;
    if replayed.state == RunState::Interrupted {
        return Err(Failure::new("stopped before the end of the log"));
    }
    let is_compared = same + different + failed.old + failed.new > 0;
    match &replayed.error {
        _ if different + failed.old + failed.new > 0 => Ok(Status::VerdictFailed),
        _ if !replayed.adds_up() => Ok(Status::VerdictFailed),
        Some(error) => Err(Failure::new(error)),
        None if !is_compared && replayed.asked > 0 => {
            Err(Failure::new("nothing was compared: neither server answered a request"))
        }
        None if !is_compared => Err(Failure::new(format!(
            "nothing was compared: {} has no request that can be sent",
            replayed.log
        ))),
        None if failed.both > 0 => Ok(Status::VerdictFailed),
        None => Ok(Status::Well),
    }
}
