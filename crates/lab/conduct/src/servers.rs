//! Servers that were not started by us.

use std::collections::BTreeSet;
use std::net::{TcpListener, ToSocketAddrs};

use host::{ListenAddress, Listeners, Process};
use profile::ProfileError;
use spec::Endpoint;

/// The processes that listen at an address, and those that they have started.
///
/// # Errors
/// If there is none on this machine that can be seen.
pub(crate) fn servers_at(endpoint: &Endpoint) -> Result<Vec<u32>, ProfileError> {
    let addresses: Vec<ListenAddress> = match endpoint {
        Endpoint::Tcp { host, .. } | Endpoint::Udp { host, .. } if !is_local(host) => Vec::new(),
        Endpoint::Tcp { port, .. } => vec![ListenAddress::Tcp(*port)],
        Endpoint::Udp { port, .. } => vec![ListenAddress::Udp(*port)],
        Endpoint::Abstract(name) => {
            vec![ListenAddress::Unix(format!("@{}", String::from_utf8_lossy(name)).into())]
        }
        Endpoint::Unix(path)
        | Endpoint::UnixDatagram(path)
        | Endpoint::UnixSeqpacket(path)
        | Endpoint::Socketpair(path) => {
            let whole = path.canonicalize().ok();
            std::iter::once(path.clone()).chain(whole).map(ListenAddress::Unix).collect()
        }
    };
    let listeners = Listeners::read();
    let all = Process::all().unwrap_or_default();
    let listening = all.iter().map(|process| process.pid);
    let listening = listening
        .filter(|pid| listeners.of_process(*pid).any(|address| addresses.contains(address)));
    let mut servers = BTreeSet::new();
    for pid in listening {
        servers.insert(pid);
        servers.extend(Process::descendants(&all, pid));
    }
    match servers.is_empty() {
        true => Err(ProfileError::NoServer(endpoint.to_string())),
        false => Ok(servers.into_iter().map(|pid| pid as u32).collect()),
    }
}

/// Whether a name or an address is one of this machine's, because one can listen there.
fn is_local(host: &str) -> bool {
    let addresses = (host, 0).to_socket_addrs().into_iter().flatten();
    addresses.into_iter().any(|address| TcpListener::bind(address).is_ok())
}
