//! `tachograph serve-fixture`: the built-in native server.

use std::sync::atomic::Ordering;

use base::{Bytes, Nanos};
use fixture::{
    Certificate, Config, Faults, HttpAnswer, Queue, ResponseBody, Server, Service, TlsConfig,
};
use spec::Target;

use crate::failure::{Failure, Outcome, Status};
use crate::flags::fixture::{FixtureFlags, FixtureMode};
use crate::output;

/// Default size of a stream's unit of counting, and of an echo's message.
const SIZE: Bytes = Bytes(64);

pub(crate) fn run(flags: &FixtureFlags) -> Outcome {
    let listen = match Target::parse(&flags.listen)? {
        Target::Raw(endpoint) => endpoint,
        Target::Http { .. } => {
            return Err(Failure::new(format!(
                "'{}' is not an address to listen on; write tcp://host:port or unix:/path",
                flags.listen
            )));
        }
    };
    let config = Config {
        service: service(flags),
        faults: faults(flags),
        backlog: flags.backlog,
        counter: flags.served_file.clone(),
        answers: flags.answers_file.clone(),
        tls: flags.tls.then(|| tls(flags)),
        http2: flags.http2,
        ..Config::new(listen, Service::hello())
    };
    let stop = stage::signals::install().map_err(Failure::new)?;
    fixture::allow_files();
    let server = Server::bind(config).map_err(Failure::new)?;
    output::print(&format!("listening on {}\n", flags.listen))?;
    let served = server.run(&stop).map_err(Failure::new)?;
    if !stop.load(Ordering::Relaxed) {
        output::note(&format!("served {served} requests"));
    }
    Ok(Status::Well)
}

fn tls(flags: &FixtureFlags) -> TlsConfig {
    let certificate = match (&flags.cert, &flags.key) {
        (Some(cert), Some(key)) => Certificate::Files { cert: cert.clone(), key: key.clone() },
        _ => Certificate::BuiltIn,
    };
    TlsConfig { certificate, ..TlsConfig::default() }
}

fn service(flags: &FixtureFlags) -> Service {
    let size = flags.body_size.unwrap_or(SIZE);
    let text = |default: &str| match (&flags.body, flags.body_size) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(size)) => vec![b'x'; size.0 as usize],
        (None, None) => default.as_bytes().to_vec(),
    };
    match flags.mode {
        FixtureMode::Http => Service::Http(HttpAnswer {
            body: ResponseBody::Fixed(text("Hello World!")),
            ..HttpAnswer::default()
        }),
        FixtureMode::Oneshot => Service::Oneshot { message: text("Hello there!") },
        FixtureMode::Echo => Service::Echo { size },
        FixtureMode::Bulk => Service::Bulk { chunk: flags.body_size.unwrap_or(Bytes(65_536)) },
    }
}

fn faults(flags: &FixtureFlags) -> Faults {
    let every = |n: Option<u64>| n.unwrap_or(0);
    let time = |t: Option<Nanos>| t.unwrap_or(Nanos::ZERO);
    Faults {
        drop_every: every(flags.drop_every),
        corrupt_every: every(flags.corrupt_every),
        truncate_every: every(flags.truncate_every),
        count_twice_every: every(flags.count_twice_every),
        count_late: time(flags.count_late),
        count_never_every: every(flags.count_never_every),
        stall_after: flags.stall_after,
        fail_after: flags.fail_after,
        delay_every: every(flags.delay_every),
        delay_every_by: time(flags.delay),
        burn: time(flags.burn),
        limit_per_s: flags.limit,
        queue: flags.service.map(|service| Queue {
            service,
            workers: flags.workers,
            exponential: flags.exponential,
        }),
        slow_after: flags.slow_after,
        slow_by: time(flags.slow_by),
        ..Faults::default()
    }
}
