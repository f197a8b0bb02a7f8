//! Instants and maps in the SQL of Hive and of Spark, which differ there.

use hive::{Value, sql};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Stands between tags in a result: no map is sent in a form that Hive and Spark share.
pub(super) const BETWEEN: &str = "\u{1f}";

/// How a server reads the column `slot`, a TIMESTAMP that the files hold in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// A TIMESTAMP is a date and a time of day without a zone, here always UTC. Hive 4 refuses to
    /// cast it to a number (`hive.strict.timestamp.conversion`), and its `unix_timestamp` takes it for
    /// a time in the server's zone; so it is compared and sent as text.
    Hive,
    /// A TIMESTAMP is an instant, and its text depends on the zone of the session; as a number it
    /// does not.
    Spark,
}

impl Dialect {
    /// That of a server, by the name that it gives itself.
    pub(super) fn of(product: &str) -> Dialect {
        if product.contains("Spark") { Dialect::Spark } else { Dialect::Hive }
    }

    /// The columns of a series' names, and its tags as two texts, as they are selected and grouped.
    pub(super) fn names(self) -> String {
        let tags = ["map_keys", "map_values"].map(|function| {
            let joined = format!("concat_ws({}, {function}(`tags`))", sql::text(BETWEEN));
            match self {
                // Hive 4 reads an empty map of a file as one with the key NULL.
                Dialect::Hive => {
                    format!("CASE WHEN map_keys(`tags`)[0] IS NULL THEN '' ELSE {joined} END")
                }
                Dialect::Spark => joined,
            }
        });
        format!("`measurement`, `field`, `flow`, {}", tags.join(", "))
    }

    /// The column `slot` as it is selected, grouped and compared with [`Dialect::literal`].
    pub(super) fn slot(self) -> &'static str {
        match self {
            Dialect::Hive => "`slot`",
            Dialect::Spark => "CAST(`slot` AS DOUBLE)",
        }
    }

    /// An instant in microseconds since the epoch; `None` beyond the years that texts have.
    pub(super) fn literal(self, us: i64) -> Option<String> {
        Some(match self {
            Dialect::Hive => {
                let at = jiff::Timestamp::from_microsecond(us).ok()?;
                let at = at.to_zoned(TimeZone::UTC).datetime();
                let text = at.strftime("%Y-%m-%d %H:%M:%S%.f").to_string();
                format!("CAST({} AS TIMESTAMP)", sql::text(&text))
            }
            Dialect::Spark => {
                let (seconds, micros) = (us.div_euclid(1_000_000), us.rem_euclid(1_000_000));
                match micros {
                    0 => seconds.to_string(),
                    _ => format!("({seconds} + 0.{micros:06})"),
                }
            }
        })
    }

    /// A selected instant in microseconds since the epoch.
    pub(super) fn read(self, value: &Value) -> Option<i64> {
        match self {
            Dialect::Hive => {
                let at: DateTime = value.as_text()?.parse().ok()?;
                Some(at.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond())
            }
            Dialect::Spark => Some((value.as_f64()? * 1e6).round() as i64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_the_same_in_both() {
        let texts = [
            (0, "'1970-01-01 00:00:00'", "0"),
            (1_772_409_000_000_000, "'2026-03-01 23:50:00'", "1772409000"),
            (1_772_409_000_250_000, "'2026-03-01 23:50:00.25'", "(1772409000 + 0.250000)"),
            (-1, "'1969-12-31 23:59:59.999999'", "(-1 + 0.999999)"),
        ];
        for (us, hive, spark) in texts {
            let text = Dialect::Hive.literal(us).unwrap();
            assert_eq!(text, format!("CAST({hive} AS TIMESTAMP)"));
            assert_eq!(Dialect::Spark.literal(us).unwrap(), spark);
            let sent = Value::Text(hive.trim_matches('\'').to_owned());
            assert_eq!(Dialect::Hive.read(&sent), Some(us));
            assert_eq!(Dialect::Spark.read(&Value::Double(us as f64 / 1e6)), Some(us));
        }
        // As versions of Hive before 3.1 write it.
        let sent = Value::Text("2026-03-01 23:50:00.0".to_owned());
        assert_eq!(Dialect::Hive.read(&sent), Some(1_772_409_000_000_000));
        assert_eq!(Dialect::Hive.read(&Value::Null), None);
        assert_eq!(Dialect::Hive.literal(i64::MAX), None);
    }

    #[test]
    fn products_are_told_apart() {
        for (product, dialect) in [
            ("Apache Hive", Dialect::Hive),
            ("Spark SQL", Dialect::Spark),
            ("Apache Kyuubi (Spark SQL)", Dialect::Spark),
        ] {
            assert_eq!(Dialect::of(product), dialect);
        }
    }
}
