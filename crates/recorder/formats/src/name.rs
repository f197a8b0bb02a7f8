//! Identity of a series: measurement, tags and field.

use std::fmt;
use std::sync::Arc;

use crate::Malformed;

/// Limit on the bytes of a measurement, a field, a tag's key or a tag's value.
pub const NAME_MAX: usize = 1024;

/// Limit on the tags of a series.
pub const TAGS_MAX: usize = 64;

/// The field of series in formats without fields.
pub(crate) const FIELD: &str = "value";

/// Measurement, tags and field. Equal names are the same series.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesName {
    head: Arc<MeasurementTags>,
    field: Arc<str>,
}

/// What the fields of a measurement share.
#[derive(Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct MeasurementTags {
    measurement: String,
    tags: Vec<(String, String)>,
}

impl SeriesName {
    /// A name with checked parts and sorted tags.
    ///
    /// # Errors
    /// [`Malformed::EmptyName`], [`Malformed::NameTooLong`], [`Malformed::ControlCharacter`],
    /// [`Malformed::TooManyTags`], [`Malformed::DuplicateTag`].
    pub fn new(
        measurement: impl Into<String>,
        tags: impl IntoIterator<Item = (String, String)>,
        field: impl Into<Arc<str>>,
    ) -> Result<SeriesName, Malformed> {
        let (measurement, field): (String, Arc<str>) = (measurement.into(), field.into());
        let mut tags: Vec<_> = tags.into_iter().collect();
        if tags.len() > TAGS_MAX {
            return Err(Malformed::TooManyTags);
        }
        let parts = tags.iter().flat_map(|(key, value)| [key.as_str(), value]);
        for part in parts.chain([measurement.as_str(), &field]) {
            check(part)?;
        }
        tags.sort_unstable();
        if tags.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(Malformed::DuplicateTag);
        }
        Ok(SeriesName { head: Arc::new(MeasurementTags { measurement, tags }), field })
    }

    /// The measurement: `requests`, `servers.web1.cpu`.
    pub fn measurement(&self) -> &str {
        &self.head.measurement
    }

    /// The tags, sorted by key.
    pub fn tags(&self) -> &[(String, String)] {
        &self.head.tags
    }

    /// Another field of the measurement, with the same tags, whose texts are stored once.
    ///
    /// # Errors
    /// Those of [`SeriesName::new`] for a field.
    pub(crate) fn with_field(&self, field: impl Into<Arc<str>>) -> Result<SeriesName, Malformed> {
        let field = field.into();
        check(&field)?;
        Ok(SeriesName { head: Arc::clone(&self.head), field })
    }

    /// Bytes of all its texts.
    pub(crate) fn bytes(&self) -> usize {
        let tags = self.tags().iter().map(|(key, value)| key.len() + value.len());
        self.measurement().len() + self.field.len() + tags.sum::<usize>()
    }

    /// The field, one of the measurement's values: `value`, `count`, `p99`.
    pub fn field(&self) -> &str {
        &self.field
    }
}

fn check(part: &str) -> Result<(), Malformed> {
    if part.is_empty() {
        Err(Malformed::EmptyName)
    } else if part.len() > NAME_MAX {
        Err(Malformed::NameTooLong)
    } else if part.chars().any(char::is_control) {
        Err(Malformed::ControlCharacter)
    } else {
        Ok(())
    }
}

impl fmt::Display for SeriesName {
    /// `measurement:field{key=value,key=value}`, without the field if it is `value`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.measurement())?;
        if self.field() != FIELD {
            write!(f, ":{}", self.field)?;
        }
        for (i, (key, value)) in self.tags().iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { '{' } else { ',' })?;
        }
        if self.tags().is_empty() { Ok(()) } else { f.write_str("}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn the_order_of_tags_does_not_matter() {
        let one = SeriesName::new("cpu", tags(&[("host", "a"), ("core", "1")]), "user").unwrap();
        let other = SeriesName::new("cpu", tags(&[("core", "1"), ("host", "a")]), "user").unwrap();
        assert_eq!(one, other);
        assert_eq!(one.to_string(), "cpu:user{core=1,host=a}");
        assert_eq!(SeriesName::new("cpu", [], "value").unwrap().to_string(), "cpu");
    }

    #[test]
    fn names_that_a_database_could_not_hold_are_refused() {
        let name = |measurement: &str, t: &[(&str, &str)]| {
            SeriesName::new(measurement, tags(t), "value").map(|_| ())
        };
        assert_eq!(name("", &[]), Err(Malformed::EmptyName));
        assert_eq!(name("cpu", &[("host", "")]), Err(Malformed::EmptyName));
        assert_eq!(name("c\0pu", &[]), Err(Malformed::ControlCharacter));
        assert_eq!(name("cpu", &[("host", "a\u{7f}")]), Err(Malformed::ControlCharacter));
        assert_eq!(name("cpu", &[("h", "a"), ("h", "b")]), Err(Malformed::DuplicateTag));
        assert_eq!(name(&"x".repeat(NAME_MAX + 1), &[]), Err(Malformed::NameTooLong));
        assert_eq!(name(&"x".repeat(NAME_MAX), &[]), Ok(()));
        let many: Vec<_> = (0..=TAGS_MAX).map(|i| (format!("k{i}"), "v".to_owned())).collect();
        assert_eq!(SeriesName::new("cpu", many, "value"), Err(Malformed::TooManyTags));
    }
}
