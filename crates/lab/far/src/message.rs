//! The messages of both ends. They change with every build: the two ends must be the same one.

use base::{CpuSet, Machine, Nanos, RunId, Seed};
use drive::{EngineKind, LearnedResponse, Life, Observation, RoundTrip, Slice, ThreadShare};
use host::{Identity, Reading, Way};
use profile::{ProfileStep, ProfilerOptions};
use record::Profile;
use serde::{Deserialize, Serialize};
use spec::{Load, ServedBy};
use stage::server_count::Count;
use stage::{ErrandEnd, FilePiece, StopReport};

use crate::error::AgentError;

/// The first frame of both ends; the only one that every build can read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Version and commit of the binary.
    pub(crate) tachograph: String,
}

/// Messages to the agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToAgent {
    /// The near end is alive.
    Beat,
    /// End slices and starts early.
    Stop,
    /// A question, which is answered under its number.
    Ask { id: u64, ask: Ask },
}

/// Messages of the agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromAgent {
    /// The agent is alive.
    Beat,
    /// The answer to a question.
    Reply { id: u64, answer: Result<Answer, AgentError> },
}

/// What the near end asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    Facts,
    Clock,
    Claim(Claim),
    Canary(CpuSet),
    Way { server: String },
    Begin(RunId),
    FilesFolder,
    Piece(FilePiece),
    Errand(ErrandOrder),
    Python { requirements: Vec<String>, interpreter: Option<String> },
    Hook { option: String, command: String, folder: Option<std::path::PathBuf> },
    Start { stack: Box<spec::Stack>, options: Box<StackOptions> },
    Expand { stack: u64, text: String },
    Look(Look),
    Unpinned { stack: u64 },
    LogTail { stack: u64, count: usize },
    End { stack: u64 },
    Sample(ProfilerOptions),
    Watch { stack: u64, folders: Vec<std::path::PathBuf> },
    Step { stack: u64, step: ProfileStep },
    Profiles { stack: u64 },
    Counter { by: ServedBy, stack: u64 },
    Read { counter: u64 },
    ReadSettled { counter: u64, quiet: Nanos, patience: Nanos },
    ReadSettledFrom { counter: u64, base: Count, wanted: u64, quiet: Nanos, patience: Nanos },
    Open(Box<OpenSession>),
    Learn { session: u64 },
    KeepLearning { session: u64 },
    Settle { session: u64 },
    Run { session: u64, slice: Slice, begin: Option<Nanos> },
    Close { session: u64 },
}

/// What the agent answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Facts(Box<Facts>),
    Instant(Nanos),
    Way { way: Option<Way>, round_trip: RoundTrip },
    Done,
    Folder(std::path::PathBuf),
    Ended(ErrandEnd),
    Text(String),
    Maybe(Option<String>),
    Lines(Vec<String>),
    Made(u64),
    Counter { id: u64, per_request: u64, counts_discarded: bool },
    Looked(Box<MachineReading>),
    Stopped(StopReport),
    Profiles(Vec<(usize, Profile)>),
    Count(Count),
    Opened { id: u64, engine: EngineKind, life: Life },
    Learned { learned: LearnedResponse, life: Life },
    Ran { seen: Box<Observation>, begun: Option<Nanos>, life: Life },
    Closed(Life),
}

/// What the agent knows of its machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// The machine, for the record.
    pub machine: Machine,
    /// Which machine and network it is.
    pub identity: Identity,
    /// The CPUs on which the agent may run.
    pub cpus: CpuSet,
    /// Additional environment variables of every process there.
    pub env: Vec<(String, String)>,
    /// The addresses of the ssh connection: of the near end, and of this machine; `None` without
    /// one.
    pub ssh: Option<(String, String)>,
    /// The shortest time for which the activity of other processes can be measured; `None` if it
    /// cannot.
    pub shortest_slice: Option<Nanos>,
}

/// Exclusive use of a machine's CPUs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// The CPUs; all if empty.
    pub cpus: CpuSet,
    /// Shown to other measurements there.
    pub command: String,
    /// Whether to wait until they are free.
    pub wait: bool,
}

/// A command that is neither measured nor a server; see [`stage::Errand`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrandOrder {
    /// Its name, for messages.
    pub name: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Its working directory.
    pub folder: std::path::PathBuf,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// When to stop it.
    pub timeout: Nanos,
}

/// How to start a stack on another machine; see [`stage::StartOptions`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StackOptions {
    /// The variant's name, for messages.
    pub name: String,
    /// The CPUs that the stack may use; empty for all.
    pub cpus: CpuSet,
    /// The CPUs of processes that run beside the client.
    pub client_cpus: CpuSet,
    /// What chance decides about the start.
    pub draws: stage::Draws,
    /// The value of `$HOST`.
    pub host: String,
    /// Folders on that machine to prepend to `PATH`.
    pub path_prepend: Vec<std::path::PathBuf>,
    /// The folder of `$FILES` on that machine.
    pub files: Option<std::path::PathBuf>,
    /// The working directory on that machine, if it is not the user's.
    pub working_dir: Option<std::path::PathBuf>,
    /// Determines ports and the names of folders.
    pub seed: Seed,
}

/// What is not bound to this machine of the options of a start here.
impl From<stage::StartOptions> for StackOptions {
    fn from(options: stage::StartOptions) -> StackOptions {
        StackOptions {
            name: options.name,
            cpus: options.cpus,
            client_cpus: options.client_cpus,
            draws: options.draws,
            host: options.host,
            path_prepend: options.path_prepend,
            files: options.files,
            working_dir: options.working_dir,
            seed: options.seed,
        }
    }
}

/// What to read around a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// The stack whose CPU time to read, and whether it is alive.
    pub stack: Option<u64>,
    /// Whether to read its memory too, which takes longer.
    pub memory: bool,
}

/// What was read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MachineReading {
    /// The machine's counters.
    pub reading: Reading,
    /// How often a quota throttled the agent and its stacks.
    pub throttled: Option<u64>,
    /// CPU time of the stack so far.
    pub stack_cpu: Option<Nanos>,
    /// Peak memory of the stack so far, if it was read.
    pub peak_memory_bytes: Option<u64>,
    /// Why the stack is not as it was when it became ready.
    pub died: Option<String>,
}

/// A session to open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OpenSession {
    pub(crate) target: String,
    pub(crate) load: Load,
    pub(crate) cpus: CpuSet,
    pub(crate) seed: Seed,
    pub(crate) step: Nanos,
    pub(crate) among: Option<ThreadShare>,
}
