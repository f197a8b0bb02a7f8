//! Graphite plaintext: `path value timestamp`.
//!
//! As documented in "Feeding in your data" and "Graphite tag support", and as carbon parses it:
//! fields are separated by white space, a time of −1 is now, a time may have a fraction.
//!
//! A path is the measurement; the field is `value`. Tags follow as `;key=value`.

use series::Kind;

use super::{Parser, ParserOutput, is_of_points};
use crate::name::FIELD;
use crate::time::decimal_seconds;
use crate::{Arrival, FileError, Malformed, Number, Reason, Series, SeriesName, Update};

/// Parses Graphite plaintext.
#[derive(Clone, Debug)]
pub struct Graphite {
    kind: Kind,
    /// The text of a time, and the time: that of the latest line, because many have the same.
    latest: (String, i64),
}

impl Graphite {
    /// Values become points of this kind; a kind of intervals is treated as gauge.
    pub fn new(kind: Kind) -> Graphite {
        let kind = if is_of_points(kind) { kind } else { Kind::Gauge };
        Graphite { kind, latest: ("0".to_owned(), 0) }
    }

    fn read(
        &mut self,
        line: &str,
        arrival: Arrival,
        out: &mut ParserOutput<'_>,
    ) -> Result<(Series, Update), Reason> {
        let mut fields = line.split_ascii_whitespace();
        let (Some(path), Some(value), Some(time), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(Malformed::NotThreeFields.into());
        };
        let number = Number::parse(value).ok_or(Malformed::NotANumber)?;
        let update = number.point(self.kind, self.time(time, arrival)?)?;
        let series = out.book.number_of_text(path, || tagged(path, FIELD))?;
        Ok((series, update))
    }

    /// Series, value and time of a line of the series that is expected next, often with the time of the
    /// latest line: then only the value need be read. `None` for any other line.
    fn expected(
        &mut self,
        line: &str,
        arrival: Arrival,
        out: &mut ParserOutput<'_>,
    ) -> Option<(Series, Number, i64)> {
        let (series, rest) = out.book.expected_in(line)?;
        let before_latest = rest.strip_suffix(self.latest.0.as_str());
        if let Some(value) = before_latest.and_then(|value| value.strip_suffix(' ')) {
            return Some((series, Number::parse(value)?, self.latest.1));
        }
        let (value, time) = rest.split_once(' ')?;
        Some((series, Number::parse(value)?, self.time(time, arrival).ok()?))
    }

    /// A time, in microseconds since 1970.
    fn time(&mut self, text: &str, arrival: Arrival) -> Result<i64, Malformed> {
        if text == "-1" {
            return Ok(arrival.or_now_us());
        }
        if text != self.latest.0 {
            self.latest.1 = decimal_seconds(text).ok_or(Malformed::BadTime)?;
            self.latest.0.clear();
            self.latest.0.push_str(text);
        }
        Ok(self.latest.1)
    }
}

impl Parser for Graphite {
    fn line(
        &mut self,
        line: &str,
        arrival: Arrival,
        to: &mut ParserOutput<'_>,
    ) -> Result<(), FileError> {
        if let Some((series, number, at_us)) = self.expected(line, arrival, to) {
            to.put(series, number.point(self.kind, at_us));
            return Ok(());
        }
        match self.read(line, arrival, to) {
            Ok((series, update)) => to.put(series, Ok::<_, Reason>(update)),
            Err(reason) => to.refuse(reason),
        }
        Ok(())
    }
}

/// Parses `path;key=value;key=value`.
///
/// As Graphite documents it, a key must not contain `!`, `^` or `=`, and a value must not begin
/// with `~`.
pub(super) fn tagged(path: &str, field: &str) -> Result<SeriesName, Malformed> {
    let mut parts = path.split(';');
    let measurement = parts.next().unwrap_or_default();
    let tags = parts.map(|part| {
        let (key, value) = part.split_once('=').ok_or(Malformed::BadTag)?;
        if key.contains(['!', '^']) || value.starts_with('~') {
            return Err(Malformed::BadTag);
        }
        Ok((key.to_owned(), value.to_owned()))
    });
    SeriesName::new(measurement, tags.collect::<Result<Vec<_>, _>>()?, field)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, read_at};
    use super::*;

    fn graphite(line: &str) -> String {
        read(Graphite::new(Kind::Gauge), line).join(", ")
    }

    #[test]
    fn lines_of_the_documentation() {
        for (line, shown) in [
            ("local.random.diceroll 4 1430701282", "local.random.diceroll Gauge 4 @1430701282"),
            ("test.bash.stats 42 1430701282.5", "test.bash.stats Gauge 42 @1430701282.5"),
            ("  a\t-1.5e3  1430701282  ", "a Gauge -1500 @1430701282"),
            (
                "disk.used;datacenter=dc1;rack=a1;server=web01 42 1430701282",
                "disk.used{datacenter=dc1,rack=a1,server=web01} Gauge 42 @1430701282",
            ),
            (
                "disk.used;rack=a1;datacenter=dc1;server=web01 42 1430701282",
                "disk.used{datacenter=dc1,rack=a1,server=web01} Gauge 42 @1430701282",
            ),
            ("a;k=v=w 1 1430701282", "a{k=v=w} Gauge 1 @1430701282"),
            ("a 1 -1", "a Gauge 1 @1767225600"),
        ] {
            assert_eq!(graphite(line), shown, "{line}");
        }
    }

    #[test]
    fn a_line_of_the_series_that_is_expected_is_read_like_any_other() {
        let known = "a Gauge 1 @1767225600";
        for (line, shown) in [
            ("a 5 1430701282", "a Gauge 5 @1430701282"),
            ("a 5 1430701282 ", "a Gauge 5 @1430701282"),
            ("a  5\t1430701282", "a Gauge 5 @1430701282"),
            ("a\t5 1430701282", "a Gauge 5 @1430701282"),
            ("a 5 0", "a Gauge 5 @0"),
            ("a 5 -1", "a Gauge 5 @1767225600"),
            ("a 5 ", "! not_three_fields"),
            ("a  5", "! not_three_fields"),
            ("a 5 6 1430701282", "! not_three_fields"),
            ("a five 1430701282", "! bad_number"),
            ("a 5 soon", "! bad_time"),
        ] {
            let lines = format!("a 1 -1\na 1 -1\n{line}");
            assert_eq!(graphite(&lines), format!("{known}, {known}, {shown}"), "{line:?}");
        }
    }

    #[test]
    fn malformed_lines_have_their_reason() {
        for (line, shown) in [
            ("a 1", "! not_three_fields"),
            ("a 1 1430701282 extra", "! not_three_fields"),
            ("a one 1430701282", "! bad_number"),
            ("a 0x10 1430701282", "! bad_number"),
            ("a nan 1430701282", "! not_a_number"),
            ("a inf 1430701282", "! infinite"),
            ("a -Infinity 1430701282", "! infinite"),
            ("a 1 now", "! bad_time"),
            ("a 1 99999999999999999999", "! bad_time"),
            ("a 1 9999999999", "! future"),
            ("a;k 1 1430701282", "! bad_tag"),
            ("a;k!=v 1 1430701282", "! bad_tag"),
            ("a;k=~v 1 1430701282", "! bad_tag"),
            ("a;k= 1 1430701282", "! empty_name"),
            (";k=v 1 1430701282", "! empty_name"),
            ("a;k=v;k=w 1 1430701282", "! duplicate_tag"),
        ] {
            assert_eq!(graphite(line), shown, "{line}");
        }
    }

    #[test]
    fn counters_keep_every_digit() {
        let line = "a 18446744073709551615 1430701282\na -1 1430701283\na 1.5 1430701284";
        let shown = read(Graphite::new(Kind::Counter), line);
        assert_eq!(
            shown,
            ["a Counter 18446744073709552000 @1430701282", "! negative_counter", "! fraction"]
        );
    }

    #[test]
    fn minus_one_is_when_the_line_arrived() {
        let arrival = Arrival { now_us: 9_000_000, at_us: Some(5_000_000) };
        assert_eq!(read_at(Graphite::new(Kind::Gauge), "a 1 -1", arrival), ["a Gauge 1 @5"]);
    }
}
