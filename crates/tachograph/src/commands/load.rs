//! `tachograph load`: loads one target and checks every response.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::{Seed, format_count, format_rate};
use conduct::{
    Event, LiveCounts, LoadOptions, LoadResult, Machines, Recording, StackActivity, Watcher,
};
use indicatif::style::ProgressTracker;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use report::LoadReport;

use super::far::connected;
use super::hooks::around;
use super::measure::{check_exports, gated, publish, repeating_command};
use crate::failure::{Failure, Outcome};
use crate::flags::GlobalFlags;
use crate::flags::load::LoadFlags;
use crate::stores::runs_file;
use crate::{machine, output};

pub(crate) fn run(flags: &LoadFlags, global: &GlobalFlags) -> Outcome {
    let commands = |command: &Option<String>| command.iter().cloned().collect::<Vec<_>>();
    around(&commands(&flags.hooks.setup), &commands(&flags.hooks.cleanup), || load(flags, global))
}

fn load(flags: &LoadFlags, global: &GlobalFlags) -> Outcome {
    let plan = flags.plan()?;
    let conditions = spec::FailIf::of_load(&flags.result.fail_if, &plan.target)?;
    check_exports(&flags.result)?;
    if let Some(file) = &flags.hdr {
        output::check_writable(file)?;
    }
    let seed = flags.machine.seed.unwrap_or_else(Seed::from_time);
    let live = Arc::new(LiveCounts::default());
    let stop = stage::signals::install().map_err(Failure::new)?;
    let from: Vec<&str> = flags.from.iter().map(String::as_str).collect();
    let machines = Machines::new(connected(&from, &stop)?);
    let options = LoadOptions {
        name: flags.result.name.clone(),
        seed,
        command_line: repeating_command(seed),
        machine: machine::describe(),
        cpus: flags.machine.cpus.clone().unwrap_or_default(),
        neighbours: host::Neighbours::observe().ok(),
        live: live.clone(),
        machines,
        stop,
    };
    let mut recording = Recording::open(runs_file(global, "loads are recorded")?)?;
    let loaded = {
        let mut waiting = StatusLine::new(flags, live, global);
        conduct::load(&plan, &options, &mut recording, &mut waiting)?
    };
    let report = LoadReport::from_run(&loaded.run)
        .filter(|report| report.ledger().counts.offered > 0)
        .ok_or_else(|| Failure::new("stopped before anything was measured"))?;
    let published = publish(&loaded.run, &flags.result, global);
    if let Some(file) = &flags.hdr {
        output::write_file(file, &hdr_log(&loaded)?)?;
    }
    published?;
    if loaded.run.state == record::RunState::Interrupted && report.ledger().counts.completed == 0 {
        return Err(Failure::new("stopped before anything was measured"));
    }
    Ok(gated(&loaded.run, &conditions, &flags.result))
}

/// The latencies as an HdrHistogram interval log with one interval.
fn hdr_log(loaded: &LoadResult) -> Result<String, Failure> {
    use hdrhistogram::serialization::V2DeflateSerializer;
    use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
    let mut text = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut write = || -> Result<(), String> {
        let mut writer = IntervalLogWriterBuilder::new()
            .add_comment("times in nanoseconds; written by tachograph")
            .with_start_time(std::time::SystemTime::from(loaded.run.started))
            .with_base_time(std::time::SystemTime::from(loaded.run.started))
            .with_max_value_divisor(1.0)
            .begin_log_with(&mut text, &mut serializer)
            .map_err(|error| error.to_string())?;
        writer
            .write_histogram(&loaded.times, Duration::ZERO, Duration::from(loaded.elapsed), None)
            .map_err(|error| format!("{error:?}"))
    };
    write().map_err(|error| Failure::new(format!("cannot write the histogram log: {error}")))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A line on the terminal with the figures so far.
struct StatusLine {
    bar: Option<ProgressBar>,
    figures: Figures,
    until: String,
}

impl StatusLine {
    fn new(flags: &LoadFlags, live: Arc<LiveCounts>, global: &GlobalFlags) -> StatusLine {
        let figures = Figures { live, doing: Arc::default() };
        let wanted = !global.quiet && output::progress_wanted();
        let bar = wanted.then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {figures}") {
                bar.set_style(style.with_key("figures", figures.clone()));
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        let until = match flags.requests {
            Some(n) => format!("{} requests", format_count(n)),
            None => flags.duration.to_string(),
        };
        StatusLine { bar, figures, until }
    }
}

/// Completed and failed requests.
type RequestCounts = (u64, u64);

/// The text of the line, made each time it is drawn.
#[derive(Clone)]
struct Figures {
    live: Arc<LiveCounts>,
    /// The current activity, its start, and the counts at that time.
    doing: Arc<Mutex<Option<(String, Instant, RequestCounts)>>>,
}

impl ProgressTracker for Figures {
    fn clone_box(&self) -> Box<dyn ProgressTracker> {
        Box::new(self.clone())
    }
    fn tick(&mut self, _: &ProgressState, _: Instant) {}
    fn reset(&mut self, _: &ProgressState, _: Instant) {}
    fn write(&self, _: &ProgressState, out: &mut dyn std::fmt::Write) {
        let doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((what, since, before)) = doing.as_ref() {
            // A line that cannot be drawn is drawn again soon.
            let _ = out.write_str(&so_far(what, since.elapsed(), *before, self.live.counts()));
        }
    }
}

/// `loading for 5 s: 1.2 s, 29,672 requests/s, 3 failed`.
fn so_far(what: &str, elapsed: Duration, before: RequestCounts, now: RequestCounts) -> String {
    let (completed, failed) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
    let seconds = elapsed.as_secs_f64();
    let mut text = format!("{what}: {seconds:.1} s");
    if completed + failed > 0 && seconds > 0.0 {
        let rate = format_rate(completed as f64 / seconds);
        // Writing to a String never fails.
        let _ = write!(text, ", {rate} requests/s, {} failed", format_count(failed));
    }
    text
}

impl Watcher for StatusLine {
    fn event(&mut self, event: &Event) {
        let Event::Doing { what, .. } = event else { return };
        let what = match what {
            StackActivity::WarmingUp => "warming up".to_owned(),
            _ => format!("loading for {}", self.until),
        };
        let counted = self.figures.live.counts();
        let mut doing = self.figures.doing.lock().unwrap_or_else(PoisonError::into_inner);
        *doing = Some((what, Instant::now(), counted));
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_showed_no_figures_while_it_ran() {
        let after = Duration::from_millis;
        assert_eq!(so_far("warming up", after(40), (3, 0), (3, 0)), "warming up: 0.0 s");
        assert_eq!(
            so_far("loading for 5 s", after(1500), (1_003, 0), (31_003, 2)),
            "loading for 5 s: 1.5 s, 20,000 requests/s, 2 failed"
        );
    }
}
