//! The results, from which the page is generated.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stats::Estimate;

/// The confidence of every interval.
const CONFIDENCE: f64 = 0.95;

/// All measured lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Results {
    /// By line name.
    pub(super) lines: BTreeMap<String, LineResults>,
}

/// Results of a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LineResults {
    /// Start, RFC 3339.
    pub(super) date: String,
    /// The machine in words.
    pub(super) machine: String,
    /// Versions, by client.
    pub(super) versions: BTreeMap<String, String>,
    /// Clients that could not be measured, with the reason.
    pub(super) skipped: Vec<String>,
    pub(super) seed: u64,
    pub(super) rounds: u32,
    pub(super) seconds: f64,
    /// Arrivals per second, in an open loop.
    pub(super) offered_per_s: Option<f64>,
    /// The I/O backend that `--engine auto` chose.
    pub(super) auto: Option<String>,
    pub(super) runs: Vec<Run>,
}

/// One client in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) round: u32,
    pub(super) client: String,
    pub(super) rate_per_s: f64,
    /// The client's count.
    pub(super) completed: u64,
    /// The server's count.
    pub(super) served: Option<u64>,
    pub(super) failed: u64,
    pub(super) user_s: f64,
    pub(super) system_s: f64,
    pub(super) lateness_p99_ns: Option<u64>,
    /// The most memory that the client had.
    #[serde(default)]
    pub(super) peak_bytes: Option<u64>,
    /// How the server's responses were distributed, where there are many connections.
    #[serde(default)]
    pub(super) spread: Option<Spread>,
}

/// How responses were distributed over connections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Spread {
    /// Connections, as the server saw them.
    pub(super) connections: u64,
    /// Those that got no response.
    pub(super) without: u64,
    /// Responses on a connection of the slowest hundredth at most, ÷ the median.
    pub(super) slowest: f64,
}

impl Spread {
    /// Of the responses on each connection; `None` without any.
    pub(super) fn of(mut responses: Vec<u32>) -> Option<Spread> {
        responses.sort_unstable();
        let at = |share: f64| {
            let rank = (share * responses.len() as f64).ceil() as usize;
            responses.get(rank.max(1) - 1).map(|responses| f64::from(*responses))
        };
        Some(Spread {
            connections: responses.len() as u64,
            without: responses.iter().filter(|responses| **responses == 0).count() as u64,
            slowest: at(0.01)? / at(0.5)?.max(1.0),
        })
    }
}

impl Run {
    /// Client CPU in microseconds per request (or byte), by the server's count if there is one.
    pub(super) fn cpu_us(&self) -> f64 {
        1e6 * (self.user_s + self.system_s) / self.served.unwrap_or(self.completed) as f64
    }

    /// The user-mode share of that.
    pub(super) fn user_share(&self) -> f64 {
        self.user_s / (self.user_s + self.system_s)
    }
}

impl LineResults {
    fn of<'a>(&'a self, client: &str) -> impl Iterator<Item = &'a Run> {
        let client = client.to_owned();
        self.runs.iter().filter(move |run| run.client == client)
    }

    /// A client's mean level of a figure over the rounds; `None` without rounds.
    pub(super) fn level(&self, client: &str, value: impl Fn(&Run) -> f64) -> Option<Estimate> {
        let values: Vec<f64> = self.of(client).map(value).collect();
        if values.is_empty() { None } else { stats::level(&values, CONFIDENCE).ok() }
    }

    /// `client` ÷ `baseline` over the rounds in which both were measured.
    pub(super) fn ratio(
        &self,
        client: &str,
        baseline: &str,
        value: impl Fn(&Run) -> f64,
    ) -> Option<Estimate> {
        let pairs: Vec<(f64, f64)> = self
            .of(client)
            .filter_map(|ours| {
                let theirs = self.of(baseline).find(|theirs| theirs.round == ours.round)?;
                Some((value(theirs), value(ours)))
            })
            .collect();
        if pairs.is_empty() { None } else { stats::mean_log_ratio(&pairs, CONFIDENCE).ok() }
    }

    /// A client's failed requests in all rounds.
    pub(super) fn failed(&self, client: &str) -> u64 {
        self.of(client).map(|run| run.failed).sum()
    }
}

#[cfg(test)]
pub(super) fn sample() -> LineResults {
    let run = |round: u32, client: &str, rate_per_s: f64, user_s: f64| Run {
        round,
        client: client.to_owned(),
        rate_per_s,
        completed: rate_per_s as u64,
        served: Some(rate_per_s as u64),
        failed: 0,
        user_s,
        system_s: 0.8,
        lateness_p99_ns: Some(50_000),
        peak_bytes: Some(9 << 20),
        spread: Spread::of(vec![10; 100]),
    };
    LineResults {
        date: "2026-01-02T03:04:05Z".to_owned(),
        machine: "a CPU, 2 CPUs, Linux 6".to_owned(),
        versions: BTreeMap::from([("wrk".to_owned(), "wrk 4".to_owned())]),
        skipped: vec!["hey is not installed (apt install hey)".to_owned()],
        seed: 1,
        rounds: 3,
        seconds: 1.0,
        offered_per_s: None,
        auto: Some("epoll".to_owned()),
        runs: (1..=3)
            .flat_map(|round| {
                let drift = f64::from(round);
                [
                    run(round, "tachograph, epoll", 200_000.0 * drift, 0.2),
                    run(round, "wrk", 100_000.0 * drift, 0.2),
                ]
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_paired_by_round() {
        let ratio = sample().ratio("tachograph, epoll", "wrk", |run| run.rate_per_s).unwrap();
        // The rounds differ by a factor of three, but not in the ratio.
        assert!(
            (ratio.value - 2.0).abs() < 1e-9 && (ratio.high - ratio.low).abs() < 1e-9,
            "{ratio:?}"
        );
        assert_eq!(sample().ratio("tachograph, epoll", "ab", |run| run.rate_per_s), None);
    }

    #[test]
    fn responses_are_spread_over_connections() {
        let mut responses = vec![40; 998];
        responses.extend([0, 10]);
        let spread = Spread::of(responses.clone()).unwrap();
        assert_eq!((spread.connections, spread.without, spread.slowest), (1_000, 1, 1.0));
        responses.extend([10; 20]);
        assert_eq!(Spread::of(responses).unwrap().slowest, 0.25);
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn cpu_is_per_request_that_the_server_counted() {
        let mut run = sample().runs[0].clone();
        run.served = Some(100_000);
        assert!((run.cpu_us() - 10.0).abs() < 1e-9);
        assert!((run.user_share() - 0.2).abs() < 1e-9);
    }
}
