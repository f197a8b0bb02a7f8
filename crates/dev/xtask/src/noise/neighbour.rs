//! Neighbours: processes that use CPU time or memory bandwidth during a measurement.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base::Seed;
use rand::RngExt as _;
use serde::{Deserialize, Serialize};

use crate::options::json;
use crate::process::{KilledOnDrop, stay_on};

/// Activity of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
}

/// Neighbours that run until dropped.
pub(crate) struct Neighbours(Vec<KilledOnDrop>);

impl Neighbours {
    pub(crate) fn start(kinds: &[Kind], seed: u64) -> Result<Neighbours, String> {
        let ours = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut all = Neighbours(Vec::new());
        for (i, kind) in kinds.iter().enumerate() {
            let child = Command::new(&ours)
                .arg("neighbour")
                .arg(serde_json::to_string(kind).map_err(|error| error.to_string())?)
                .arg(seed.wrapping_add(i as u64).to_string())
                // A neighbour ends with this process, because its input then ends.
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn();
            let child = child.map_err(|error| format!("cannot start a neighbour: {error}"))?;
            all.0.push(KilledOnDrop(child));
        }
        Ok(all)
    }
}

/// A neighbour, in a process of its own.
#[derive(Debug, clap::Args)]
pub(crate) struct Neighbour {
    #[arg(value_parser = json::<Kind>)]
    kind: Kind,
    seed: Seed,
}

impl Neighbour {
    /// Runs until its input ends.
    pub(crate) fn run(&self) -> Result<(), String> {
        if let Kind::Bursts { cpu: Some(cpu), .. } | Kind::Every { cpu: Some(cpu), .. } = self.kind
        {
            let _ = stay_on(cpu);
        }
        std::thread::spawn(|| {
            let mut nothing = String::new();
            let _ = std::io::stdin().read_line(&mut nothing);
            std::process::abort();
        });
        let mut rng = self.seed.rng("neighbour");
        loop {
            match self.kind {
                Kind::Bursts { duty, .. } => {
                    let burst = rng.random_range(0.1..3.0);
                    work_for(Duration::from_secs_f64(burst));
                    std::thread::sleep(Duration::from_secs_f64(burst * (1.0 - duty) / duty));
                }
                Kind::Every { period_ms, duty, .. } => {
                    let period = Duration::from_millis(period_ms);
                    work_for(period.mul_f64(duty));
                    std::thread::sleep(period.mul_f64(1.0 - duty));
                }
                Kind::Memory => copy_memory(),
                Kind::Compiler => compile(),
            }
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
