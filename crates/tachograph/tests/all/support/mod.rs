//! A builder for tests of the command line: a private data folder, no colour, and a check that
//! nothing remains.

pub(crate) mod daemon;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

/// Waits until no other test measures for a verdict, in any program; the turn ends when the file is
/// dropped. For tests that require a verdict, or that no check of the machine failed. Tests of counts
/// and sentences do not need it: those are the same on a busy machine.
#[must_use]
pub(crate) fn turn() -> File {
    let file = File::create(concat!(env!("CARGO_TARGET_TMPDIR"), "/turn")).unwrap();
    file.lock().unwrap();
    file
}

/// Options of `serve-fixture` where its speed does not matter: it leaves the CPUs to other tests.
pub(crate) const UNHURRIED: &str = "--delay-every 1 --delay 5ms";

/// The binary under test.
pub(crate) const TACHOGRAPH: &str = env!("CARGO_BIN_EXE_tachograph");

/// Private data, cache and temporary folders for one test.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
}

/// A command's output and exit status.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Place {
        // Short, because socket paths must fit into 107 bytes.
        Place { dir: tempfile::Builder::new().prefix("tgt").tempdir_in("/tmp").unwrap() }
    }

    /// A copy of the program, which can be exchanged. It is written by another process: one that is
    /// started meanwhile would keep the file open that this one writes to, and such a file cannot be run.
    pub(crate) fn copied_program(&self) -> PathBuf {
        let program = self.path("tachograph");
        let copied = Command::new("cp").arg(TACHOGRAPH).arg(&program).status();
        assert!(copied.unwrap().success(), "cp {TACHOGRAPH} {}", program.display());
        program
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(TACHOGRAPH);
        command.args(args);
        self.prepare(command)
    }

    /// Gives a command, with its arguments, the folders of this test.
    pub(crate) fn prepare(&self, mut command: Command) -> Command {
        command
            .current_dir(self.dir.path())
            .env("XDG_DATA_HOME", self.path("data"))
            .env("XDG_CACHE_HOME", cache())
            .env("TMPDIR", self.temp())
            .env("TACHOGRAPH_RECORD", self.path("record.sqlite"))
            // Tests and measurements on this machine must not wait for each other.
            .env("TACHOGRAPH_LOCK_DIR", self.path("lock"))
            .env_remove("NO_COLOR")
            .stdin(Stdio::null());
        // Tests run side by side, so a daemon listens only where it is told to.
        for (option, variable) in
            [("--statsd", "TACHOGRAPH_NO_STATSD"), ("--pickle", "TACHOGRAPH_NO_PICKLE")]
        {
            if command.get_args().all(|argument| argument != option) {
                command.env(variable, "true");
            }
        }
        command
    }

    /// The command's folder for temporary files.
    pub(crate) fn temp(&self) -> PathBuf {
        let temp = self.path("t");
        std::fs::create_dir_all(&temp).unwrap();
        temp
    }

    /// Runs a command, for at most five minutes: it may have to install Python's packages first.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.finish(self.command(args))
    }

    /// Runs a comparison for 14 seconds, and for a minute where a busy machine needs more for enough
    /// blocks.
    pub(crate) fn compare(&self, args: &[&str]) -> Ended {
        let run = |time| self.run(&[&["compare", "--quick", "--max-time", time], args].concat());
        let ended = run("14s");
        if ended.status == Some(2) { run("60s") } else { ended }
    }

    pub(crate) fn finish(&self, mut command: Command) -> Ended {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait(child, Duration::from_secs(300))
    }

    /// Number of rows that `query` finds in the record, as in `trial WHERE block > 0`; zero while
    /// the record does not exist or is being created.
    pub(crate) fn rows(&self, query: &str) -> u64 {
        let Ok(db) = recordfile::open_read_only(&self.path("record.sqlite")) else { return 0 };
        let count = format!("SELECT count(*) FROM {query}");
        db.query_row(&count, (), |row| row.get::<_, i64>(0)).map_or(0, |rows| rows as u64)
    }

    /// The first column of what a query finds in the record: texts.
    pub(crate) fn sql(&self, query: &str) -> Vec<String> {
        let db = recordfile::open_read_only(&self.path("record.sqlite")).unwrap();
        let mut query = db.prepare(query).unwrap();
        query.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// The temporary folders of runs that still exist.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        std::fs::read_dir(self.temp()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

/// A cache shared by all tests, so that Python environments are created once.
fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache")
}

/// Whether a condition becomes true within a limit that only a fault exceeds.
pub(crate) fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Waits for a condition that must become true, with a long timeout for busy machines.
#[track_caller]
pub(crate) fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(holds_within(Duration::from_secs(120), condition), "this never came: {what}");
}

/// Reports that a test cannot run here. `xtask prove faults` counts it as not run, and CI does not
/// accept it.
#[track_caller]
pub(crate) fn not_run(why: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test").to_owned();
    #[allow(clippy::print_stderr, reason = "whoever runs the tests should know")]
    {
        eprintln!("NOT RUN, {name}: {why}");
    }
    if let Some(file) = std::env::var_os("TACHOGRAPH_TEST_NOT_RUN") {
        let mut file = File::options().append(true).create(true).open(file).unwrap();
        writeln!(file, "{name}: {why}").unwrap();
    }
}

/// Waits for a child, and kills it if it takes too long.
pub(crate) fn wait(mut child: Child, limit: Duration) -> Ended {
    let out = read_beside(child.stdout.take().unwrap());
    let err = read_beside(child.stderr.take().unwrap());
    if !holds_within(limit, || child.try_wait().unwrap().is_some()) {
        let _ = child.kill();
        let _ = child.wait();
        // What it has started may keep the pipe open.
        let said = err.recv_timeout(Duration::from_secs(20)).unwrap_or_default();
        panic!("did not end within {limit:?}; it said: {said}");
    }
    let status = child.wait().unwrap();
    Ended { status: status.code(), out: out.recv().unwrap(), err: err.recv().unwrap() }
}

/// Reads a pipe to its end in a thread of its own.
fn read_beside(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (done, text) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = done.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    text
}

impl Ended {
    /// Fails unless the status is `status`.
    #[track_caller]
    pub(crate) fn status(&self, status: i32) -> &Ended {
        assert_eq!(self.status, Some(status), "\nstdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Fails unless figures were measured: all is well, a check failed on a busy machine, or there
    /// were too few blocks for a verdict.
    #[track_caller]
    pub(crate) fn measured(&self) -> &Ended {
        match self.status {
            Some(0 | 1) => self,
            _ => self.status(2).says("error: ").says("too few blocks for a verdict ("),
        }
    }

    /// Fails unless standard error contains `text`.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Ended {
        assert!(self.err.contains(text), "'{text}' is not in\n{}", self.err);
        self
    }

    /// Fails unless standard output contains `text`.
    #[track_caller]
    pub(crate) fn prints(&self, text: &str) -> &Ended {
        assert!(self.out.contains(text), "'{text}' is not in\n{}", self.out);
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.out, self.err))
    }
}

/// A process that is killed when the test ends.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A fixture server that is stopped when the test ends.
pub(crate) struct Server {
    _process: Running,
}

impl Server {
    /// Starts it on a free port with these further arguments; its URL.
    pub(crate) fn http(args: &[&str]) -> (Server, String) {
        let port = free_port();
        let listen = format!("tcp://127.0.0.1:{port}");
        let server = Server::start(&[&["--listen", &listen], args].concat());
        (server, format!("http://127.0.0.1:{port}/"))
    }

    /// Starts `serve-fixture` with these arguments and waits until it is listening.
    pub(crate) fn start(args: &[&str]) -> Server {
        let mut child = Command::new(TACHOGRAPH)
            .arg("serve-fixture")
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listening"), "the fixture said: {line}");
        Server { _process: Running(child) }
    }
}

/// The same command, run by the arguments of another program.
pub(crate) fn run_by(program: &str, args: &[&str], command: &Command) -> Command {
    let mut by = Command::new(program);
    by.args(args).arg(command.get_program()).args(command.get_args());
    by.current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => by.env(name, value),
            None => by.env_remove(name),
        };
    }
    by
}

/// A TCP port that is free and that no other test of this program gets. It lies below the ports that
/// the kernel gives to outgoing connections (`ip_local_port_range`, by default from 32768): one of a
/// load in another test could take it before the server does.
pub(crate) fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    for _ in 0..COUNT {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + std::process::id().wrapping_mul(97).wrapping_add(tried) % COUNT;
        let port = u16::try_from(port).unwrap();
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free from {FIRST} on");
}

/// Processes whose environment contains `text`: leftovers of a run that failed to clean up.
pub(crate) fn processes_with_environment(text: &str) -> Vec<u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| String::from_utf8_lossy(&environ).contains(text))
        })
        .collect()
}

/// A text for the environment of a test's processes, by which they are found.
pub(crate) fn marker(name: &str) -> String {
    format!("tachograph-test-{name}-{}", std::process::id())
}

/// Waits until no process with this marker and none of these folders is left.
#[track_caller]
pub(crate) fn nothing_is_left(marker: &str, limit: Duration, folders: impl Fn() -> Vec<PathBuf>) {
    let left = || (processes_with_environment(marker), folders());
    let is_clean = || left().0.is_empty() && left().1.is_empty();
    assert!(holds_within(limit, is_clean), "left behind: {:?}", left());
}

/// Sends a signal to a process.
pub(crate) fn signal(id: u32, signal: Signal) {
    kill_process(Pid::from_raw(id as i32).unwrap(), signal).unwrap();
}

/// The whole answer of a daemon's HTTP server; `headers` are further lines, each with its end.
pub(crate) fn ask(at: &str, request: &str, headers: &str, body: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    let length = body.as_ref().len();
    let head = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: \
         {length}\r\n\r\n"
    );
    // The daemon may be killed meanwhile, or refuse a body before it has read all of it.
    let _ = stream.write_all(&[head.as_bytes(), body.as_ref()].concat());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status of an answer; 0 without one.
pub(crate) fn status(answer: &str) -> u32 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// Compressed by gzip.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Fails unless a document is as its schema in `docs/schema` says.
#[track_caller]
pub(crate) fn assert_valid(schema: &str, json: &serde_json::Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let schema = std::fs::read_to_string(folder.join(schema)).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> = validator.iter_errors(json).map(|e| e.to_string()).collect();
    assert_eq!(wrong, Vec::<String>::new());
}

/// Fails unless something was served, and all counts of each variant are equal, the server's included.
#[track_caller]
pub(crate) fn adds_up(json: &serde_json::Value) {
    for variant in json["variants"].as_array().unwrap() {
        let ledger = &variant["ledger"];
        assert!(ledger["completed"].as_u64().unwrap() > 0, "{ledger:#}");
        for column in ["sent", "served", "series"] {
            assert_eq!(ledger[column], ledger["completed"], "{column} in {ledger:#}");
        }
    }
}

/// The slots of ten seconds of a measurement's series; none before the record can be read.
pub(crate) fn slots(record: &str, measurement: &str) -> Vec<series::Accumulator> {
    slots_of(record, measurement, None)
}

/// The same of the series of one field.
pub(crate) fn slots_of(
    record: &str,
    measurement: &str,
    field: Option<&str>,
) -> Vec<series::Accumulator> {
    let Ok(mut store) = store::open_read_only(record) else { return Vec::new() };
    let (measurement, field) = (Some(measurement.to_owned()), field.map(str::to_owned));
    let selector = store::Selector { measurement, field, ..store::Selector::default() };
    let ids: Vec<i64> = store.find(&selector).unwrap().iter().map(|series| series.id).collect();
    let step = series::Step::from_secs(10).unwrap();
    let slots = store.slots(step, &ids, i64::MIN, i64::MAX);
    slots.unwrap_or_default().into_iter().map(|(_, slot)| slot).collect()
}

/// The start of a slot an hour ago, in seconds since the epoch.
pub(crate) fn an_hour_ago() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    now / 10 * 10 - 3_600
}

/// Lines of 50 series with a point at a second of the last hour.
pub(crate) fn lines(name: &str, second: u64) -> String {
    let at = an_hour_ago() + second;
    (0..50).map(|series| format!("{name},n={series} value={second} {at}\n")).collect()
}
