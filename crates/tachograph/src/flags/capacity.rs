//! Flags of `capacity`.

use base::Nanos;
use clap::Args;
use spec::{CapacityAim, CompareArgs, LatencyLimit};

use super::compare::ScheduleFlags;
use super::servers::{ServerFlags, SiteFlags};
use super::shared::{MachineFlags, ResultFlags};
use crate::failure::Failure;

pub(crate) const EXAMPLES: &str = "\
Each COMMAND starts one server, as in 'tachograph compare'; URLs are servers that already run.
With --on or --from, write $HOST instead of 127.0.0.1.
At least one of --p99, --latency, --max-errors and --cpu is needed; the capacity is the rate at
which the first of them stops holding.

Examples:
  tachograph capacity 'gunicorn -b 127.0.0.1:$PORT server:app' --p99 50ms
  tachograph capacity -n tcp -n unix --p99 50ms --max-errors 0.1% \\
      'gunicorn -b 127.0.0.1:$PORT server:app' 'gunicorn -b unix:$SOCKET server:app'
  tachograph capacity './server --port $PORT' --cpu 80%
  tachograph capacity --on user@server './server $HOST:$PORT' --p99 50ms
  tachograph capacity http://127.0.0.1:8000/ --latency 200ms --quantile 0.999 --max-time 10m";

/// Flags of `capacity`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CapacityFlags {
    /// Commands that each start a server, or URLs of running servers; the first is the baseline
    #[arg(value_name = "COMMAND", required = true, num_args = 1..)]
    pub(crate) commands: Vec<String>,
    /// Name of a command, in order; repeatable
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) command_name: Vec<String>,
    /// Limit on the 99th percentile of latency, e.g. 50ms
    #[arg(long, value_name = "TIME", value_parser = Nanos::parse, help_heading = "Conditions")]
    pub(crate) p99: Option<Nanos>,
    /// Limit on the latency of --quantile
    #[arg(long, value_name = "TIME", value_parser = Nanos::parse, conflicts_with = "p99", help_heading = "Conditions")]
    pub(crate) latency: Option<Nanos>,
    /// Share of requests that must keep --latency
    #[arg(long, value_name = "SHARE", default_value = "0.99", value_parser = base::parse_fraction, requires = "latency", help_heading = "Conditions")]
    pub(crate) quantile: f64,
    /// Limit on the share of requests that fail, e.g. 0.1%
    #[arg(long, value_name = "SHARE", value_parser = base::parse_fraction, help_heading = "Conditions")]
    pub(crate) max_errors: Option<f64>,
    /// Limit on the CPU time that the server uses, as a share of that of its CPUs, e.g. 80%
    #[arg(long, value_name = "SHARE", value_parser = base::parse_fraction, help_heading = "Conditions")]
    pub(crate) cpu: Option<f64>,
    /// Highest rate to offer, in requests per second
    #[arg(long, value_name = "RATE", default_value = "1000000", value_parser = base::parse_rate)]
    pub(crate) max_rate: f64,
    /// Time for the whole search; more time makes narrower intervals
    #[arg(long, value_name = "TIME", default_value = "3m", value_parser = Nanos::parse)]
    pub(crate) max_time: Nanos,
    /// Target half-width of the 95% intervals; the search ends when it is reached
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = base::parse_fraction)]
    pub(crate) precision: f64,
    /// Margin within which capacities count as equivalent, e.g. 2%
    #[arg(long, value_name = "SHARE", value_parser = base::parse_fraction)]
    pub(crate) margin: Option<f64>,
    #[command(flatten)]
    pub(crate) servers: ServerFlags,
    #[command(flatten)]
    pub(crate) site: SiteFlags,
    #[command(flatten)]
    pub(crate) machine: MachineFlags,
    /// Fail instead of waiting if another measurement uses these CPUs
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) result: ResultFlags,
}

impl CapacityFlags {
    /// The conditions.
    pub(crate) fn aim(&self) -> CapacityAim {
        let latency = match (self.p99, self.latency) {
            (Some(limit), _) => Some(LatencyLimit { quantile: 0.99, limit }),
            (None, limit) => limit.map(|limit| LatencyLimit { quantile: self.quantile, limit }),
        };
        CapacityAim {
            latency,
            errors: self.max_errors,
            cpu: self.cpu,
            rate_max_per_s: self.max_rate,
        }
    }

    /// The commands and their load. An open loop opens connections as needed, unless their number is
    /// given.
    pub(crate) fn args(&self) -> Result<CompareArgs, Failure> {
        let mut args = self.site.place(self.servers.args()?);
        args.load.connections_max = self.servers.request.connections_max(true);
        let each = |text: &String| vec![text.clone(); self.commands.len()];
        Ok(CompareArgs {
            commands: self.commands.clone(),
            names: self.command_name.clone(),
            precision: Some(self.precision),
            margin: self.margin,
            max_time: Some(self.max_time),
            prepare: self.servers.prepare.iter().flat_map(each).collect(),
            ..args
        })
    }

    /// How the search is scheduled, in the flags of a comparison.
    pub(crate) fn schedule(&self) -> ScheduleFlags {
        ScheduleFlags {
            precision: Some(self.precision),
            quick: false,
            max_time: Some(self.max_time),
            isolated: false,
            independent_starts: false,
            why: false,
            margin: self.margin,
            machine: self.machine.clone(),
            no_wait: self.no_wait,
        }
    }
}
