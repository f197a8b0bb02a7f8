//! The number of allocations in a slice does not depend on the number of requests.

use std::sync::Arc;

use fixture::{Config, Service};
use netio::{Address, Epoll, Setup, Uring};
use spec::{Arrivals, Endpoint, Exchange, Expect, Load, Target};

use super::*;
use crate::observe::LearnedResponse;

const CONNECTIONS: usize = 8;

fn orders(requests: u64, open: bool) -> Orders {
    let mode = if open {
        Mode::Open { rate_per_s: 50_000.0, arrivals: Arrivals::Uniform }
    } else {
        Mode::Closed
    };
    let mut expected = ExpectedResponse::from_load(
        &Load::default().exchange,
        &Expect::default(),
        &Arc::from(&b""[..]),
    );
    let body = Some(b"Hello World!".to_vec());
    expected.learn(&LearnedResponse {
        status: Some(200),
        body,
        length: Some(12),
        varies: false,
        ..LearnedResponse::default()
    });
    let slice = Slice {
        mode,
        start: LoopStart::Fresh,
        lead_in: Nanos::ZERO,
        window: Nanos::ZERO,
        requests: Some(requests),
        drain: Nanos::from_secs(60),
        stalled_after: None,
    };
    // One step for the whole slice, because the list of steps grows with time, not with requests.
    Orders { step: Nanos::from_secs(3600), ..Orders::of_one_thread(slice, expected) }
}

/// Allocations in a slice of this many requests, all of which complete.
fn allocations<E: Engine>(worker: &mut Worker<E>, requests: u64, open: bool) -> u64 {
    let orders = orders(requests, open);
    let mut completed = 0;
    let counted = allocation_counter::measure(|| {
        completed = worker.run(&orders, CONNECTIONS, None).unwrap().observation.counts.completed;
    });
    assert_eq!(completed, requests);
    counted.count_total
}

fn check<E: Engine, W>(make: impl Fn(&Setup) -> Result<E, W>) -> Result<(), W> {
    let folder = tempfile::tempdir().unwrap();
    for listen in [
        Endpoint::Unix(folder.path().join("s")),
        Endpoint::Tcp { host: "127.0.0.1".into(), port: 0 },
    ] {
        let server = fixture::spawn(Config::new(listen, Service::hello())).unwrap();
        let endpoint = server.endpoint().clone();
        let address = Address::resolve(&endpoint).unwrap().remove(0);
        let target =
            Target::Http { endpoint, tls: false, authority: "localhost".into(), path: "/".into() };
        let load = Load { exchange: Exchange::Http(Default::default()), ..Load::default() };
        let message = crate::outbox::Outbox::new(&target, &load).messages[0].clone();
        let answers = (0..CONNECTIONS).map(|_| ResponseEnd::new(&load, &address, 1)).collect();
        let engine = make(&Setup::new(address, message, CONNECTIONS))?;
        let mut worker = Worker::new(engine, answers, 0);
        for open in [false, true] {
            // The first slice opens connections and teaches the readers.
            allocations(&mut worker, 1_000, open);
            let few = allocations(&mut worker, 1_000, open);
            let many = allocations(&mut worker, 20_000, open);
            // An open loop's queue grows with the longest backlog, which depends on the machine's
            // pauses.
            let spare = if open { 24 } else { 0 };
            assert!(
                many <= few + spare,
                "{few} for 1,000 requests, {many} for 20,000; open: {open}"
            );
        }
    }
    Ok(())
}

#[test]
fn by_epoll_no_request_allocates() {
    check(Epoll::new).unwrap();
}

#[test]
fn by_io_uring_no_request_allocates() {
    match check(Uring::new) {
        Ok(()) => {}
        Err(why) => super::suite::without_io_uring(&why),
    }
}
