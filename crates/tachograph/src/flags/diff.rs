//! Flags of `diff`.

use std::path::PathBuf;

use base::Nanos;
use clap::Args;

use super::compare::ComparisonFlags;
use super::servers::SiteFlags;

pub(crate) const EXAMPLES: &str = "\
Compares the merge base of BASE and HEAD with HEAD. BASE is by default the main branch
(origin/HEAD, origin/main, origin/master, main or master). Both commits are checked out in
temporary worktrees and built there. COMMAND starts each commit's server, in the same
subfolder of its worktree as the current folder; $PORT and $SOCKET as in compare. Your
checkout, index and branches stay as they are.

The variants are named base and head. Without --fail-if, diff fails if the interval of
throughput, p50, p99 or CPU per request lies wholly beyond the margin on the worse side
[--margin, default: 2%]. Intervals of metrics other than --primary are adjusted for three.

Exit status:
  0  no evidence of a regression: excluded, or undecided
  1  head is slower beyond the margin, or a --fail-if condition holds, or requests to head
     failed; with --fail-if-inconclusive also if undecided
  2  could not measure: no such commit, a failed build, too few blocks, an invalid
     comparison, …

Examples:
  tachograph diff --build 'make' './server $PORT'
  tachograph diff --build 'cargo build --release' v1.2.0 HEAD 'target/release/app $PORT'
  tachograph diff --dirty 'python3 server.py $PORT'      # uncommitted changes
  tachograph diff HEAD^ './server $PORT' --fail-if 'head.p99 > 1.1 * base.p99'
  tachograph diff --on user@server --build 'make' './server $HOST:$PORT'   # built there
docs/ci.md has recipes for GitHub and GitLab.";

/// Flags of `diff`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DiffFlags {
    /// Revisions to compare, and the command that starts the server
    #[arg(value_name = "[BASE [HEAD]] COMMAND", required = true, num_args = 1..=3)]
    pub(crate) words: Vec<String>,
    /// Shell command that builds the server, in each worktree
    #[arg(short, long, value_name = "COMMAND")]
    pub(crate) build: Option<String>,
    /// Timeout of each build
    #[arg(long, default_value = "30m", value_name = "TIME", value_parser = Nanos::parse)]
    pub(crate) build_timeout: Nanos,
    /// Measure the working tree, with uncommitted changes and new files, instead of HEAD
    #[arg(long)]
    pub(crate) dirty: bool,
    #[command(flatten)]
    pub(crate) site: SiteFlags,
    #[command(flatten)]
    pub(crate) comparison: ComparisonFlags,
    /// Write verdict, metric, ratio, low and high as NAME=VALUE lines
    #[arg(long, value_name = "FILE")]
    pub(crate) export_env: Option<PathBuf>,
    /// Write latency and CPU of head for github-action-benchmark (customSmallerIsBetter)
    #[arg(long, value_name = "FILE")]
    pub(crate) export_smaller_is_better: Option<PathBuf>,
    /// Write throughput of head for github-action-benchmark (customBiggerIsBetter)
    #[arg(long, value_name = "FILE")]
    pub(crate) export_bigger_is_better: Option<PathBuf>,
    /// Write figures of head as Bencher Metric Format
    #[arg(long, value_name = "FILE")]
    pub(crate) export_bmf: Option<PathBuf>,
}

impl DiffFlags {
    /// Base, head and command; what was not given is `None`.
    pub(crate) fn parts(&self) -> (Option<&str>, Option<&str>, &str) {
        match self.words.as_slice() {
            [base, head, command] => (Some(base), Some(head), command),
            [base, command] => (Some(base), None, command),
            [command] => (None, None, command),
            _ => (None, None, ""),
        }
    }
}
