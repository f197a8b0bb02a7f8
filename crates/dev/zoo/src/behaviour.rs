//! The description of a server's behaviour.

use serde::{Deserialize, Serialize};

/// How a server answers. All times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Behaviour {
    /// Work of a request that nothing makes slow.
    pub fast_s: f64,
    /// Requests that take longer.
    pub slow: Option<SlowRequests>,
    /// How fast the whole server works over time.
    pub pace: Pace,
    /// A lock that every request takes before its work.
    pub lock: Option<Lock>,
    /// Connections on which every request that is not slow takes longer.
    pub slow_connections: Option<SlowConnections>,
}

/// Requests that take longer than others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowRequests {
    /// Which requests.
    pub which: SlowSelection,
    /// Work of such a request.
    pub length_s: f64,
    /// Whether it uses a CPU all the time, or sleeps.
    pub computes: bool,
}

/// Which requests are slow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowSelection {
    /// This share of them, each by an independent draw.
    Share(f64),
    /// Every n-th, counted over all connections from a random number.
    Every(u64),
}

/// How fast a server works over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Always alike.
    Even,
    /// The server stops everything, including requests under way, for `length_s`.
    Stops {
        /// When it stops.
        when: StopTime,
        /// How long.
        length_s: f64,
    },
    /// Phases of this length, in turn normal and slower by the factor, from a random moment in them.
    Phases {
        /// Length of a phase.
        length_s: f64,
        /// How much longer everything takes in a slow phase.
        factor: f64,
    },
    /// Slower by the factor for `length_s` from the start of the process.
    SlowStart {
        /// How long.
        length_s: f64,
        /// How much longer everything takes.
        factor: f64,
    },
}

/// When a server stops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopTime {
    /// After a running time that is exponential with this mean.
    Exponential(f64),
    /// After this running time; the process starts at a random moment of the cycle.
    Fixed(f64),
    /// After this many answers, counted from a random number.
    Requests(u64),
}

/// A lock that every request takes, and most release at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lock {
    /// Share of the requests that hold it.
    pub share: f64,
    /// How long they hold it; their work follows.
    pub hold_s: f64,
}

/// Connections that are slow for as long as they last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowConnections {
    /// Share of the accepted connections, each by an independent draw.
    pub share: f64,
    /// How much longer a request takes there.
    pub factor: f64,
}

impl Behaviour {
    /// A server that answers every request after the same work.
    pub const fn even(fast_s: f64) -> Behaviour {
        Behaviour { fast_s, slow: None, pace: Pace::Even, lock: None, slow_connections: None }
    }

    /// The same, with a share of slow requests that sleep.
    pub const fn with_slow(fast_s: f64, share: f64, length_s: f64) -> Behaviour {
        let slow = SlowRequests { which: SlowSelection::Share(share), length_s, computes: false };
        Behaviour { slow: Some(slow), ..Behaviour::even(fast_s) }
    }

    /// The same, with stops.
    pub const fn with_stops(fast_s: f64, when: StopTime, length_s: f64) -> Behaviour {
        Behaviour { pace: Pace::Stops { when, length_s }, ..Behaviour::even(fast_s) }
    }
}
