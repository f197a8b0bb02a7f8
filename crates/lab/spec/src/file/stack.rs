//! `[stack.NAME]` and the same keys of `[[variant]]`: processes, files, needs, target.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::reader::{Scope, SourceText, Table, Value, require_known, text};
use crate::error::SpecError;
use crate::plan::{FileTemplate, Process, ReadyCheck, ServedBy, Stack, StopSignal};
use crate::served_by::check_pattern;
use crate::target::{Endpoint, Target};

/// The keys that a stack and a variant share.
pub(super) const SHARED_KEYS: [&str; 9] =
    ["process", "container", "target", "served_by", "files", "needs", "python", "vars", "action"];

/// A stack with its target and its server-side count.
#[derive(Default)]
pub(super) struct ParsedStack<'a> {
    pub(super) stack: Stack,
    pub(super) target: Option<(String, Target, &'a Value<'a>)>,
    pub(super) served_by: Option<ServedBy>,
}

/// Merges the layers: processes are appended, files and needs of the same name are replaced, and
/// the last target and `served_by` apply.
pub(super) fn assemble<'a>(
    layers: &[Table<'a>],
    scope: &Scope,
) -> Result<ParsedStack<'a>, SpecError> {
    let mut assembled = ParsedStack::default();
    let mut files = BTreeMap::new();
    let mut needs = BTreeMap::new();
    for table in layers {
        for value in table.one_or_many("process") {
            assembled.stack.processes.push(process(table, value, scope)?);
        }
        for value in table.one_or_many("container") {
            let number = assembled.stack.processes.len() + 1;
            assembled.stack.processes.push(container(table, value, number, scope)?);
            assembled.stack.needs_engine = true;
        }
        for (key, value) in texts(table, "files", scope)? {
            files.insert(key, value);
        }
        for (key, value) in texts(table, "needs", scope)? {
            needs.insert(key, value);
        }
        for (requirement, _) in table.words("python")? {
            if !assembled.stack.python.contains(&requirement) {
                assembled.stack.python.push(requirement);
            }
        }
        if let Some(value) = table.get("target") {
            let (text, target) = target(table.source, value, "target", scope)?;
            assembled.target = Some((text, target, value));
        }
        if let Some(value) = table.get("served_by") {
            assembled.served_by = Some(served_by(table, value, scope)?);
        }
    }
    name_processes(&mut assembled.stack.processes);
    assembled.stack.files =
        files.into_iter().map(|(path, text)| FileTemplate { path, text }).collect();
    assembled.stack.needs = needs.into_iter().collect();
    Ok(assembled)
}

/// A table of arbitrary names, each with a text.
fn texts(table: &Table<'_>, key: &str, scope: &Scope) -> Result<Vec<(String, String)>, SpecError> {
    let Some(inner) = table.free_table(key)? else { return Ok(Vec::new()) };
    inner
        .entries()
        .map(|(name, span, value)| {
            let outside = name.starts_with('/') || name.split('/').any(|part| part == "..");
            if key == "files" && (outside || name.is_empty()) {
                let message = format!("the file '{name}' must be inside $DIR");
                return Err(table.source.error(span, message));
            }
            Ok((name.to_owned(), text(table.source, value, name, scope)?))
        })
        .collect()
}

/// Keys about starting and watching a process or a container.
const LIFE_KEYS: [&str; 8] =
    ["name", "command", "env", "ready", "ready_timeout", "stop_signal", "stop_timeout", "cpus"];

fn process<'a>(
    table: &Table<'a>,
    value: &'a Value<'a>,
    scope: &Scope,
) -> Result<Process, SpecError> {
    let title = format!("a process of {}", table.title);
    life(&Table::open(table.source, value, title, &LIFE_KEYS)?, None, scope)
}

/// The keys that a process and a container share; `healthy` is the file that signals that the
/// engine considers the container healthy.
fn life<'a>(entry: &Table<'a>, healthy: Option<&str>, scope: &Scope) -> Result<Process, SpecError> {
    let source = entry.source;
    let command = entry
        .text("command", scope)?
        .filter(|command| !command.trim().is_empty())
        .ok_or_else(|| entry.error(format!("{} has no command", entry.title)))?;
    let default = Process::default();
    let env = texts(entry, "env", scope)?.into_iter().collect();
    let ready = entry
        .one_or_many("ready")
        .into_iter()
        .map(|value| ready(source, value, healthy, scope))
        .collect::<Result<_, _>>()?;
    let signals =
        [("TERM", StopSignal::Term), ("INT", StopSignal::Int), ("QUIT", StopSignal::Quit)];
    let places = [("stack", false), ("client", true)];
    Ok(Process {
        name: entry.text("name", scope)?.unwrap_or_default(),
        command,
        env,
        ready,
        ready_timeout: entry.time("ready_timeout", scope)?.unwrap_or(default.ready_timeout),
        stop_signal: entry.choice("stop_signal", &signals, scope)?.unwrap_or_default(),
        stop_timeout: entry.time("stop_timeout", scope)?.unwrap_or(default.stop_timeout),
        beside_client: entry.choice("cpus", &places, scope)?.unwrap_or(default.beside_client),
    })
}

/// Ready timeout of a container whose image may have to be pulled or built first.
const IMAGE_READY_TIMEOUT: base::Nanos = base::Nanos::from_secs(600);

/// A container is managed by a process, `tachograph container`, whose arguments come from the
/// table. `number` is that of the process among those of the stack.
fn container<'a>(
    table: &Table<'a>,
    value: &'a Value<'a>,
    number: usize,
    scope: &Scope,
) -> Result<Process, SpecError> {
    const KEYS: [&str; 8] =
        ["image", "build", "health", "network", "publish", "volumes", "read_only", "security_opt"];
    let source = table.source;
    let keys = [&LIFE_KEYS[..], &KEYS].concat();
    let entry = Table::open(source, value, format!("a container of {}", table.title), &keys)?;
    let mut words = vec!["$TACHOGRAPH container".to_owned()];
    let mut option = |name: &str, value: &str| {
        words.push(format!("--{name} {}", shell_words::quote(value)));
    };
    let networks = ["bridge", "host", "none", "own"].map(|name| (name, name));
    match entry.choice("network", &networks, scope)? {
        Some("own") => option("network", "own=$ADDRESS,$GATEWAY"),
        network => option("network", network.unwrap_or("bridge")),
    }
    let build = entry.text("build", scope)?;
    let image = entry.text("image", scope)?;
    let is_host = match (image.as_deref(), &build) {
        (Some("dockerfile"), None) => {
            let message = "image 'dockerfile' needs build, the path of the Dockerfile";
            return Err(entry.error(message).help("such as build = \"$FILES/app/Dockerfile\""));
        }
        (Some("dockerfile") | None, Some(file)) => {
            option("build", file);
            false
        }
        (Some("host"), _) | (None, None) => true,
        (Some(image), _) => {
            option("image", image);
            false
        }
    };
    let lists = [
        ("publish", "publish"),
        ("volumes", "volume"),
        ("read_only", "read-only"),
        ("security_opt", "security-opt"),
    ];
    for (key, name) in lists {
        for value in entry.one_or_many(key) {
            option(name, &text(source, value, key, scope)?);
        }
    }
    if let Some(health) = entry.text("health", scope)? {
        option("health", &health);
    }
    let healthy = format!("$DIR/healthy-{number}");
    let mut process = life(&entry, Some(&healthy), scope)?;
    if process.name.is_empty() {
        process.name = crate::names::program_of(&process.command);
    }
    if !is_host && entry.get("ready_timeout").is_none() {
        process.ready_timeout = IMAGE_READY_TIMEOUT;
    }
    for name in process.env.keys() {
        option("env", name);
    }
    if process.ready.contains(&ReadyCheck::File(healthy.clone())) {
        option("healthy-file", &healthy);
    }
    // A server may answer before the engine has said which its processes are, and the profiler asks
    // for these once, when the stack is ready. The last check, because errors name the first that fails.
    let adopted = format!("$DIR/adopted-{number}");
    option("adopted-file", &adopted);
    process.ready.push(ReadyCheck::Adopted(adopted));
    process.command = format!("{} -- {}", words.join(" "), process.command);
    Ok(process)
}

/// Names unnamed processes after their program, with numbers if that is not unique.
fn name_processes(processes: &mut [Process]) {
    for i in 0..processes.len() {
        if processes[i].name.is_empty() {
            processes[i].name = crate::names::program_of(&processes[i].command);
        }
        let name = processes[i].name.clone();
        let alike = processes[..i].iter().filter(|process| process.name == name).count();
        if alike > 0 {
            processes[i].name = format!("{name}-{}", alike + 1);
        }
    }
}

/// A readiness check: a URL that responds, an address that accepts connections (`127.0.0.1:$PORT`,
/// `unix:$SOCKET`), a `file:PATH` that exists, or `healthy` for a container.
fn ready(
    source: SourceText<'_>,
    value: &Value<'_>,
    healthy: Option<&str>,
    scope: &Scope,
) -> Result<ReadyCheck, SpecError> {
    let written = text(source, value, "ready", scope)?;
    require_known(source, value, &written)?;
    if written == "healthy" {
        return healthy.map(|file| ReadyCheck::File(file.to_owned())).ok_or_else(|| {
            let message = "only a container has a health check";
            source.error(value.span(), message).help("wait for an address or a file instead")
        });
    }
    if let Some(path) = written.strip_prefix("file:") {
        return Ok(ReadyCheck::File(path.to_owned()));
    }
    if written.contains("://") && !written.starts_with("tcp://") {
        return Ok(ReadyCheck::Http(target(source, value, "ready", scope)?.0));
    }
    // An address without a scheme only has to accept connections: a request to the application
    // would be counted by it.
    let address = written.trim_start_matches("tcp://");
    let raw = if address.starts_with("unix") { address } else { &format!("tcp://{address}") };
    match Target::parse_with_placeholders(raw) {
        Ok(Target::Raw(Endpoint::Tcp { .. })) => Ok(ReadyCheck::Port(address.to_owned())),
        Ok(Target::Raw(Endpoint::Unix(_) | Endpoint::Abstract(_))) => {
            Ok(ReadyCheck::Socket(address.trim_start_matches("unix:").to_owned()))
        }
        Ok(_) => Err(source
            .error(value.span(), "readiness of this kind of socket cannot be checked")
            .help("wait for its path instead: ready = \"file:$SOCKET\"")),
        Err(why) => Err(source
            .error(value.span(), format!("ready '{written}' cannot be checked: {why}"))
            .help("write 127.0.0.1:$PORT, unix:$SOCKET, http://… or file:$DIR/…")),
    }
}

/// A target as written, and as it will be once the runner expands its variables.
fn target(
    source: SourceText<'_>,
    value: &Value<'_>,
    key: &str,
    scope: &Scope,
) -> Result<(String, Target), SpecError> {
    let written = text(source, value, key, scope)?;
    require_known(source, value, &written)?;
    match Target::parse_with_placeholders(&written) {
        Ok(target) => Ok((written, target)),
        Err(why) => {
            Err(source.error(value.span(), format!("{key} '{written}' is not a target: {why}")))
        }
    }
}

const SERVED_BY_KEYS: [&str; 9] = [
    "stub_status",
    "url",
    "log",
    "file_size",
    "counter_file",
    "pattern",
    "self_counting",
    "discarded",
    "per_request",
];

fn served_by<'a>(
    table: &Table<'a>,
    value: &'a Value<'a>,
    scope: &Scope,
) -> Result<ServedBy, SpecError> {
    let source = table.source;
    if let DeValue::String(word) = value.get_ref() {
        return match word.as_ref() {
            "wsgi" => Ok(ServedBy::Wsgi),
            _ => Err(source.error(value.span(), format!("served_by cannot be '{word}'")).help(
                "write \"wsgi\" for the WSGI counter, or { stub_status = \"http://…\" }, \
                 { url = \"http://…\", pattern = \"…\" }, { log = \"…\" }, { file_size = \"…\" } \
                 or { counter_file = \"…\" }",
            )),
        };
    }
    let entry = Table::open(source, value, "served_by", &SERVED_BY_KEYS)?;
    let mut found: Vec<(&str, &'a Value<'a>)> = SERVED_BY_KEYS[..5]
        .iter()
        .filter_map(|key| entry.get(key).map(|value| (*key, value)))
        .collect();
    let (Some((key, place)), true) = (found.pop(), found.is_empty()) else {
        let keys = SERVED_BY_KEYS[..5].join(", ");
        return Err(entry.error(format!("served_by needs exactly one of: {keys}")));
    };
    let pattern = pattern(&entry, key)?;
    for of_url in ["self_counting", "discarded"] {
        if entry.get(of_url).is_some() && key != "url" {
            return Err(entry.error(format!("{of_url} belongs to url")));
        }
    }
    if entry.get("per_request").is_some() && !["url", "counter_file"].contains(&key) {
        return Err(entry.error("per_request belongs to url or counter_file"));
    }
    let written = text(source, place, key, scope)?;
    require_known(source, place, &written)?;
    Ok(match key {
        "stub_status" => ServedBy::StubStatus(target(source, place, key, scope)?.0),
        "url" => ServedBy::Http {
            target: target(source, place, key, scope)?.0,
            pattern: pattern.unwrap_or_default(),
            self_counting: entry.flag("self_counting")?.unwrap_or(false),
            discarded: discarded(&entry)?,
            per_request: per_request(&entry, scope)?,
        },
        "log" => ServedBy::LogLines { path: written, pattern },
        "file_size" => ServedBy::FileSize(written),
        _ => ServedBy::CounterFile { path: written, per_request: per_request(&entry, scope)? },
    })
}

/// The regular expression of the messages that the server's kernel has discarded.
fn discarded(entry: &Table<'_>) -> Result<Option<String>, SpecError> {
    let Some(value) = entry.get("discarded") else { return Ok(None) };
    let pattern = super::reader::plain(entry.source, value, "discarded")?;
    match check_pattern(&pattern, true) {
        Ok(()) => Ok(Some(pattern)),
        Err(why) => Err(entry.source.error(value.span(), why)),
    }
}

/// How much a request adds to the count.
fn per_request(entry: &Table<'_>, scope: &Scope) -> Result<u32, SpecError> {
    match (entry.number("per_request", scope)?, entry.get("per_request")) {
        (Some(0), Some(value)) => {
            Err(entry.source.error(value.span(), "per_request must be at least 1"))
        }
        (number, _) => Ok(number.unwrap_or(1)),
    }
}

/// The regular expression: required for a URL, with one group around the number; optional for a
/// log.
fn pattern(entry: &Table<'_>, key: &str) -> Result<Option<String>, SpecError> {
    let Some(value) = entry.get("pattern") else {
        if key == "url" {
            return Err(entry.error(
                "url needs a pattern with one group around the number, such as pattern = 'served (\\d+)'",
            ));
        }
        return Ok(None);
    };
    let source = entry.source;
    let pattern = super::reader::plain(source, value, "pattern")?;
    if key != "url" && key != "log" {
        return Err(source.error(value.span(), "pattern belongs to url or log"));
    }
    match check_pattern(&pattern, key == "url") {
        Ok(()) => Ok(Some(pattern)),
        Err(why) => Err(source.error(value.span(), why)),
    }
}
