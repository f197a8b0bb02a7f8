//! Exchanges without HTTP.

use crate::helper::*;
use base::Bytes;
use fixture::{Faults, Service};
use spec::Exchange;

#[test]
fn a_oneshot_reads_to_the_end_and_compares() {
    for on in On::STREAMS {
        let rig = rig(on, Service::oneshot(), Faults::default()).raw(Exchange::Oneshot);
        let mut session = rig.open().unwrap();
        let learned = session.learn().unwrap();
        assert_eq!(learned.body.as_deref(), Some(&b"Hello there!"[..]));
        assert_eq!(learned.status, None);
        let seen = session.run(&requests(300)).unwrap();
        assert_laws(&seen);
        assert_eq!((seen.counts.completed, seen.connects), (300, 300), "{on:?} {:?}", seen.errors);
        assert_eq!(session.close().counts.completed, 303);
        assert_eq!(rig.fixture.stop().unwrap(), 303, "{on:?}");
    }
}

#[test]
fn a_oneshot_of_a_mebibyte_arrives_whole() {
    let message: Vec<u8> = (0..1 << 20).map(|i: u32| (i % 249) as u8).collect();
    for on in On::STREAMS {
        let service = Service::Oneshot { message: message.clone() };
        let rig = rig(on, service, Faults::default()).raw(Exchange::Oneshot);
        let mut session = rig.session();
        let seen = session.run(&requests(10)).unwrap();
        assert_laws(&seen);
        assert_eq!(seen.window.payload_bytes, 10 << 20, "{on:?} {:?}", seen.errors);
    }
}

#[test]
fn oneshot_faults_are_seen() {
    for (faults, kind) in [
        (Faults { drop_every: 10, ..Faults::default() }, "closed before a response"),
        (Faults { corrupt_every: 10, ..Faults::default() }, "body differs"),
        (Faults { truncate_every: 10, ..Faults::default() }, "length differs"),
        (Faults { surplus_every: 10, ..Faults::default() }, "length differs"),
    ] {
        for on in [On::V4, On::Unix] {
            let rig = rig(on, Service::oneshot(), faults.clone()).raw(Exchange::Oneshot);
            let mut session = rig.session();
            let seen = session.run(&requests(97)).unwrap();
            assert_laws(&seen);
            assert_eq!(seen.errors.get(kind), Some(&10), "{on:?} {:?}", seen.errors);
            assert_eq!(seen.counts.completed, 87);
        }
    }
}

#[test]
fn an_echo_of_any_size_comes_back_on_every_transport() {
    for on in [On::V4, On::V6, On::Unix, On::Abstract, On::Datagram, On::Seqpacket, On::Socketpair]
    {
        for size in [1, 12, 4096, 100_000, 1 << 20] {
            let packets = matches!(on, On::Datagram | On::Seqpacket);
            if packets && size > 100_000 {
                continue;
            }
            let service = Service::Echo { size: Bytes(size) };
            let rig = rig(on, service, Faults::default()).raw(Exchange::Echo { size: Bytes(size) });
            let mut session = rig.session();
            let seen = session.run(&requests(40)).unwrap();
            assert_laws(&seen);
            assert_eq!(seen.counts.completed, 40, "{on:?} {size} {:?}", seen.errors);
            assert_eq!(seen.window.payload_bytes, 40 * size);
            assert_eq!((seen.bytes_sent, seen.bytes_received), (40 * size, 40 * size));
            session.close();
            assert_eq!(rig.fixture.stop().unwrap(), 43, "{on:?} {size}");
        }
    }
}

#[test]
fn a_wrong_byte_in_an_echo_is_seen_on_every_transport() {
    for on in [On::V4, On::Unix, On::Datagram, On::Seqpacket, On::Socketpair] {
        let service = Service::Echo { size: Bytes(64) };
        let faults = Faults { corrupt_every: 10, ..Faults::default() };
        let rig = rig(on, service, faults).raw(Exchange::Echo { size: Bytes(64) });
        let mut session = rig.session();
        let seen = session.run(&requests(100)).unwrap();
        assert_laws(&seen);
        assert_eq!(seen.errors.get("body differs"), Some(&10), "{on:?} {:?}", seen.errors);
    }
}

#[test]
fn more_datagram_clients_than_the_socket_queues_lose_nothing() {
    let service = Service::Echo { size: Bytes(64) };
    let mut rig =
        rig(On::Datagram, service, Faults::default()).raw(Exchange::Echo { size: Bytes(64) });
    rig.load.connections = 64;
    let mut session = rig.session();
    let seen = session.run(&requests(2000)).unwrap();
    assert_laws(&seen);
    assert_eq!(seen.counts.completed, 2000, "{:?}", seen.errors);
    session.close();
    assert_eq!(rig.fixture.stop().unwrap(), 2003);
}

#[test]
fn an_echo_with_a_connection_per_request() {
    let mut rig = rig(On::V4, Service::Echo { size: Bytes(5) }, Faults::default())
        .raw(Exchange::Echo { size: Bytes(5) });
    rig.load.new_connection = true;
    let mut session = rig.session();
    let seen = session.run(&requests(100)).unwrap();
    assert_laws(&seen);
    assert_eq!((seen.counts.completed, seen.connects), (100, 100));
}

#[test]
fn a_bulk_transfer_counts_its_chunks() {
    for on in [On::V4, On::V6, On::Unix, On::Abstract, On::Socketpair] {
        let chunk = Bytes(64 * 1024);
        let rig = rig(on, Service::Bulk { chunk }, Faults::default()).raw(Exchange::Bulk { chunk });
        let mut session = rig.session();
        let mut slices = 0;
        // A busy machine may leave the server no time in a window.
        eventually("chunks in a window", || {
            let seen = session.run(&for_ms(10, 40)).unwrap();
            assert_laws(&seen);
            assert_eq!(seen.counts.failed + seen.counts.in_flight, 0, "{on:?}");
            assert_eq!(seen.window.payload_bytes, seen.window.completed * chunk.0);
            slices += 1;
            slices > 1 && seen.window.completed > 0
        });
        let seen = session.run(&requests(500)).unwrap();
        assert_laws(&seen);
        assert_eq!(seen.counts.completed, 500, "{on:?}");
        let completed = session.close().counts.completed;
        assert!(rig.fixture.stop().unwrap() >= completed, "nothing is received that was not sent");
    }
}
