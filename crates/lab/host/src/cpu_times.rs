//! Busy time of each CPU, from the most precise source of the kernel.
//!
//! It is read around every slice, and so is the stack's CPU time, from one short file each. Reading the
//! memory of every process takes 6 ms, a quarter of a slice, and is done four times a second.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::{Nanos, monotonic_now};
use rustix::time::{ClockId, clock_getres};
use serde::{Deserialize, Serialize};

use crate::{HostError, interrupts, read};

/// Usual mount points of the version 1 hierarchy for CPU accounting, in order of preference.
const CPUACCT: [&str; 3] = [
    "/sys/fs/cgroup/cpuacct/cpuacct.usage_percpu",
    "/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage_percpu",
    "/sys/fs/cgroup/cpu/cpuacct.usage_percpu",
];

/// Enough for a few hundred CPUs; the buffer grows if necessary.
const BUFFER_BYTES: usize = 16 << 10;

/// In slices shorter than this many ticks of the kernel's timer, the CPU time of a process that keeps
/// running may be counted in the next slice.
const TIMER_TICKS_MIN: u64 = 2;

/// In slices shorter than this many ticks of /proc/stat, the rounding of a tick would look like a
/// disturbance.
const STAT_TICKS_MIN: u64 = 20;

/// Source of the CPUs' busy time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuSource {
    /// `cpuacct.usage_percpu` of the root control group (version 1): nanoseconds of every process.
    Cpuacct,
    /// `rq_cpu_time` in /proc/schedstat: nanoseconds of every process. A process is counted when it
    /// leaves the CPU, so a long-running one is counted late.
    Schedstat,
    /// /proc/stat: ticks, either sampled or rounded down, depending on how the kernel was built.
    Ticks,
}

/// Reads the busy time of every CPU repeatedly; keeps the files open.
#[derive(Debug)]
pub struct CpuMeter {
    source: CpuSource,
    file: File,
    path: PathBuf,
    stat: File,
    ticks_per_s: u64,
    tells_interrupts: bool,
}

/// Busy time of every CPU since boot, at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTimes {
    /// The instant, on the monotonic clock.
    pub at: Nanos,
    /// Each CPU, in ascending order.
    pub cpus: Vec<CpuTime>,
}

/// Time of one CPU, since boot or between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// Its number.
    pub cpu: usize,
    /// Time in which a process ran; with [`CpuSource::Ticks`] also interrupts.
    pub busy: Nanos,
    /// Time of interrupts in `busy` that is charged to no process, in ticks, so only its mean over
    /// many slices is known; zero if interrupts are charged or not told.
    pub interrupts: Nanos,
    /// Time that the hypervisor gave to others although this CPU was runnable, in ticks; `None` if
    /// it was not read.
    pub steal: Option<Nanos>,
}

/// CPU time used between two readings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// Wall time between them.
    pub elapsed: Nanos,
    /// The CPUs that were online at both readings.
    pub cpus: Vec<CpuTime>,
}

impl CpuTime {
    /// No time of a CPU.
    fn of(cpu: usize) -> CpuTime {
        CpuTime { cpu, ..CpuTime::default() }
    }
}

impl CpuTimes {
    /// CPU time used since an earlier reading.
    pub fn since(&self, earlier: &CpuTimes) -> CpuUse {
        let rise = |now: &CpuTime| {
            let before = earlier.cpus.iter().find(|before| before.cpu == now.cpu)?;
            Some(CpuTime {
                cpu: now.cpu,
                busy: now.busy.saturating_sub(before.busy),
                interrupts: now.interrupts.saturating_sub(before.interrupts),
                steal: now.steal.zip(before.steal).map(|(now, before)| now.saturating_sub(before)),
            })
        };
        CpuUse {
            elapsed: self.at.saturating_sub(earlier.at),
            cpus: self.cpus.iter().filter_map(rise).collect(),
        }
    }
}

impl CpuMeter {
    /// Opens the most precise source available.
    ///
    /// # Errors
    /// If /proc/stat cannot be read.
    pub fn open() -> Result<CpuMeter, HostError> {
        let ticks_per_s = rustix::param::clock_ticks_per_second();
        let ticks = stat_times(&read("/proc/stat")?, ticks_per_s);
        for path in CPUACCT {
            let Ok(text) = read(path) else { continue };
            if is_whole_machine(&percpu_times(&text), &ticks) {
                return CpuMeter::of(CpuSource::Cpuacct, path, ticks_per_s);
            }
        }
        const SCHEDSTAT: &str = "/proc/schedstat";
        let schedstat = read(SCHEDSTAT).map(|text| schedstat_times(&text)).unwrap_or_default();
        if is_whole_machine(&schedstat, &ticks) {
            return CpuMeter::of(CpuSource::Schedstat, SCHEDSTAT, ticks_per_s);
        }
        CpuMeter::of(CpuSource::Ticks, "/proc/stat", ticks_per_s)
    }

    fn of(source: CpuSource, path: &str, ticks_per_s: u64) -> Result<CpuMeter, HostError> {
        let open = |path: &str| File::open(path).map_err(|error| failed(Path::new(path), &error));
        let (file, stat) = (open(path)?, open("/proc/stat")?);
        let path = PathBuf::from(path);
        Ok(CpuMeter { source, file, path, stat, ticks_per_s, tells_interrupts: false })
    }

    /// Tells interrupts in the readings with steal if the source contains them but the kernel charges
    /// them to no process. Control groups of version 1 do not contain them then.
    pub fn with_uncharged_interrupts(mut self) -> CpuMeter {
        self.tells_interrupts = self.source != CpuSource::Cpuacct
            && interrupts::are_charged().is_ok_and(|charged| !charged);
        self
    }

    /// The source.
    pub fn source(&self) -> CpuSource {
        self.source
    }

    /// The shortest slice for which two readings show how busy the CPUs were.
    ///
    /// Control groups and /proc/schedstat add a process's CPU time when it leaves the CPU, and control
    /// groups also at each tick of the kernel's timer. /proc/stat counts whole ticks, or samples.
    pub fn shortest_slice(&self) -> Nanos {
        let (ticks, tick) = match self.source {
            CpuSource::Cpuacct | CpuSource::Schedstat => (TIMER_TICKS_MIN, timer_tick()),
            CpuSource::Ticks => (STAT_TICKS_MIN, Nanos(1_000_000_000 / self.ticks_per_s.max(1))),
        };
        Nanos(ticks * tick.0)
    }

    /// Busy time of each CPU. Steal is omitted unless ticks are read anyway, so a reading costs one
    /// short file: about ten microseconds.
    ///
    /// # Errors
    /// If the source can no longer be read.
    pub fn read(&self) -> Result<CpuTimes, HostError> {
        let text = text(&self.file, &self.path)?;
        let at = monotonic_now();
        let cpus = match self.source {
            CpuSource::Cpuacct => percpu_times(&text),
            CpuSource::Schedstat => schedstat_times(&text),
            CpuSource::Ticks => stat_times(&text, self.ticks_per_s),
        };
        Ok(CpuTimes { at, cpus })
    }

    /// The same with steal time. /proc/stat lists every interrupt, so it costs more on a larger
    /// machine.
    ///
    /// # Errors
    /// If a source can no longer be read.
    pub fn read_with_steal(&self) -> Result<CpuTimes, HostError> {
        let mut times = self.read()?;
        if self.source != CpuSource::Ticks {
            let ticks = stat_times(&text(&self.stat, Path::new("/proc/stat"))?, self.ticks_per_s);
            for time in &mut times.cpus {
                let ticks = ticks.iter().find(|t| t.cpu == time.cpu);
                time.steal = ticks.and_then(|t| t.steal);
                time.interrupts = ticks.map_or(Nanos::ZERO, |t| t.interrupts);
            }
        }
        if !self.tells_interrupts {
            times.cpus.iter_mut().for_each(|time| time.interrupts = Nanos::ZERO);
        }
        Ok(times)
    }
}

/// The time between two ticks of the kernel's timer, which advances the coarse clocks
/// (clock_getres(2)).
fn timer_tick() -> Nanos {
    let tick = clock_getres(ClockId::MonotonicCoarse);
    Nanos((tick.tv_sec * 1_000_000_000 + tick.tv_nsec) as u64)
}

fn failed(path: &Path, error: &io::Error) -> HostError {
    HostError { path: path.to_owned(), why: error.to_string() }
}

/// The whole of a /proc file. Reading from offset 0 makes the kernel generate it again.
fn text(file: &File, path: &Path) -> Result<String, HostError> {
    let mut bytes = vec![0; BUFFER_BYTES];
    let mut length = 0;
    loop {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(path, &error)),
        }
        if length == bytes.len() {
            bytes.resize(2 * length, 0);
        }
    }
    bytes.truncate(length);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a source covers the whole machine. In a container the "root" group may be the
/// container's own, and /proc/schedstat may exist without being updated.
fn is_whole_machine(times: &[CpuTime], ticks: &[CpuTime]) -> bool {
    let sum = |times: &[CpuTime]| times.iter().map(|time| u128::from(time.busy.0)).sum::<u128>();
    let (counted, known) = (sum(times), sum(ticks));
    counted > 0 && 2 * counted > known
}

/// `cpuacct.usage_percpu`: nanoseconds for each possible CPU, in order.
fn percpu_times(text: &str) -> Vec<CpuTime> {
    let numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
    let time = |(cpu, busy): (usize, Option<u64>)| {
        Some(CpuTime { busy: Nanos(busy?), ..CpuTime::of(cpu) })
    };
    numbers.enumerate().filter_map(time).collect()
}

/// Lines `cpuN` of /proc/schedstat (Documentation/scheduler/sched-stats.rst, versions 15 to 17):
/// the seventh number is the time spent running processes, in nanoseconds.
fn schedstat_times(text: &str) -> Vec<CpuTime> {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu = words.next()?.parse().ok()?;
        Some(CpuTime { busy: Nanos(words.nth(6)?.parse().ok()?), ..CpuTime::of(cpu) })
    };
    text.lines().filter_map(line).collect()
}

/// Lines `cpuN` of /proc/stat (proc(5)): user nice system idle iowait irq softirq steal guest
/// guest_nice, in ticks. Guest time is already included in user time.
fn stat_times(text: &str, ticks_per_s: u64) -> Vec<CpuTime> {
    let nanos = |ticks: u64| Nanos(ticks * (1_000_000_000 / ticks_per_s.max(1)));
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu = words.next()?.parse().ok()?;
        let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, _idle, _waiting, interrupts, soft, rest @ ..] = ticks.as_slice()
        else {
            return None;
        };
        let busy = nanos(user + nice + system + interrupts + soft);
        let steal = rest.first().map(|ticks| nanos(*ticks));
        Some(CpuTime { cpu, busy, interrupts: nanos(interrupts + soft), steal })
    };
    // The first line, without a number, is the sum.
    text.lines().filter(|line| !line.starts_with("cpu ")).filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(times: &[CpuTime]) -> Vec<(usize, u64)> {
        times.iter().map(|time| (time.cpu, time.busy.0)).collect()
    }

    #[test]
    fn exact_sources_show_the_activity_of_others_in_the_shortest_slices() {
        let meter = CpuMeter::open().unwrap();
        let longest = match meter.source() {
            CpuSource::Cpuacct | CpuSource::Schedstat => 25,
            CpuSource::Ticks => 1_000,
        };
        let shortest = meter.shortest_slice();
        assert!(shortest <= Nanos::from_millis(longest), "{shortest} with {:?}", meter.source());
    }

    #[test]
    fn every_source_is_read_cpu_by_cpu() {
        assert_eq!(
            busy(&percpu_times("1448052738040 1466452289318 \n")),
            [(0, 1_448_052_738_040), (1, 1_466_452_289_318)]
        );
        let schedstat = "version 15\ntimestamp 4295\ncpu0 0 0 0 0 0 0 500 9 7\ndomain0 3 1 2\ncpu3 1 2 3 4 5 6 700 8 9\n";
        assert_eq!(busy(&schedstat_times(schedstat)), [(0, 500), (3, 700)]);
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 10 50 1000 20 5 5 30 7 0\ncpu2 1 0 0 9 0 0 0\nintr 5\n";
        let times = stat_times(stat, 100);
        assert_eq!(busy(&times), [(0, 1_700_000_000), (2, 10_000_000)]);
        assert_eq!(times[0].steal, Some(Nanos::from_millis(300)));
        assert_eq!(times[1].steal, None, "an old kernel does not tell");
        for text in ["", "nonsense", "cpu\ncpux 1", "cpu0 1 2"] {
            assert_eq!(stat_times(text, 100), []);
            assert_eq!(schedstat_times(text), []);
        }
    }

    #[test]
    fn a_group_of_a_container_is_not_the_machine() {
        let time = |busy| [CpuTime { busy: Nanos(busy), ..CpuTime::of(0) }];
        assert!(is_whole_machine(&time(98), &time(100)));
        assert!(!is_whole_machine(&time(10), &time(100)));
        assert!(!is_whole_machine(&time(0), &time(0)), "it is not kept");
        assert!(!is_whole_machine(&[], &time(100)));
    }

    #[test]
    fn unread_steal_is_unknown_and_not_zero() {
        let times = |at, busy, steal: Option<u64>| CpuTimes {
            at: Nanos(at),
            cpus: vec![CpuTime { busy: Nanos(busy), steal: steal.map(Nanos), ..CpuTime::of(1) }],
        };
        let used = times(30, 25, Some(7)).since(&times(10, 20, Some(4)));
        assert_eq!(used.elapsed, Nanos(20));
        let left = CpuTime { busy: Nanos(5), steal: Some(Nanos(3)), ..CpuTime::of(1) };
        assert_eq!(used.cpus, [left]);
        assert_eq!(times(30, 25, Some(7)).since(&times(10, 20, None)).cpus[0].steal, None);
        assert_eq!(times(30, 25, None).since(&CpuTimes::default()).cpus, []);
    }

    #[test]
    fn interrupts_are_told_beside_the_busy_time_that_contains_them() {
        // Of 3 s, 0.9 s were soft interrupts.
        let reading = |stat: &str| CpuTimes { at: Nanos::ZERO, cpus: stat_times(stat, 100) };
        let (before, after) =
            (reading("cpu0 100 0 0 900 0 0 10 0"), reading("cpu0 200 0 110 900 0 5 95 0"));
        let used = after.since(&before);
        assert_eq!(used.cpus[0].busy, Nanos::from_secs(3), "{used:?}");
        assert_eq!(used.cpus[0].interrupts, Nanos::from_millis(900));
    }

    #[test]
    fn this_machine_reports_its_activity() {
        let meter = CpuMeter::open().unwrap();
        let first = meter.read_with_steal().unwrap();
        assert!(!first.cpus.is_empty());
        // Work until the reading changes: the kernel counts at its ticks.
        let until = monotonic_now() + Nanos::from_secs(60);
        let mut rounds = 0_u64;
        let busy = |used: &CpuUse| used.cpus.iter().any(|cpu| cpu.busy > Nanos::ZERO);
        while !busy(&meter.read().unwrap().since(&first)) {
            rounds = std::hint::black_box(rounds + 1);
            assert!(monotonic_now() < until, "no CPU was busy while this one was");
        }
    }
}
