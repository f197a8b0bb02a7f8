//! The tests' substitute for the tachograph binary: the guard, and controllers to kill.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use base::{Nanos, RunId, Seed};
use spec::{Process, ReadyCheck, Stack, StopSignal};
use stage::{self as stage, Stage, StageError, StageOptions, StartOptions, StopReport};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let (mode, args) = (args.next().unwrap_or_default(), args.collect::<Vec<_>>());
    match mode.to_str() {
        Some("guard") => stage::guard_main(args),
        Some("hold") => finish(hold(&args, Arc::default())),
        Some("obey") => match stage::signals::install() {
            Ok(stop) => finish(hold(&args, stop)),
            Err(_) => ExitCode::FAILURE,
        },
        _ => ExitCode::FAILURE,
    }
}

/// Starts `sh SCRIPT` in a stack below ROOT, prints its id, and stops it on request.
fn hold(args: &[OsString], stop: Arc<AtomicBool>) -> Result<StopReport, StageError> {
    let [root, script] = args else { return Err(StageError::Guard("ROOT SCRIPT".to_owned())) };
    let options = StageOptions {
        temp_root: Some(root.into()),
        ..StageOptions::new("/proc/self/exe".into(), RunId("20261121-071530-hold".to_owned()))
    };
    let process = Process {
        name: "held".to_owned(),
        command: format!("sh {}", script.display()),
        env: Default::default(),
        ready: vec![ReadyCheck::File("$DIR/ready".to_owned())],
        ready_timeout: Nanos::from_secs(60),
        stop_signal: StopSignal::Term,
        stop_timeout: Nanos::from_secs(600),
        beside_client: false,
    };
    let stack = Stack { processes: vec![process], ..Stack::default() };
    let stage = Stage::new(options)?;
    let live = stage.start(&stack, StartOptions::new("held", Seed::from_time()))?;
    say(&format!("{} {}", live.id(), live.dir().display()));
    // Upper limit, so that no helper stays behind.
    for _ in 0..12_000 {
        if stop.load(Ordering::Relaxed) {
            say("stopping");
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(live.stop())
}

fn finish(result: Result<StopReport, StageError>) -> ExitCode {
    match result {
        Ok(report) => {
            report.killed.iter().for_each(|line| say(line));
            ExitCode::SUCCESS
        }
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn say(line: &str) {
    // A failed write only means that the test has already exited.
    let _ = writeln!(std::io::stdout(), "{line}");
}
