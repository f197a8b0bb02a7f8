//! Builders that keep the tests short.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::{CpuSet, Nanos, Seed};
use drive::{DriveError, Observation, Options, Session, Slice};
use fixture::{Config, Faults, RunningFixture, Service, TlsConfig, spawn};
use ledger::Counts;
use spec::{Endpoint, Exchange, Load, Mode, Target};
use tempfile::TempDir;

/// A fixture and a load for it.
pub(crate) struct Rig {
    pub(crate) fixture: RunningFixture,
    pub(crate) target: Target,
    pub(crate) load: Load,
    pub(crate) options: Options,
    _folder: TempDir,
}

/// The kind of socket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum On {
    V4,
    V6,
    Unix,
    Abstract,
    Datagram,
    Seqpacket,
    Socketpair,
    /// TLS over TCP.
    Tls,
    /// TLS over a Unix socket.
    TlsUnix,
}

impl On {
    pub(crate) const STREAMS: [On; 4] = [On::V4, On::V6, On::Unix, On::Abstract];
    pub(crate) const HTTP: [On; 6] = [On::V4, On::V6, On::Unix, On::Abstract, On::Tls, On::TlsUnix];

    fn is_tls(self) -> bool {
        matches!(self, On::Tls | On::TlsUnix)
    }

    pub(crate) fn endpoint(self, folder: &TempDir) -> Endpoint {
        let path = folder.path().join("s");
        match self {
            On::V4 | On::Tls => Endpoint::Tcp { host: "127.0.0.1".into(), port: 0 },
            On::V6 => Endpoint::Tcp { host: "::1".into(), port: 0 },
            On::Unix | On::TlsUnix => Endpoint::Unix(path),
            On::Abstract => Endpoint::Abstract(path.into_os_string().into_encoded_bytes()),
            On::Datagram => Endpoint::UnixDatagram(path),
            On::Seqpacket => Endpoint::UnixSeqpacket(path),
            On::Socketpair => Endpoint::Socketpair(path),
        }
    }
}

pub(crate) fn options() -> Options {
    Options {
        cpus: CpuSet::default(),
        seed: Seed(7),
        step: Nanos::from_millis(10),
        stop: Arc::new(AtomicBool::new(false)),
        among: None,
    }
}

pub(crate) fn http_load(connections: u32) -> Load {
    let engine = crate::ENGINE;
    Load { connections, engine, timeout: Nanos::from_secs(20), ..Load::default() }
}

pub(crate) fn http_target(endpoint: &Endpoint, tls: bool) -> Target {
    Target::Http {
        endpoint: endpoint.clone(),
        tls,
        authority: "localhost".into(),
        path: "/".into(),
    }
}

/// A fixture on `on`, and an HTTP load with four connections.
pub(crate) fn rig(on: On, service: Service, faults: Faults) -> Rig {
    rig_with(on, service, |config| config.faults = faults)
}

/// The same, with a changed configuration.
pub(crate) fn rig_with(on: On, service: Service, change: impl FnOnce(&mut Config)) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::new(on.endpoint(&folder), service);
    config.tls = on.is_tls().then(TlsConfig::default);
    change(&mut config);
    let fixture = spawn(config).unwrap();
    let target = http_target(fixture.endpoint(), on.is_tls());
    let mut load = http_load(4);
    load.tls.insecure = true;
    Rig { fixture, target, load, options: options(), _folder: folder }
}

impl Rig {
    /// The same fixture as a raw target.
    pub(crate) fn raw(mut self, exchange: Exchange) -> Rig {
        self.target = Target::Raw(self.fixture.endpoint().clone());
        self.load.exchange = exchange;
        self
    }

    pub(crate) fn open(&self) -> Result<Session, DriveError> {
        Session::open(&self.target, &self.load, &self.options)
    }

    /// Opens a session and learns.
    pub(crate) fn session(&self) -> Session {
        let mut session = self.open().unwrap();
        session.learn().unwrap();
        session
    }
}

/// Waits for a condition that must become true, with a long timeout for busy machines.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "this never came: {what}");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Exactly this many requests in a closed loop.
pub(crate) fn requests(n: u64) -> Slice {
    Slice { requests: Some(n), ..for_ms(0, 0) }
}

/// A closed loop for this long.
pub(crate) fn for_ms(lead_in: u64, window: u64) -> Slice {
    Slice {
        mode: Mode::Closed,
        start: drive::LoopStart::Fresh,
        lead_in: Nanos::from_millis(lead_in),
        window: Nanos::from_millis(window),
        requests: None,
        drain: Nanos::from_secs(20),
        stalled_after: None,
    }
}

/// Checks the laws of every observation.
pub(crate) fn assert_laws(seen: &Observation) {
    let c = &seen.counts;
    assert_counts(c);
    assert_eq!(seen.errors.values().sum::<u64>(), c.failed, "{:?}", seen.errors);
    assert_eq!(seen.completed_by_step.iter().sum::<u64>(), c.completed);
    assert!(seen.window.completed <= c.completed);
    assert!(seen.service_time.len() <= c.sent);
    assert!(seen.latency.len() <= seen.window.due);
}

pub(crate) fn assert_counts(c: &Counts) {
    assert_eq!(c.offered, c.sent + c.dropped, "{c:?}");
    assert_eq!(c.sent, c.completed + c.failed + c.in_flight, "{c:?}");
}
