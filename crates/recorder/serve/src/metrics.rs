//! Figures about the daemon itself, for `/metrics`.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use engine::Figure;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use store::{MaintenanceResult, StoreError};

use crate::ingest::State;

/// Reason for turning away a sender that is not in `--allow`.
pub(crate) const NOT_ALLOWED: &str = "not_allowed";

/// Number of senders that are counted separately; the others are counted together.
const SENDERS_MAX: usize = 1_000;

/// How lines arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "the names are those in /metrics")]
pub(crate) enum Way {
    /// HTTP requests.
    http,
    /// Influx line protocol over HTTP.
    influx_http,
    /// Prometheus remote write.
    remote_write_http,
    /// OTLP metrics over HTTP.
    otlp_http,
    /// Graphite plaintext over a stream.
    graphite_stream,
    /// Graphite plaintext in datagrams.
    graphite_datagram,
    /// Graphite's pickle protocol over a stream.
    pickle_stream,
    /// StatsD over a stream.
    statsd_stream,
    /// StatsD in datagrams.
    statsd_datagram,
}

/// Who sends: the address of a machine, or `unix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) way: Way,
    pub(crate) name: Arc<str>,
}

/// Labels of what arrives one way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ByWay {
    pub(crate) way: Way,
}

/// Labels of what is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    way: Way,
    sender: String,
    reason: &'static str,
}

/// All figures. Cloning shares them.
#[derive(Clone)]
pub(crate) struct Metrics {
    registry: Arc<Registry>,
    senders: Arc<Mutex<HashSet<Arc<str>>>>,
    refused: Family<RefusalLabels, Counter>,
    turned_away: Family<RefusalLabels, Counter>,
    journal_bytes: Gauge,
    journal_max_bytes: Gauge,
    head_bytes: Gauge,
    head_max_bytes: Gauge,
    oldest: Gauge<f64, std::sync::atomic::AtomicU64>,
    clock_ahead: Gauge<f64, std::sync::atomic::AtomicU64>,
    is_full: Gauge,
    pub(crate) http_requests: Counter,
    pub(crate) connections: Family<ByWay, Gauge>,
    pub(crate) datagrams: Family<ByWay, Counter>,
    pub(crate) datagrams_dropped: Family<ByWay, Counter>,
    /// Lines, the items of frames, and frames that are refused whole.
    pub(crate) lines: Family<ByWay, Counter>,
    updates: Counter,
    batches: Counter,
    series_omitted: Counter,
    slots_expired: Counter,
    points_overtaken: Counter,
    requests_repeated: Counter,
    updates_repeated: Counter,
    requests_forgotten: Counter,
    windows_refused: Counter,
    store_errors: Counter,
    pub(crate) journal_commits: Counter,
    pub(crate) journal_errors: Counter,
    journal_replayed: Counter,
    expired: Counter,
    packed: Counter,
    upkeep_errors: Counter,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("tachograph");
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let http_requests = counter("http_requests", "HTTP requests answered");
        let updates = counter("updates", "Updates accepted");
        let batches = counter("batches", "Batches written to the record");
        let series_omitted = counter(
            "series_omitted",
            "Series omitted from a batch after they were acknowledged, because a count would \
             exceed 2^53",
        );
        let slots_expired = counter(
            "slots_expired",
            "Slots that were not written because they are older than any retention keeps",
        );
        let points_overtaken = counter(
            "points_overtaken",
            "Points that were refused after their acknowledgement, because another process had \
             written later ones to the same lane, and deltas, because another process had counted a \
             part of their time",
        );
        let requests_repeated = counter(
            "requests_repeated",
            "Requests that were not counted again, because their Idempotency-Key was known",
        );
        let updates_repeated = counter(
            "updates_repeated",
            "Updates of OTLP's deltas that were not counted again, because their streams had counted \
             the time",
        );
        let requests_forgotten =
            counter("requests_forgotten", "Requests whose Idempotency-Key is no longer remembered");
        let windows_refused = counter(
            "windows_refused",
            "Results of StatsD windows outside the bounds of their series, which are unknown there",
        );
        let store_errors = counter("record_errors", "Failed attempts to write to the record");
        let journal_commits = counter("journal_commits", "Commits of the journal");
        let journal_errors = counter("journal_errors", "Failed commits of the journal");
        let journal_replayed =
            counter("journal_replayed", "Messages read from the journal at the start");
        let expired = counter("partitions_expired", "Partitions dropped because they had expired");
        let packed = counter("slots_packed", "Slots packed because their span was over");
        let upkeep_errors = counter("upkeep_errors", "Failed rounds of expiry and packing");
        let gauge = |registry: &mut Registry, name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let journal_bytes = gauge(&mut registry, "journal_bytes", "Size of the journal");
        let journal_max_bytes = gauge(
            &mut registry,
            "journal_max_bytes",
            "Size of the journal at which senders must wait",
        );
        let head_max_bytes = gauge(
            &mut registry,
            "head_max_bytes",
            "Memory of updates that wait to be written at which senders must wait",
        );
        let head_bytes =
            gauge(&mut registry, "head_bytes", "Memory of updates that wait to be written");
        let is_full = gauge(
            &mut registry,
            "full",
            "1 while senders must wait, because the journal or the memory is full",
        );
        let oldest = Gauge::default();
        registry.register_with_unit(
            "oldest_unwritten",
            "Age of the oldest line that is not in the record",
            Unit::Seconds,
            oldest.clone(),
        );
        let clock_ahead = Gauge::default();
        registry.register_with_unit(
            "clock_ahead",
            "How far the clock is ahead of the time by which slots expire, because it is not believed",
            Unit::Seconds,
            clock_ahead.clone(),
        );
        let (refused, datagrams) = (Family::default(), Family::default());
        let (connections, turned_away) = (Family::default(), Family::default());
        let datagrams_dropped = Family::default();
        let lines = Family::default();
        registry.register("lines", "Lines received, by way", lines.clone());
        registry.register("refused_lines", "Lines refused, by sender and reason", refused.clone());
        registry.register("connections", "Open connections", connections.clone());
        registry.register(
            "turned_away",
            "Connections, datagrams and HTTP requests that were not read, by sender and reason",
            turned_away.clone(),
        );
        registry.register("datagrams", "Datagrams received", datagrams.clone());
        registry.register(
            "datagrams_dropped",
            "Datagrams dropped by the kernel, because the receive buffer was full",
            datagrams_dropped.clone(),
        );
        Metrics {
            registry: Arc::new(registry),
            senders: Arc::default(),
            refused,
            turned_away,
            journal_bytes,
            journal_max_bytes,
            head_bytes,
            head_max_bytes,
            oldest,
            clock_ahead,
            is_full,
            http_requests,
            connections,
            datagrams,
            datagrams_dropped,
            lines,
            updates,
            batches,
            series_omitted,
            slots_expired,
            points_overtaken,
            requests_repeated,
            updates_repeated,
            requests_forgotten,
            windows_refused,
            store_errors,
            journal_commits,
            journal_errors,
            journal_replayed,
            expired,
            packed,
            upkeep_errors,
        }
    }

    /// Adds to a figure of the engine.
    pub(crate) fn add(&self, figure: Figure, count: u64) {
        let counter = match figure {
            Figure::Updates => &self.updates,
            Figure::Batches => &self.batches,
            Figure::SeriesOmitted => &self.series_omitted,
            Figure::SlotsExpired => &self.slots_expired,
            Figure::PointsOvertaken => &self.points_overtaken,
            Figure::RequestsRepeated => &self.requests_repeated,
            Figure::UpdatesRepeated => &self.updates_repeated,
            Figure::WindowsRefused => &self.windows_refused,
            Figure::StoreErrors => &self.store_errors,
            Figure::JournalErrors => &self.journal_errors,
            Figure::JournalReplayed => &self.journal_replayed,
        };
        counter.inc_by(count);
    }

    /// Counts what a part of the upkeep did.
    pub(crate) fn upkeep(&self, done: &Result<MaintenanceResult, StoreError>) {
        match done {
            Ok(done) => {
                self.expired.inc_by(done.dropped);
                self.packed.inc_by(done.sealed);
            }
            Err(_) => _ = self.upkeep_errors.inc(),
        }
    }

    /// Counts forgotten requests.
    pub(crate) fn forgotten(&self, done: &Result<u64, StoreError>) {
        match done {
            Ok(count) => self.requests_forgotten.inc_by(*count),
            Err(_) => self.upkeep_errors.inc(),
        };
    }

    /// Counts refused lines of a sender.
    pub(crate) fn refuse(&self, sender: &Sender, reason: &'static str, lines: u64) {
        self.refused.get_or_create(&self.labels(sender, reason)).inc_by(lines);
    }

    /// Counts lines that are refused before they are in the journal.
    pub(crate) fn refuse_at_once(&self, sender: &Sender, reason: &'static str, lines: u64) {
        self.lines.get_or_create(&ByWay { way: sender.way }).inc_by(lines);
        self.refuse(sender, reason, lines);
    }

    /// Counts a connection, a datagram or a request that is not read.
    pub(crate) fn turn_away(&self, sender: &Sender, reason: &'static str) {
        self.turned_away.get_or_create(&self.labels(sender, reason)).inc();
    }

    fn labels(&self, sender: &Sender, reason: &'static str) -> RefusalLabels {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = senders.contains(&sender.name)
            || senders.len() < SENDERS_MAX && senders.insert(sender.name.clone());
        let name = if is_known { sender.name.to_string() } else { "others".to_owned() };
        RefusalLabels { way: sender.way, sender: name, reason }
    }

    /// Publishes the limits of the journal and of the memory, in bytes.
    pub(crate) fn limits(&self, journal_max: u64, head_max: usize) {
        self.journal_max_bytes.set(i64::try_from(journal_max).unwrap_or(i64::MAX));
        self.head_max_bytes.set(i64::try_from(head_max).unwrap_or(i64::MAX));
    }

    /// The figures in the text format of OpenMetrics.
    pub(crate) fn text(&self, state: &State, is_full: bool) -> String {
        use std::sync::atomic::Ordering::Relaxed;
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.journal_bytes.set(whole(state.journal_bytes.load(Relaxed)));
        self.head_bytes.set(whole(state.head_bytes.load(Relaxed)));
        self.oldest.set(state.oldest_age().as_secs_f64());
        self.clock_ahead.set(state.clock_ahead().as_secs_f64());
        self.is_full.set(i64::from(is_full));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_senders_do_not_fill_the_memory() {
        let metrics = Metrics::new();
        for i in 0..SENDERS_MAX + 20 {
            let sender = Sender { way: Way::graphite_stream, name: i.to_string().into() };
            metrics.refuse(&sender, "late", 2);
        }
        let text = metrics.text(&State::default(), false);
        let refused = |line: &&str| line.starts_with("tachograph_refused_lines_total{");
        assert_eq!(text.lines().filter(refused).count(), SENDERS_MAX + 1);
        let others = "tachograph_refused_lines_total{way=\"graphite_stream\",sender=\"others\",\
                      reason=\"late\"} 40\n";
        assert!(text.contains(others), "{text}");
    }
}
