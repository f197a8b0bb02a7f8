//! Measures the load engine, or serves the fixture for it:
//!
//! ```text
//! measure serve 127.0.0.1:8000 | unix:/tmp/x.sock
//! measure load TARGET [CONNECTIONS [SECONDS [new|kept [ENGINE]]]]
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::{CpuSet, Nanos, Seed};
use drive::{Options, Session, Slice};
use fixture::{Config, Service};
use spec::{EngineChoice, Exchange, Load, Mode, Target};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |i: usize| arguments.get(i).map(String::as_str);
    match (argument(0), argument(1)) {
        (Some("serve"), Some(at)) => {
            let target = Target::parse(&format!("http://{at}"))?;
            let config = Config::new(target.endpoint().clone(), Service::hello());
            fixture::serve(config, &AtomicBool::new(false))?;
        }
        (Some("load"), Some(target)) => load(
            &Target::parse(target)?,
            argument(2).unwrap_or("64").parse()?,
            argument(3).unwrap_or("5").parse()?,
            argument(4) == Some("new"),
            argument(5).unwrap_or("auto"),
        )?,
        _ => {
            return Err(
                "measure serve ADDRESS | measure load TARGET [CONNECTIONS [SECONDS [new|kept [auto|epoll|io-uring]]]]".into(),
            );
        }
    }
    Ok(())
}

#[allow(clippy::print_stdout)]
fn load(
    target: &Target,
    connections: u32,
    seconds: u64,
    new: bool,
    engine: &str,
) -> Result<(), Box<dyn Error>> {
    let load = Load {
        engine: match engine {
            "epoll" => EngineChoice::Epoll,
            "io-uring" => EngineChoice::IoUring,
            _ => EngineChoice::Auto,
        },
        connections,
        threads: 1,
        new_connection: new,
        timeout: Nanos::from_secs(5),
        exchange: Exchange::Http(Default::default()),
        ..Load::default()
    };
    let options = Options {
        cpus: CpuSet::default(),
        seed: Seed(1),
        step: Nanos::from_millis(100),
        stop: Arc::new(AtomicBool::new(false)),
        among: None,
    };
    let mut session = Session::open(target, &load, &options)?;
    session.learn()?;
    let seen = session.run(&Slice {
        mode: Mode::Closed,
        start: drive::LoopStart::Fresh,
        lead_in: Nanos::from_millis(200),
        window: Nanos::from_secs(seconds),
        requests: None,
        drain: Nanos::from_secs(1),
        stalled_after: None,
    })?;
    let rate = seen.window.completed as f64 / seen.window.length.as_secs_f64();
    let cpu = seen.threads[0].cpu.0 as f64 / seen.counts.completed as f64;
    println!(
        "{rate:.0} req/s, {:.2} µs of client CPU per request, p50 {}, p99 {}, connects {}, closed_idle {}, {:?} {:?}",
        cpu / 1e3,
        Nanos(seen.service_time.value_at_quantile(0.5)),
        Nanos(seen.service_time.value_at_quantile(0.99)),
        seen.connects,
        seen.closed_idle,
        seen.counts,
        seen.errors,
    );
    Ok(())
}
