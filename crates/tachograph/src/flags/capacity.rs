//! Flags of `capacity`.

use base::Nanos;
use clap::Args;
use spec::{CapacityAim, CompareArgs, LatencyLimit, Layout};

use super::compare::{ScheduleFlags, parse_layout};
use super::load::RequestFlags;
use super::shared::{HookFlags, MachineFlags, ResultFlags};
use crate::failure::Failure;

pub(crate) const EXAMPLES: &str = "\
Each COMMAND starts one server, as in 'tachograph compare'; URLs are servers that already run.
At least one of --p99, --latency, --max-errors and --cpu is needed; the capacity is the rate at
which the first of them stops holding.

Examples:
  tachograph capacity 'gunicorn -b 127.0.0.1:$PORT server:app' --p99 50ms
  tachograph capacity -n tcp -n unix --p99 50ms --max-errors 0.1% \\
      'gunicorn -b 127.0.0.1:$PORT server:app' 'gunicorn -b unix:$SOCKET server:app'
  tachograph capacity './server --port $PORT' --cpu 80%
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
    /// Path and query of the URL
    #[arg(long, default_value = "/", value_name = "PATH")]
    pub(crate) path: String,
    /// The servers speak HTTPS
    #[arg(long, help_heading = "HTTPS")]
    pub(crate) https: bool,
    #[command(flatten)]
    pub(crate) hooks: HookFlags,
    /// Shell command to run before each start of each server
    #[arg(long, value_name = "COMMAND")]
    pub(crate) prepare: Option<String>,
    #[command(flatten)]
    pub(crate) request: RequestFlags,
    /// CPUs of client and servers: split (separate), same (one for both) or free (not pinned)
    #[arg(long, default_value = "split", value_name = "LAYOUT", value_parser = parse_layout)]
    pub(crate) layout: Layout,
    /// Timeout for a server to become ready
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = Nanos::parse)]
    pub(crate) ready_timeout: Nanos,
    /// Source of the server-side count, as in 'tachograph compare'; repeatable
    #[arg(long, value_name = "WHERE")]
    pub(crate) served_by: Vec<String>,
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
        let mut load = self.request.load(false)?;
        load.connections_max = self.request.connections_max(true);
        let prepare = self.prepare.iter().flat_map(|text| vec![text.clone(); self.commands.len()]);
        Ok(CompareArgs {
            commands: self.commands.clone(),
            names: self.command_name.clone(),
            path: self.path.clone(),
            https: self.https,
            load,
            precision: Some(self.precision),
            margin: self.margin,
            max_time: Some(self.max_time),
            layout: self.layout,
            ready_timeout: Some(self.ready_timeout),
            prepare: prepare.collect(),
            ..CompareArgs::default()
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
