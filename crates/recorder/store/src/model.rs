//! The data of a store.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use series::{Batch, Delta, Lane, SECOND_US, SlotKey, Spec, Step, rrd};

const DAY_US: i64 = 86_400 * SECOND_US;

/// A step, and for how long its slots are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// The length of a slot.
    pub step: Step,
    /// How long a slot is kept, in microseconds; `None` means for ever.
    pub age_us: Option<i64>,
}

impl Retention {
    /// Slots of `step_s` seconds, kept for `age_s` seconds or for ever; `None` for an invalid step.
    pub fn from_secs(step_s: i64, age_s: Option<i64>) -> Option<Retention> {
        let step = Step::from_secs(step_s)?;
        let age_us = match age_s {
            Some(age_s) => Some(age_s.checked_mul(SECOND_US).filter(|us| *us > 0)?),
            None => None,
        };
        Some(Retention { step, age_us })
    }

    /// Ten seconds for a day, a minute for a week, an hour for three years.
    pub fn usual() -> Vec<Retention> {
        [(10, DAY_US), (60, 7 * DAY_US), (3_600, 3 * 365 * DAY_US)]
            .into_iter()
            .filter_map(|(step_s, age_us)| Retention::from_secs(step_s, Some(age_us / SECOND_US)))
            .collect()
    }

    /// The length of a partition: about an eighth of the age, in whole steps, and in whole hours or
    /// days if it is that long. For unlimited retention, 2^20 slots.
    pub(crate) fn partition_us(&self) -> i64 {
        let step_us = self.step.us();
        let wanted_us = match self.age_us {
            Some(age_us) => (age_us / 8).max(step_us),
            None => step_us.saturating_mul(1 << 20),
        };
        let hour_us = 3_600 * SECOND_US;
        let unit_us = [DAY_US, hour_us, step_us]
            .into_iter()
            .find(|unit_us| wanted_us >= *unit_us && unit_us % step_us == 0)
            .unwrap_or(step_us);
        wanted_us.div_euclid(unit_us).max(1).saturating_mul(unit_us)
    }
}

/// The identity of a series; unique in a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The measurement: `requests`.
    pub measurement: String,
    /// The field; `value` if there is only one.
    pub field: String,
    /// The tags: `host` → `a`.
    pub tags: BTreeMap<String, String>,
}

impl Identity {
    /// The field `value` of a measurement, with tags.
    pub fn new<'a>(
        measurement: &str,
        tags: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Identity {
        let tags = tags.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        Identity { measurement: measurement.to_owned(), field: "value".to_owned(), tags }
    }

    /// Number of bytes of its names and tags.
    pub fn bytes(&self) -> usize {
        let tags: usize = self.tags.iter().map(|(k, v)| k.len() + v.len()).sum();
        self.measurement.len() + self.field.len() + tags
    }
}

impl fmt::Display for Identity {
    /// `requests{host=a,zone=b}`, with the field as `requests:errors{…}` unless it is `value`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.measurement.clone();
        if self.field != "value" {
            text.push(':');
            text.push_str(&self.field);
        }
        if !self.tags.is_empty() {
            let tags: Vec<String> = self.tags.iter().map(|(k, v)| format!("{k}={v}")).collect();
            text.push_str(&format!("{{{}}}", tags.join(",")));
        }
        f.pad(&text)
    }
}

/// A series to find or create.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSeries {
    /// Its identity.
    pub identity: Identity,
    /// Its spec.
    pub spec: Spec,
    /// Fraction of a slot that may be unknown while its rate is shown: 0 to 1.
    pub xff: f64,
    /// RRDtool's definition, for a series in RRD mode.
    pub rrd: Option<rrd::Definition>,
}

impl NewSeries {
    /// A series without RRD mode, of which half a slot may be unknown.
    pub fn new(identity: Identity, spec: Spec) -> NewSeries {
        NewSeries { identity, spec, xff: 0.5, rrd: None }
    }
}

/// A series as it was created; later requests do not change it.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its number in this store.
    pub id: i64,
    /// Its identity.
    pub identity: Identity,
    /// Its spec.
    pub spec: Spec,
    /// Fraction of a slot that may be unknown while its rate is shown.
    pub xff: f64,
    /// RRDtool's definition, for a series in RRD mode.
    pub rrd: Option<rrd::Definition>,
}

/// Limits on the number of series and on their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesLimit {
    /// Maximum number of series in the store.
    pub series: i64,
    /// Maximum number of tags of a series.
    pub tags: usize,
    /// Maximum bytes of its measurement, field and tags together.
    pub bytes: usize,
}

impl SeriesLimit {
    /// A million series of up to 64 tags and 2,000 bytes, which still fits into a PostgreSQL index.
    pub const DEFAULT: SeriesLimit = SeriesLimit { series: 1_000_000, tags: 64, bytes: 2_000 };

    /// Whether all names can be stored as text: PostgreSQL allows no zero bytes.
    pub(crate) fn is_text(identity: &Identity) -> bool {
        let names = identity.tags.iter().flat_map(|(k, v)| [k, v]);
        let mut names = names.chain([&identity.measurement, &identity.field]);
        !names.any(|name| name.contains('\0'))
    }

    /// Checks the names against the limits.
    pub(crate) fn admit(&self, wanted: &NewSeries) -> Result<(), NotMade> {
        let identity = &wanted.identity;
        if identity.measurement.is_empty() || !SeriesLimit::is_text(identity) {
            Err(NotMade::Name)
        } else if identity.tags.len() > self.tags || identity.bytes() > self.bytes {
            Err(NotMade::TooLong)
        } else {
            Ok(())
        }
    }
}

impl Default for SeriesLimit {
    fn default() -> SeriesLimit {
        SeriesLimit::DEFAULT
    }
}

/// Why a series was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum NotMade {
    /// The limit on series is reached.
    #[error("the limit on series is reached; raise it, or send fewer distinct tags")]
    TooMany,
    /// Names and tags that are too long, or too many tags.
    #[error("its names and tags are longer than the limit allows")]
    TooLong,
    /// An empty measurement, or a name with a zero byte.
    #[error("its measurement is empty, or a name has a zero byte")]
    Name,
    /// No retention has the series' step.
    #[error("no retention has its step; add one")]
    NoRetention,
}

impl NotMade {
    /// A stable name for metrics and files.
    pub const fn name(self) -> &'static str {
        match self {
            NotMade::TooMany => "too_many_series",
            NotMade::TooLong => "series_too_long",
            NotMade::Name => "series_name",
            NotMade::NoRetention => "no_retention",
        }
    }
}

/// Selects series that match all given parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// The measurement.
    pub measurement: Option<String>,
    /// The field.
    pub field: Option<String>,
    /// Tags with their values.
    pub tags: BTreeMap<String, String>,
}

impl Selector {
    /// Whether an identity matches.
    pub fn matches(&self, identity: &Identity) -> bool {
        self.measurement.as_ref().is_none_or(|m| *m == identity.measurement)
            && self.field.as_ref().is_none_or(|f| *f == identity.field)
            && self.tags.iter().all(|(k, v)| identity.tags.get(k) == Some(v))
    }
}

/// A writer of batches: a UUID. Concurrent writers must differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Writer(pub u128);

impl fmt::Display for Writer {
    /// The UUID as text, in lower case with hyphens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        f.pad(&parts.join("-"))
    }
}

/// The change of a series in RRD mode.
#[derive(Clone, Debug, PartialEq)]
pub struct RrdChange {
    /// The series' number.
    pub series: i64,
    /// RRDtool's state after the batch.
    pub state: rrd::State,
    /// The completed rows, in order.
    pub rows: Vec<rrd::Row>,
}

/// The change of a lane by a batch. A store applies it only to a lane that is as it was `before`, so
/// that of several writers none builds on what another one has changed meanwhile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneChange {
    /// The lane from which the changes of the slots were computed.
    pub before: Lane,
    /// The lane after the batch.
    pub after: Lane,
}

impl LaneChange {
    /// No change yet.
    pub fn of(lane: Lane) -> LaneChange {
        LaneChange { before: lane.clone(), after: lane }
    }
}

/// A request that its sender has named, so that its repetition can be told from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// Its name.
    pub key: Writer,
    /// When it arrived, in microseconds since the epoch.
    pub at_us: i64,
}

/// One batch: everything written in one transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The changes of slots, by step in microseconds.
    ///
    /// Normally each series has its own step here, and every coarser retention follows from it.
    /// History that is only known at a coarser step is given at that step, and must not overlap
    /// with finer data.
    pub slots: BTreeMap<i64, Batch>,
    /// The changes of lanes, by series and lane.
    pub lanes: BTreeMap<(i64, i32), LaneChange>,
    /// The changes of series in RRD mode.
    pub rrd: Vec<RrdChange>,
    /// The requests whose updates these are, which no other batch may have.
    pub requests: Vec<Request>,
}

impl Changes {
    /// Adds a delta for a slot of `step`.
    pub fn add(&mut self, step: Step, key: SlotKey, delta: Delta) {
        self.slots.entry(step.us()).or_default().add(key, delta);
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.slots.values().all(Batch::is_empty)
            && self.lanes.is_empty()
            && self.rrd.is_empty()
            && self.requests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_about_an_eighth_of_the_age_in_round_numbers() {
        let hours = |r: &Retention| r.partition_us() as f64 / 3_600e6;
        let usual: Vec<f64> = Retention::usual().iter().map(hours).collect();
        assert_eq!(usual, [3.0, 21.0, 24.0 * 136.0]);
        let short = Retention { step: Step::from_secs(10).unwrap(), age_us: Some(60 * SECOND_US) };
        assert_eq!(short.partition_us(), 10 * SECOND_US);
        let odd = Retention { step: Step::from_secs(7).unwrap(), age_us: Some(DAY_US) };
        assert_eq!(odd.partition_us() % odd.step.us(), 0);
        let ever = Retention { step: Step::from_secs(10).unwrap(), age_us: None };
        assert_eq!(ever.partition_us(), 121 * DAY_US);
    }

    #[test]
    fn an_identity_reads_as_people_write_it() {
        let mut identity = Identity::new("requests", [("zone", "b"), ("host", "a")]);
        assert_eq!(identity.to_string(), "requests{host=a,zone=b}");
        identity.field = "errors".to_owned();
        assert_eq!(identity.to_string(), "requests:errors{host=a,zone=b}");
        assert_eq!(Identity::new("load", []).to_string(), "load");
    }

    #[test]
    fn a_writer_is_written_as_a_uuid() {
        assert_eq!(Writer(0xabc).to_string(), "00000000-0000-0000-0000-000000000abc");
    }

    #[test]
    fn names_that_no_store_could_keep_are_refused() {
        let wanted = |identity| {
            NewSeries::new(identity, Spec::new(series::Kind::Gauge, Step::from_secs(10).unwrap()))
        };
        let admit = |identity| SeriesLimit::DEFAULT.admit(&wanted(identity));
        assert_eq!(admit(Identity::new("a", [("k", "v")])), Ok(()));
        assert_eq!(admit(Identity::new("", [])), Err(NotMade::Name));
        assert_eq!(admit(Identity::new("a", [("k", "\0")])), Err(NotMade::Name));
        assert_eq!(admit(Identity::new(&"a".repeat(2_000), [])), Err(NotMade::TooLong));
    }
}
