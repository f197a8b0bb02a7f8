//! The plan of an experiment, complete and validated.

use std::collections::BTreeMap;

use base::Nanos;
use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::capacity_aim::CapacityAim;
use crate::load::{Arrivals, Exchange, Load};
use crate::variables;

/// A question and everything needed to answer it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The experiment's name: letters, digits and dashes.
    pub name: String,
    /// One-line title.
    pub title: String,
    /// The question that the experiment answers.
    pub question: String,
    /// Longer description for `list` and the report; may be empty.
    pub about: String,
    /// Python packages that the stacks need, as pinned requirements (`gunicorn==23.0.0`). A managed
    /// virtual environment with them comes first on the PATH of every process.
    pub python: Vec<String>,
    /// The interpreter of that environment, a program on PATH or its path; `None` is `python3`.
    pub interpreter: Option<String>,
    /// The folder that `$FILES` stands for; `None` for `compare`.
    pub files: Option<std::path::PathBuf>,
    /// The parts, each with its own verdicts; most experiments have one.
    pub parts: Vec<Part>,
    /// The text of the plan.
    pub source: String,
}

impl Plan {
    /// The text of the plan without its secrets, for the record.
    pub fn source_without_secrets(&self) -> String {
        crate::file::without_secrets(&self.source)
    }
}

/// One comparison: variants that are measured in the same blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Short name, unique within the plan.
    pub name: String,
    /// The question that this part answers.
    pub question: String,
    /// The variants; at least one.
    pub variants: Vec<Variant>,
    /// The loads on every variant, in this order within each block.
    pub offers: Vec<Offer>,
    /// Which pairs are compared; the first contrast is the primary one.
    pub contrasts: Vec<Contrast>,
    /// The primary metric; other comparisons are marked "unadjusted".
    pub primary: Metric,
    /// Number of secondary metrics that decide as well, as in `diff`: the intervals of all
    /// secondary metrics are adjusted for it. With 0 or 1 they are not adjusted.
    pub deciding_secondaries: u32,
    /// CPUs of client and stacks.
    pub layout: Layout,
    /// Blocks, slices, precision.
    pub schedule: Schedule,
    /// Figures published by others, printed beside ours.
    pub published: Vec<PublishedFigure>,
    /// In what this part differs from others of the plan.
    pub changes: Vec<Change>,
    /// The machines that load the variants, all at once, as given to ssh; none means this one.
    pub from: Vec<String>,
    /// The conditions whose highest rate is looked for instead of a comparison.
    pub capacity: Option<CapacityAim>,
}

impl Part {
    /// Whether anything is done to a stack while it is loaded.
    pub fn has_actions(&self) -> bool {
        self.variants.iter().any(|variant| !variant.actions.is_empty())
    }

    /// The other machines of the part, each once.
    pub fn machines(&self) -> Vec<&str> {
        let stacks = self.variants.iter().filter_map(|variant| variant.on.as_ref());
        let mut all: Vec<&str> = Vec::new();
        for host in stacks.chain(&self.from) {
            if !all.contains(&host.as_str()) {
                all.push(host);
            }
        }
        all
    }
}

/// One of the things compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Its name in tables.
    pub name: String,
    /// Its place on the axes of a matrix, as (axis, label); empty for one written out.
    pub at: Vec<(String, String)>,
    /// Its processes.
    pub stack: Stack,
    /// The machine on which they run, as given to ssh; `None` for this one.
    pub on: Option<String>,
    /// The address at which the clients reach that machine, if they are on others; `None` for the
    /// one that ssh uses.
    pub address: Option<String>,
    /// The target, with unexpanded variables such as `$PORT` and `$SOCKET` (see [`Stack`]).
    pub target: String,
    /// The load; the same for all variants except for declared differences.
    pub load: Load,
    /// Source of the server-side count, if there is one.
    pub served_by: Option<ServedBy>,
    /// What is done to the stack during each trial.
    pub actions: Vec<Action>,
    /// Whether it only shows how fast the client is, such as a null server: shown beside the others
    /// but not ranked among them.
    pub ceiling: bool,
}

impl Variant {
    /// Whether its requests have no response.
    pub fn is_one_way(&self) -> bool {
        matches!(self.load.exchange, Exchange::Lines(_))
    }

    /// Whether its stack and a client of `from` are, by their names, on different machines.
    pub fn is_apart(&self, from: &[String]) -> bool {
        match &self.on {
            None => !from.is_empty(),
            Some(host) => from.is_empty() || from.iter().any(|client| client != host),
        }
    }
}

/// Processes in starting order; they stop in reverse order.
///
/// These variables are expanded in every command, file template, environment value, readiness check
/// and target: `$HOST` (the address at which the clients reach the stack: 127.0.0.1 unless they are
/// on other machines), `$PORT`, `$PORT2` … `$PORT9` (free TCP ports of 127.0.0.1), `$SOCKET`,
/// `$SOCKET2` … `$SOCKET9` (fresh socket paths), `$DIR` (the stack's own temporary folder), `$FILES`
/// (the experiment's folder), `$COUNTERS` (where the WSGI counter writes), `$TACHOGRAPH` (our own
/// binary), `$CPUS` (number of CPUs of the stack). They are also in every process's environment;
/// `$HOST` only if it is not 127.0.0.1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// Files written before anything starts, relative to `$DIR`.
    pub files: Vec<FileTemplate>,
    /// The processes.
    pub processes: Vec<Process>,
    /// Python packages that only this stack needs, pinned; they are in [`Plan::python`] too.
    pub python: Vec<String>,
    /// Programs that must be on PATH, with the command that installs them: `("nginx", "apt install
    /// nginx")`.
    pub needs: Vec<(String, String)>,
    /// Whether it needs a container engine.
    pub needs_engine: bool,
    /// A shell command to run before each start of the stack.
    pub prepare: Option<String>,
    /// Working directory of its processes; default: tachograph's.
    pub working_dir: Option<std::path::PathBuf>,
}

impl Stack {
    /// Whether its commands, environment or files say by `$PORT` or `$SOCKET` where to listen. If
    /// not, its processes can only know it from their own environment.
    pub fn names_place(&self) -> bool {
        let names = |text: &String| variables::names_place(text);
        self.prepare.iter().any(names)
            || self.files.iter().any(|file| names(&file.text))
            || self
                .processes
                .iter()
                .any(|process| names(&process.command) || process.env.values().any(names))
    }
}

/// A file that is written for a stack, with its variables expanded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTemplate {
    /// Path below `$DIR`.
    pub path: String,
    /// The text.
    pub text: String,
}

/// One process of a stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its name in messages and logs.
    pub name: String,
    /// The command as written; split as a shell does, or given to `sh -c` if it needs a shell.
    pub command: String,
    /// Additional environment variables.
    pub env: BTreeMap<String, String>,
    /// Readiness checks; all must pass.
    pub ready: Vec<ReadyCheck>,
    /// How long it may take to be ready.
    pub ready_timeout: Nanos,
    /// The signal that asks it to stop.
    pub stop_signal: StopSignal,
    /// How long it may take to stop before it is killed.
    pub stop_timeout: Nanos,
    /// Whether it runs on the client's CPUs instead of the stack's.
    pub beside_client: bool,
}

/// A readiness check, with unexpanded variables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadyCheck {
    /// A TCP port of 127.0.0.1, or `host:port`, accepts connections.
    Port(String),
    /// A Unix socket accepts connections.
    Socket(String),
    /// A target responds over HTTP with a status below 500.
    Http(String),
    /// A file exists.
    File(String),
    /// What an engine has started for a container has been moved to the stack, which this file
    /// signals.
    Adopted(String),
}

/// The signal that asks a process to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopSignal {
    /// SIGTERM.
    #[default]
    Term,
    /// SIGINT.
    Int,
    /// SIGQUIT.
    Quit,
}

/// Source of the server-side count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServedBy {
    /// The counter files of our WSGI middleware in `$COUNTERS`.
    Wsgi,
    /// nginx's stub_status at this target; our own reads are subtracted.
    StubStatus(String),
    /// A target whose body contains the count in the first group of the regular expression.
    Http {
        /// The target.
        target: String,
        /// The regular expression with one group.
        pattern: String,
        /// Whether reading the count increases it by one.
        self_counting: bool,
        /// The regular expression, with one group, of the messages that the server's kernel has
        /// discarded, on the same page.
        discarded: Option<String>,
        /// How much a request adds to the count: 1, or the number of lines in a message.
        per_request: u32,
    },
    /// The number of matching lines in a file (all lines without a pattern).
    LogLines {
        /// The file.
        path: String,
        /// Count only lines that match.
        pattern: Option<String>,
    },
    /// The size of a file in bytes: one byte per request.
    FileSize(String),
    /// A file that contains the count as a decimal number.
    CounterFile {
        /// The file.
        path: String,
        /// How much a request adds to the count.
        per_request: u32,
    },
}

/// The load on a variant in each block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Offer {
    /// Closed loop.
    Closed,
    /// Open loop at a share of the slowest variant's capacity.
    OpenShare {
        /// 0.5 is half of the capacity.
        share: f64,
        /// Spacing.
        arrivals: Arrivals,
    },
    /// Open loop at a fixed rate.
    OpenRate {
        /// Arrivals per second.
        rate_per_s: f64,
        /// Spacing.
        arrivals: Arrivals,
    },
}

/// A pair to compare: `variant` ÷ `baseline`, as indices into the part's variants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contrast {
    /// The denominator.
    pub baseline: usize,
    /// The numerator.
    pub variant: usize,
}

/// A metric to compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Verified responses per second in the closed loop.
    #[default]
    Throughput,
    /// Median latency in the open loop (service time if there is only a closed loop).
    P50,
    /// 99th percentile of the same.
    P99,
    /// CPU time of the stack per served request.
    Cpu,
    /// Peak memory of the stack: of the sum of its processes' resident memory.
    Memory,
}

impl Metric {
    /// Every metric with the name that files, options and exports give it.
    pub const NAMES: [(&str, Metric); 5] = [
        ("throughput", Metric::Throughput),
        ("p50", Metric::P50),
        ("p99", Metric::P99),
        ("cpu", Metric::Cpu),
        ("memory", Metric::Memory),
    ];
}

/// CPUs of client and stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// One CPU for the client, the rest for the stacks.
    #[default]
    Split,
    /// Client and stacks share one CPU.
    Same,
    /// No pinning.
    Free,
}

/// Blocks, slices, precision.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Target half-width, as a fraction (0.01 is 1%).
    pub precision: f64,
    /// 1 − α, usually 0.95.
    pub confidence: f64,
    /// Blocks of the pilot.
    pub pilot_blocks: u32,
    /// Limit on the number of blocks.
    pub max_blocks: u32,
    /// Limit on the total time.
    pub max_time: Option<Nanos>,
    /// Length of a slice; longer if a variant's requests take long.
    pub slice: Nanos,
    /// Measured time per trial: the windows of its slices add up to it.
    pub window: Nanos,
    /// Warm-up per variant at the start of each block.
    pub warmup: Nanos,
    /// Load one variant at a time.
    pub isolated: bool,
    /// Draw what chance decides about a start for each variant of a block, instead of once for all of
    /// them.
    pub independent_starts: bool,
    /// Sample where the stacks' CPU time goes.
    pub why: bool,
    /// The whole measured time of a trial is one slice without a lead-in: actions happen at given
    /// moments of it, and what they cause must not fall between two slices.
    pub one_slice: bool,
    /// Whether the schedule was shortened; mentioned in the verdict.
    pub quick: bool,
    /// Declared margin of equivalence.
    pub margin: Option<Margin>,
}

impl Default for Process {
    /// An empty command; 30 s to be ready, SIGTERM and 10 s to stop.
    fn default() -> Process {
        Process {
            name: String::new(),
            command: String::new(),
            env: BTreeMap::new(),
            ready: Vec::new(),
            ready_timeout: Nanos::from_secs(30),
            stop_signal: StopSignal::Term,
            stop_timeout: Nanos::from_secs(10),
            beside_client: false,
        }
    }
}

impl Default for Schedule {
    /// A full run: a precision of 1% at 95%, a pilot of 10 blocks, windows of 1.5 s in slices of 25 ms.
    ///
    /// Ten such blocks of two variants take about a minute, and 90 seconds with an open loop. Slices
    /// are short because a virtual machine's CPUs change their speed for tenths of a second at a time,
    /// and a change between the slices of a round adds noise to a block. Windows and warm-ups are
    /// short because two starts of one server differ by a percent or so: many starts narrow the
    /// interval, long windows do not.
    fn default() -> Schedule {
        Schedule {
            precision: 0.01,
            confidence: 0.95,
            pilot_blocks: 10,
            max_blocks: 100,
            max_time: None,
            slice: Nanos::from_millis(25),
            window: Nanos::from_millis(1500),
            warmup: Nanos::from_millis(300),
            isolated: false,
            independent_starts: false,
            why: false,
            one_slice: false,
            quick: false,
            margin: None,
        }
    }
}

impl Schedule {
    /// Whether the schedule is possible; the error says why not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let share = |value: f64| value > 0.0 && value < 1.0;
        if !share(self.precision) {
            return Err("precision must lie between 0 and 1, such as 1%".to_owned());
        }
        if !share(self.confidence) {
            return Err("confidence must lie between 0 and 1, such as 95%".to_owned());
        }
        if self.margin.is_some_and(|margin| !share(margin.0)) {
            return Err("margin must lie between 0 and 1, such as 2%".to_owned());
        }
        if self.slice == Nanos::ZERO || self.window < self.slice {
            return Err(format!(
                "the window ({}) must hold at least one slice ({})",
                self.window, self.slice
            ));
        }
        if self.pilot_blocks < 2 {
            return Err("pilot_blocks must be at least 2: one block has no spread".to_owned());
        }
        if self.max_blocks < self.pilot_blocks {
            return Err(format!(
                "max_blocks ({}) must not be below pilot_blocks ({})",
                self.max_blocks, self.pilot_blocks
            ));
        }
        Ok(())
    }

    /// A shorter version of this schedule: 6 blocks in the pilot, windows of 1.2 s and warm-ups of
    /// 0.3 s at most. Precision, margin and layout stay the same, and the window if actions happen at
    /// given moments of it.
    pub fn quickened(&self) -> Schedule {
        // The moments of actions are given.
        let limit = if self.one_slice { self.window } else { Nanos::from_millis(1200) };
        let window = self.window.min(limit);
        Schedule {
            pilot_blocks: self.pilot_blocks.min(6),
            max_blocks: self.max_blocks.min(20),
            slice: self.slice.min(window),
            window,
            warmup: self.warmup.min(Nanos::from_millis(300)),
            quick: true,
            ..self.clone()
        }
    }
}

/// A margin of equivalence that was declared beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin(pub f64);

/// What a part changes, compared with another part of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The name of the other part.
    pub from: String,
    /// What is different: `a CPU for the client`.
    pub what: String,
}

/// A figure published by others.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedFigure {
    /// The variant it is about, if any.
    pub variant: Option<String>,
    /// What was published: `1,837 req/s, latency 5.44 ms mean`.
    pub figure: String,
    /// The figure as requests per second, for the chart, if it is one.
    pub throughput_per_s: Option<f64>,
    /// Source: where, when, on what hardware.
    pub source: String,
}
