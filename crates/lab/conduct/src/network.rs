//! What the network between clients and stacks allows, and whether it is the limit.

use std::sync::Arc;

use base::{Bytes, Nanos};
use record::{Link, NetworkLimit, Offer};
use spec::{Exchange, Variant};

use crate::error::StartError;
use crate::machines::Site;
use crate::null_server::{null_variant, slice_of_null};
use crate::running_variant::{RunningVariant, Setting, StartSeeds};

/// Above this share of what the network allows, it limits a variant.
const SHARE_MAX: f64 = 0.7;

/// What is counted as one request of the bulk exchange.
const CHUNK: Bytes = Bytes(1 << 16);

/// Measures the network from each client of a variant to the machine of its stack; nothing if there
/// is none between them.
pub(crate) fn measure(
    like: &Variant,
    around: &Setting<'_>,
    seed: base::Seed,
) -> Result<Vec<Link>, StartError> {
    let site =
        Site::of(like, &around.part, around.near, around.machines).map_err(StartError::Unfit)?;
    if like.stack.processes.is_empty() || !site.is_networked(around.near) {
        return Ok(Vec::new());
    }
    let mut variant = null_variant(like, "tcp://$HOST:$PORT", "tcp://$HOST:$PORT", "bulk", 12);
    variant.load.exchange = Exchange::Bulk { chunk: CHUNK };
    variant.load.new_connection = false;
    let mut running = RunningVariant::start(0, &variant, around, StartSeeds::alone(seed))?;
    let slice = slice_of_null(&variant, &around.part);
    let chunks_per_s =
        running.load(Offer::Calibration, 0, &slice, around.meter)?.throughput_per_s();
    let bytes_per_s = chunks_per_s * CHUNK.0 as f64;
    let server = running.expand("$HOST:$PORT")?;
    let link = |client: Option<&Arc<far::Machine>>| -> Result<Link, StartError> {
        let (way, round_trip) = match client {
            Some(machine) => machine.way(&server)?,
            None => far::way(&server)
                .map_err(|error| StartError::Unfit(format!("{server}: {error}")))?,
        };
        Ok(Link {
            client: client.map(|machine| machine.name().to_owned()),
            server: like.on.clone(),
            device: way.as_ref().map(|way| way.device.clone()),
            gateway: way.as_ref().and_then(|way| Some(way.gateway?.to_string())),
            speed_bits_per_s: way.and_then(|way| way.speed_bits_per_s),
            round_trip_min: round_trip.min,
            round_trip: round_trip.median,
            bytes_per_s,
        })
    };
    let links = match site.clients.is_empty() {
        true => link(None).map(|link| vec![link]),
        false => site.clients.iter().map(|client| link(Some(client))).collect(),
    };
    running.end();
    links
}

/// What of the network limits a variant whose throughput is `capacity_per_s`, with responses of
/// `body_bytes`.
pub(crate) fn limit(
    links: &[Link],
    variant: &Variant,
    capacity_per_s: f64,
    body_bytes: u64,
) -> Option<NetworkLimit> {
    let of_stack = || links.iter().filter(|link| link.server == variant.on);
    let carried_per_s = of_stack().next()?.bytes_per_s;
    let used_per_s = capacity_per_s * body_bytes as f64;
    if used_per_s > SHARE_MAX * carried_per_s {
        return Some(NetworkLimit::Bytes { used_per_s, carried_per_s });
    }
    // A new connection needs a round trip before that of its request (RFC 9293, 3.5), and with TLS at
    // least another one (RFC 8446, 2).
    let tls = u64::from(variant.target.starts_with("https"));
    let trips = if variant.load.new_connection { 2 + tls } else { 1 };
    let round_trip = of_stack().map(|link| link.round_trip).min()? * trips;
    let connections = variant.load.connections;
    let most_per_s = f64::from(connections) / round_trip.max(Nanos(1)).as_secs_f64();
    (capacity_per_s > SHARE_MAX * most_per_s).then_some(NetworkLimit::RoundTrip {
        round_trip,
        connections,
        most_per_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(new_connection: bool) -> Variant {
        let text = "[experiment]\nname = \"x\"\ntitle = \"t\"\nquestion = \"q\"\n[[variant]]\n\
                    name = \"v\"\ntarget = \"http://127.0.0.1:$PORT/\"\nprocess = [{ command = \"app\" }]\n";
        let mut plan = spec::parse_plan(text, "x.toml").unwrap();
        let mut variant = plan.parts.remove(0).variants.remove(0);
        variant.on = Some("far".to_owned());
        variant.load.connections = 10;
        variant.load.new_connection = new_connection;
        variant
    }

    fn link(server: &str, round_trip_ms: u64, bytes_per_s: f64) -> Link {
        let round_trip = Nanos::from_millis(round_trip_ms);
        Link { server: Some(server.to_owned()), round_trip, bytes_per_s, ..Link::default() }
    }

    #[test]
    fn either_bytes_or_the_round_trip_may_be_the_limit() {
        let links = [link("far", 100, 1e6), link("far", 50, 1e6), link("other", 1, 1.0)];
        let kept = variant(false);
        let of = |capacity, bytes| limit(&links, &kept, capacity, bytes);
        // Ten connections carry 200 requests per second from the nearer client.
        assert_eq!(of(130.0, 12), None);
        let by_trip = |round_trip, most_per_s| {
            Some(NetworkLimit::RoundTrip { round_trip, connections: 10, most_per_s })
        };
        assert_eq!(of(150.0, 12), by_trip(Nanos::from_millis(50), 200.0));
        let by_bytes = NetworkLimit::Bytes { used_per_s: 800_000.0, carried_per_s: 1e6 };
        assert_eq!(of(80.0, 10_000), Some(by_bytes));
        let new_connections = variant(true);
        let by_two = by_trip(Nanos::from_millis(100), 100.0);
        assert_eq!(limit(&links, &new_connections, 90.0, 12), by_two);
        assert_eq!(limit(&links[2..], &kept, 1e9, 1 << 20), None, "another machine's network");
    }
}
