//! Which processes listen where.

use std::collections::BTreeMap;
use std::path::PathBuf;

use procfs_core::FromRead;
use procfs_core::net::UnixNetEntries;

/// An address at which a socket can be reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListenAddress {
    /// A TCP port, of any address.
    Tcp(u16),
    /// A UDP port, of any address.
    Udp(u16),
    /// The name of a Unix socket as it was bound; that of an abstract one begins with `@`.
    Unix(PathBuf),
}

/// The sockets that can be reached, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Listeners {
    /// By inode.
    sockets: BTreeMap<u64, ListenAddress>,
}

impl Listeners {
    /// Those of this network namespace.
    pub fn read() -> Listeners {
        let table = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        let mut sockets = BTreeMap::new();
        for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
            let table = table(file);
            sockets.extend(
                ports(&table, LISTENING).map(|(inode, port)| (inode, ListenAddress::Tcp(port))),
            );
        }
        for file in ["/proc/net/udp", "/proc/net/udp6"] {
            let table = table(file);
            sockets.extend(
                ports(&table, UNCONNECTED).map(|(inode, port)| (inode, ListenAddress::Udp(port))),
            );
        }
        if let Ok(UnixNetEntries(entries)) = UnixNetEntries::from_file("/proc/net/unix") {
            let named = entries.into_iter().filter_map(|entry| Some((entry.inode, entry.path?)));
            sockets.extend(named.map(|(inode, path)| (inode, ListenAddress::Unix(path))));
        }
        Listeners { sockets }
    }

    /// The addresses of a process's sockets; none if it has ended, or belongs to another user.
    pub fn of_process(&self, pid: i32) -> impl Iterator<Item = &ListenAddress> {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let inode = |link: PathBuf| -> Option<u64> {
            link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
        };
        let inodes =
            files.filter_map(|file| std::fs::read_link(file.path()).ok()).filter_map(inode);
        inodes.filter_map(|inode| self.sockets.get(&inode))
    }
}

/// States of sockets in the tables of /proc/net, as hexadecimal numbers (Linux, include/net/tcp_states.h:
/// `TCP_LISTEN`, and `TCP_CLOSE` for what is connected to nothing).
const LISTENING: &str = "0A";
const UNCONNECTED: &str = "07";

/// The inodes and ports of the sockets in a state in a table such as `/proc/net/tcp`.
fn ports<'t>(table: &'t str, wanted: &'t str) -> impl Iterator<Item = (u64, u16)> + 't {
    table.lines().skip(1).filter_map(move |line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, port) = fields.get(1)?.rsplit_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        let inode = fields.get(9).filter(|_| fields[3] == wanted)?;
        Some((inode.parse().ok()?, port))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 x\n\
            1: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 222 1 x\n\
            2: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1 x\n";
        assert!(ports(table, LISTENING).eq([(111, 8080), (333, 8081)]));
    }

    #[test]
    fn a_process_listens_where_it_has_sockets() {
        use std::os::linux::net::SocketAddrExt as _;
        let name = format!("tachograph-listeners-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let unix = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let me = std::process::id() as i32;
        let listeners = Listeners::read();
        let mine: Vec<&ListenAddress> = listeners.of_process(me).collect();
        assert!(mine.contains(&&ListenAddress::Unix(format!("@{name}").into())));
        assert!(mine.contains(&&ListenAddress::Tcp(tcp.local_addr().unwrap().port())));
        assert!(mine.contains(&&ListenAddress::Udp(udp.local_addr().unwrap().port())));
        drop(unix);
        assert_eq!(listeners.of_process(i32::MAX).count(), 0);
    }
}
