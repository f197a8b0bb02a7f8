//! Neighbours: processes that use CPU time or memory bandwidth during a measurement.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use base::Seed;
use rand::RngExt as _;

/// Activity of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Busy for 0.1 to 3 s at a time, for this share of the time.
    Bursts { cpu: Option<usize>, duty: f64 },
    /// Busy for a share of every period.
    Every { cpu: Option<usize>, period_ms: u64, duty: f64 },
    /// Copies more memory than fits into caches.
    Memory,
    /// Compiles C in a loop.
    Compiler,
}

impl Kind {
    pub(crate) const fn bursts(cpu: Option<usize>, duty: f64) -> Kind {
        Kind::Bursts { cpu, duty }
    }

    pub(crate) const fn every(cpu: Option<usize>, period_ms: u64, duty: f64) -> Kind {
        Kind::Every { cpu, period_ms, duty }
    }

    fn words(self, seed: u64) -> [String; 5] {
        let cpu = |cpu: Option<usize>| cpu.map_or("any".to_owned(), |cpu| cpu.to_string());
        let words = match self {
            Kind::Bursts { cpu: on, duty } => {
                ["bursts".to_owned(), cpu(on), duty.to_string(), "0".to_owned()]
            }
            Kind::Every { cpu: on, period_ms, duty } => {
                ["every".to_owned(), cpu(on), duty.to_string(), period_ms.to_string()]
            }
            Kind::Memory => ["memory", "any", "1", "0"].map(str::to_owned),
            Kind::Compiler => ["compiler", "any", "1", "0"].map(str::to_owned),
        };
        let [kind, cpu, duty, period] = words;
        [kind, cpu, duty, period, seed.to_string()]
    }
}

/// Neighbours that run until dropped.
pub(crate) struct Neighbours(Vec<Child>);

impl Neighbours {
    pub(crate) fn start(kinds: &[Kind], seed: u64) -> Result<Neighbours, String> {
        let ours = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut all = Neighbours(Vec::new());
        for (i, kind) in kinds.iter().enumerate() {
            let child = Command::new(&ours)
                .arg("neighbour")
                .args(kind.words(seed.wrapping_add(i as u64)))
                // A neighbour ends with this process, because its input then ends.
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn();
            all.0.push(child.map_err(|error| format!("cannot start a neighbour: {error}"))?);
        }
        Ok(all)
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs as `xtask neighbour KIND CPU DUTY PERIOD_MS SEED` until its input ends.
pub(crate) fn become_neighbour(words: &[&str]) -> ExitCode {
    let [kind, cpu, duty, period_ms, seed] = words else {
        return crate::usage_error("neighbour KIND CPU DUTY PERIOD_MS SEED");
    };
    if let Ok(cpu) = cpu.parse() {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
    std::thread::spawn(|| {
        let mut nothing = String::new();
        let _ = std::io::stdin().read_line(&mut nothing);
        std::process::abort();
    });
    let duty: f64 = duty.parse().unwrap_or(0.5);
    let period_ms: u64 = period_ms.parse().unwrap_or(1_000);
    let mut rng = Seed(seed.parse().unwrap_or(1)).rng("neighbour");
    loop {
        match *kind {
            "bursts" => {
                let burst = rng.random_range(0.1..3.0);
                work_for(Duration::from_secs_f64(burst));
                std::thread::sleep(Duration::from_secs_f64(burst * (1.0 - duty) / duty));
            }
            "every" => {
                let period = Duration::from_millis(period_ms);
                work_for(period.mul_f64(duty));
                std::thread::sleep(period.mul_f64(1.0 - duty));
            }
            "memory" => copy_memory(),
            "compiler" => compile(),
            _ => return crate::usage_error("bursts, every, memory or compiler"),
        }
    }
}

fn work_for(time: Duration) {
    let end = Instant::now() + time;
    let mut x = 1u64;
    while Instant::now() < end {
        for _ in 0..1_000 {
            x = std::hint::black_box(x.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1));
        }
    }
}

fn copy_memory() {
    let from = vec![1u8; 64 << 20];
    let mut to = vec![0u8; 64 << 20];
    for _ in 0..100 {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
    }
}

/// Compiles a C file of a few hundred functions. Without a compiler it just uses CPU time.
fn compile() {
    let functions: String = (0..300)
        .map(|i| format!("int f{i}(int x) {{ for (int k = 0; k < x; k++) x += k * {i} ^ (x >> 3); return x; }}\n"))
        .collect();
    let Ok(folder) = tempfile::tempdir() else { return };
    let source = folder.path().join("work.c");
    if std::fs::write(&source, functions).is_err() {
        return;
    }
    let done = Command::new("cc")
        .args(["-O2", "-c", "-o", "/dev/null"])
        .arg(&source)
        .stdin(Stdio::null())
        .status();
    if done.is_err() {
        work_for(Duration::from_secs(1));
    }
}

/// A control group with a CPU quota for a comparison: 1.3 CPUs in every half second; client and
/// stack need more, so everything is paused for the rest of it.
pub(super) struct Quota(PathBuf);

impl Quota {
    pub(super) fn set() -> Result<Quota, String> {
        let v1 = Path::new("/sys/fs/cgroup/cpu");
        let (folder, files) = if v1.is_dir() {
            let folder = v1.join(format!("noise-{}", std::process::id()));
            (folder, vec![("cpu.cfs_period_us", "500000"), ("cpu.cfs_quota_us", "650000")])
        } else {
            let folder = Path::new("/sys/fs/cgroup").join(format!("noise-{}", std::process::id()));
            (folder, vec![("cpu.max", "650000 500000")])
        };
        let failed = |error: std::io::Error| {
            format!(
                "a control group with a quota is needed for this profile: {error}; run it as root"
            )
        };
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let quota = Quota(folder);
        for (file, value) in files {
            std::fs::write(quota.0.join(file), value).map_err(failed)?;
        }
        Ok(quota)
    }

    /// The group's folder.
    pub(super) fn folder(&self) -> &Path {
        &self.0
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
