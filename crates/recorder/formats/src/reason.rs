//! Reasons for refusing input, and their counts.

use std::collections::BTreeMap;
use std::fmt;

use series::Refusal;

macro_rules! malformed {
    ($($(#[$doc:meta])* $variant:ident $name:literal $text:literal;)*) => {
        /// What is wrong with the text of a line or of a part of it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
        pub enum Malformed {
            $($(#[$doc])* #[error($text)] $variant,)*
        }

        impl Malformed {
            /// All reasons.
            pub const ALL: &[Malformed] = &[$(Malformed::$variant,)*];

            /// A stable name for metrics and files: `not_utf8`, `duplicate_tag`.
            pub const fn name(self) -> &'static str {
                match self { $(Malformed::$variant => $name,)* }
            }
        }
    };
}

malformed! {
    /// Bytes that are not UTF-8.
    NotUtf8 "not_utf8" "the line is not UTF-8; convert it, e.g. with iconv";
    /// A line longer than the limit.
    LineTooLong "line_too_long" "the line is longer than 65536 bytes";
    /// A Graphite line without exactly three fields.
    NotThreeFields "not_three_fields" "a Graphite line has exactly three fields: path, value, timestamp";
    /// A CSV record with a different number of columns than its header.
    WrongColumns "wrong_columns" "the number of columns differs from the header";
    /// A missing value.
    NoValue "no_value" "there is no value";
    /// A value that is not a number.
    NotANumber "bad_number" "the value is not a number in this format";
    /// A text value.
    TextValue "text_value" "the value is text, but series hold numbers; write it as a tag, or \
        omit it";
    /// A time that cannot be parsed.
    BadTime "bad_time" "the time cannot be read, or does not fit 63 bits of microseconds";
    /// A missing time.
    NoTime "no_time" "the line has no arrival time; prefix it with the seconds since 1970, or add \
        --at";
    /// An empty part of the name.
    EmptyName "empty_name" "a measurement, a field, a tag's key and a tag's value cannot be empty";
    /// A part of the name that is too long.
    NameTooLong "name_too_long" "a part of the series' name is longer than 1024 bytes";
    /// A control character in the name.
    ControlCharacter "control_character" "the series' name has a control character";
    /// A tag that is not `key=value`, or has characters that its format forbids.
    BadTag "bad_tag" "a tag has an invalid form";
    /// A duplicate tag.
    DuplicateTag "duplicate_tag" "the series' name has the same tag twice";
    /// Too many tags.
    TooManyTags "too_many_tags" "the series' name has more than 64 tags";
    /// Too many series.
    TooManySeries "too_many_series" "the limit on series is reached; raise --max-series, or move \
        varying parts out of the name";
    /// A series of `import --rrd`.
    OtherMode "other_mode" "the series was created by import --rrd, which only import --rrd \
        continues; use another name";
    /// A quote that is not closed on its line.
    OpenQuote "open_quote" "a quote is not closed, or is followed by something else";
    /// Not in the form of line protocol.
    NotLineProtocol "not_line_protocol" "the line is not measurement[,tag=value…] field=value[,field=value…] [timestamp]";
    /// Not in the form of a StatsD line.
    NotStatsd "not_statsd" "the line is not key:value|type[|@rate][|#tags]";
    /// An event or a service check of DogStatsD.
    NotAMetric "not_a_metric" "events and service checks are not recorded, because a series holds \
        numbers";
    /// An unknown StatsD type.
    UnknownType "unknown_type" "the type is not one of c, g, ms, h, d, s";
    /// A gauge combined with other types.
    MixedTypes "mixed_types" "the line has a gauge and other types; write each type in a separate \
        line";
    /// A StatsD line whose window has closed.
    WindowClosed "window_closed" "the window of the line's time has been written: a file's window \
        closes ten minutes and two windows after it, a daemon's after one window; import such \
        lines as a separate file";
    /// A native histogram that is a gauge.
    GaugeHistogram "gauge_histogram" "a native histogram of gauges has no count that grows; send a \
        histogram of counts";
    /// A native histogram whose buckets do not add up to its count.
    BadBuckets "bad_buckets" "the buckets of the histogram do not add up to its count";
    /// A sum or histogram of OTLP that is neither a delta nor cumulative.
    NoTemporality "no_temporality" "the metric has no aggregation temporality: it must be delta or \
        cumulative";
    /// A frame of Graphite's pickle protocol that is longer than the limit.
    FrameTooLong "frame_too_long" "the frame is longer than 1048576 bytes; send fewer points at a \
        time, or check that the sender uses the pickle protocol";
    /// A pickle that Python could not read either.
    BadPickle "bad_pickle" "the frame is not a pickle, or is cut off";
    /// A pickle of a later protocol.
    PickleProtocol "pickle_protocol" "the pickle has a protocol above 4; use protocol 2";
    /// A pickle that imports or calls something.
    PickleCode "pickle_code" "the pickle imports or calls something; send only lists, tuples, \
        numbers and texts";
    /// A pickle beyond the limits.
    PickleLimit "pickle_limit" "the pickle is nested too deep, remembers too many values, or \
        becomes too many lines; send fewer points at a time";
    /// A pickle of something else.
    NotAList "not_a_list" "the pickle is not a list of (path, (timestamp, value))";
    /// An item that is not a point.
    NotAPoint "not_a_point" "the item is not (path, (timestamp, value))";
    /// A path that no line can have.
    NotAPath "not_a_path" "the path is not a text, is empty, begins with #, or has blanks or \
        control characters";
    /// A sample rate outside 0 to 1.
    BadRate "bad_rate" "the sample rate is not greater than 0 and at most 1";
}

/// Why input was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Reason {
    /// It cannot be parsed.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// It was parsed but cannot be recorded.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Reason {
    /// A stable name for metrics and files.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Malformed(malformed) => malformed.name(),
            Reason::Refused(refusal) => refusal.name(),
        }
    }
}

/// Number of refusals by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusalCounts(BTreeMap<Reason, u64>);

impl RefusalCounts {
    /// Counts one refusal.
    pub fn add(&mut self, reason: Reason) {
        *self.0.entry(reason).or_default() += 1;
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &RefusalCounts) {
        for (reason, count) in &other.0 {
            *self.0.entry(*reason).or_default() += count;
        }
    }

    /// The count for this reason.
    pub fn count(&self, reason: impl Into<Reason>) -> u64 {
        self.0.get(&reason.into()).copied().unwrap_or(0)
    }

    /// The total.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The reasons with their counts, without zeros.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        self.0.iter().map(|(reason, count)| (*reason, *count))
    }
}

impl fmt::Display for RefusalCounts {
    /// `3 not_utf8, 1 late`; `none` without refusals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.pad("none");
        }
        let parts: Vec<_> = self.iter().map(|(r, n)| format!("{n} {}", r.name())).collect();
        f.pad(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_names_of_their_own() {
        let malformed = Malformed::ALL.iter().map(|m| m.name());
        let mut names: Vec<_> = malformed.chain(Refusal::ALL.iter().map(|r| r.name())).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn counts_list_what_occurred() {
        let mut counts = RefusalCounts::default();
        assert_eq!(counts.to_string(), "none");
        counts.add(Refusal::Late.into());
        counts.add(Malformed::NotUtf8.into());
        counts.add(Malformed::NotUtf8.into());
        let mut twice = counts.clone();
        twice.merge(&counts);
        assert_eq!(twice.to_string(), "4 not_utf8, 2 late");
        assert_eq!((twice.total(), twice.count(Refusal::Late)), (6, 2));
    }

    #[test]
    fn limits_in_texts_are_the_limits() {
        let frame_max = crate::pickle::FRAME_MAX.to_string();
        assert!(Malformed::FrameTooLong.to_string().contains(&frame_max));
        assert!(Malformed::LineTooLong.to_string().contains(&crate::LINE_MAX.to_string()));
        assert!(Malformed::NameTooLong.to_string().contains(&crate::NAME_MAX.to_string()));
        assert!(Malformed::TooManyTags.to_string().contains(&crate::TAGS_MAX.to_string()));
    }
}
