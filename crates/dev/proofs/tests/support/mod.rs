//! Stacks of small scripts.
#![allow(dead_code, reason = "every test program uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use base::{Nanos, RunId, Seed};
use spec::{Process, ReadyCheck, Stack, StopSignal};
use stage::{Accounting, LiveStack, Stage, StageError, StageOptions, StartOptions};
use tempfile::TempDir;

/// The substitute for tachograph.
pub(crate) const HELPER: &str = env!("CARGO_BIN_EXE_tachograph-hold-stack");

/// A listener on `$PORT` that never responds.
pub(crate) const LISTEN: &str = r#"python3 -c 'import os,socket,signal
s=socket.create_server(("127.0.0.1",int(os.environ["PORT"])))
signal.pause()'"#;

/// A stage in the test's own temporary folder.
pub(crate) struct Scene {
    pub(crate) root: TempDir,
    pub(crate) stage: Stage,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        Scene::counting(Accounting::Automatic)
    }

    pub(crate) fn counting(accounting: Accounting) -> Scene {
        let root = tempfile::Builder::new().prefix("st").tempdir_in("/tmp").unwrap();
        let options = StageOptions {
            temp_root: Some(root.path().to_owned()),
            accounting,
            ..StageOptions::new(HELPER.into(), RunId("20261121-071530-test".to_owned()))
        };
        let stage = Stage::new(options).unwrap();
        Scene { root, stage }
    }

    pub(crate) fn start(&self, processes: Vec<Process>) -> Result<LiveStack, StageError> {
        self.start_stack(Stack { processes, ..Stack::default() })
    }

    pub(crate) fn start_stack(&self, stack: Stack) -> Result<LiveStack, StageError> {
        self.stage.start(&stack, StartOptions::new("test", Seed::from_time()))
    }

    /// The existing folders of stacks.
    pub(crate) fn stacks(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.stage.dir()).unwrap();
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
    }
}

/// A process with long timeouts, for busy machines.
pub(crate) fn process(name: &str, command: &str, ready: Vec<ReadyCheck>) -> Process {
    Process {
        name: name.to_owned(),
        command: command.to_owned(),
        env: Default::default(),
        ready,
        ready_timeout: Nanos::from_secs(60),
        stop_signal: StopSignal::Term,
        stop_timeout: Nanos::from_secs(60),
        beside_client: false,
    }
}

/// A shell script that signals readiness with a file.
pub(crate) fn script(text: &str) -> Process {
    let mut process =
        process("script", "sh $DIR/script", vec![ReadyCheck::File("$DIR/ready".to_owned())]);
    process.env.insert("SCRIPT".to_owned(), text.to_owned());
    process.command = "sh -c 'eval \"$SCRIPT\"'".to_owned();
    process
}

pub(crate) fn port() -> Vec<ReadyCheck> {
    vec![ReadyCheck::Port("$PORT".to_owned())]
}

/// The processes of a stack, found by their environment.
pub(crate) fn with_stack_id(id: &str) -> Vec<i32> {
    let wanted = format!("TACHOGRAPH_STACK={id}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environ.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

/// The control groups of a stack.
pub(crate) fn cgroups_of(id: &str) -> Vec<PathBuf> {
    fn walk(dir: &Path, name: &str, depth: usize, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() && depth < 8 {
                if entry.file_name().to_string_lossy() == name {
                    found.push(path.clone());
                }
                walk(&path, name, depth + 1, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new("/sys/fs/cgroup"), &format!("tachograph-{id}"), 0, &mut found);
    found
}

/// Waits for a condition that must become true, with a long timeout for busy machines.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "this never came: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Asserts that nothing of a stack remains.
#[track_caller]
pub(crate) fn assert_nothing_left(id: &str, dir: &Path) {
    assert_eq!(with_stack_id(id), Vec::<i32>::new(), "processes");
    assert_eq!(cgroups_of(id), Vec::<PathBuf>::new(), "control groups");
    assert!(!dir.exists(), "{} is still there", dir.display());
}

/// Kills one process for good.
pub(crate) fn kill_9(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
