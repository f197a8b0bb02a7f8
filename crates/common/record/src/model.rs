//! The recorded form of a run. Exporters read this and nothing else.

use base::{Machine, Nanos, RunId, Seed, Timestamp};
use ledger::Ledger;
use serde::{Deserialize, Serialize};
use stats::{Estimate, Judgement};

use crate::kinds::{KindComparison, KindTrial, LoadKind};
use crate::stream::{StreamComparison, StreamTimes};
use crate::{Capacity, Disruption, Distribution, Finding, Layout, Offer, Profile, Why};

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
    /// `tachograph capacity`.
    Capacity,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Still running, or killed.
    Running,
    /// All blocks are done.
    Done,
    /// Stopped by Ctrl-C; the data so far is reported.
    Interrupted,
    /// Failed; see [`Run::error`].
    Failed,
}

/// A run with all its data.
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
    /// One-line title.
    pub title: String,
    /// The question that the run answers.
    pub question: String,
    /// When it began.
    #[serde(serialize_with = "crate::json::nine_decimals")]
    pub started: Timestamp,
    /// When it ended; `None` while it runs.
    pub finished: Option<Timestamp>,
    /// The command that repeats the run, by argument, with `--seed`.
    pub command_line: Vec<String>,
    /// Version of tachograph, with the version of the method in its build metadata
    /// ([`crate::version_with_method`]).
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
    #[serde(skip)]
    pub parts: Vec<Part>,
}

/// One comparison of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Short name.
    pub name: String,
    /// The question that the part answers.
    pub question: String,
    /// Where client and stacks ran.
    pub layout: Layout,
    /// The load that all offers share.
    pub load: Load,
    /// What is compared.
    pub variants: Vec<Variant>,
    /// The blocks in the order in which they ran, including rejected ones.
    #[serde(skip)]
    pub blocks: Vec<Block>,
    /// The verdicts, primary first.
    pub comparisons: Vec<Comparison>,
    /// Findings of the checks.
    pub findings: Vec<Finding>,
    /// Figures published by others.
    pub published: Vec<PublishedFigure>,
    /// In what this part differs from others.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// Target half-width, as a fraction.
    #[serde(deserialize_with = "crate::json::nan_if_null")]
    pub precision: f64,
    /// Whether the schedule was shortened.
    pub quick: bool,
    /// Whether what chance decides about a start was drawn for each variant of a block instead of
    /// once for all of them.
    #[serde(default)]
    pub independent_starts: bool,
    /// How busy the machine was with other work, and what that cost; `None` before the analysis.
    pub disturbance: Option<Disturbance>,
    /// Whether the stacks' CPUs were sampled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub profiled: bool,
    /// What makes the differences in CPU time, for each comparison of CPU time, if that was sampled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<Why>,
    /// The ratios of single kinds of request, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindComparison>,
    /// The ratios of the parts of responses, if they were timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamComparison>,
    /// The search for capacities, if this was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
}

/// The load on every variant of a part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Requests in progress at once (closed loop), or at most (open loop): connections, or streams on
    /// them.
    pub connections: u32,
    /// Client threads.
    pub threads: u32,
    /// Whether each request uses a new connection.
    pub new_connection: bool,
    /// The kind of exchange.
    pub exchange: Exchange,
    /// The client's I/O backends; the variants of a part may use different ones.
    pub engines: Vec<Engine>,
    /// Whether client threads spin instead of sleeping.
    pub busy_poll: bool,
    /// Whether TCP connections are reset instead of closed (SO_LINGER 0).
    pub linger_zero: bool,
    /// Whether HTTP/2 is spoken instead of HTTP/1.1.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub http2: bool,
    /// Requests in progress at once on each connection, of which `connections` is a multiple; 0 for
    /// one.
    #[serde(default)]
    pub streams: u32,
    /// Whether variants differ in the version of HTTP or in the number of streams.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_mixed: bool,
    /// Whether any certificate is accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// Whether new connections continue earlier TLS sessions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls_resumption: bool,
    /// The expected status, if known: a response with another status failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The kinds of request, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<LoadKind>,
    /// Whether events in responses are counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub events: bool,
    /// The method that is called by gRPC, as `package.Service/Method`; `None` if there is none, or the
    /// kinds of request have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}

/// What one exchange is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Exchange {
    /// A request over HTTP and its response.
    #[default]
    Http,
    /// A unary call by gRPC.
    Grpc,
    /// Connect, receive a response, close.
    Oneshot,
    /// Messages echoed on a persistent connection.
    Echo {
        /// Message size.
        bytes: u64,
    },
    /// An endless stream, counted in chunks.
    Bulk {
        /// Chunk size.
        bytes: u64,
    },
    /// Messages of lines, to which there is no response.
    Lines {
        /// Lines in a message.
        lines: u32,
        /// Message size.
        bytes: u64,
    },
}

/// I/O backend of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Readiness-based.
    Epoll,
    /// Completion-based.
    IoUring,
}

/// How busy the machine was with other work while a part ran, and what that cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// CPUs used by other processes, on average (0.4: 40% of one CPU); `None` if unknown.
    pub other_cpus: Option<f64>,
    /// Share of CPU time that the hypervisor gave to other guests; `None` if unknown.
    pub stolen: Option<f64>,
    /// Rounds of slices in the complete blocks.
    pub rounds: u32,
    /// Rounds left out because other processes or the hypervisor used CPU time in them.
    pub rounds_left_out: u32,
    /// Half-width of the first primary comparison, as a fraction.
    pub half_width: Option<f64>,
    /// Estimated half-width on a quiet machine, from the least disturbed blocks; `None` if there
    /// are too few of them.
    pub half_width_if_quiet: Option<f64>,
}

/// One of the things compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// The commands of its stack as written by the user.
    pub commands: Vec<String>,
    /// The target as written (`http://unix:$SOCKET:/`).
    pub target: String,
    /// Source of the server-side count, if there is one.
    pub served_by: Option<ServedBy>,
    /// The error that kept it from starting, if any.
    pub skipped: Option<String>,
    /// Whether it is a null server, which only shows how fast the client is.
    pub ceiling: bool,
    /// The ledger of all blocks except the calibration, from ready to stopped, including rejected
    /// blocks.
    pub ledger: Ledger,
    /// Estimates from the accepted blocks, one per offer.
    pub summaries: Vec<Summary>,
}

/// Source of a server-side count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "place", rename_all = "snake_case")]
pub enum ServedBy {
    /// The WSGI counter in the application.
    Wsgi,
    /// nginx's stub_status: its address.
    StubStatus(String),
    /// A page: its address and the pattern of the count.
    Page(String),
    /// The number of lines of a log file.
    LogLines(String),
    /// The size of a file.
    FileSize(String),
    /// A file that contains the count.
    CounterFile(String),
}

/// A metric that is compared.
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

/// Estimates for a variant under one offer, over all accepted blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Closed or open.
    pub offer: Offer,
    /// Arrivals per second, for an open loop.
    pub offered_per_s: Option<f64>,
    /// Verified responses per second.
    pub throughput_per_s: Estimate,
    /// Payload bytes per second.
    #[serde(deserialize_with = "crate::json::nan_if_null")]
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
    /// Number within the part, from 1, including rejected blocks.
    pub index: u32,
    /// When it began.
    #[serde(serialize_with = "crate::json::nine_decimals")]
    pub started: Timestamp,
    /// How long it took, including starts and stops.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// The order of slices, as variant indices.
    pub order: Vec<u32>,
    /// How it ended, which decides whether it is analysed.
    pub state: BlockState,
    /// Duration of the reference loop before and after the block.
    #[serde(rename = "canary_ns")]
    pub canary: [Nanos; 2],
    /// Share of CPU time stolen during the block, 0 to 1; `None` if unknown.
    pub steal: Option<f64>,
    /// One trial per variant and offer, and one per variant under the offer `warm-up`, with its
    /// probes and warm-up.
    #[serde(skip)]
    pub trials: Vec<Trial>,
    /// The ledger of each variant from ready to stopped, with the server-side count.
    pub lives: Vec<Life>,
}

/// How a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockState {
    /// It determined rate, warm-up and slices, and is never analysed.
    Calibration,
    /// All of its slices ran.
    Complete,
    /// The user stopped the run in the middle of it.
    Interrupted,
    /// A stack failed, so some slices are missing.
    Failed,
    /// The run ended before the block was complete.
    Unfinished,
}

impl BlockState {
    /// The word in JSON and SQL.
    pub fn word(self) -> &'static str {
        match self {
            BlockState::Calibration => "calibration",
            BlockState::Complete => "complete",
            BlockState::Interrupted => "interrupted",
            BlockState::Failed => "failed",
            BlockState::Unfinished => "unfinished",
        }
    }
}

/// One variant in one block, from ready to stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Life {
    /// Index of the variant.
    pub variant: u32,
    /// All its requests, with the server-side count.
    pub ledger: Ledger,
}

impl Part {
    /// All blocks except the calibration (block 0).
    pub fn measured_blocks(&self) -> impl Iterator<Item = &Block> + Clone {
        self.blocks.iter().filter(|block| block.index > 0)
    }

    /// The blocks that enter the analysis.
    pub fn complete_blocks(&self) -> impl Iterator<Item = &Block> + Clone {
        self.measured_blocks().filter(|block| block.is_complete())
    }

    /// The findings that forbid verdicts.
    pub fn invalid(&self) -> impl Iterator<Item = &Finding> + Clone {
        self.findings.iter().filter(|finding| finding.is_invalid())
    }

    /// Whether messages are sent to which there is no response.
    pub fn is_one_way(&self) -> bool {
        matches!(self.load.exchange, Exchange::Lines { .. })
    }

    /// Whether throughput is in bytes per second instead of requests per second.
    pub fn is_bulk(&self) -> bool {
        matches!(self.load.exchange, Exchange::Bulk { .. })
    }
}

impl Block {
    /// A block without trials.
    pub fn new(index: u32, started: Timestamp, state: BlockState) -> Block {
        Block {
            index,
            started,
            elapsed: Nanos::ZERO,
            order: Vec::new(),
            state,
            canary: [Nanos::ZERO; 2],
            steal: None,
            trials: Vec::new(),
            lives: Vec::new(),
        }
    }

    /// The trials under an offer that is analysed.
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
    #[serde(serialize_with = "crate::json::nine_decimals")]
    pub started: Timestamp,
    /// Its slices, in order.
    #[serde(skip)]
    pub slices: Vec<Slice>,
    /// Measured time: the sum of the windows of the slices kept.
    #[serde(rename = "window_ns")]
    pub window: Nanos,
    /// Requests completed in those windows.
    pub completed_in_window: u64,
    /// Payload bytes of those requests.
    pub payload_bytes: u64,
    /// The client's ledger of these slices; `served` and `series` if they were read per trial.
    pub ledger: Ledger,
    /// Latency, for an open loop.
    pub latency: Option<Distribution>,
    /// Service time.
    pub service_time: Distribution,
    /// The client's own lateness (open loop), without waits for a free connection.
    pub lateness: Option<Distribution>,
    /// CPU time of the stack during its slices.
    #[serde(rename = "stack_cpu_ns")]
    pub stack_cpu: Option<Nanos>,
    /// Busy time of the whole machine during its slices.
    #[serde(rename = "machine_busy_ns")]
    pub machine_busy: Option<Nanos>,
    /// CPU time of each client thread during its slices.
    pub client: Vec<ThreadUse>,
    /// Peak memory of the stack so far: the largest sum of its processes' resident memory, in bytes.
    pub peak_memory_bytes: Option<u64>,
    /// Completed requests by step; adds up to `ledger.counts.completed`.
    pub completed_by_step: Vec<u64>,
    /// The length of one step.
    #[serde(rename = "step_ns")]
    pub step: Nanos,
    /// Length of the variant's random dummy environment variable, in bytes.
    pub env_padding_bytes: u32,
    /// The TLS handshakes of its new connections, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshakes: Option<Handshakes>,
    /// What was done to the stack meanwhile, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruption: Option<Disruption>,
    /// Where the CPU time of the stack went during its slices, if that was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Each kind of request of [`Load::kinds`], if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindTrial>,
    /// Events and the parts of responses, if they were counted and timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamTimes>,
}

/// TLS handshakes, which are no part of any request's service time unless the request waited for its
/// connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Handshakes {
    /// The version of the protocol, such as `TLS 1.3`.
    pub version: String,
    /// The cipher suite, as rustls names it.
    pub cipher: String,
    /// From the first to the last message of each.
    pub took: Distribution,
    /// How many continued an earlier session.
    pub resumed: u64,
}

/// One slice: a short stretch of load on one variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// Its round, from 0: every variant has one slice in each round.
    pub round: u32,
    /// Measured time.
    pub window: Nanos,
    /// Requests completed in the window.
    pub completed: u64,
    /// CPUs used by other processes meanwhile (0.4: 40% of one CPU); `None` if unknown.
    pub other_cpus: Option<f64>,
    /// Share of CPU time stolen meanwhile; `None` if unknown.
    pub stolen: Option<f64>,
    /// Whether its round is kept. Rounds are left out for all variants alike, depending on the
    /// machine's activity.
    pub kept: bool,
}

/// CPU time of a client thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// CPU time used.
    #[serde(rename = "cpu_ns")]
    pub cpu: Nanos,
    /// Wall time.
    #[serde(rename = "wall_ns")]
    pub wall: Nanos,
}

impl ThreadUse {
    /// Busy share of the thread's time, 0 to 1.
    pub fn busy(&self) -> f64 {
        self.cpu.0 as f64 / self.wall.0.max(1) as f64
    }
}

impl Trial {
    /// CPU time of all client threads.
    pub fn client_cpu(&self) -> Nanos {
        self.client.iter().fold(Nanos::ZERO, |sum, thread| sum + thread.cpu)
    }

    /// Busy share of the busiest client thread, 0 to 1.
    pub fn client_busy(&self) -> f64 {
        self.client.iter().map(ThreadUse::busy).fold(0.0, f64::max)
    }

    /// Verified responses per second of window.
    pub fn throughput_per_s(&self) -> f64 {
        self.completed_in_window as f64 / self.window.as_secs_f64()
    }
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
    /// Whether this is the declared primary metric; intervals of others are unadjusted.
    pub primary: bool,
    /// Ratio, interval and verdict.
    pub judgement: Judgement,
    /// Why the verdict is INVALID: indices into [`Part::findings`].
    pub because: Vec<u32>,
}

/// What a part changes, compared with another part of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The name of the other part. It is missing from the run if it was not selected.
    pub from: String,
    /// What is different: `a CPU for the client`.
    pub what: String,
}

/// A figure published by others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedFigure {
    /// The variant it is about.
    pub variant: Option<String>,
    /// The figure.
    pub figure: String,
    /// The same as requests per second, if it is one.
    pub throughput_per_s: Option<f64>,
    /// Source: where, when, on what hardware.
    pub source: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether values are read from JSON by their words.
    fn have_words<T: Serialize + Copy>(all: &[T], word: fn(T) -> &'static str) {
        for one in all {
            assert_eq!(serde_json::to_value(one).unwrap(), word(*one));
        }
    }

    #[test]
    fn words_are_those_that_are_read_again() {
        let unfinished = [BlockState::Failed, BlockState::Interrupted, BlockState::Unfinished];
        have_words(&unfinished, BlockState::word);
        have_words(&[BlockState::Complete, BlockState::Calibration], BlockState::word);
        use Metric::{Cpu, Memory, P50, P99, Throughput};
        have_words(&[Throughput, P50, P99, Cpu, Memory], Metric::word);
        use Offer::{Calibration, Closed, Open, WarmUp};
        have_words(&[Closed, Open, WarmUp, Calibration], Offer::word);
    }
}
