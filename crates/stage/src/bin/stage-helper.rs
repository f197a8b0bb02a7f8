//! What the tests start in place of tachograph: the guard, and a controller to kill.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use base::{Nanos, RunId, Seed};
use spec::{Process, Ready, Stack, StopSignal};
use tachograph_stage::{self as stage, Stage, StageOptions, StartOptions};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == "guard" => stage::guard_main(args),
        Some(word) if word == "hold" => hold(args.collect()),
        _ => ExitCode::FAILURE,
    }
}

/// Starts `sh -c SCRIPT` in a stack below ROOT, says which, and waits to be killed.
fn hold(args: Vec<OsString>) -> ExitCode {
    let [root, script] = &args[..] else { return ExitCode::FAILURE };
    let Ok(executable) = std::env::current_exe() else { return ExitCode::FAILURE };
    let options = StageOptions {
        temp_root: Some(root.into()),
        ..StageOptions::new(executable, RunId("20261121-071530-hold".to_owned()))
    };
    let process = Process {
        name: "held".to_owned(),
        command: format!("sh {}", script.display()),
        env: Default::default(),
        ready: vec![Ready::File("$DIR/ready".to_owned())],
        ready_timeout: Nanos::from_secs(60),
        stop_signal: StopSignal::Term,
        stop_timeout: Nanos::from_secs(60),
    };
    let stack = Stack { processes: vec![process], ..Stack::default() };
    let started = Stage::new(options).and_then(|stage| {
        stage.start(&stack, StartOptions::new("held", Seed::from_time())).map(|live| (stage, live))
    });
    match started {
        Ok((_stage, live)) => {
            let said = writeln!(std::io::stdout(), "{} {}", live.id(), live.dir().display());
            if said.is_err() {
                return ExitCode::FAILURE;
            }
            thread::sleep(Duration::from_secs(120));
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}
