//! `tachograph compare CMD CMD…`: from commands to a plan.

use std::path::PathBuf;

use base::Nanos;

use crate::error::SpecError;
use crate::far;
use crate::load::{Arrivals, Load, TlsOptions};
use crate::names::default_names;
use crate::plan::{
    Contrast, Layout, Margin, Metric, Offer, Part, Plan, Process, ReadyCheck, Schedule, ServedBy,
    Stack, Variant,
};
use crate::target::Target;
use crate::variables;

/// Arguments of `tachograph compare`. Everything except the commands has a default.
#[derive(Clone, Debug, Default)]
pub struct CompareArgs {
    /// The commands, as typed; the first is the baseline.
    pub commands: Vec<String>,
    /// Names for the first commands; the others get default names.
    pub names: Vec<String>,
    /// Path and query of the request; `/` if empty.
    pub path: String,
    /// Whether the commands' servers speak HTTPS.
    pub https: bool,
    /// The load on every command's server.
    pub load: Load,
    /// Target half-width, as a fraction; 1% if `None`.
    pub precision: Option<f64>,
    /// The declared margin of equivalence, as a fraction.
    pub margin: Option<f64>,
    /// Use the shorter schedule.
    pub quick: bool,
    /// Load one variant at a time.
    pub isolated: bool,
    /// Draw what chance decides about a start for each variant of a block.
    pub independent_starts: bool,
    /// Sample where the servers' CPU time goes.
    pub why: bool,
    /// Limit on the total time.
    pub max_time: Option<Nanos>,
    /// Limit on the number of blocks.
    pub max_blocks: Option<u32>,
    /// Sources of the server-side counts: one for all, or one per command.
    pub served_by: Vec<ServedBy>,
    /// CPUs of client and stacks.
    pub layout: Layout,
    /// Loads in each block; if empty, closed and then open at 50%.
    pub offers: Vec<Offer>,
    /// The primary metric.
    pub primary: Metric,
    /// Number of secondary metrics that decide as well; see [`Part::deciding_secondaries`].
    pub deciding_secondaries: u32,
    /// Working directories: none, or one per command.
    pub working_dirs: Vec<PathBuf>,
    /// How long a server may take to be ready; 30 s if `None`.
    pub ready_timeout: Option<Nanos>,
    /// Shell command to run before each start: none, or one per command.
    pub prepare: Vec<String>,
    /// The machine on which the servers run; `None` for this one.
    pub on: Option<String>,
    /// The machines that load them; none means this one.
    pub from: Vec<String>,
    /// The address at which the clients reach the servers' machine.
    pub address: Option<String>,
}

/// Turns commands into a plan, as hyperfine does: each is one server.
///
/// A command that names `$SOCKET` is reached through that Unix socket, any other through
/// `127.0.0.1:$PORT`. URLs instead of commands are servers that are already running.
///
/// # Errors
/// Fewer than two commands, an empty command, variables that the calling shell has already replaced
/// with nothing, too many or duplicate names, an unusable path or schedule.
pub fn compare_plan(args: &CompareArgs) -> Result<Plan, SpecError> {
    plan_of(args, 2, "compare")
}

/// Turns the only command of these arguments, or its URL, into a server to which the requests of a log
/// are sent.
///
/// # Errors
/// Those of a comparison, and a URL with a path.
pub fn replay_server(args: &CompareArgs) -> Result<Variant, SpecError> {
    let mut plan = plan_of(args, 1, "replay")?;
    let variant = plan.parts.pop().and_then(|mut part| part.variants.pop());
    let variant = variant.ok_or_else(|| SpecError::new("a replay needs two servers"))?;
    let is_running = variant.stack.processes.is_empty();
    match Target::parse(&variant.target) {
        Ok(Target::Http { path, .. }) if is_running && path != "/" => Err(SpecError::new(
            "the requests of a log have paths of their own; leave out the URL's",
        )),
        _ => Ok(variant),
    }
}

/// A plan of this name for at least `fewest` commands.
pub(crate) fn plan_of(args: &CompareArgs, fewest: usize, name: &str) -> Result<Plan, SpecError> {
    check_commands(&args.commands, fewest)?;
    let external = are_urls(args)?;
    check_tls(args, external)?;
    let names = names(args)?;
    let path = check_path(&args.path)?;
    if args.load.grpc.is_some() && path != "/" {
        return Err(SpecError::new("a call by gRPC has no path; leave out --path"));
    }
    if !args.load.kinds.is_empty() && path != "/" {
        return Err(SpecError::new(
            "the requests in a file have paths of their own; leave out --path",
        ));
    }
    let variant = if external { external_variant } else { variant };
    let variants = args
        .commands
        .iter()
        .zip(&names)
        .enumerate()
        .map(|(i, (command, name))| variant(args, i, command, name, &path))
        .collect::<Result<Vec<_>, _>>()?;
    let contrasts = (1..variants.len()).map(|variant| Contrast { baseline: 0, variant }).collect();
    let question = format!("Which is faster: {}?", names.join(" or "));
    let part = Part {
        name: name.to_owned(),
        question: question.clone(),
        variants,
        offers: if args.offers.is_empty() { default_offers() } else { args.offers.clone() },
        contrasts,
        primary: args.primary,
        deciding_secondaries: args.deciding_secondaries,
        // Servers that are already running keep their CPUs.
        layout: if external { Layout::Free } else { args.layout },
        schedule: schedule(args)?,
        published: Vec::new(),
        changes: Vec::new(),
        from: args.from.clone(),
        capacity: None,
    };
    check_machines(args, &part)?;
    Ok(Plan {
        name: name.to_owned(),
        title: names.join(" vs "),
        question,
        about: String::new(),
        python: Vec::new(),
        interpreter: None,
        files: None,
        parts: vec![part],
        source: args.commands.join("\n"),
    })
}

/// Checks that the servers can run on their machines, and be loaded from those of the clients.
fn check_machines(args: &CompareArgs, part: &Part) -> Result<(), SpecError> {
    far::check(part).map_err(|refusal| SpecError::new(refusal.message).help(refusal.help))?;
    if args.on.is_none() && args.from.is_empty() && args.address.is_some() {
        return Err(SpecError::new("--at is the address of a server on another machine")
            .help("add --on or --from"));
    }
    let loopback = |command: &&String| {
        let listens = ["127.0.0.1:$PORT", "127.0.0.1:${PORT}", "localhost:$PORT", "[::1]:$PORT"];
        listens.iter().any(|address| command.contains(address))
    };
    match args.commands.iter().find(loopback) {
        Some(command) if part.variants.iter().any(|variant| variant.is_apart(&args.from)) => {
            Err(SpecError::new(format!(
                "the command '{}' listens on a loopback address, which other machines cannot \
                 reach",
                base::redact(command)
            ))
            .help("write $HOST instead, the address at which the clients reach the server"))
        }
        _ => Ok(()),
    }
}

/// Checks that options of HTTPS have a meaning.
fn check_tls(args: &CompareArgs, external: bool) -> Result<(), SpecError> {
    let is_https = args.https
        || external
            && args.commands.iter().any(|url| url.to_ascii_lowercase().starts_with("https"));
    if is_https || args.load.tls == TlsOptions::default() {
        return Ok(());
    }
    Err(SpecError::new("the options of HTTPS have no meaning here")
        .help("add --https if the servers speak it"))
}

/// Whether the arguments are URLs of servers that are already running.
fn are_urls(args: &CompareArgs) -> Result<bool, SpecError> {
    let is_url = |command: &&String| {
        let scheme = command.split_once("://").map(|(scheme, _)| scheme);
        matches!(scheme, Some("http" | "https"))
    };
    match args.commands.iter().filter(is_url).count() {
        0 => return Ok(false),
        urls if urls < args.commands.len() => {
            return Err(SpecError::new(
                "servers that already run cannot be compared with servers that are started",
            )
            .help("give URLs only, or a command for each"));
        }
        _ => {}
    }
    if !matches!(args.path.as_str(), "" | "/") {
        return Err(SpecError::new("--path is for commands; a URL has its own path"));
    }
    if args.https {
        return Err(SpecError::new("--https is for commands; a URL has its own scheme"));
    }
    if !args.prepare.is_empty() {
        return Err(SpecError::new(
            "--prepare runs before a server starts, and a URL is not started",
        ));
    }
    if args.layout == Layout::Same {
        return Err(SpecError::new(
            "servers that already run cannot be pinned to the client's CPU; leave out --layout",
        ));
    }
    let counters = &args.served_by;
    if (1..counters.len()).any(|i| counters[..i].contains(&counters[i]))
        || counters.len() == 1 && args.commands.len() > 1
    {
        return Err(SpecError::new(
            "a server-side count that several URLs share cannot tell their requests apart",
        )
        .help("give one --served-by for each URL, in their order"));
    }
    Ok(true)
}

/// Closed for capacity, then open at half of the slowest variant's capacity for latency.
pub(crate) fn default_offers() -> Vec<Offer> {
    vec![Offer::Closed, Offer::OpenShare { share: 0.5, arrivals: Arrivals::Poisson }]
}

fn check_commands(commands: &[String], fewest: usize) -> Result<(), SpecError> {
    if commands.is_empty() && fewest == 1 {
        return Err(SpecError::new("capacity needs at least one command")
            .help("tachograph capacity './server --port $PORT' --p99 50ms"));
    }
    if commands.len() < fewest {
        return Err(SpecError::new("compare needs at least two commands").help(
            "give each server's command in single quotes, e.g. \
             tachograph compare './old --port $PORT' './new --port $PORT'; \
             to load one running server: tachograph load URL",
        ));
    }
    for command in commands {
        if command.trim().is_empty() {
            return Err(SpecError::new("a command is empty").help(SINGLE_QUOTES));
        }
        if command.contains('\0') {
            return Err(SpecError::new("a command contains a NUL character"));
        }
        if replaced_by_the_shell(command) {
            return Err(SpecError::new(format!(
                "the command '{}' contains an address without $PORT or $SOCKET",
                base::redact(command)
            ))
            .help(SINGLE_QUOTES));
        }
        if let Some(option) = option_without_place(command) {
            return Err(SpecError::new(format!(
                "the command '{}' gives {option} no value",
                base::redact(command)
            ))
            .help(SINGLE_QUOTES));
        }
    }
    Ok(())
}

const SINGLE_QUOTES: &str = "put each command in single quotes to keep your shell from expanding \
    $PORT and $SOCKET";

/// Options that take the port or the address to listen on.
const PLACES: [&str; 12] = [
    "--port",
    "--http-port",
    "--listen",
    "--bind",
    "--addr",
    "--address",
    "--http",
    "--socket",
    "--unix-socket",
    "--uds",
    "-p",
    "-b",
];

/// The option whose value is missing, which is what remains of `--port $PORT` after a shell replaces
/// `$PORT` inside double quotes.
fn option_without_place(command: &str) -> Option<&str> {
    if variables::names_place(command) {
        return None;
    }
    PLACES.into_iter().find_map(|option| {
        let (at, _) = command.match_indices(option).find(|(at, _)| {
            let (before, after) = (&command[..*at], &command[at + option.len()..]);
            let starts = before.is_empty() || before.ends_with(char::is_whitespace);
            // The shell leaves the blanks on both sides of the value, or `--port=`.
            let blanks = after.len() - after.trim_start().len();
            let is_last = after.trim_start().is_empty();
            let is_empty = blanks > 1 || blanks == 1 && is_last || is_last && option.len() > 2;
            let equals = after.strip_prefix('=');
            starts
                && (is_empty
                    || equals.is_some_and(|v| v.is_empty() || v.starts_with(char::is_whitespace)))
        })?;
        command[at..].split_whitespace().next()
    })
}

/// Whether an address ends where its port or path should begin, which is what remains after a shell
/// replaces `$PORT` or `$SOCKET` inside double quotes.
fn replaced_by_the_shell(command: &str) -> bool {
    command.split_whitespace().any(|word| {
        let word = word.trim_matches(['"', '\'']);
        ["127.0.0.1:", "0.0.0.0:", "localhost:", "[::1]:", "[::]:", "unix:", "unix://"]
            .iter()
            .any(|end| word.ends_with(end))
            || word.starts_with('-') && word.ends_with("=:")
    })
}

fn names(args: &CompareArgs) -> Result<Vec<String>, SpecError> {
    if args.names.len() > args.commands.len() {
        return Err(SpecError::new(format!(
            "there are {} names for {} commands",
            args.names.len(),
            args.commands.len()
        )));
    }
    // Names are shown and recorded, so they are made without the commands' secrets.
    let shown: Vec<String> = args.commands.iter().map(|command| base::redact(command)).collect();
    let mut names = default_names(&shown);
    for (name, given) in names.iter_mut().zip(&args.names) {
        *name = base::redact(given.trim());
    }
    for (i, name) in names.iter().enumerate() {
        if name.is_empty() {
            return Err(SpecError::new("a name is empty"));
        }
        if names[..i].contains(name) {
            return Err(SpecError::new(format!("two variants are named '{name}'"))
                .help("give each its own with -n NAME, in the order of the commands"));
        }
    }
    Ok(names)
}

fn check_path(path: &str) -> Result<String, SpecError> {
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    match Target::parse(&format!("http://127.0.0.1:1{path}")) {
        Ok(_) => Ok(path),
        Err(error) => Err(SpecError::new(format!("--path '{path}': {}", error.why))),
    }
}

fn variant(
    args: &CompareArgs,
    index: usize,
    command: &str,
    name: &str,
    path: &str,
) -> Result<Variant, SpecError> {
    let over_unix = variables::names(command, "SOCKET");
    let scheme = if args.https { "https" } else { "http" };
    let (target, ready) = if over_unix {
        (format!("{scheme}://unix:$SOCKET:{path}"), ReadyCheck::Socket("$SOCKET".to_owned()))
    } else if args.on.is_some() || !args.from.is_empty() {
        (format!("{scheme}://$HOST:$PORT{path}"), ReadyCheck::Port("$HOST:$PORT".to_owned()))
    } else {
        (format!("{scheme}://127.0.0.1:$PORT{path}"), ReadyCheck::Port("$PORT".to_owned()))
    };
    let served_by = served_by(args, index)?;
    let process = Process {
        name: "server".to_owned(),
        command: command.to_owned(),
        ready: vec![ready],
        ready_timeout: args.ready_timeout.unwrap_or(Process::default().ready_timeout),
        ..Process::default()
    };
    Ok(Variant {
        name: name.to_owned(),
        at: Vec::new(),
        stack: Stack {
            processes: vec![process],
            prepare: args.prepare.get(index).cloned(),
            working_dir: args.working_dirs.get(index).cloned(),
            ..Stack::default()
        },
        on: args.on.clone(),
        address: args.address.clone(),
        target,
        load: args.load.clone(),
        served_by,
        actions: Vec::new(),
        ceiling: false,
    })
}

/// A server that is already running, by its URL: a stack without processes.
fn external_variant(
    args: &CompareArgs,
    index: usize,
    url: &str,
    name: &str,
    _path: &str,
) -> Result<Variant, SpecError> {
    let target = Target::parse(url).map_err(|error| SpecError::new(error.to_string()))?;
    let has_path = !matches!(&target, Target::Http { path, .. } if path == "/");
    if has_path && args.load.grpc.is_some() {
        return Err(SpecError::new("a call by gRPC has no path; leave out the URL's"));
    }
    if has_path && !args.load.kinds.is_empty() {
        return Err(SpecError::new(
            "the requests in a file have paths of their own; leave out the URL's",
        ));
    }
    Ok(Variant {
        name: name.to_owned(),
        at: Vec::new(),
        stack: Stack::default(),
        on: args.on.clone(),
        address: None,
        target: target.to_string(),
        load: args.load.clone(),
        served_by: served_by(args, index)?,
        actions: Vec::new(),
        ceiling: false,
    })
}

fn served_by(args: &CompareArgs, index: usize) -> Result<Option<ServedBy>, SpecError> {
    match args.served_by.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        several if several.len() == args.commands.len() => Ok(Some(several[index].clone())),
        several => Err(SpecError::new(format!(
            "there are {} --served-by for {} commands",
            several.len(),
            args.commands.len()
        ))
        .help("give one for all commands, or one for each in their order")),
    }
}

fn schedule(args: &CompareArgs) -> Result<Schedule, SpecError> {
    let mut schedule = Schedule {
        isolated: args.isolated,
        independent_starts: args.independent_starts,
        why: args.why,
        ..Schedule::default()
    };
    if args.quick {
        schedule = schedule.quickened();
    }
    schedule.precision = args.precision.unwrap_or(schedule.precision);
    schedule.margin = args.margin.map(Margin);
    schedule.max_time = args.max_time;
    if let Some(max_blocks) = args.max_blocks {
        schedule.max_blocks = max_blocks;
        schedule.pilot_blocks = schedule.pilot_blocks.min(max_blocks);
    }
    schedule.check().map_err(SpecError::new)?;
    Ok(schedule)
}

#[cfg(test)]
mod tests;
