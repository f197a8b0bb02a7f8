//! From a stack in an experiment to processes that are ready.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base::{CpuSet, Nanos};
use rand::Rng as _;
use rustix::process::Signal;
use spec::{Endpoint, Process, Stack, StopSignal};

use crate::address_in_use::taken;
use crate::allocation::{Allocation, allocate, stack_id};
use crate::command::{self, Invocation};
use crate::error::StageError;
use crate::http;
use crate::protocol::Launch;
use crate::ready::{Check, SOCKET_PATH_BYTES_MAX};
use crate::run_folder::RunFolder;
use crate::sharing::share;
use crate::stack::{LiveStack, StackProcess, Surroundings};
use crate::start_options::StartOptions;
use crate::vars::Variables;

/// Python's variable for the seed of its hashes.
const HASH_SEED: &str = "PYTHONHASHSEED";

/// The pause between two readiness checks grows from the first value to the second.
const LOOK_MIN: Duration = Duration::from_millis(2);
const LOOK_MAX: Duration = Duration::from_millis(50);

/// How long a stack that was told its port only by the environment may listen on other ports alone.
/// Some servers open a port for their metrics first.
const ASTRAY_MAX: Duration = Duration::from_secs(1);

/// A process of the stack, ready to start.
struct PlannedProcess {
    launch: Launch,
    command: String,
    checks: Vec<Check>,
    ready_timeout: Nanos,
}

pub(crate) fn start(
    run: &Arc<RunFolder>,
    stack: &Stack,
    options: StartOptions,
) -> Result<LiveStack, StageError> {
    let mut rng = options.seed.rng("stack");
    let allocation = allocate(run, options.draws.folder_letters, &mut rng)?;
    let vars = variables(&allocation, &options, &mut rng);
    check_needs(stack, &options)?;
    let plans = stack
        .processes
        .iter()
        .enumerate()
        .map(|(index, process)| plan(index, process, stack, &vars, &options, &allocation.dir))
        .collect::<Result<Vec<_>, _>>()?;
    for plan in &plans {
        check_places(plan)?;
    }
    for folder in [Some(&allocation.dir), options.keep_files.as_ref()].into_iter().flatten() {
        write_files(stack, &vars, folder)?;
    }
    if rustix::process::getuid().is_root() {
        share_files(stack, &allocation.dir)?;
    }
    let id = stack_id(run, &mut rng);
    let surroundings = Surroundings {
        env: environment(&vars, &options, BTreeMap::new()),
        working_dir: options.working_dir.clone(),
    };
    let mut live = LiveStack::guarded(allocation, id, vars, surroundings, &options)?;
    for plan in plans {
        let (command, name) = (plan.command, plan.launch.name.clone());
        let index =
            live.launch(StackProcess::new(name, command, plan.launch.log.clone()), plan.launch)?;
        let told = stack.names_place();
        wait_ready(&live, index, &plan.checks, plan.ready_timeout, told, &options.stop)?;
    }
    live.remember()?;
    live.check_started()?;
    Ok(live)
}

fn variables(allocation: &Allocation, options: &StartOptions, rng: &mut base::Rng) -> Variables {
    let mut vars = Variables::default();
    let text = |path: &Path| path.to_string_lossy().into_owned();
    for (index, port) in allocation.ports.iter().enumerate() {
        let suffix = if index == 0 { String::new() } else { (index + 1).to_string() };
        vars.set(format!("PORT{suffix}"), port.to_string());
        let socket = allocation.dir.join(format!("{}.sock", index + 1));
        vars.set(format!("SOCKET{suffix}"), text(&socket));
    }
    // A network of 256 addresses that is unlikely to be in use (RFC 1918, 10.0.0.0/8). Its length
    // does not depend on chance.
    let network = format!("10.{}.{}", 200 + rng.next_u64() % 50, 100 + rng.next_u64() % 156);
    vars.set("GATEWAY", format!("{network}.1"));
    vars.set("ADDRESS", format!("{network}.2"));
    vars.set("HOST", &options.host);
    vars.set("DIR", text(&allocation.dir));
    vars.set("COUNTERS", text(&allocation.dir.join("counters")));
    vars.set("TACHOGRAPH", text(&allocation.run.executable));
    let cpus = match options.cpus.is_empty() {
        true => thread::available_parallelism().map_or(1, usize::from),
        false => options.cpus.iter().count(),
    };
    vars.set("CPUS", cpus.to_string());
    if let Some(files) = &options.files {
        vars.set("FILES", text(files));
    }
    for (name, value) in &options.extra_vars {
        vars.set(name, value);
    }
    vars
}

/// The `PATH` of the processes, including folders of servers that the user's own may lack.
fn search_path(options: &StartOptions, inherited: Option<&str>) -> String {
    let inherited = match inherited {
        Some(path) => path.to_owned(),
        None => env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned()),
    };
    let front = options.path_prepend.iter().map(|dir| dir.to_string_lossy().into_owned());
    command::with_server_folders(&front.chain([inherited]).collect::<Vec<_>>().join(":"))
}

fn check_needs(stack: &Stack, options: &StartOptions) -> Result<(), StageError> {
    let path = search_path(options, None);
    for (program, install) in &stack.needs {
        // A path can name any file, such as a server module.
        let is_there = match program.starts_with('/') {
            true => Path::new(program).exists(),
            false => command::find(program, &path, options.working_dir.as_deref()).is_some(),
        };
        if !is_there {
            return Err(StageError::NotFound {
                process: options.name.clone(),
                program: program.clone(),
                install: Some(install.clone()).filter(|how| !how.is_empty()),
            });
        }
    }
    Ok(())
}

fn plan(
    index: usize,
    process: &Process,
    stack: &Stack,
    vars: &Variables,
    options: &StartOptions,
    dir: &Path,
) -> Result<PlannedProcess, StageError> {
    let name = process.name.clone();
    let invocation = Invocation::parse(&process.command, vars).map_err(|why| {
        StageError::BadCommand { process: name.clone(), command: process.command.clone(), why }
    })?;
    let own: BTreeMap<String, String> =
        process.env.iter().map(|(key, value)| (key.clone(), vars.expand(value))).collect();
    let path = search_path(options, own.get("PATH").map(String::as_str));
    find_program(&invocation, &name, stack, &path, options)?;
    let checks = process
        .ready
        .iter()
        .map(|ready| Check::parse(ready, vars))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|why| StageError::BadCheck { process: name.clone(), why })?;
    let signal = match process.stop_signal {
        StopSignal::Term => Signal::TERM,
        StopSignal::Int => Signal::INT,
        StopSignal::Quit => Signal::QUIT,
    };
    let launch = Launch {
        log: dir.join("log").join(format!("{}-{}.log", index + 1, file_name(&name))),
        name,
        argv: invocation.argv,
        env: environment(vars, options, own),
        working_dir: options.working_dir.clone(),
        stop_signal: signal.as_raw(),
        stop_timeout_ms: process.stop_timeout.0 / 1_000_000,
        cpus: match process.beside_client {
            true => options.client_cpus.clone(),
            false => CpuSet::default(),
        },
        signal_group: invocation.shell_stays,
    };
    let command = vars.expand(&process.command);
    Ok(PlannedProcess { launch, command, checks, ready_timeout: process.ready_timeout })
}

/// The environment of a process, in addition to what it inherits: the variables, padding, and its
/// `own`.
fn environment(
    vars: &Variables,
    options: &StartOptions,
    own: BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let path = search_path(options, own.get("PATH").map(String::as_str));
    // Many programs read HOST for purposes of their own: it is set only where it is needed.
    let is_needed = |(key, value): &(&str, &str)| (*key, *value) != ("HOST", spec::LOOPBACK);
    let mut env: Vec<(String, String)> = vars
        .iter()
        .filter(is_needed)
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let padding = "x".repeat(options.draws.env_padding_bytes as usize);
    env.push(("TACHOGRAPH_PADDING".to_owned(), padding));
    if env::var_os(HASH_SEED).is_none() {
        env.push((HASH_SEED.to_owned(), options.draws.hash_seed.to_string()));
    }
    env.extend(own);
    env.push(("PATH".to_owned(), path));
    env
}

fn file_name(name: &str) -> String {
    name.chars().take(40).map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn find_program(
    invocation: &Invocation,
    process: &str,
    stack: &Stack,
    path: &str,
    options: &StartOptions,
) -> Result<(), StageError> {
    let Some(program) = &invocation.program else { return Ok(()) };
    if command::find(program, path, options.working_dir.as_deref()).is_some() {
        return Ok(());
    }
    let declared = stack.needs.iter().find(|(name, _)| name == program).map(|(_, how)| how.clone());
    Err(StageError::NotFound {
        process: process.to_owned(),
        program: program.clone(),
        install: declared.or_else(|| command::install_hint(program).map(str::to_owned)),
    })
}

/// Checks that the addresses of a process are valid and free.
fn check_places(plan: &PlannedProcess) -> Result<(), StageError> {
    for endpoint in plan.checks.iter().filter_map(Check::endpoint) {
        if let Endpoint::Unix(path) = endpoint
            && path.as_os_str().len() > SOCKET_PATH_BYTES_MAX
        {
            return Err(StageError::SocketTooLong {
                process: plan.launch.name.clone(),
                path: path.display().to_string(),
                bytes: path.as_os_str().len(),
            });
        }
        if is_local(endpoint) && http::accepts(endpoint, Duration::from_millis(200)).is_ok() {
            return Err(taken(&plan.launch.name, endpoint));
        }
    }
    Ok(())
}

fn is_local(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Tcp { host, .. } => {
            host == "localhost" || host == "::1" || host.starts_with("127.")
        }
        _ => true,
    }
}

fn write_files(stack: &Stack, vars: &Variables, dir: &Path) -> Result<(), StageError> {
    for file in &stack.files {
        let relative = Path::new(&file.path);
        let inside = relative.components().all(|part| matches!(part, Component::Normal(_)));
        if !inside || file.path.is_empty() {
            return Err(StageError::BadFile(file.path.clone()));
        }
        let path = dir.join(relative);
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, vars.expand(&file.text)))
            .map_err(StageError::file("cannot write", &path))?;
    }
    Ok(())
}

/// Lets servers that drop root's rights read the files of their stack.
fn share_files(stack: &Stack, dir: &Path) -> Result<(), StageError> {
    for file in &stack.files {
        let path = dir.join(&file.path);
        for shared in path.ancestors().take_while(|above| *above != dir) {
            share(shared).map_err(StageError::file("cannot change", shared))?;
        }
    }
    Ok(())
}

/// Waits until all checks of a process pass. Unless the stack was `told` its port other than by the
/// environment, it does not wait for one that listens on another port.
fn wait_ready(
    live: &LiveStack,
    index: usize,
    checks: &[Check],
    timeout: Nanos,
    told: bool,
    stop: &AtomicBool,
) -> Result<(), StageError> {
    let start = Instant::now();
    let mut astray: Option<Instant> = None;
    for check in checks {
        let mut pause = LOOK_MIN;
        loop {
            live.check_starting(index, check.endpoint())?;
            if stop.load(Ordering::Relaxed) {
                return Err(StageError::Interrupted);
            }
            let Err(seen) = check.probe() else { break };
            match if told { None } else { live.on_another_port(index, check) } {
                None => astray = None,
                Some(error) => {
                    if astray.get_or_insert_with(Instant::now).elapsed() >= ASTRAY_MAX {
                        return Err(error);
                    }
                }
            }
            if start.elapsed() >= timeout.into() {
                return Err(live.not_ready(index, timeout, check, seen));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LOOK_MAX);
        }
    }
    live.check_starting(index, checks.iter().find_map(Check::endpoint))
}
