//! The cost of reading the machine's activity: `cargo run --release -p tachograph-host --example cpu_cost`.

#![allow(clippy::print_stdout, reason = "it is what the example is for")]

use std::time::Instant;

use host::{CpuMeter, HostError, Snapshot};

const ROUNDS: u32 = 2000;

fn main() -> Result<(), HostError> {
    let meter = CpuMeter::open()?;
    println!("{:?}, for {} or longer", meter.source(), meter.shortest_slice());
    print("busy time of each CPU", || meter.read().map(drop))?;
    print("busy and stolen time of each CPU", || meter.read_with_steal().map(drop))?;
    print("snapshot", || Snapshot::take().map(drop))
}

/// Prints the median and the 99th percentile of the time that `look` takes.
fn print(what: &str, look: impl Fn() -> Result<(), HostError>) -> Result<(), HostError> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        look()?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    println!(
        "{what}: {:?}, 99% within {:?}",
        times[times.len() / 2],
        times[times.len() * 99 / 100]
    );
    Ok(())
}
