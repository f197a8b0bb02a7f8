//! I/O does not allocate, neither on persistent nor on new connections.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use base::Nanos;
use netio::{Address, Connect, Ending, Engine, Epoll, Handler, Handshake, Setup, Uring, Wire};
use rustix::net::SocketAddrUnix;

const SLOTS: usize = 8;
/// Enough for every table to reach its final size.
const FIRST: u64 = 2_000;
const COUNTED: u64 = 10_000;
const MESSAGE: &[u8] = b"sixteen bytes...";

/// Sends again when a response is complete, optionally over a new connection.
struct Client {
    answers: u64,
    new_connection: bool,
    waiting: [usize; SLOTS],
}

impl Client {
    fn begin(&mut self, wire: &mut dyn Wire, slot: usize) {
        match wire.connect(slot).unwrap() {
            Connect::Done => wire.send(slot, 0).unwrap(),
            Connect::Pending => {}
        }
    }
}

impl Handler for Client {
    fn connected(&mut self, wire: &mut dyn Wire, slot: usize, _: Option<Handshake>) {
        wire.send(slot, 0).unwrap();
    }

    fn received(&mut self, wire: &mut dyn Wire, slot: usize, bytes: &[u8], _closing: bool) {
        self.waiting[slot] += bytes.len();
        if self.waiting[slot] < MESSAGE.len() {
            return;
        }
        self.waiting[slot] = 0;
        self.answers += 1;
        if self.new_connection {
            // Not by retiring: who closes first does not matter here, and closing is the cost.
            wire.close(slot);
            self.begin(wire, slot);
        } else {
            wire.send(slot, 0).unwrap();
        }
    }

    fn taken(&mut self, _: &mut dyn Wire, slot: usize) {
        panic!("slot {slot} sent a message of its own");
    }

    fn ended(&mut self, _: &mut dyn Wire, slot: usize, ending: Ending) {
        panic!("slot {slot} ended: {ending:?}");
    }
}

/// Number of allocations in so many exchanges, after the first ones.
fn allocations<E: Engine>(mut engine: E, new_connection: bool) -> u64 {
    let mut client = Client { answers: 0, new_connection, waiting: [0; SLOTS] };
    (0..SLOTS).for_each(|slot| client.begin(engine.wire(), slot));
    let mut run_until = |client: &mut Client, answers: u64| {
        while client.answers < answers {
            engine.turn(Nanos::from_secs(10), client).unwrap();
        }
    };
    run_until(&mut client, FIRST);
    let counted =
        allocation_counter::measure(|| run_until(&mut client, FIRST + COUNTED)).count_total;
    assert!(client.answers >= FIRST + COUNTED);
    counted
}

/// Echoes what arrives on one connection, until it is closed.
fn echo(mut socket: impl Read + Write) {
    let mut bytes = [0; 256];
    while let Ok(n @ 1..) = socket.read(&mut bytes) {
        if socket.write_all(&bytes[..n]).is_err() {
            return;
        }
    }
}

/// An echo server on a Unix socket and one on TCP, with one thread per connection; there are few.
fn servers(path: &Path) -> [Address; 2] {
    let unix = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for socket in unix.incoming().flatten() {
            std::thread::spawn(|| echo(socket));
        }
    });
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(tcp.local_addr().unwrap());
    std::thread::spawn(move || {
        for socket in tcp.incoming().flatten() {
            std::thread::spawn(|| echo(socket));
        }
    });
    let unix = SocketAddrUnix::new(path).unwrap();
    [address, Address::Unix { address: unix, socket_type: rustix::net::SocketType::STREAM }]
}

fn setups(path: &Path) -> Vec<(Setup, bool)> {
    let message: Arc<[u8]> = Arc::from(MESSAGE);
    servers(path)
        .into_iter()
        .flat_map(|address| {
            let tcp = matches!(address, Address::Tcp(_));
            let setup = Setup {
                // The thousands of connections of this test must leave no port in TIME_WAIT.
                linger_zero: tcp,
                ..Setup::new(address, message.clone(), SLOTS)
            };
            [(setup.clone(), false), (setup, true)]
        })
        .collect()
}

#[test]
fn epoll_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (setup, new_connection) in setups(&folder.path().join("s")) {
        let engine = Epoll::new(&setup).unwrap();
        assert_eq!(allocations(engine, new_connection), 0, "{:?} {new_connection}", setup.address);
    }
}

#[test]
fn io_uring_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (setup, new_connection) in setups(&folder.path().join("s")) {
        let engine = match Uring::new(&setup) {
            Ok(engine) => engine,
            // Skipped only if requested, as in the suite of drive.
            Err(_) if std::env::var_os("TACHOGRAPH_TEST_WITHOUT_IO_URING").is_some() => return,
            Err(why) => panic!(
                "the io_uring engine was NOT tested: {why}. Run the tests where io_uring is allowed, or set TACHOGRAPH_TEST_WITHOUT_IO_URING=1 to leave it out knowingly"
            ),
        };
        assert_eq!(allocations(engine, new_connection), 0, "{:?} {new_connection}", setup.address);
    }
}
