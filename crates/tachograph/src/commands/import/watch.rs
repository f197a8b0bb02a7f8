//! Progress of an import.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use import::{RefusedLine, Summary, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::refused_file::RefusedFile;
use crate::output;

/// Number of refused lines to show; all are kept in a file.
const SHOWN: usize = 5;

/// Characters of a refused line to show.
const SHOWN_CHARACTERS: usize = 60;

/// Redraw interval of the progress line while nothing is read.
const TICK: Duration = Duration::from_millis(100);

/// Keeps refused lines, shows the first ones and the progress, and stops on request.
pub(super) struct Watcher {
    refused_file: RefusedFile,
    stop: Arc<AtomicBool>,
    read: Arc<AtomicU64>,
    bar: Option<ProgressBar>,
    began: Instant,
    shown: Vec<(u64, String, String)>,
}

impl Watcher {
    pub(super) fn new(
        refused_file: RefusedFile,
        stop: Arc<AtomicBool>,
        read: Arc<AtomicU64>,
        size: Option<u64>,
        quiet: bool,
    ) -> Watcher {
        let bar = (!quiet && output::progress_wanted()).then(|| {
            let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr());
            let template = match size {
                Some(_) => "{bar:20} {percent:>3}% of {total_bytes}, about {eta} left  {msg}",
                None => "{spinner} {bytes}  {msg}",
            };
            bar.set_style(style(template));
            bar
        });
        Watcher { refused_file, stop, read, bar, began: Instant::now(), shown: Vec::new() }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// The file of refused lines.
    pub(super) fn refused_file(&self) -> &Path {
        self.refused_file.path()
    }

    /// The first refused lines: number, beginning, and the reason.
    pub(super) fn shown(&self) -> &[(u64, String, String)] {
        &self.shown
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Watch for Watcher {
    fn refused(&mut self, refused: RefusedLine<'_>) -> io::Result<()> {
        if refused.line.first && self.shown.len() < SHOWN {
            let reason = refused.reasons.first().map(ToString::to_string).unwrap_or_default();
            let text = String::from_utf8_lossy(refused.line.bytes);
            let clean = text.chars().take(SHOWN_CHARACTERS);
            let clean: String = clean.map(|c| if c.is_control() { '.' } else { c }).collect();
            self.shown.push((refused.line.number, clean, reason));
        }
        self.refused_file.keep(refused)
    }

    fn settle(&mut self) -> io::Result<()> {
        self.refused_file.settle()
    }

    fn progress(&mut self, summary: &Summary) {
        if let Some(bar) = &self.bar {
            bar.set_position(self.read.load(Ordering::Relaxed));
            let seconds = self.began.elapsed().as_secs_f64().max(0.001);
            let rate = (summary.lines as f64 / seconds).round() as u64;
            bar.set_message(format!("{} lines/s", base::format_count(rate)));
        }
    }

    fn writing(&mut self) {
        if let Some(bar) = &self.bar {
            bar.set_style(style("{spinner} writing to the record  {elapsed}"));
            bar.enable_steady_tick(TICK);
        }
    }

    fn stop(&mut self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.finish();
    }
}
