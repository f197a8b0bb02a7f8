//! Distributions of durations: the recorded percentiles, and HdrHistogram.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// A stored histogram that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored histogram cannot be read: {0}")]
pub struct HistogramError(String);

/// A distribution of durations in nanoseconds: some percentiles and the full histogram.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Smallest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// 99.99th percentile.
    pub p99_99_ns: u64,
    /// Largest.
    pub max_ns: u64,
    /// Mean.
    #[serde(deserialize_with = "crate::json::nan_if_null")]
    pub mean_ns: f64,
    /// The histogram in HdrHistogram's V2 compressed form, readable by its tools in every language;
    /// empty if unknown.
    #[serde(skip)]
    pub hdr_v2: Vec<u8>,
}

impl Distribution {
    /// The percentiles of a histogram of nanoseconds, and the histogram itself in HdrHistogram's V2
    /// compressed form. An empty histogram gives zeros.
    ///
    /// A percentile is the highest value equivalent, within the histogram's precision, to the value
    /// at that rank, as HdrHistogram's own tools print it.
    pub fn from_histogram(histogram: &Histogram<u64>) -> Distribution {
        let mut hdr_v2 = Vec::new();
        // Writing to memory fails only for a histogram too large for the format's 32-bit length,
        // which no u64 histogram of a legal precision is.
        if V2DeflateSerializer::new().serialize(histogram, &mut hdr_v2).is_err() {
            hdr_v2.clear();
        }
        if histogram.is_empty() {
            return Distribution { hdr_v2, ..Distribution::default() };
        }
        Distribution {
            count: histogram.len(),
            min_ns: histogram.min(),
            p50_ns: histogram.value_at_quantile(0.5),
            p90_ns: histogram.value_at_quantile(0.9),
            p99_ns: histogram.value_at_quantile(0.99),
            p99_9_ns: histogram.value_at_quantile(0.999),
            p99_99_ns: histogram.value_at_quantile(0.9999),
            max_ns: histogram.max(),
            mean_ns: histogram.mean(),
            hdr_v2,
        }
    }

    /// The full histogram of nanoseconds; `None` if only percentiles are known.
    pub fn histogram(&self) -> Result<Option<Histogram<u64>>, HistogramError> {
        if self.hdr_v2.is_empty() {
            return Ok(None);
        }
        Deserializer::new()
            .deserialize(&mut self.hdr_v2.as_slice())
            .map(Some)
            .map_err(|e| HistogramError(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_with_its_percentiles() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for nanos in 1..=100_000u64 {
            histogram.record(nanos * 10).unwrap();
        }
        let distribution = Distribution::from_histogram(&histogram);
        assert_eq!(distribution.count, 100_000);
        assert!(distribution.p50_ns.abs_diff(500_000) <= 500);
        assert!(distribution.p99_99_ns.abs_diff(999_900) <= 1_000);
        assert_eq!(distribution.histogram().unwrap().unwrap(), histogram);
    }

    #[test]
    fn an_empty_histogram_is_all_zeros_and_still_readable() {
        let distribution = Distribution::from_histogram(&Histogram::new(3).unwrap());
        assert_eq!((distribution.count, distribution.max_ns), (0, 0));
        assert!(distribution.histogram().unwrap().unwrap().is_empty());
        assert_eq!(Distribution::default().histogram(), Ok(None));
    }

    #[test]
    fn a_damaged_histogram_is_an_error() {
        let broken = Distribution { hdr_v2: vec![1, 2, 3], ..Distribution::default() };
        let error = broken.histogram().unwrap_err().to_string();
        assert!(error.starts_with("the stored histogram cannot be read: "), "{error}");
    }
}
