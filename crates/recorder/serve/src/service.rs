//! What is received at an address: HTTP, or lines of some protocol.

use serde::{Deserialize, Serialize};

use crate::ingest::Format;
use crate::metrics::Way;

/// What is received at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Service {
    Http,
    Graphite,
    Statsd,
    Pickle,
}

impl Service {
    /// The names of all, which are those of their options.
    pub(crate) const NAMES: &str = "http, graphite, pickle or statsd";

    /// The service with the name of its option.
    pub(crate) fn named(name: &str) -> Option<Service> {
        match name {
            "http" => Some(Service::Http),
            "graphite" => Some(Service::Graphite),
            "pickle" => Some(Service::Pickle),
            "statsd" => Some(Service::Statsd),
            _ => None,
        }
    }

    /// The name of its protocol, if that needs streams.
    pub(crate) fn needs_stream(self) -> Option<&'static str> {
        match self {
            Service::Http => Some("HTTP"),
            Service::Pickle => Some("Graphite's pickle protocol"),
            Service::Graphite | Service::Statsd => None,
        }
    }

    /// How its lines are read and counted, over streams and in datagrams; `None` for HTTP.
    pub(crate) fn lines(self) -> Option<(Format, Way, Way)> {
        match self {
            Service::Http => None,
            Service::Graphite => {
                Some((Format::Graphite, Way::graphite_stream, Way::graphite_datagram))
            }
            Service::Statsd => Some((Format::Statsd, Way::statsd_stream, Way::statsd_datagram)),
            // A frame becomes lines of Graphite plaintext. There are no datagrams.
            Service::Pickle => Some((Format::Graphite, Way::pickle_stream, Way::pickle_stream)),
        }
    }
}
