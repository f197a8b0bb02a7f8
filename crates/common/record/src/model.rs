//! What a run is once it is written down. Every exporter reads this and nothing else.

use base::{CpuSet, Machine, Nanos, RunId, Seed, Timestamp};
use ledger::Ledger;
use serde::{Deserialize, Serialize};
use stats::{Estimate, Judgement};

use crate::Finding;

/// Which command made a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// `tachograph load`.
    Load,
    /// `tachograph compare`.
    Compare,
    /// `tachograph run`.
    Run,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Still going, or killed before it could say otherwise.
    Running,
    /// All blocks were done.
    Done,
    /// Stopped by Ctrl-C; what was measured is reported.
    Interrupted,
    /// Could not go on; [`Run::error`] says why.
    Failed,
}

/// Everything that is known of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its name.
    pub id: RunId,
    /// Which command made it.
    pub kind: RunKind,
    /// How it ended.
    pub state: RunState,
    /// The experiment's name, or `compare`.
    pub name: String,
    /// One line of title.
    pub title: String,
    /// The question it answers.
    pub question: String,
    /// When it began.
    pub started: Timestamp,
    /// When it ended, once it has.
    pub finished: Option<Timestamp>,
    /// The command that repeats it, argument by argument, with `--seed`.
    pub command_line: Vec<String>,
    /// Our own version.
    pub version: String,
    /// The seed of every random choice.
    pub seed: Seed,
    /// The experiment's text.
    pub plan: String,
    /// The machine.
    pub machine: Machine,
    /// The error that ended the run, if it failed.
    pub error: Option<String>,
    /// The parts, in order.
    pub parts: Vec<Part>,
}

/// One comparison of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Short name.
    pub name: String,
    /// What it answers.
    pub question: String,
    /// Where client and stacks ran.
    pub layout: Layout,
    /// The load that all offers share.
    pub load: Load,
    /// What is compared.
    pub variants: Vec<Variant>,
    /// The blocks, rejected ones included, in the order in which they ran.
    pub blocks: Vec<Block>,
    /// The verdicts, the primary one first.
    pub comparisons: Vec<Comparison>,
    /// What weakens or breaks the result.
    pub findings: Vec<Finding>,
    /// Figures that others published.
    pub published: Vec<Published>,
    /// Half-width wanted, as a fraction.
    pub precision: f64,
    /// Whether the schedule was shortened.
    pub quick: bool,
    /// How busy the machine was with something else, and what that cost; `None` before the analysis.
    pub disturbance: Option<Disturbance>,
}

/// Where client and stacks ran. Empty sets are not pinned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// CPUs of the client's threads.
    pub client: CpuSet,
    /// CPUs of every stack.
    pub stack: CpuSet,
}

impl Layout {
    /// Whether client and stacks may run on the same CPU.
    pub fn is_shared(&self) -> bool {
        self.client.is_empty() || self.client == self.stack
    }
}

/// The load on every variant of a part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Connections in use at once (closed loop), or at most (open loop).
    pub connections: u32,
    /// Client threads.
    pub threads: u32,
    /// Whether each request gets a connection of its own.
    pub new_connection: bool,
    /// What one exchange is.
    pub exchange: Exchange,
    /// What moves the client's bytes; variants of one part may differ in it.
    pub engines: Vec<Engine>,
    /// Whether client threads spin instead of sleeping.
    pub busy_poll: bool,
    /// Whether TCP connections are reset instead of closed (SO_LINGER 0).
    pub linger_zero: bool,
    /// The status of every completed answer, where it is known: an answer with another one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// What one exchange is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Exchange {
    /// An HTTP/1.1 request and its response.
    #[default]
    Http,
    /// Connect, receive an answer, close.
    Oneshot,
    /// Ping-pong of messages on a kept connection.
    Echo {
        /// Bytes of a message.
        bytes: u64,
    },
    /// A stream without end, counted in chunks.
    Bulk {
        /// Bytes of a chunk.
        bytes: u64,
    },
}

/// What moves the client's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Readiness.
    Epoll,
    /// Completions.
    IoUring,
}

/// How busy the machine was with something else while a part ran, and what that cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// CPUs that other processes used while slices were loaded, on average (0.4: 40% of one CPU);
    /// `None` where it cannot be seen.
    pub other_cpus: Option<f64>,
    /// Share of CPU time that the hypervisor gave to other guests; `None` where it cannot be seen.
    pub stolen: Option<f64>,
    /// Rounds of slices in the blocks that count.
    pub rounds: u32,
    /// Rounds that were left out because other processes or the hypervisor took CPU time in them.
    pub rounds_left_out: u32,
    /// Half-width of the first primary comparison, as a fraction.
    pub half_width: Option<f64>,
    /// What that half-width would have come to on a quiet machine, by the blocks that were least
    /// disturbed; `None` where there are too few of them.
    pub half_width_if_quiet: Option<f64>,
}

/// One of the things compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// The commands of its stack as the person wrote them.
    pub commands: Vec<String>,
    /// Where the load went, as written (`http://unix:$SOCKET:/`).
    pub target: String,
    /// Where the server's own count was read; `None` where there is none.
    pub served_by: Option<ServedBy>,
    /// The error that kept it from starting, if one did.
    pub skipped: Option<String>,
    /// Whether it only shows how fast the client is: a server that does nothing.
    pub ceiling: bool,
    /// The ledger of all blocks but the calibration, rejected ones included, from ready to stop.
    pub ledger: Ledger,
    /// Estimates over the accepted blocks, one per offer.
    pub summaries: Vec<Summary>,
}

/// Where a server's own count was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "place", rename_all = "snake_case")]
pub enum ServedBy {
    /// The WSGI counter in the application.
    Wsgi,
    /// nginx's stub_status, by its address.
    StubStatus(String),
    /// A page, by its address and the pattern of the count.
    Page(String),
    /// The lines of a log file.
    LogLines(String),
    /// The size of a file.
    FileSize(String),
    /// A file that holds the count.
    CounterFile(String),
}

/// How requests were offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offer {
    /// A fixed number of connections, each waiting for its answer.
    Closed,
    /// Arrivals at a given rate, whatever the server does.
    Open,
    /// Probes and warm-up of a block: in the ledger, never analysed.
    WarmUp,
    /// The calibration's loads: in the ledger, never analysed.
    Calibration,
}

impl Offer {
    /// The word in JSON, SQL and CSV: `closed`, `open`, `warm-up`, `calibration`.
    pub fn word(self) -> &'static str {
        match self {
            Offer::Closed => "closed",
            Offer::Open => "open",
            Offer::WarmUp => "warm-up",
            Offer::Calibration => "calibration",
        }
    }

    /// Whether its trials are analysed.
    pub fn is_measured(self) -> bool {
        matches!(self, Offer::Closed | Offer::Open)
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Verified responses per second (bytes per second of a bulk exchange).
    Throughput,
    /// Median latency (open loop) or service time (closed loop).
    P50,
    /// 99th percentile of the same.
    P99,
    /// CPU time of the stack per served request.
    Cpu,
    /// Peak memory of the stack.
    Memory,
}

impl Metric {
    /// The word in JSON, SQL and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Metric::Throughput => "throughput",
            Metric::P50 => "p50",
            Metric::P99 => "p99",
            Metric::Cpu => "cpu",
            Metric::Memory => "memory",
        }
    }
}

/// What a variant did under one offer, over all accepted blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Closed or open.
    pub offer: Offer,
    /// Arrivals per second, for an open loop.
    pub offered_per_s: Option<f64>,
    /// Verified responses per second.
    pub throughput_per_s: Estimate,
    /// Payload bytes per second.
    pub bytes_per_s: f64,
    /// Geometric mean, over trials, of their medians of latency (open) or service time (closed).
    pub p50_ns: Estimate,
    /// The same for the 90th percentile.
    pub p90_ns: Estimate,
    /// The same for the 99th percentile.
    pub p99_ns: Estimate,
    /// CPU of the stack per served request.
    pub cpu_ns_per_request: Option<Estimate>,
    /// The whole machine's busy time per request.
    pub machine_ns_per_request: Option<Estimate>,
    /// Largest peak memory of the stack.
    pub peak_memory_bytes: Option<u64>,
}

/// One block: every variant started fresh, warmed, and loaded in slices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Number within the part, from 1, rejected ones counted.
    pub index: u32,
    /// When it began.
    pub started: Timestamp,
    /// How long it took, starts and stops included.
    pub elapsed: Nanos,
    /// The order of slices, as variant indices.
    pub order: Vec<u32>,
    /// How it ended, and so whether it counts.
    pub state: BlockState,
    /// Length of the reference loop before and after.
    pub canary: [Nanos; 2],
    /// Share of CPU time stolen during the block, 0 to 1; `None` where it cannot be seen.
    pub steal: Option<f64>,
    /// One trial per variant and offer, and one named `warm-up` with the probes and the warm-up of each variant.
    pub trials: Vec<Trial>,
    /// The ledger of each variant from ready to stopped, with the server's own count.
    pub lives: Vec<Life>,
}

/// How a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockState {
    /// It fixed rate, warm-up and slices, and is never analysed.
    Calibration,
    /// All of its slices ran.
    Complete,
    /// A person stopped the run in the middle of it.
    Interrupted,
    /// A stack failed, so that its slices are not all there.
    Failed,
    /// The run ended before it was written whole.
    Unfinished,
}

/// One variant's life in one block, from ready to stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Life {
    /// Index of the variant.
    pub variant: u32,
    /// All requests of that life, with the server's own count of them.
    pub ledger: Ledger,
}

impl Part {
    /// All blocks but the calibration, which is block 0.
    pub fn measured_blocks(&self) -> impl Iterator<Item = &Block> + Clone {
        self.blocks.iter().filter(|block| block.index > 0)
    }

    /// The blocks that enter the analysis.
    pub fn complete_blocks(&self) -> impl Iterator<Item = &Block> + Clone {
        self.measured_blocks().filter(|block| block.is_complete())
    }

    /// What forbids verdicts.
    pub fn invalid(&self) -> impl Iterator<Item = &Finding> + Clone {
        self.findings.iter().filter(|finding| finding.is_invalid())
    }

    /// Whether bytes per second are counted rather than requests per second.
    pub fn is_bulk(&self) -> bool {
        matches!(self.load.exchange, Exchange::Bulk { .. })
    }
}

impl Block {
    /// The trials under an offer that is analysed: all but the warm-up.
    pub fn measured_trials(&self) -> impl Iterator<Item = &Trial> + Clone {
        self.trials.iter().filter(|trial| trial.offer.is_measured())
    }

    /// Whether the block enters the analysis.
    pub fn is_complete(&self) -> bool {
        self.state == BlockState::Complete
    }
}

/// One variant under one offer in one block: its slices added up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Index of the variant.
    pub variant: u32,
    /// How requests were offered.
    pub offer: Offer,
    /// Arrivals per second, for an open loop.
    pub offered_per_s: Option<f64>,
    /// When its first slice began.
    pub started: Timestamp,
    /// Its slices, in order.
    pub slices: Vec<Slice>,
    /// Measured time: the windows of the slices that were kept.
    pub window: Nanos,
    /// Requests completed in those windows.
    pub completed_in_window: u64,
    /// Payload bytes of those.
    pub payload_bytes: u64,
    /// The client's ledger of these slices; `served` and `series` where they were read per trial.
    pub ledger: Ledger,
    /// Latency (open loop) or `None`.
    pub latency: Option<Distribution>,
    /// Service time.
    pub service_time: Distribution,
    /// How late the client itself was with its requests (open loop); waits for a connection are not its.
    pub lateness: Option<Distribution>,
    /// CPU time of the stack during its slices.
    pub stack_cpu: Option<Nanos>,
    /// Busy time of the whole machine during its slices.
    pub machine_busy: Option<Nanos>,
    /// What each client thread cost during its slices.
    pub client: Vec<ThreadUse>,
    /// Peak memory of the stack so far.
    pub peak_memory_bytes: Option<u64>,
    /// Completed requests by step; adds up to `ledger.counts.completed`.
    pub completed_by_step: Vec<u64>,
    /// The length of one step.
    pub step: Nanos,
    /// The variant's random dummy environment length in bytes.
    pub env_padding_bytes: u32,
}

/// One slice: a short stretch of load on one variant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// The round that it belongs to, from 0: every variant has one slice in each.
    pub round: u32,
    /// Measured time.
    pub window: Nanos,
    /// Requests completed in the window.
    pub completed: u64,
    /// CPUs that other processes used meanwhile (0.4: 40% of one CPU); `None` where it cannot be seen.
    pub other_cpus: Option<f64>,
    /// Share of CPU time stolen meanwhile; `None` where it cannot be seen.
    pub stolen: Option<f64>,
    /// Whether its round is kept; a round is left out for all variants alike, by what the machine did.
    pub kept: bool,
}

/// What a client thread cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// CPU time used.
    pub cpu: Nanos,
    /// Wall time.
    pub wall: Nanos,
}

impl ThreadUse {
    /// Share of the time that the thread was busy, 0 to 1.
    pub fn busy(&self) -> f64 {
        self.cpu.0 as f64 / self.wall.0.max(1) as f64
    }
}

impl Trial {
    /// CPU time of all client threads.
    pub fn client_cpu(&self) -> Nanos {
        self.client.iter().fold(Nanos::ZERO, |sum, thread| sum + thread.cpu)
    }

    /// Share of the busiest client thread's time that it was busy, 0 to 1.
    pub fn client_busy(&self) -> f64 {
        self.client.iter().map(ThreadUse::busy).fold(0.0, f64::max)
    }

    /// Verified responses per second of window.
    pub fn throughput_per_s(&self) -> f64 {
        self.completed_in_window as f64 / self.window.as_secs_f64()
    }
}

/// A distribution of times in nanoseconds: percentiles at hand, the full histogram beside.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// Smallest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// 99.99th percentile.
    pub p99_99_ns: u64,
    /// Largest.
    pub max_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// The histogram in HdrHistogram's V2 compressed form, which its tools in every language read; empty if unknown.
    #[serde(skip)]
    pub hdr_v2: Vec<u8>,
}

/// A verdict on `variant ÷ baseline`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Index of the baseline.
    pub baseline: u32,
    /// Index of the variant.
    pub variant: u32,
    /// What is compared.
    pub metric: Metric,
    /// The offer whose trials are compared.
    pub offer: Offer,
    /// Whether this is the declared primary metric; others are unadjusted.
    pub primary: bool,
    /// Ratio, interval and verdict.
    pub judgement: Judgement,
    /// Why the verdict is INVALID: indices into [`Part::findings`].
    pub because: Vec<u32>,
}

/// A figure that others published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The variant it speaks of.
    pub variant: Option<String>,
    /// The figure.
    pub figure: String,
    /// The same as requests per second, if it is one.
    pub throughput_per_s: Option<f64>,
    /// Where, when, on what.
    pub source: String,
}
