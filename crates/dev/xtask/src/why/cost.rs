//! What sampling costs a server: the same server with and without it, in turns of a tenth of a second.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use base::{CpuSet, Nanos};
use profile::{ProfileStep, Profiler, ProfilerOptions, WatchedStack};
use rand::RngExt as _;

use crate::process::{PinnedProcess, free_port, listens};
use crate::say;

/// CPU 0 is the server's and CPU 1 the client's, as with `--layout split` on two CPUs.
const SERVER: usize = 0;
const CLIENT: usize = 1;

/// So many that the fastest server is never idle.
const CONNECTIONS: usize = 50;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Before each turn, in which caches fill again.
const LEAD_IN: Duration = Duration::from_millis(20);

const TURN: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(10);

/// The goal: the share of the server's CPU that sampling may take.
const COST_MAX: f64 = 0.01;

/// How the cost is measured.
pub(super) struct Sampling {
    /// Pairs of turns with and without sampling.
    pub(super) turns: u32,
    /// How many times as often as `--why` samples.
    pub(super) times: u32,
    /// In which order the turns of a pair are.
    pub(super) seed: base::Seed,
}

/// Requests per second that were answered in a turn.
fn turn(connections: &mut [TcpStream]) -> std::io::Result<f64> {
    let (mut began, mut answered) = (Instant::now(), 0_u32);
    let mut answer = [0; 4096];
    let mut is_lead_in = true;
    while is_lead_in || began.elapsed() < TURN {
        if is_lead_in && began.elapsed() >= LEAD_IN {
            (is_lead_in, began, answered) = (false, Instant::now(), 0);
        }
        // Each has a request on its way all the time, so that the server always has work.
        for connection in connections.iter_mut() {
            answered += u32::from(connection.read(&mut answer)? > 0);
            connection.write_all(REQUEST)?;
        }
    }
    Ok(f64::from(answered) / began.elapsed().as_secs_f64())
}

/// Prints what sampling costs a server that is called so; whether that is at most the goal.
pub(super) fn measure(
    name: &str,
    program: &Path,
    words: &[String],
    folder: &Path,
    sampling: &Sampling,
) -> Result<bool, String> {
    let text = |error: std::io::Error| error.to_string();
    let Sampling { turns, times, seed } = *sampling;
    let port = free_port()?;
    let words = words.iter().map(|word| word.replace("$PORT", &port.to_string()));
    let words: Vec<String> = words.collect();
    let words = words.iter().map(String::as_str);
    let options = ProfilerOptions {
        sampled: CpuSet::one(SERVER),
        online: host::all_cpus().map_err(|error| error.to_string())?,
        readers: CpuSet::one(CLIENT),
        period: Nanos(conduct::SAMPLE_PERIOD.0 / u64::from(times)),
    };
    let server = PinnedProcess::start(SERVER, program, words, folder)?;
    if !listens(port, PATIENCE) {
        return Err(format!("{name} does not listen"));
    }
    let mut samples = 0;
    let mut mask = rustix::thread::CpuSet::new();
    mask.set(CLIENT);
    rustix::thread::sched_setaffinity(None, &mask).map_err(|error| error.to_string())?;
    let connect = |_| {
        let mut connection = TcpStream::connect(("127.0.0.1", port))?;
        connection.write_all(REQUEST)?;
        Ok(connection)
    };
    let mut connections =
        (0..CONNECTIONS).map(connect).collect::<Result<Vec<_>, _>>().map_err(text)?;
    turn(&mut connections).map_err(text)?;
    let mut rng = seed.rng("cost");
    let mut log_ratios = Vec::new();
    for _ in 0..turns {
        let mut rates = [0.0; 2];
        let first = usize::from(rng.random::<bool>());
        for sampled in [first, 1 - first] {
            if sampled == 0 {
                rates[sampled] = turn(&mut connections).map_err(text)?;
                continue;
            }
            // A new one reads no samples before the turn has ended, which would make the client slower.
            let profiler = Profiler::start(options.clone()).map_err(|error| error.to_string())?;
            let profiled = profiler.watch(WatchedStack {
                stack: 0,
                guard: None,
                processes: vec![server.pid()],
                folders: Vec::new(),
            });
            profiled.step(ProfileStep::Begin(0));
            rates[sampled] = turn(&mut connections).map_err(text)?;
            profiled.step(ProfileStep::End(0));
            samples += profiled.take().iter().map(|(_, of)| of.samples()).sum::<u64>();
        }
        // Each sample costs the same, so that many cost as many times as much.
        log_ratios.push(f64::ln(rates[0] / rates[1]) / f64::from(times));
    }
    drop(server);
    let sureness = stats::Sureness { alpha: 0.05, interrupted: false };
    let cost = stats::mean_difference(&log_ratios, sureness);
    say(&format!(
        "{name}: sampling costs {:.2}% of the CPU time ({:.2} to {:.2}), {turns} pairs of turns of {}, {:.0} samples/s{}",
        cost.value * 100.0,
        cost.low * 100.0,
        cost.high * 100.0,
        Nanos::from(TURN),
        samples as f64 / (f64::from(turns) * (TURN + LEAD_IN).as_secs_f64()),
        if times > 1 {
            format!(" instead of {:.0}", 1e9 / conduct::SAMPLE_PERIOD.0 as f64)
        } else {
            String::new()
        },
    ));
    Ok(cost.value <= COST_MAX)
}
