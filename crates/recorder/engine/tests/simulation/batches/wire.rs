//! Binary messages, field by field. They share no code with the reader.

use super::messages::{Said, Sample};

/// A message of protobuf.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn varint(mut self, number: u64, value: u64) -> Fields {
        self.raw_varint(number << 3);
        self.raw_varint(value);
        self
    }

    fn fixed64(mut self, number: u64, value: u64) -> Fields {
        self.raw_varint(number << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, number: u64, bytes: &[u8]) -> Fields {
        self.raw_varint(number << 3 | 2);
        self.raw_varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn fields(self, number: u64, fields: Fields) -> Fields {
        self.bytes(number, &fields.0)
    }
}

fn points(said: &[Said]) -> impl Iterator<Item = Sample> {
    said.iter().filter_map(|said| match said {
        Said::Point(point) => Some(*point),
        _ => None,
    })
}

/// The bits of a value; one that is missing is Prometheus's stale marker.
fn bits(value: Option<i64>) -> u64 {
    value.map_or(0x7ff0_0000_0000_0002, |value| (value as f64).to_bits())
}

fn ms(us: i64) -> u64 {
    us.div_euclid(1_000).cast_unsigned()
}

/// `prometheus.WriteRequest`.
pub(super) fn write1(said: &[Said]) -> Vec<u8> {
    let mut message = Fields::default();
    for point in points(said) {
        let label = Fields::default().bytes(1, b"__name__").bytes(2, point.series.as_bytes());
        let sample = Fields::default().fixed64(1, bits(point.value)).varint(2, ms(point.at_us));
        message = message.fields(1, Fields::default().fields(1, label).fields(2, sample));
    }
    message.0
}

/// `io.prometheus.write.v2.Request`.
pub(super) fn write2(said: &[Said]) -> Vec<u8> {
    let mut message = Fields::default().bytes(4, b"").bytes(4, b"__name__");
    for point in points(said) {
        message = message.bytes(4, point.series.as_bytes());
    }
    for (number, point) in (2..).zip(points(said)) {
        let since = ms(point.since_us.unwrap_or_default());
        let sample = Fields::default().fixed64(1, bits(point.value)).varint(2, ms(point.at_us));
        let series = Fields::default().bytes(1, &[1, number]).fields(2, sample.varint(3, since));
        message = message.fields(5, series);
    }
    message.0
}

/// `ExportMetricsServiceRequest`.
pub(super) fn otlp(said: &[Said]) -> Vec<u8> {
    let mut scope = Fields::default();
    for point in points(said) {
        let ns = |us: i64| us.cast_unsigned() * 1_000;
        let since = ns(point.since_us.unwrap_or_default());
        let data = Fields::default().fixed64(2, since).fixed64(3, ns(point.at_us));
        let data = Fields::default().fields(1, data.fixed64(4, bits(point.value)));
        let metric = Fields::default().bytes(1, point.series.as_bytes());
        scope = scope.fields(
            2,
            match point.is_total {
                // Cumulative and monotonic.
                true => metric.fields(7, data.varint(2, 2).varint(3, 1)),
                false => metric.fields(5, data),
            },
        );
    }
    Fields::default().fields(1, Fields::default().fields(2, scope)).0
}
