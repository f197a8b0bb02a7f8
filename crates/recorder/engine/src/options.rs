//! Options of what is written, and what follows from them for a new series.

use std::time::Duration;

use formats::SeriesName;
use series::rrd::{self, Archive};
use series::{Kind, Limits, Spec, Step};
use store::{Identity, NewSeries, SeriesLimit};

/// Options of what is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Step of new series; a retention must have it.
    pub step: Step,
    /// The heartbeat of new series, in microseconds.
    pub heartbeat_us: i64,
    /// The lateness window of new series, in microseconds.
    pub lateness_us: i64,
    /// Minimum and maximum rate or level of new series.
    pub bounds: (Option<f64>, Option<f64>),
    /// Part of a slot that may be unknown while its rate is shown.
    pub xff: f64,
    /// The lane to write.
    pub lane: String,
    /// Horizons.
    pub limits: Limits,
    /// Limits on the number of series.
    pub series: SeriesLimit,
    /// Whether new series of points are also kept in RRD mode.
    pub rrd: Option<RrdMode>,
    /// Whether the last line of a stream is complete even without its end.
    pub whole: bool,
    /// Approximate memory for updates before they are written, in bytes. Names and recent points of
    /// every series come on top.
    ///
    /// With 0 every piece is written separately, which is slow, but accepts what fits for series in
    /// which a slot overflows ([`store::StoreError::Overflow`]): in a batch of many pieces it is unknown
    /// which lines to refuse.
    pub head_bytes: usize,
    /// Time after which updates are written even if the head is not full. For a file that is
    /// complete `None` is best: rarer writes give fewer and larger rows.
    pub written_each: Option<Duration>,
}

/// Default of [`Options::head_bytes`]: 64 MiB, about twenty million updates.
pub const HEAD_BYTES: usize = 64 << 20;

/// How new series are kept in RRD mode; step, heartbeat and bounds are those of every new series.
#[derive(Clone, Debug, PartialEq)]
pub struct RrdMode {
    /// The archives of each.
    pub archives: Vec<Archive>,
    /// `rrdtool create --start`, in microseconds since the epoch; by default ten seconds before a
    /// series' first point, as in RRDtool.
    pub start_us: Option<i64>,
}

impl Options {
    /// A heartbeat of two steps, a lateness window of ten minutes, no bounds, the unnamed lane, the
    /// default limits.
    pub fn new(step: Step) -> Options {
        let Spec { heartbeat_us, lateness_us, .. } = Spec::new(Kind::Gauge, step);
        Options {
            step,
            heartbeat_us,
            lateness_us,
            bounds: (None, None),
            xff: 0.5,
            lane: String::new(),
            limits: Limits::DEFAULT,
            series: SeriesLimit::DEFAULT,
            rrd: None,
            whole: false,
            head_bytes: HEAD_BYTES,
            written_each: Some(WRITTEN_EACH),
        }
    }

    /// A new series of this name and kind.
    pub fn wanted(&self, name: &SeriesName, kind: Kind) -> NewSeries {
        let identity = Identity {
            measurement: name.measurement().to_owned(),
            field: name.field().to_owned(),
            tags: name.tags().iter().cloned().collect(),
        };
        let spec = Spec {
            heartbeat_us: self.heartbeat_us,
            lateness_us: self.lateness_us,
            min: self.bounds.0,
            max: self.bounds.1,
            ..Spec::new(kind, self.step)
        };
        let rrd = self.definition(kind);
        NewSeries { xff: self.xff, rrd, ..NewSeries::new(identity, spec) }
    }

    /// RRDtool's definition of a new series of this kind, if it is to have one. RRDtool has no
    /// intervals.
    pub fn definition(&self, kind: Kind) -> Option<rrd::Definition> {
        Some(rrd::Definition {
            kind: match kind {
                Kind::Gauge => rrd::SourceKind::Gauge,
                Kind::Counter => rrd::SourceKind::Counter,
                Kind::Derive => rrd::SourceKind::Derive,
                Kind::Absolute => rrd::SourceKind::Absolute,
                Kind::Total => rrd::SourceKind::Dcounter,
                Kind::Count | Kind::Level => return None,
            },
            step: self.step,
            heartbeat_us: self.heartbeat_us,
            min: self.bounds.0,
            max: self.bounds.1,
            archives: self.rrd.as_ref()?.archives.clone(),
        })
    }
}

/// Default of [`Options::written_each`].
pub const WRITTEN_EACH: Duration = Duration::from_secs(10);

/// Limits of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Size of the journal beyond which senders are told to wait.
    pub journal_max: u64,
    /// Time between two batches.
    pub write_each: Duration,
    /// Step, limits and memory.
    pub updates: Options,
}
