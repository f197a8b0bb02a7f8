//! The kernel's samples: one ring per CPU.

use base::{CpuSet, Nanos};
use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, Clock, SampleFlag, Sampler as Ring};

use crate::chain::kernel_part;
use crate::error::ProfileError;
use crate::unwind::{self, Registers};

/// Bytes of all rings of samples together, and limits of one of them: at the default rate, one of the
/// largest takes a second to fill.
const RINGS: usize = 128 << 20;
const RING_MIN: usize = 1 << 20;
const RING_MAX: usize = 32 << 20;

/// Bytes of a ring that only tells which processes are started.
const RING_OF_STARTS: usize = 256 << 10;

/// Bytes of a program's stack that are copied with each sample. A call of a Python function takes about
/// 700 bytes.
const STACK_BYTES: u32 = 16 << 10;

/// What the kernel noted.
#[derive(Debug)]
pub(crate) enum PerfEvent {
    /// A sample of a process.
    Sample(Sample),
    /// A process was started.
    Forked {
        /// Its number.
        pid: u32,
        /// Who started it.
        parent: u32,
    },
    /// Memory without a file became executable.
    Generated {
        /// Whose.
        pid: u32,
        /// From and up to which address.
        range: (u64, u64),
    },
}

/// A sample.
#[derive(Debug)]
pub(crate) struct Sample {
    /// When, on the monotonic clock.
    pub(crate) at: Nanos,
    /// The process; 0 if the CPU was idle.
    pub(crate) pid: u32,
    /// Addresses in the kernel, the innermost first.
    pub(crate) kernel: Vec<u64>,
    /// The program's registers; `None` for what is no program.
    pub(crate) registers: Option<Registers>,
    /// A copy of the program's stack from its top.
    pub(crate) stack: Vec<u8>,
}

/// Open rings.
pub(crate) struct Sampler {
    /// Which processes are started, on every CPU.
    starts: Vec<Ring>,
    /// Samples, of the stacks' CPUs.
    samples: Vec<Ring>,
    /// Records that the kernel could not write, because a ring was full.
    pub(crate) lost: u64,
}

impl Sampler {
    /// Notes from now on which processes are started on all of `online`. Samples what the `sampled`
    /// CPUs execute, once in each `period` of their time, but not before [`Sampler::go_on`].
    pub(crate) fn open(
        sampled: &CpuSet,
        online: &CpuSet,
        period: Nanos,
    ) -> Result<Sampler, ProfileError> {
        let size = (RINGS / sampled.0.len().max(1)).clamp(RING_MIN, RING_MAX);
        let samples =
            |cpu| samples(cpu, period, size).map_err(|error| ProfileError::of(cpu, error));
        let starts = |cpu| starts(cpu).map_err(|error| ProfileError::of(cpu, error));
        Ok(Sampler {
            samples: sampled.iter().map(samples).collect::<Result<_, _>>()?,
            starts: online.iter().map(starts).collect::<Result<_, _>>()?,
            lost: 0,
        })
    }

    /// Samples from now on.
    pub(crate) fn go_on(&mut self) {
        // What cannot be switched on takes no samples, and so is missing in the sum.
        self.samples.iter_mut().for_each(|ring| drop(ring.enable()));
    }

    /// Takes no more samples.
    pub(crate) fn pause(&mut self) {
        self.samples.iter_mut().for_each(|ring| drop(ring.disable()));
    }

    /// Everything that was noted since the last call: first who was started, then what was generated,
    /// then samples, each in the order of time.
    pub(crate) fn drain(&mut self) -> Vec<PerfEvent> {
        let mut events: Vec<((u8, u64), PerfEvent)> = Vec::new();
        for ring in self.starts.iter_mut().chain(&mut self.samples) {
            while let Some(record) = ring.next_record() {
                // A record that cannot be read is one that was not written.
                match record.parse_record() {
                    Ok(Record::Lost(lost)) => self.lost += lost.lost,
                    Ok(Record::LostSamples(lost)) => self.lost += lost.lost,
                    Ok(record) => events.extend(event(&record)),
                    Err(_) => self.lost += 1,
                }
            }
        }
        events.sort_by_key(|(place, _)| *place);
        events.into_iter().map(|(_, event)| event).collect()
    }
}

/// An event of all processes on a CPU.
fn event_on(cpu: usize, event: Software) -> Builder<'static> {
    let mut builder = Builder::new(event);
    builder
        .any_pid()
        .one_cpu(cpu)
        .include_kernel()
        .include_hv()
        .sample(SampleFlag::TID)
        .sample(SampleFlag::TIME)
        .sample_id_all(true)
        .clockid(Clock::MONOTONIC);
    builder
}

fn starts(cpu: usize) -> std::io::Result<Ring> {
    let mut builder = event_on(cpu, Software::DUMMY);
    builder.task(true).mmap(true).enabled(true).build()?.sampled(RING_OF_STARTS)
}

fn samples(cpu: usize, period: Nanos, size: usize) -> std::io::Result<Ring> {
    event_on(cpu, Software::CPU_CLOCK)
        .sample_period(period.0)
        .sample(SampleFlag::CALLCHAIN)
        .exclude_callchain_user(true)
        .sample(SampleFlag::REGS_USER)
        .sample_regs_user(unwind::MASK)
        .sample(SampleFlag::STACK_USER)
        .sample_stack_user(STACK_BYTES)
        .build()?
        .sampled(size)
}

/// An event and its place in the order, if the record is one of those that matter: who was started by
/// whom is known first, and then where there is code.
fn event(record: &Record<'_>) -> Option<((u8, u64), PerfEvent)> {
    match record {
        Record::Sample(sample) => {
            let at = sample.time()?;
            let taken = Sample {
                at: Nanos(at),
                pid: sample.pid()?,
                kernel: kernel_part(sample.callchain().unwrap_or_default()),
                registers: sample.regs_user().and_then(|of| unwind::registers(&of.regs)),
                stack: sample.stack_user().unwrap_or_default().to_vec(),
            };
            Some(((2, at), PerfEvent::Sample(taken)))
        }
        Record::Fork(fork) => {
            Some(((0, fork.time), PerfEvent::Forked { pid: fork.pid, parent: fork.ppid }))
        }
        Record::Mmap(mapped) if mapped.filename.starts_with(b"//anon") => {
            let range = (mapped.addr, mapped.addr.saturating_add(mapped.len));
            Some(((1, 0), PerfEvent::Generated { pid: mapped.pid, range }))
        }
        _ => None,
    }
}
