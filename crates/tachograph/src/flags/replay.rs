//! Flags of `replay`.

use std::path::PathBuf;

use base::Nanos;
use clap::Args;
use record::Pair;
use replay::{ComparisonRules, JsonPattern, LogSource, ReplayPlan};
use spec::{CompareArgs, HttpRequest, Load, TlsOptions};

use super::load::{TlsFlags, headers};
use super::shared::HookFlags;
use crate::failure::Failure;

pub(crate) const EXAMPLES: &str = "\
Exit status:
  0  all answers are the same
  1  some differ, or one server did not answer
  2  could not compare, or stopped before the end of the log

Examples:
  tachograph replay access.log './old --port $PORT' './new --port $PORT'
  tachograph replay --ignore '/items/*/updated_at' requests.jsonl http://127.0.0.1:8001/ http://127.0.0.1:8002/
  tachograph replay --speed 2x -c 50 access.log './old $PORT' './new $PORT'
  tachograph replay --on user@server access.log './old $HOST:$PORT' './new $HOST:$PORT'
  zcat access.log.1.gz | tachograph replay - './old $PORT' './new $PORT'";

/// Connections to each server, unless something else is said.
const CONNECTIONS: u32 = 10;

/// Flags of `replay`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReplayFlags {
    /// Access log, HAR or JSON lines, as for --request-file of `load`; - for standard input
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,
    /// Command that starts the server whose answers are right, or its URL
    #[arg(value_name = "OLD")]
    pub(crate) old: String,
    /// Command that starts the server to check, or its URL
    #[arg(value_name = "NEW")]
    pub(crate) new: String,
    /// Number of connections to each server; 1 keeps the order of the log [default: 10, or 1 with
    /// --unsafe-methods]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) connections: Option<u32>,
    /// Send requests at the log's own times, at this multiple of its speed: 1x, 2x, 50% [default: as
    /// fast as both servers answer]
    #[arg(long, value_name = "FACTOR", value_parser = parse_speed)]
    pub(crate) speed: Option<f64>,
    /// Also send requests with other methods than GET and HEAD, which may change data
    #[arg(long)]
    pub(crate) unsafe_methods: bool,
    /// HTTP header to send, e.g. 'Accept: text/html', or @FILE with one header a line; repeatable
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// Timeout of a request
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = Nanos::parse)]
    pub(crate) timeout: Nanos,
    /// Ignore this place in bodies of JSON: a JSON Pointer in which * is any name or index;
    /// repeatable
    #[arg(long, value_name = "POINTER", help_heading = "Comparison")]
    pub(crate) ignore: Vec<String>,
    /// Also compare this response header; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Comparison")]
    pub(crate) compare_header: Vec<String>,
    /// Don't compare this response header; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Comparison")]
    pub(crate) ignore_header: Vec<String>,
    /// The servers that are started speak HTTPS
    #[arg(long, help_heading = "HTTPS")]
    pub(crate) https: bool,
    #[command(flatten)]
    pub(crate) tls: TlsFlags,
    /// Start the servers on another machine, over ssh
    #[arg(long, value_name = "HOST")]
    pub(crate) on: Option<String>,
    /// Address at which this machine reaches them [default: the one that ssh uses]
    #[arg(long, value_name = "ADDRESS", requires = "on")]
    pub(crate) at: Option<String>,
    /// Timeout for a server to become ready
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = Nanos::parse)]
    pub(crate) ready_timeout: Nanos,
    #[command(flatten)]
    pub(crate) hooks: HookFlags,
    /// Print JSON instead of the report
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) export_json: Option<PathBuf>,
    /// Write the result as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) export_markdown: Option<PathBuf>,
}

fn is_url(server: &str) -> bool {
    server.starts_with("http://") || server.starts_with("https://")
}

/// A multiple of a speed: `2x`, `2` and `200%` are the same.
fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = match text.strip_suffix(['x', '×']) {
        Some(number) => base::parse_rate(number),
        None => base::parse_fraction(text),
    };
    match speed {
        Ok(speed) if speed > 0.0 && speed.is_finite() => Ok(speed),
        _ => Err("write a multiple such as 1x, 2x or 50%".to_owned()),
    }
}

impl ReplayFlags {
    /// What to replay.
    pub(crate) fn plan(&self) -> Result<ReplayPlan, Failure> {
        self.check_https()?;
        if let Some(machine) = self.on.as_ref().filter(|_| is_url(&self.old) && is_url(&self.new)) {
            return Err(Failure::new(format!(
                "both servers are running already, so none is started on {machine}; leave out --on"
            )));
        }
        let servers = Pair { old: self.server(&self.old)?, new: self.server(&self.new)? };
        let ignored = self.ignore.iter().map(|text| text.parse::<JsonPattern>());
        let ignored = ignored.collect::<Result<Vec<_>, _>>()?;
        let mut request = HttpRequest { headers: headers(&self.header)?, ..HttpRequest::default() };
        let is_given = |(name, _): &(String, String)| name.eq_ignore_ascii_case("accept-encoding");
        // What is compressed is compared byte by byte, and another version of a library compresses
        // differently.
        if !request.headers.iter().any(is_given) {
            request.headers.push(("Accept-Encoding".to_owned(), "identity".to_owned()));
        }
        let log = match self.log.as_os_str() == "-" {
            true => LogSource::Stdin,
            false => LogSource::File(self.log.clone()),
        };
        let connections = if self.unsafe_methods { 1 } else { CONNECTIONS };
        Ok(ReplayPlan {
            log,
            request,
            sends_unsafe: self.unsafe_methods,
            servers,
            connections: self.connections.unwrap_or(connections),
            speed: self.speed,
            timeout: self.timeout,
            comparison: ComparisonRules::new(&self.compare_header, &self.ignore_header, ignored),
            ignored: self.ignore.clone(),
        })
    }

    /// Fails if options of HTTPS have no meaning.
    fn check_https(&self) -> Result<(), Failure> {
        let servers = [&self.old, &self.new];
        if self.https && servers.iter().all(|server| is_url(server)) {
            return Err(Failure::new("--https is for commands; a URL has its own scheme"));
        }
        let none = servers.iter().all(|server| !self.is_https(server));
        if none && TlsOptions::from(&self.tls) != TlsOptions::default() {
            return Err(Failure::new(
                "the options of HTTPS have no meaning here; add --https if the servers speak it",
            ));
        }
        Ok(())
    }

    fn is_https(&self, server: &str) -> bool {
        if is_url(server) { server.starts_with("https://") } else { self.https }
    }

    fn server(&self, command: &str) -> Result<spec::Variant, Failure> {
        // One server may speak HTTPS and the other not.
        let tls = match self.is_https(command) {
            true => TlsOptions::from(&self.tls),
            false => TlsOptions::default(),
        };
        let args = CompareArgs {
            commands: vec![command.to_owned()],
            https: self.https && !is_url(command),
            load: Load { tls, ..Load::default() },
            ready_timeout: Some(self.ready_timeout),
            on: self.on.clone().filter(|_| !is_url(command)),
            address: self.at.clone().filter(|_| !is_url(command)),
            ..CompareArgs::default()
        };
        Ok(spec::replay_server(&args)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_multiple() {
        for (text, speed) in [("1x", 1.0), ("2", 2.0), ("200%", 2.0), ("0.5x", 0.5), ("1.5×", 1.5)]
        {
            assert_eq!(parse_speed(text), Ok(speed), "{text}");
        }
        for text in ["0x", "-1x", "", "x", "fast", "1/2", "inf"] {
            assert!(parse_speed(text).is_err(), "{text}");
        }
    }
}
