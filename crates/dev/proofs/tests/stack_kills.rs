//! tachograph, its guards, or all of them are killed: nothing may remain.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use base::{RunId, Seed};
use rand::Rng as _;
use rustix::process::{Pid, Signal, kill_process};
use stage::{Accounting, Stage, StageError, StageOptions};
use support::*;

/// Various processes: a plain child, one that ignores SIGTERM, one that forked into its own
/// session, and one without our environment, recognisable by the number of seconds that it sleeps.
const SHAPES: &str = "
sleep 1001 &
sh -c \"trap '' TERM; while :; do sleep 0.1; done\" &
(setsid sh -c 'setsid sleep 1002 &' &)
env -i /bin/sleep MARK &
touch $DIR/ready
wait
";

/// Ignores every request to stop.
const STUBBORN: &str = "trap '' TERM; touch $DIR/ready; while :; do sleep 0.05; done";

/// A controller that holds a stack until it is killed.
struct Controller {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    mark: String,
    root: tempfile::TempDir,
}

impl Controller {
    fn spawn(mode: &str, script: &str) -> Controller {
        static MARKS: AtomicU32 = AtomicU32::new(0);
        let mark = MARKS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}.{mark}", 100_000 + std::process::id());
        let root = tempfile::Builder::new().prefix("st").tempdir_in("/tmp").unwrap();
        let path = root.path().join("script");
        fs::write(&path, script.replace("MARK", &mark)).unwrap();
        let mut child = Command::new(HELPER)
            .arg(mode)
            .args([root.path(), &path])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Controller { child, lines, mark, root }
    }

    /// Its next line of output; `None` at the end.
    fn next_line(&mut self) -> Option<String> {
        self.lines.next().map(Result::unwrap)
    }

    /// Waits until the stack is ready; returns its id and folder.
    fn stack(&mut self) -> (String, PathBuf) {
        let line = self.next_line().expect("the controller starts its stack");
        let (id, dir) = line.split_once(' ').unwrap();
        (id.to_owned(), PathBuf::from(dir))
    }

    /// Its children whose command line contains a word.
    fn children(&self, word: &str) -> Vec<i32> {
        let parent = self.child.id().to_string();
        processes()
            .filter(|pid| {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let found = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
                found == Some(&parent) && line.trim_end_matches('\0').split('\0').any(|w| w == word)
            })
            .collect()
    }

    fn guard(&self) -> i32 {
        let watch = self.watch();
        let guards = self.children("guard");
        guards.into_iter().find(|pid| *pid != watch).expect("the controller has a guard")
    }

    fn watch(&self) -> i32 {
        self.children("watch")[0]
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), signal).unwrap();
    }

    /// Sends a signal until the controller has ended, because one that comes at once belongs to the
    /// first; returns the signal that ended it.
    fn ended_by(&mut self, signal: Signal) -> Option<i32> {
        let mut status = None;
        eventually("the controller's end", || {
            self.signal(signal);
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.signal())
    }

    fn kill(&mut self) -> ExitStatus {
        self.child.kill().unwrap();
        self.child.wait().unwrap()
    }

    /// The runs' folders below the root.
    fn folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.path()).unwrap();
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
    }

    /// Whether any process of the run is alive, even without our environment.
    fn is_alive(&self) -> bool {
        let dir = self.root.path().display().to_string();
        processes().any(|pid| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let has = |text: &str, part: &[u8]| String::from_utf8_lossy(part).contains(text);
            pid != std::process::id() as i32
                && (has(&dir, &environ) || has(&dir, &line) || has(&self.mark, &line))
        })
    }

    /// Waits until nothing of the run remains: no process, no folder.
    #[track_caller]
    fn assert_clean(&self) {
        eventually("the end of every process and folder", || {
            !self.is_alive() && self.folders().is_empty()
        });
    }
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn suspend(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
}

#[test]
fn tachograph_is_killed() {
    let mut controller = Controller::spawn("hold", SHAPES);
    let (id, dir) = controller.stack();
    // The guard, the script and its processes, except for the one without environment.
    eventually("all shapes", || with_stack_id(&id).len() >= 5);
    controller.kill();
    controller.assert_clean();
    assert_nothing_left(&id, &dir);
}

#[test]
fn tachograph_is_killed_at_any_moment_of_its_start() {
    let mut rng = Seed::from_time().rng("moments");
    for _ in 0..12 {
        let mut controller = Controller::spawn("hold", SHAPES);
        thread::sleep(Duration::from_micros(rng.next_u64() % 60_000));
        controller.kill();
        controller.assert_clean();
    }
}

#[test]
fn tachograph_is_killed_while_it_stops_its_stack() {
    let mut controller = Controller::spawn("obey", STUBBORN);
    let (id, dir) = controller.stack();
    controller.signal(Signal::INT);
    assert_eq!(controller.next_line().as_deref(), Some("stopping"));
    controller.kill();
    controller.assert_clean();
    assert_nothing_left(&id, &dir);
}

#[test]
fn tachograph_and_the_guard_are_killed() {
    let mut controller = Controller::spawn("hold", SHAPES);
    let (id, dir) = controller.stack();
    let guard = controller.guard();
    // Suspended first, so that it cannot notice the end of tachograph before its own.
    suspend(guard);
    controller.kill();
    kill_9(guard);
    controller.assert_clean();
    assert_nothing_left(&id, &dir);
}

#[test]
fn everything_of_ours_is_killed_and_the_next_start_clears_up() {
    let mut controller = Controller::spawn("hold", SHAPES);
    let (id, dir) = controller.stack();
    let (guard, watch) = (controller.guard(), controller.watch());
    suspend(guard);
    suspend(watch);
    controller.kill();
    kill_9(watch);
    kill_9(guard);
    eventually("the guard's end", || !with_stack_id(&id).contains(&guard));
    assert!(dir.exists() && controller.is_alive());
    let options = StageOptions {
        temp_root: Some(controller.root.path().to_owned()),
        ..StageOptions::new(HELPER.into(), RunId("20261121-071530-next".to_owned()))
    };
    let stage = Stage::new(options).unwrap();
    assert_eq!(stage.swept().folders, [dir.parent().unwrap()]);
    assert!(!stage.swept().processes.is_empty());
    drop(stage);
    assert!(!controller.is_alive());
    assert_nothing_left(&id, &dir);
}

#[test]
fn the_guard_is_asked_to_end() {
    let mut controller = Controller::spawn("hold", SHAPES);
    let (id, dir) = controller.stack();
    kill_process(Pid::from_raw(controller.guard()).unwrap(), Signal::TERM).unwrap();
    eventually("the stack's end", || !dir.exists());
    controller.kill();
    controller.assert_clean();
    assert_nothing_left(&id, &dir);
}

#[test]
fn a_killed_guard_is_noticed_and_its_stack_ended() {
    for accounting in [Accounting::Automatic, Accounting::ProcessTree] {
        let scene = Scene::counting(accounting);
        let live = scene
            .start(vec![script(
                "(env -i setsid sleep 1001 &); sh -c \"trap '' TERM; touch $DIR/ready; while :; do sleep 0.1; done\"",
            )])
            .unwrap();
        let (id, dir) = (live.id().to_owned(), live.dir().to_owned());
        let pids = live.pids();
        let guard = with_stack_id(&id)
            .into_iter()
            .find(|pid| !live.pids().contains(pid))
            .expect("the guard carries the stack's name too");
        kill_9(guard);
        eventually("the news of its end", || live.check_alive().is_err());
        let error = live.check_alive().unwrap_err();
        assert!(matches!(error, StageError::Guard(_)));
        assert_eq!(error.to_string(), "the process that guards the stack failed: it was killed");
        let report = live.stop();
        let sentence = "was killed, because its guard was gone";
        assert!(report.killed.iter().all(|line| line.ends_with(sentence)), "{report:?}");
        assert!(!report.killed.is_empty());
        assert_nothing_left(&id, &dir);
        let is_alive = |pid: &i32| Path::new(&format!("/proc/{pid}/exe")).read_link().is_ok();
        assert!(!pids.iter().any(is_alive), "also the one without our environment");
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
    assert_nothing_left(&id, Path::new(&run_dir));
    drop(root);
}

#[test]
fn the_terminals_ctrl_c_reaches_tachograph_alone() {
    let mut controller = Controller::spawn("hold", SHAPES);
    controller.stack();
    // From /proc, not getsid(2): a session led from outside our PID namespace reads as 0 there,
    // which rustix does not accept as a pid.
    let session = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, after_name) = stat.rsplit_once(") ").unwrap();
        after_name.split(' ').nth(3).unwrap().to_owned()
    };
    let mine = session(controller.child.id() as i32);
    assert_ne!(session(controller.guard()), mine);
    assert_ne!(session(controller.watch()), mine);
    controller.kill();
    controller.assert_clean();
}

#[test]
fn the_first_ctrl_c_stops_in_order_and_the_second_ends_tachograph_at_once() {
    let mut controller = Controller::spawn("obey", STUBBORN);
    let (id, dir) = controller.stack();
    controller.signal(Signal::INT);
    assert_eq!(controller.next_line().as_deref(), Some("stopping"));
    assert!(with_stack_id(&id).len() >= 2, "it waits for the script, up to ten minutes");
    assert_eq!(controller.ended_by(Signal::INT), Some(Signal::INT.as_raw()));
    controller.assert_clean();
    assert_nothing_left(&id, &dir);
}

#[test]
fn the_second_ctrl_c_does_not_wait_for_a_guard_that_does_not_answer() {
    let mut controller = Controller::spawn("obey", STUBBORN);
    let (id, dir) = controller.stack();
    suspend(controller.guard());
    controller.signal(Signal::TERM);
    assert_eq!(controller.next_line().as_deref(), Some("stopping"));
    assert_eq!(controller.ended_by(Signal::TERM), Some(Signal::TERM.as_raw()));
    controller.assert_clean();
    assert_nothing_left(&id, &dir);
}
