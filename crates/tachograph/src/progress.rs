//! Progress of a run: a bar with the time left on terminals, a line per block elsewhere.

use std::time::Duration;

use base::Nanos;
use conduct::{Event, StackActivity, Watcher};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

const STEPS: u64 = 1000;

/// Shows the progress of a run on standard error.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
    block: String,
    blocks_done: f64,
    blocks_of: f64,
    remaining: Option<Nanos>,
}

impl Progress {
    /// Progress suitable for the terminal; none if `quiet`.
    pub(crate) fn new(quiet: bool) -> Progress {
        let bar = (!quiet && output::progress_wanted()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:24} {elapsed:>4}  {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(style);
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Progress {
            bar,
            quiet,
            block: String::new(),
            blocks_done: 0.0,
            blocks_of: 1.0,
            remaining: None,
        }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None if self.quiet => {}
            None => output::note(text),
        }
    }

    fn show(&self, doing: &str, share_of_block: f64) {
        let Some(bar) = &self.bar else { return };
        let share = (self.blocks_done + share_of_block) / self.blocks_of.max(1.0);
        bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
        let eta = self.remaining.map(|left| format!(", about {left} left")).unwrap_or_default();
        // The bar and the clock take half of an 80-column terminal.
        bar.set_message(format!("{}{eta}: {doing}", self.block));
    }
}

impl Watcher for Progress {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Part { name, number, of } => {
                self.blocks_done = 0.0;
                self.remaining = None;
                if *of > 1 {
                    self.line(&format!("part {number} of {of}: {name}"));
                }
            }
            Event::Calibrating => {
                self.block = "trying each variant".to_owned();
                self.show("", 0.0);
            }
            Event::Block { number, of, remaining } => {
                self.block = format!("block {number} of {of}");
                self.blocks_done = f64::from(*number) - 1.0;
                self.blocks_of = f64::from(*of);
                self.remaining = *remaining;
                if self.bar.is_none() {
                    let eta =
                        remaining.map(|left| format!(", about {left} left")).unwrap_or_default();
                    self.line(&format!("{}{eta}", self.block));
                }
                self.show("", 0.0);
            }
            Event::Doing { what, variant, share_done } => {
                let what = match what {
                    StackActivity::Trying => "trying",
                    StackActivity::Starting => "starting",
                    StackActivity::WarmingUp => "warming up",
                    StackActivity::Loading => "loading",
                };
                self.show(&format!("{what} {variant}"), *share_done);
            }
            Event::Skipped { variant, error } => {
                self.line(&format!("skipping {variant}: {error}"));
            }
            Event::Found { part, finding } => self.line(&report::note(part, finding)),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
