//! The figures in a variant's row.

use record::{Part, Summary};
use stats::Estimate;

use crate::{caveat, text, view};

/// The figures in a variant's row.
pub(crate) struct Figures {
    /// Requests per second, or bytes per second in a bulk part.
    pub(crate) throughput: Estimate,
    /// The summary that latency is taken from.
    pub(crate) times: Summary,
    /// CPU of the stack per request.
    pub(crate) cpu_ns: Option<Estimate>,
    /// Whether they are provisional: from fewer blocks than a verdict needs, or from an incomplete
    /// block.
    pub(crate) so_far: bool,
    /// Whether the times are those of a rate that was not sustained.
    unsustained: bool,
}

impl Figures {
    /// A throughput without its unit, in a cell beside its interval.
    pub(crate) fn throughput(&self, part: &Part) -> String {
        text::value(&self.throughput, |value| view::throughput(part, value))
    }

    /// A percentile in a cell of its own, with its mark if it cannot be compared.
    pub(crate) fn percentile(&self, estimate: &Estimate) -> String {
        self.cell(estimate) + self.mark()
    }

    /// CPU per request in a cell of its own.
    pub(crate) fn cpu(&self) -> String {
        self.cpu_ns.map_or("–".to_owned(), |cpu| self.cell(&cpu))
    }

    /// The mark of percentiles that cannot be compared; empty for others.
    pub(crate) fn mark(&self) -> &'static str {
        if self.unsustained { caveat::UNSUSTAINED } else { "" }
    }

    fn cell(&self, estimate: &Estimate) -> String {
        match self.so_far {
            true => text::value(estimate, text::time),
            false => text::figure(estimate, text::time),
        }
    }
}

/// A variant's row; `None` if nothing was measured.
pub(crate) fn of(part: &Part, variant: usize) -> Option<Figures> {
    let capacity = view::capacity(part, variant)?;
    let mut throughput = capacity.throughput_per_s;
    if part.is_bulk() {
        let value = capacity.bytes_per_s;
        throughput = Estimate { value, ..scaled(throughput, value / throughput.value) };
    }
    Some(Figures {
        throughput,
        times: view::latency_summary(part, variant)?,
        cpu_ns: capacity.cpu_ns_per_request,
        so_far: view::is_provisional(part),
        unsustained: caveat::is_unsustained(part, variant),
    })
}

/// An estimate in another unit.
pub(crate) fn scaled(estimate: Estimate, by: f64) -> Estimate {
    Estimate { value: estimate.value * by, low: estimate.low * by, high: estimate.high * by }
}

/// `1,820–1,854`; `so far` with too few blocks.
pub(crate) fn throughput_interval(part: &Part, figures: &Figures) -> String {
    if figures.so_far {
        return "so far".to_owned();
    }
    let interval = text::interval(&figures.throughput, |value| view::throughput(part, value));
    interval.unwrap_or_else(|| "–".to_owned())
}
