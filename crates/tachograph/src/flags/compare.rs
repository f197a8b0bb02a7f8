//! Flags of `compare`.

use std::path::PathBuf;

use base::Nanos;
use clap::Args;
use spec::{Layout, Metric};

use super::load::RequestFlags;

pub(crate) const EXAMPLES: &str = "\
Each COMMAND starts one server. PORT and SOCKET are in its environment, and $PORT or
$SOCKET in the command are replaced. A command that names $SOCKET is reached through that
Unix socket, any other through 127.0.0.1:$PORT. Quote commands with single quotes, so that
your shell leaves the variables alone.

Who counts at the server (--served-by, once for all or once per command):
  wsgi                        our WSGI counter; found by itself when the app uses it
  stub_status=URL             nginx's stub_status
  'url=URL REGEX'             a page whose body holds the count in the first group
  log=FILE or 'log=FILE REGEX' lines of a log file
  file_size=FILE              bytes of a file, one per request
  counter_file=FILE           a file with the count as a number

Examples:
  tachograph compare 'gunicorn -b 127.0.0.1:$PORT server:app' 'gunicorn -b unix:$SOCKET server:app'
  tachograph compare -n old -n new './old --port $PORT' './new --port $PORT' \\
      --fail-if 'new.p99 > 1.05 * old.p99'";

/// Flags of `compare`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompareFlags {
    /// Commands, each of which starts a server; the first is the baseline
    #[arg(value_name = "COMMAND", required = true, num_args = 1..)]
    pub(crate) commands: Vec<String>,
    /// Name of a command, in order; may be given several times
    #[arg(short, long, value_name = "NAME")]
    pub(crate) name: Vec<String>,
    /// Path and query of the request
    #[arg(long, default_value = "/", value_name = "PATH")]
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) request: RequestFlags,
    #[command(flatten)]
    pub(crate) schedule: ScheduleFlags,
    /// The metric that decides; the others are reported unadjusted
    #[arg(long, default_value = "throughput", value_name = "METRIC", value_parser = parse_metric)]
    pub(crate) primary: Metric,
    /// Offer only the closed loop, no open loop at half of capacity
    #[arg(long)]
    pub(crate) closed_only: bool,
    /// The open loop's rate as a share of the slowest variant's capacity
    #[arg(long, default_value = "50%", value_name = "SHARE", value_parser = base::parse_fraction)]
    pub(crate) open_share: f64,
    /// Where client and stacks run: split, same or free
    #[arg(long, default_value = "split", value_name = "LAYOUT", value_parser = parse_layout)]
    pub(crate) layout: Layout,
    /// How long a server may take to be ready
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = Nanos::parse)]
    pub(crate) ready_timeout: Nanos,
    /// Where the server's own count is read; see below
    #[arg(long, value_name = "WHERE")]
    pub(crate) served_by: Vec<String>,
    #[command(flatten)]
    pub(crate) verdict: VerdictFlags,
}

/// How long and how exactly to measure.
#[derive(Clone, Debug, Args)]
pub(crate) struct ScheduleFlags {
    /// Half-width of the ratio's interval to aim for
    #[arg(long, value_name = "SHARE", value_parser = base::parse_fraction)]
    pub(crate) precision: Option<f64>,
    /// A short look; the verdict says so
    #[arg(long)]
    pub(crate) quick: bool,
    /// Begin no block that would not end within this time after the start
    #[arg(long, value_name = "TIME", value_parser = Nanos::parse)]
    pub(crate) max_time: Option<Nanos>,
    /// Run one variant at a time instead of keeping all of them up
    #[arg(long)]
    pub(crate) isolated: bool,
    /// Declare a margin beforehand: the verdict may then be "equivalent"
    #[arg(long, value_name = "SHARE", value_parser = base::parse_fraction)]
    pub(crate) margin: Option<f64>,
    /// Repeat the random choices of another run
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<base::Seed>,
    /// Use only these CPUs, e.g. 0-3
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<base::CpuSet>,
}

/// What is done with the result.
#[derive(Clone, Debug, Args)]
pub(crate) struct VerdictFlags {
    /// Exit with status 1 if this holds, e.g. 'b.p99 > 1.05 * a.p99'
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) fail_if: Vec<String>,
    /// Print JSON instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) export_json: Option<PathBuf>,
    /// Write the result as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) export_markdown: Option<PathBuf>,
    /// Write every trial as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) export_csv: Option<PathBuf>,
    /// Write the report as one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    pub(crate) export_html: Option<PathBuf>,
}

fn parse_layout(text: &str) -> Result<Layout, String> {
    match text {
        "split" => Ok(Layout::Split),
        "same" => Ok(Layout::Same),
        "free" => Ok(Layout::Free),
        _ => Err("a layout is split, same or free".to_owned()),
    }
}

fn parse_metric(text: &str) -> Result<Metric, String> {
    match text {
        "throughput" => Ok(Metric::Throughput),
        "p50" => Ok(Metric::P50),
        "p99" => Ok(Metric::P99),
        "cpu" => Ok(Metric::Cpu),
        "memory" => Ok(Metric::Memory),
        _ => Err("a metric is throughput, p50, p99, cpu or memory".to_owned()),
    }
}
