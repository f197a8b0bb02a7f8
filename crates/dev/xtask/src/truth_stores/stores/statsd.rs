//! StatsD, the first one (in Node.js), in front of carbon-cache.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::carbon::{self, Carbon};
use super::{
    AskedTime, DATAGRAM_PAUSE, Message, Quantity, Reply, Slots, Store, StoreKind, Times,
    around_now, name, version_of,
};
use crate::process::free_port;
use crate::server::Server;
use crate::truth_stores::history::SERIES;

pub(super) const STATSD: StoreKind = StoreKind {
    name: "StatsD, Graphite",
    protocol: "a datagram for each message to the StatsD of Node.js, which flushes to carbon-cache",
    settings: "`flushInterval: 10000`, `legacyNamespace: false`; carbon-cache as above",
    query: "the sum of `count`; its points have the time of the flush, so the total of everything is compared",
    install: "npm install statsd",
    times: Times::Arrival,
    version: || version_of("statsd", &["--version"]),
    open: |folder, _| Ok(Box::new(StatsD::new(folder)?)),
};

/// Its flush interval.
const FLUSH: Duration = Duration::from_secs(10);

struct StatsD {
    server: Server,
    socket: UdpSocket,
    carbon: Carbon,
}

impl StatsD {
    fn new(folder: &Path) -> Result<StatsD, String> {
        let mut carbon = carbon::carbon_cache(folder, Quantity::Count)?;
        let counters = carbon.data.join("stats/counters");
        let file = |series| counters.join(name(series)).join("count.wsp");
        carbon.files = (0..SERIES).map(|series| ((series, 0), file(series))).collect();
        let (config, to, admin) = (folder.join("statsd.js"), carbon.server.port, free_port()?);
        let server = Server::new(None, move |port| {
            let text = format!(
                "{{ address: '127.0.0.1', port: {admin}, mgmt_address: '127.0.0.1', \
                 mgmt_port: {port}, flushInterval: {}, graphiteHost: '127.0.0.1', \
                 graphitePort: {to}, graphite: {{ legacyNamespace: false }} }}\n",
                FLUSH.as_millis()
            );
            // If it cannot be written, the server does not get ready.
            let _ = std::fs::write(&config, text);
            let mut command = Command::new("statsd");
            command.arg(&config);
            command
        })?;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let connected =
            socket.and_then(|socket| socket.connect((Ipv4Addr::LOCALHOST, admin)).map(|()| socket));
        Ok(StatsD { server, socket: connected.map_err(|error| error.to_string())?, carbon })
    }
}

impl Store for StatsD {
    fn start(&mut self) -> Result<(), String> {
        self.carbon.start()?;
        self.server.start()
    }

    fn stop(&mut self) -> Result<(), String> {
        self.server.stop()?;
        self.carbon.stop()
    }

    fn process(&self) -> Option<u32> {
        self.server.process()
    }

    fn send(&mut self, message: &Message) -> Result<Reply, String> {
        // After a kill.
        self.server.start()?;
        let datagram = format!("{}:{}|c", name(message.series), message.count);
        // An error would be that of an earlier one.
        let _ = self.socket.send(datagram.as_bytes());
        thread::sleep(DATAGRAM_PAUSE);
        Ok(Reply::Unanswered)
    }

    fn finish(&mut self) -> Result<(), String> {
        thread::sleep(FLUSH + FLUSH / 10);
        self.carbon.finish()
    }

    /// Those of this trial.
    fn slots(&mut self, asked: AskedTime) -> Result<Slots, String> {
        self.carbon.slots(around_now(asked)?)
    }

    fn total(&mut self, asked: AskedTime) -> Result<f64, String> {
        self.slots(asked).map(|slots| slots.values().sum())
    }
}
