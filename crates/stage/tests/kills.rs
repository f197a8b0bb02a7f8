//! Violent ends of tachograph, of the guard, and of both: nothing may be left.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod support;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use base::RunId;
use support::*;
use tachograph_stage::{Accounting, Stage, StageError, StageOptions};

/// A stack of many shapes: a plain child, one that ignores SIGTERM, one that
/// forked away into a session of its own, and one without our environment.
const SHAPES: &str = "
sleep 1001 &
sh -c \"trap '' TERM; while :; do sleep 0.1; done\" &
(setsid sh -c 'setsid sleep 1002 &' &)
env -i /bin/sleep 1003 &
touch $DIR/ready
wait
";

/// A controller that holds a stack until it is killed.
struct Controller {
    child: Child,
    id: String,
    stack_dir: PathBuf,
    root: tempfile::TempDir,
}

impl Controller {
    fn start() -> Controller {
        let root = tempfile::Builder::new().prefix("st").tempdir_in("/tmp").unwrap();
        let script = root.path().join("script");
        std::fs::write(&script, SHAPES).unwrap();
        let mut child = Command::new(HELPER)
            .arg("hold")
            .args([root.path(), &script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (id, dir) = line.trim().split_once(' ').expect("the controller has started a stack");
        let controller =
            Controller { child, id: id.to_owned(), stack_dir: PathBuf::from(dir), root };
        // The guard, the script and four of its kinds; the one without environment is not seen.
        eventually("all shapes", || with_stack_id(&controller.id).len() >= 5);
        controller
    }

    /// The guard: the only child of the controller.
    fn guard(&self) -> i32 {
        with_stack_id(&self.id)
            .into_iter()
            .find(|pid| {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                let parent = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').nth(1));
                parent == Some(Some(&self.child.id().to_string()))
            })
            .expect("the controller has a guard")
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The processes of [`SHAPES`] that wiped their environment, by what they do.
fn without_environment() -> usize {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| {
            std::fs::read(entry.path().join("cmdline"))
                .is_ok_and(|line| line == b"/bin/sleep\x001003\x00")
        })
        .count()
}

/// One test after the other: the process without environment cannot be told apart from another's.
#[test]
fn kills_leave_nothing_behind() {
    tachograph_is_killed();
    the_guard_is_asked_to_end();
    both_are_killed_and_the_next_start_clears_up();
}

fn tachograph_is_killed() {
    let mut controller = Controller::start();
    let run_dir = controller.stack_dir.parent().unwrap().to_owned();
    assert_eq!(without_environment(), 1);
    controller.kill();
    eventually("the guard's end", || with_stack_id(&controller.id).is_empty());
    assert_nothing_left(&controller.id, &run_dir);
    assert_eq!(without_environment(), 0);
}

fn the_guard_is_asked_to_end() {
    let mut controller = Controller::start();
    let guard = rustix::process::Pid::from_raw(controller.guard()).unwrap();
    rustix::process::kill_process(guard, rustix::process::Signal::TERM).unwrap();
    let dir = controller.stack_dir.clone();
    eventually("the stack's end", || with_stack_id(&controller.id).is_empty() || dir.exists());
    eventually("the folder's end", || !dir.exists());
    assert_eq!(without_environment(), 0);
    controller.kill();
}

fn both_are_killed_and_the_next_start_clears_up() {
    let mut controller = Controller::start();
    let guard = controller.guard();
    let run_dir = controller.stack_dir.parent().unwrap().to_owned();
    // Stopped first, so that the guard cannot notice the end of its controller before its own.
    let stop = rustix::process::Pid::from_raw(guard).unwrap();
    rustix::process::kill_process(stop, rustix::process::Signal::STOP).unwrap();
    controller.kill();
    kill_9(guard);
    eventually("the guard's end", || !with_stack_id(&controller.id).contains(&guard));
    assert!(run_dir.exists() && !with_stack_id(&controller.id).is_empty());
    let options = StageOptions {
        temp_root: Some(controller.root.path().to_owned()),
        ..StageOptions::new(HELPER.into(), RunId("20261121-071530-next".to_owned()))
    };
    let stage = Stage::new(options).unwrap();
    assert_eq!(stage.swept().folders, std::slice::from_ref(&run_dir));
    assert!(!stage.swept().processes.is_empty());
    assert_nothing_left(&controller.id, &run_dir);
    assert_eq!(without_environment(), 0);
}

#[test]
fn a_killed_guard_is_noticed_and_its_stack_ended() {
    for accounting in [Accounting::Automatic, Accounting::ProcessTree] {
        let scene = Scene::counting(accounting);
        let live = scene
            .start(vec![script("(setsid sleep 1001 &); sh -c \"trap '' TERM; touch $DIR/ready; while :; do sleep 0.1; done\"")])
            .unwrap();
        let (id, dir) = (live.id().to_owned(), live.dir().to_owned());
        let guard = with_stack_id(&id)
            .into_iter()
            .find(|pid| !live.pids().contains(pid))
            .expect("the guard carries the stack's name too");
        kill_9(guard);
        eventually("the news of its end", || live.check_alive().is_err());
        let error = live.check_alive().unwrap_err();
        assert!(matches!(error, StageError::Guard(_)));
        assert_eq!(
            error.to_string(),
            "the process that guards the stack failed: it is gone; somebody has killed it"
        );
        let report = live.stop();
        assert!(
            report.killed.iter().all(|line| line.ends_with("was killed, since the guard was gone")),
            "{report:?}"
        );
        assert!(!report.killed.is_empty());
        assert_nothing_left(&id, &dir);
    }
}

#[test]
fn dropping_a_stack_or_a_stage_stops_everything() {
    let scene = Scene::new();
    let live = scene.start(vec![process("app", LISTEN, port())]).unwrap();
    let (id, dir) = (live.id().to_owned(), live.dir().to_owned());
    drop(live);
    assert_nothing_left(&id, &dir);
    let live = scene.start(vec![process("app", LISTEN, port())]).unwrap();
    let (id, run_dir) = (live.id().to_owned(), scene.stage.dir().to_owned());
    let Scene { root, stage } = scene;
    drop(stage);
    assert!(live.dir().exists(), "a stack keeps its run alive");
    drop(live);
    assert_nothing_left(&id, &run_dir);
    drop(root);
}
