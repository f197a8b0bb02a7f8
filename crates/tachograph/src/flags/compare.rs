//! Flags of `compare`.

use base::Nanos;
use clap::Args;
use spec::{Arrivals, CompareArgs, Metric, Offer};

use super::servers::{ServerFlags, SiteFlags};
use super::shared::{MachineFlags, OfferFlags, ResultFlags};
use crate::failure::Failure;

pub(crate) const EXAMPLES: &str = "\
Each COMMAND starts one server. $PORT and $SOCKET are replaced in the command, and set in
its environment. A command that contains $SOCKET is reached through that Unix socket, any
other through 127.0.0.1:$PORT. Use single quotes to keep your shell from expanding them.
With --on or --from, write $HOST instead of 127.0.0.1.

Server-side counts (--served-by, once for all commands or once per command):
  wsgi                          tachograph's WSGI counter; detected automatically
  stub_status=URL               nginx's stub_status
  'url=URL REGEX'               a page with the count in the first group
  log=FILE or 'log=FILE REGEX'  lines of a log file
  file_size=FILE                bytes of a file, one per request
  counter_file=FILE             a file that contains the count as a number

Examples:
  tachograph compare 'gunicorn -b 127.0.0.1:$PORT server:app' 'gunicorn -b unix:$SOCKET server:app'
  tachograph compare -n old -n new './old --port $PORT' './new --port $PORT' \\
      --fail-if 'new.p99 > 1.05 * old.p99'
  tachograph compare http://127.0.0.1:8001/ http://127.0.0.1:8002/
  tachograph compare --on user@server './old $HOST:$PORT' './new $HOST:$PORT'
  tachograph compare -L workers 1,2,4 'gunicorn -w {workers} -b 127.0.0.1:$PORT server:app'";

/// Flags of `compare`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompareFlags {
    /// Commands that each start a server, or URLs of running servers; the first is the baseline
    #[arg(value_name = "COMMAND", required = true, num_args = 1..)]
    pub(crate) commands: Vec<String>,
    /// Name of a command, in order; repeatable
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) command_name: Vec<String>,
    /// Repeat each command for every number from MIN to MAX; {VAR} in it is replaced
    #[arg(short = 'P', long, value_names = ["VAR", "MIN", "MAX"], num_args = 3, allow_negative_numbers = true)]
    pub(crate) parameter_scan: Vec<String>,
    /// Step of --parameter-scan
    #[arg(short = 'D', long, value_name = "STEP", default_value = "1")]
    pub(crate) parameter_step_size: String,
    /// Repeat each command for every value of a list such as 1,2,4; {VAR} in it is replaced
    #[arg(short = 'L', long, value_names = ["VAR", "VALUES"], num_args = 2)]
    pub(crate) parameter_list: Vec<String>,
    #[command(flatten)]
    pub(crate) site: SiteFlags,
    #[command(flatten)]
    pub(crate) comparison: ComparisonFlags,
}

/// How servers that tachograph starts are compared: the options that `compare` and `diff` share.
#[derive(Clone, Debug, Args)]
pub(crate) struct ComparisonFlags {
    #[command(flatten)]
    pub(crate) servers: ServerFlags,
    #[command(flatten)]
    pub(crate) schedule: ScheduleFlags,
    /// Metric that decides: throughput, p50, p99, cpu (per request) or memory (peak RSS of the
    /// stack's processes); the others are reported unadjusted
    #[arg(long, default_value = "throughput", value_name = "METRIC", value_parser = parse_metric)]
    pub(crate) primary: Metric,
    #[command(flatten)]
    pub(crate) offer: OfferFlags,
    /// Rate of the open loop, as a share of the slowest variant's capacity
    #[arg(long, default_value = "50%", value_name = "SHARE", value_parser = base::parse_fraction)]
    pub(crate) open_share: f64,
    #[command(flatten)]
    pub(crate) result: ResultFlags,
}

impl ComparisonFlags {
    /// The arguments of a comparison in these flags; commands, names, server-side counts and
    /// preparation are left empty.
    pub(crate) fn args(&self) -> Result<CompareArgs, Failure> {
        let mut offers = vec![Offer::Closed];
        if !self.offer.closed_only {
            offers.push(Offer::OpenShare { share: self.open_share, arrivals: Arrivals::Poisson });
        }
        Ok(CompareArgs {
            precision: self.schedule.precision,
            margin: self.schedule.margin,
            quick: self.schedule.quick,
            isolated: self.schedule.isolated,
            independent_starts: self.schedule.independent_starts,
            why: self.schedule.why,
            max_time: self.schedule.max_time,
            offers,
            primary: self.primary,
            ..self.servers.args()?
        })
    }
}

/// How long and how exactly to measure.
#[derive(Clone, Debug, Args)]
pub(crate) struct ScheduleFlags {
    /// Target half-width of the ratio's 95% interval [default: 1%, or that of the experiment]
    #[arg(long, value_name = "SHARE", value_parser = base::parse_fraction)]
    pub(crate) precision: Option<f64>,
    /// Measure for less time, with wider intervals
    #[arg(long)]
    pub(crate) quick: bool,
    /// Don't start a block that can't finish in this time; the first six may use 50% more
    #[arg(long, value_name = "TIME", value_parser = Nanos::parse)]
    pub(crate) max_time: Option<Nanos>,
    /// Run one variant at a time instead of all side by side
    #[arg(long)]
    pub(crate) isolated: bool,
    /// Draw hash seed, environment size and path lengths for each variant, not once per block
    #[arg(long)]
    pub(crate) independent_starts: bool,
    /// Also sample the servers' functions, and report which of them make the difference in CPU time
    #[arg(long)]
    pub(crate) why: bool,
    /// Margin within which variants count as equivalent, e.g. 2%
    #[arg(long, value_name = "SHARE", value_parser = base::parse_fraction)]
    pub(crate) margin: Option<f64>,
    #[command(flatten)]
    pub(crate) machine: MachineFlags,
    /// Fail instead of waiting if another measurement uses these CPUs
    #[arg(long)]
    pub(crate) no_wait: bool,
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
