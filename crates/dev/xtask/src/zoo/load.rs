//! The truth by formula and by simulation, beside what `tachograph load` reports.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base::Seed;
use serde_json::Value;
use zoo::{Behaviour, Kind, Subject, simulate};

use super::{Program, ZooOptions, describe};
use crate::process::{PinnedProcess, free_port, listens};
use crate::{binary, say};

/// Share of the capacity that the open loop offers, as by `compare`.
const OFFERED: f64 = 0.5;
/// Loads of a server whose connections differ, each with new ones.
const DRAWS: u32 = 15;
/// Additional time for a load, and time for a server to listen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Prints a row for every subject.
pub(super) fn table(wanted: &ZooOptions, seconds: u32, stop: &AtomicBool) -> Result<(), String> {
    let loads = Loads {
        folder: tempfile::tempdir().map_err(|error| error.to_string())?,
        tachograph: wanted.binary.clone().map_or_else(binary::path, Ok)?,
        stop,
    };
    say(
        "| kind | server | requests/s by formula | by simulation | by load | p99 at half of that, by simulation | by load |",
    );
    say("| --- | --- | --: | --: | --: | --: | --: |");
    for (_, subject) in wanted.subjects() {
        let Subject { kind, asyncio, behaviour, .. } = &subject;
        let formula = behaviour.throughput_per_s(Subject::CONNECTIONS);
        let simulated =
            simulate::throughput_per_s(behaviour, Subject::CONNECTIONS, simulate::ANSWERS, Seed(1));
        let rate = (OFFERED * formula).round();
        let [p99] = simulate::latency_s(behaviour, Subject::CONNECTIONS, rate, [0.99], Seed(1));
        let draws = if *kind == Kind::SlowConnections { DRAWS } else { 1 };
        let each_s = (seconds / draws).max(1);
        let (mut throughput, mut loaded_p99) = (0.0, 0.0);
        for _ in 0..draws {
            let server = loads.start(behaviour, *asyncio)?;
            throughput += server.load(&[], each_s, &["throughput_per_s"])? / f64::from(draws);
            let open = ["--rate", &format!("{rate}")];
            loaded_p99 += server.load(&open, each_s, &["latency_ns", "p99"])? / f64::from(draws);
        }
        let implementation = if *asyncio { "asyncio" } else { "threads" };
        say(&format!(
            "| {} | {} ({implementation}) | {formula:.1} | {:.1} ± {:.1} | {throughput:.1} ({:+.1}%) | {:.1} ± {:.1} ms | {:.1} ms |",
            kind.name(),
            describe(behaviour),
            simulated.value,
            2.0 * simulated.error,
            100.0 * (throughput / formula - 1.0),
            1e3 * p99.value,
            2e3 * p99.error,
            loaded_p99 / 1e6,
        ));
    }
    Ok(())
}

struct Loads<'w> {
    folder: tempfile::TempDir,
    tachograph: PathBuf,
    stop: &'w AtomicBool,
}

/// A running server on the first CPU.
struct LoadedServer<'l> {
    loads: &'l Loads<'l>,
    _server: PinnedProcess,
    port: u16,
}

impl Loads<'_> {
    fn start(&self, behaviour: &Behaviour, asyncio: bool) -> Result<LoadedServer<'_>, String> {
        let port = free_port()?;
        let Program { program, mut arguments } =
            Program::new(behaviour, asyncio, self.folder.path(), "loaded")?;
        for word in &mut arguments {
            *word = word.replace("$PORT", &port.to_string());
        }
        let server = PinnedProcess::start(0, &program, &arguments, self.folder.path())?;
        match listens(port, PATIENCE) {
            true => Ok(LoadedServer { loads: self, _server: server, port }),
            false => Err("the server does not listen".to_owned()),
        }
    }
}

impl LoadedServer<'_> {
    /// A figure of the JSON of `tachograph load`.
    fn load(&self, further: &[&str], seconds: u32, figure: &[&str]) -> Result<f64, String> {
        let loads = self.loads;
        let (connections, time) = (Subject::CONNECTIONS.to_string(), format!("{seconds}s"));
        let words = ["load", "--quiet", "--warmup", "1s", "--connections", &connections];
        let time = ["--timeout", "30s", "--duration", &time, "--export-json", "load.json"];
        let words = [&words[..], further, &time, &[&format!("http://127.0.0.1:{}/", self.port)]];
        let folder = loads.folder.path();
        let mut client = PinnedProcess::start(1, &loads.tachograph, words.concat(), folder)?;
        let limit = Duration::from_secs(seconds.into()) + PATIENCE;
        let status = client.wait(limit, loads.stop)?;
        let text = std::fs::read_to_string(folder.join("load.json"));
        let json: Option<Value> = text.ok().and_then(|text| serde_json::from_str(&text).ok());
        let value = json.and_then(|json| figure.iter().fold(&json, |at, name| &at[*name]).as_f64());
        value.filter(|_| status.is_some()).ok_or_else(|| client.printed().trim().to_owned())
    }
}
