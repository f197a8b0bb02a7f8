//! What a run is once it is written down. Every exporter reads this and nothing else.

use base::{Nanos, RunId, Seed, Timestamp};
use ledger::Ledger;
use serde::{Deserialize, Serialize};
use stats::{Estimate, Verdict};

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
    /// Could not go on; `reasons` says why.
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
    /// Reasons for which the whole run is invalid; empty means valid.
    pub reasons: Vec<String>,
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
    /// Where client and stacks ran, in words: `client on CPU 1, stack on CPU 0`.
    pub layout: String,
    /// The load in words: `64 connections, closed loop`.
    pub load: String,
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
    /// Reasons for which this part is invalid; empty means valid.
    pub reasons: Vec<String>,
    /// Half-width wanted, as a fraction.
    pub precision: f64,
    /// Whether the schedule was shortened.
    pub quick: bool,
    /// The unit of the primary metric is bytes per second rather than requests per second (bulk).
    pub bulk: bool,
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
    /// Who counted at the server, in words; `None` if nobody did.
    pub served_by: Option<String>,
    /// Why it was left out, if it was.
    pub skipped: Option<String>,
    /// The ledger of all blocks but the calibration, rejected ones included, from ready to stop.
    pub ledger: Ledger,
    /// Estimates over the accepted blocks, one per offer.
    pub summaries: Vec<Summary>,
}

/// What a variant did under one offer, over all accepted blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// `closed`, or `open`.
    pub offer: String,
    /// Arrivals per second, for an open loop.
    pub offered_per_s: Option<f64>,
    /// Verified responses per second.
    pub throughput_per_s: Estimate,
    /// Payload bytes per second.
    pub bytes_per_s: f64,
    /// Median, over trials, of latency percentiles (open) or service time percentiles (closed), with intervals.
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
    /// Why it was rejected; empty if it was accepted.
    pub rejected: Vec<String>,
    /// Length of the canary loop before and after.
    pub canary: [Nanos; 2],
    /// Share of CPU time stolen during the block, 0 to 1.
    pub steal: f64,
    /// One trial per variant and offer, and one named `warm-up` with the probes and the warm-up of each variant.
    pub trials: Vec<Trial>,
    /// The ledger of each variant from ready to stopped, with the server's own count.
    pub lives: Vec<Life>,
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
    /// The blocks that count: all but the calibration, which is block 0.
    pub fn measured_blocks(&self) -> impl Iterator<Item = &Block> + Clone {
        self.blocks.iter().filter(|block| block.index > 0)
    }
}

impl Block {
    /// The trials under an offer that is analysed: all but the warm-up.
    pub fn measured_trials(&self) -> impl Iterator<Item = &Trial> + Clone {
        self.trials.iter().filter(|trial| trial.offer == "closed" || trial.offer == "open")
    }

    /// Whether the block enters the analysis.
    pub fn accepted(&self) -> bool {
        self.rejected.is_empty()
    }
}

/// One variant under one offer in one block: its slices added up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Index of the variant.
    pub variant: u32,
    /// `closed`, `open`, or `warm-up`, which is in the ledger but never analysed.
    pub offer: String,
    /// Arrivals per second, for an open loop.
    pub offered_per_s: Option<f64>,
    /// When its first slice began.
    pub started: Timestamp,
    /// How many slices were added up.
    pub slices: u32,
    /// Measured time.
    pub window: Nanos,
    /// Requests completed in the window.
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
    /// CPU time of the client's threads during its slices.
    pub client_cpu: Nanos,
    /// Share of the busiest client thread that was busy, 0 to 1.
    pub client_busy: f64,
    /// Peak memory of the stack so far.
    pub peak_memory_bytes: Option<u64>,
    /// Completed requests by step; adds up to `ledger.counts.completed`.
    pub completed_by_step: Vec<u64>,
    /// The length of one step.
    pub step: Nanos,
    /// The variant's random dummy environment length in bytes.
    pub env_padding_bytes: u32,
}

impl Trial {
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
    /// `throughput`, `p50`, `p99`, `cpu` or `memory`.
    pub metric: String,
    /// `closed` or `open`.
    pub offer: String,
    /// Whether this is the declared primary metric; others are unadjusted.
    pub primary: bool,
    /// The ratio with its interval.
    pub ratio: Estimate,
    /// Confidence of the interval, e.g. 0.95.
    pub confidence: f64,
    /// How many comparisons the interval is adjusted for.
    pub adjusted_for: u32,
    /// Accepted blocks behind it.
    pub blocks: u32,
    /// The verdict.
    pub verdict: Verdict,
    /// The sentence that a person reads.
    pub sentence: String,
    /// Whether the interval is the anytime-valid one, because a person stopped the run.
    pub anytime: bool,
}

/// One result of a validity check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Which check: `ledger`, `errors`, `little`, `client_limited`, `lateness`, `steal`, `canary`, …
    pub check: String,
    /// How bad it is.
    pub severity: Severity,
    /// The block, if it speaks of one.
    pub block: Option<u32>,
    /// The variant's index, if it speaks of one.
    pub variant: Option<u32>,
    /// What was seen.
    pub value: f64,
    /// What is allowed.
    pub limit: f64,
    /// The sentence that a person reads, with what to do about it.
    pub sentence: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Weakens the result.
    Warning,
    /// The block was rejected.
    Rejected,
    /// The part is invalid.
    Invalid,
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

/// The machine that a run was made on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model.
    pub cpu_model: String,
    /// CPUs online.
    pub cpus: u32,
    /// Memory.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Distribution, from os-release.
    pub os: String,
    /// Hypervisor, if one shows itself.
    pub hypervisor: Option<String>,
    /// CPU frequency governor, if there is one.
    pub governor: Option<String>,
    /// Whether connection tracking is on the path of loopback traffic; `None` if that can't be seen.
    pub connection_tracking: Option<bool>,
    /// Cgroup version in use: 1, 2, or 0 for none that we may use.
    pub cgroup: u32,
    /// Further facts, by name: versions of servers and so on.
    pub facts: std::collections::BTreeMap<String, String>,
}
