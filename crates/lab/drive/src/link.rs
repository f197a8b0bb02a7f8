//! What the network between a client and a server allows: its round trip, and the bytes that it
//! carries.

use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use base::Nanos;
use serde::{Deserialize, Serialize};

/// Limit of a connection attempt, and of the wait for bytes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Round trips, each from a client's SYN to the server's SYN-ACK. Both are answered by kernels, so
/// no server's wake-up is in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundTrip {
    /// The shortest.
    pub min: Nanos,
    /// The median.
    pub median: Nanos,
}

impl RoundTrip {
    /// Opens this many connections (at least one) to a listening server, one after the other.
    ///
    /// # Errors
    /// If one cannot be opened within five seconds.
    pub fn measure(server: SocketAddr, count: u32) -> io::Result<RoundTrip> {
        let mut times = Vec::new();
        for _ in 0..count.max(1) {
            let began = Instant::now();
            let connection = TcpStream::connect_timeout(&server, PATIENCE)?;
            times.push(Nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)));
            drop(connection);
        }
        times.sort_unstable();
        Ok(RoundTrip { min: times[0], median: times[times.len() / 2] })
    }
}

/// Bytes per second that a single connection carries from a server which sends without end, such as
/// the null server's bulk exchange.
///
/// The first quarter of the time is not counted: TCP begins slowly (RFC 5681, 3.1).
///
/// # Errors
/// If the server cannot be reached, closes the connection, or sends nothing for five seconds.
pub fn bytes_per_s(server: SocketAddr, duration: Duration) -> io::Result<f64> {
    let mut connection = TcpStream::connect_timeout(&server, PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = vec![0; 1 << 18];
    receive(&mut connection, &mut buffer, duration / 4)?;
    let began = Instant::now();
    let bytes = receive(&mut connection, &mut buffer, duration - duration / 4)?;
    Ok(bytes as f64 / began.elapsed().as_secs_f64())
}

/// Receives for some time, at least once; returns the number of bytes.
fn receive(from: &mut TcpStream, buffer: &mut [u8], time: Duration) -> io::Result<u64> {
    let began = Instant::now();
    let mut bytes = 0;
    loop {
        match from.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes += count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if began.elapsed() >= time {
            return Ok(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use fixture::{Config, Service, spawn};
    use spec::Endpoint;

    use super::*;

    fn server(service: Service) -> (fixture::RunningFixture, SocketAddr) {
        let listen = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: 0 };
        let running = spawn(Config::new(listen, service)).unwrap();
        let Endpoint::Tcp { port, .. } = *running.endpoint() else { panic!("TCP was asked for") };
        (running, (Ipv4Addr::LOCALHOST, port).into())
    }

    #[test]
    fn a_round_trip_needs_a_server() {
        let (running, address) = server(Service::hello());
        let trip = RoundTrip::measure(address, 9).unwrap();
        assert!(trip.min > Nanos(0) && trip.min <= trip.median, "{trip:?}");
        running.stop().unwrap();
        assert!(RoundTrip::measure(address, 1).is_err());
    }

    #[test]
    fn bytes_are_counted_until_the_server_ends() {
        let (running, address) = server(Service::Bulk { chunk: base::Bytes(1 << 16) });
        let rate = bytes_per_s(address, Duration::from_millis(40)).unwrap();
        assert!(rate > 0.0, "{rate}");
        running.stop().unwrap();
        // A server that sends only a little and closes is no measure.
        let (_running, address) = server(Service::oneshot());
        let error = bytes_per_s(address, Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
