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

/// The number of samples among the kinds of records (`PERF_RECORD_SAMPLE`).
const SAMPLE: u32 = 9;

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
        let samples = |cpu| ring(cpu, &samples(cpu, period), size);
        let starts = |cpu| ring(cpu, &starts(cpu), RING_OF_STARTS);
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
                if record.ty() == SAMPLE {
                    let sample = sample(&record.to_contiguous());
                    // The kernel does not write samples that cannot be read.
                    self.lost += u64::from(sample.is_none());
                    events.extend(sample.map(|of| ((2, of.at.0), PerfEvent::Sample(of))));
                    continue;
                }
                match record.parse_record() {
                    Ok(Record::Lost(lost)) => self.lost += lost.lost,
                    Ok(Record::LostSamples(lost)) => self.lost += lost.lost,
                    Ok(record) => events.extend(event(&record)),
                    // None of those that matter.
                    Err(_) => {}
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

fn starts(cpu: usize) -> Builder<'static> {
    let mut builder = event_on(cpu, Software::DUMMY);
    builder.task(true).mmap(true).enabled(true);
    builder
}

fn samples(cpu: usize, period: Nanos) -> Builder<'static> {
    let mut builder = event_on(cpu, Software::CPU_CLOCK);
    builder
        .sample_period(period.0)
        .sample(SampleFlag::CALLCHAIN)
        .exclude_callchain_user(true)
        .sample(SampleFlag::REGS_USER)
        .sample_regs_user(unwind::MASK)
        .sample(SampleFlag::STACK_USER)
        .sample_stack_user(STACK_BYTES);
    builder
}

/// Opens an event with a ring of so many bytes.
fn ring(cpu: usize, event: &Builder<'_>, size: usize) -> Result<Ring, ProfileError> {
    let counter = event.build().map_err(|error| ProfileError::of(cpu, error))?;
    counter.sampled(size).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            ProfileError::Locked { cpu, bytes: base::Bytes(size as u64) }
        }
        _ => ProfileError::Failed { cpu, error },
    })
}

/// Reads a sample as the events above are set up: process and thread, time, call chain, registers, stack
/// (perf_event_open(2), `PERF_RECORD_SAMPLE`). The stack of what is no program has no length of its
/// copy, which `perf-event2` 0.7 expects.
fn sample(bytes: &[u8]) -> Option<Sample> {
    let mut words = bytes.chunks_exact(8).map(|word| {
        u64::from_ne_bytes(word.try_into().expect("chunks of eight bytes are eight bytes"))
    });
    let pid = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    let (_, at) = (words.next()?, words.next()?);
    let depth = usize::try_from(words.next()?).ok().filter(|depth| *depth < bytes.len() / 8)?;
    let chain: Vec<u64> = words.by_ref().take(depth).collect();
    let is_program = words.next()? != 0;
    let registers = match is_program {
        true => unwind::registers(&words.by_ref().take(unwind::REGISTERS).collect::<Vec<u64>>()),
        false => None,
    };
    let room = usize::try_from(words.next()?).ok()?;
    let begin = bytes.len() - words.len() * 8 - bytes.len() % 8;
    let room = bytes.get(begin..begin.checked_add(room)?)?;
    // Its length is behind the room that is reserved for it.
    let length = bytes.get(begin + room.len()..begin + room.len() + 8);
    let length = length.map_or(0, |word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    let stack = room.get(..usize::try_from(length).ok()?)?.to_vec();
    Some(Sample { at: Nanos(at), pid, kernel: kernel_part(&chain), registers, stack })
}

/// An event and its place in the order, if the record is one of those that matter: who was started by
/// whom is known first, and then where there is code.
fn event(record: &Record<'_>) -> Option<((u8, u64), PerfEvent)> {
    match record {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_sample_has_its_calls_registers_and_stack() {
        let kernel = (-128_i64) as u64;
        let mut words = vec![7 | 8 << 32, 1_000, 3, kernel, 0xf1, 0xf2, 2];
        words.extend((0..unwind::REGISTERS as u64).map(|register| 0x10 + register));
        words.extend([16, 0xaa, 0xbb, 8]);
        let read = sample(&bytes(&words)).unwrap();
        assert_eq!((read.pid, read.at, read.kernel), (7, Nanos(1_000), vec![0xf1, 0xf2]));
        assert_eq!(read.registers.unwrap().frame, 0x10);
        assert_eq!(read.stack, 0xaa_u64.to_ne_bytes(), "the copy is shorter than its room");
        words.pop();
        words.pop();
        assert!(sample(&bytes(&words)).is_none(), "cut off");
    }

    #[test]
    fn what_is_no_program_has_neither_registers_nor_a_stack() {
        let idle = sample(&bytes(&[0, 1_000, 0, 0, 0])).unwrap();
        assert_eq!((idle.pid, idle.registers), (0, None));
        assert!(idle.stack.is_empty());
        assert!(sample(&[]).is_none());
        assert!(sample(&bytes(&[0, 1, u64::MAX])).is_none());
    }
}
