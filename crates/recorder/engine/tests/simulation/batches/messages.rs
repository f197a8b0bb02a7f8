//! What messages say, and how each format writes it. Both follow from the number of a message, so
//! that a script need not repeat it.

use std::fmt;

use ::store::Writer;
use engine::{ArrivalTimes, Record};
use formats::{Malformed, Precision, Protocol};
use series::SECOND_US;

use super::model::FUTURE_US;
use super::wire;
use crate::random::Random;

/// Each message has a slot of its own, from this time on, by which the store tells whether it has the
/// message: in 1874, so that no clock makes it future. Times of OTLP begin with the epoch.
const MARKS_US: i64 = -3_000_000_000 * SECOND_US;

/// The length of that slot.
pub(crate) const MARK_STEP_S: i64 = 60;

/// The heartbeat of series from lines, and from binary messages.
const HEARTBEAT_US: i64 = 20 * SECOND_US;
const BINARY_HEARTBEAT_US: i64 = 300 * SECOND_US;

/// How far behind an interval is that comes after its span was packed.
const LATE_US: i64 = 3 * 3_600 * SECOND_US;

/// The format of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Format {
    Influx,
    /// Influx lines of a request with a key, which is sent again and again.
    Keyed,
    Graphite,
    Statsd,
    Write1,
    Write2,
    Otlp,
}

impl Format {
    pub(crate) const ALL: [Format; 7] = [
        Format::Influx,
        Format::Keyed,
        Format::Graphite,
        Format::Statsd,
        Format::Write1,
        Format::Write2,
        Format::Otlp,
    ];

    fn name(self) -> &'static str {
        match self {
            Format::Influx => "influx",
            Format::Keyed => "keyed",
            Format::Graphite => "graphite",
            Format::Statsd => "statsd",
            Format::Write1 => "write1",
            Format::Write2 => "write2",
            Format::Otlp => "otlp",
        }
    }

    /// How the engine is to read it.
    pub(crate) fn of_engine(self) -> engine::Format {
        match self {
            Format::Influx | Format::Keyed => engine::Format::Influx(Precision::Microseconds),
            Format::Graphite => engine::Format::Graphite,
            Format::Statsd => engine::Format::Statsd,
            Format::Write1 => engine::Format::Message(Protocol::RemoteWrite1),
            Format::Write2 => engine::Format::Message(Protocol::RemoteWrite2),
            Format::Otlp => engine::Format::Message(Protocol::Otlp),
        }
    }

    /// A line that cannot be read, and why.
    pub(crate) fn unreadable(self) -> (&'static str, Malformed) {
        match self {
            Format::Influx | Format::Keyed => ("text value=\"a\" 1", Malformed::TextValue),
            Format::Statsd => ("unknown:1|q", Malformed::UnknownType),
            _ => ("two fields", Malformed::NotThreeFields),
        }
    }

    /// The series with the slots that tell whether a message was stored.
    fn marks(self) -> &'static str {
        match self {
            Format::Influx | Format::Keyed => "marks",
            Format::Graphite => "marks.graphite",
            Format::Statsd => "marks.statsd",
            Format::Write1 => "marks.write1",
            Format::Write2 => "marks.write2",
            Format::Otlp => "marks.otlp",
        }
    }
}

/// A message by its number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Given {
    pub(crate) number: u64,
    pub(crate) format: Format,
}

/// A line, or an element of a binary message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Said {
    Point(Sample),
    /// One, of an interval.
    Count {
        series: &'static str,
        start_us: i64,
        end_us: i64,
    },
    /// A level of 7 at the time of arrival.
    Now,
    /// What StatsD counts in windows: one, two and a half, a time, a user.
    Hit,
    Fraction,
    Time(u64),
    User(u64),
    /// A gauge of StatsD at the time of arrival, and a change of it.
    Level(i64),
    Change(i64),
    Unreadable,
}

/// A level or a total at an instant; without a value, nothing is known from then on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) series: &'static str,
    pub(crate) is_total: bool,
    pub(crate) heartbeat_us: i64,
    pub(crate) at_us: i64,
    pub(crate) value: Option<i64>,
    /// When a total was 0.
    pub(crate) since_us: Option<i64>,
}

/// A message as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) given: Given,
    pub(crate) arrived: ArrivalTimes,
    pub(crate) said: Vec<Said>,
    /// As it was written by its sender, and as a record of the journal.
    pub(crate) lines: Vec<u8>,
    pub(crate) record: Vec<u8>,
}

impl Given {
    /// The name of its request, which only some have.
    pub(crate) fn key(self) -> Option<Writer> {
        (self.format == Format::Keyed).then_some(Writer(u128::from(self.number) << 64))
    }

    /// The series and the coarse slot that tell whether the store has it.
    pub(crate) fn mark(self) -> (&'static str, i64) {
        let from_us = if self.format == Format::Otlp { 0 } else { MARKS_US };
        let slot_us = from_us + self.number as i64 * MARK_STEP_S * SECOND_US;
        (self.format.marks(), slot_us)
    }

    /// The message, sent at this time by the sender's clock, which is right.
    pub(crate) fn send(self, right_us: i64, arrived: ArrivalTimes) -> Sent {
        // No two points of a series have the same time.
        let sent_us = right_us - right_us.rem_euclid(SECOND_US) + self.number as i64 * 1_000;
        let said = self.says(sent_us);
        let lines = match self.format {
            Format::Write1 => wire::write1(&said),
            Format::Write2 => wire::write2(&said),
            Format::Otlp => wire::otlp(&said),
            format => lines(format, &said).into_bytes(),
        };
        let (mut record, format, key) = (Vec::new(), self.format.of_engine(), self.key());
        Record::Lines { format, arrived, key, lines: &lines }.write(&mut record);
        Sent { given: self, arrived, said, lines, record }
    }

    fn says(self, sent_us: i64) -> Vec<Said> {
        let Given { number, format } = self;
        let mut random = Random::new(number);
        let (mark, slot_us) = self.mark();
        let whole = number as i64;
        let is_binary = matches!(format, Format::Write1 | Format::Write2 | Format::Otlp);
        let heartbeat_us = if is_binary { BINARY_HEARTBEAT_US } else { HEARTBEAT_US };
        let point = |series, at_us, value| Sample {
            series,
            is_total: false,
            heartbeat_us,
            at_us,
            value: Some(value),
            since_us: None,
        };
        // Late, too late, or of tomorrow.
        let behind_s = [0, 0, 0, 0, 7, 40, 500, 700, -86_400][random.below(9) as usize];
        let at_us = sent_us - behind_s * SECOND_US;
        let count =
            |series, start_us| Said::Count { series, start_us, end_us: start_us + 10 * SECOND_US };
        let marked = Said::Point(point(mark, slot_us + 5 * SECOND_US, whole));
        let total = |series, value, since_us| {
            Said::Point(Sample { is_total: true, since_us, ..point(series, at_us, value) })
        };
        // A restart of its process after five of its messages; a negative total is refused.
        let grown = if number.is_multiple_of(11) { -1 } else { whole * 3 % 40 };
        let since_s = if number.is_multiple_of(5) { 15 } else { 86_400 };
        let since_us = Some(at_us - since_s * SECOND_US);
        let mut said = match format {
            Format::Keyed => vec![count(mark, slot_us)],
            Format::Influx => {
                let late_us = sent_us - sent_us.rem_euclid(10 * SECOND_US) - LATE_US;
                let level = Said::Point(point("level", at_us, whole % 30));
                vec![count(mark, slot_us), level, count("late", late_us)]
            }
            Format::Graphite => {
                vec![marked, Said::Point(point("walk", at_us, whole % 30 - 10)), Said::Now]
            }
            Format::Statsd => {
                let gauge = match random.below(2) {
                    0 => Said::Level(whole % 20),
                    _ => Said::Change(whole % 7 - 3),
                };
                let (time, user) = (Said::Time(number % 50), Said::User(number % 5));
                vec![marked, Said::Hit, Said::Fraction, time, user, gauge]
            }
            Format::Write1 => {
                let value = Some(whole % 30).filter(|_| !random.one_in(8));
                let level = Said::Point(Sample { value, ..point("level.write1", at_us, 0) });
                vec![marked, total("sent_total", grown, None), level]
            }
            Format::Write2 => vec![marked, total("sent2_total", grown, since_us)],
            Format::Otlp => {
                let level = Said::Point(point("level.otlp", at_us, whole % 30));
                vec![marked, total("sum", grown, since_us), level]
            }
        };
        if !is_binary && random.one_in(4) {
            said.push(Said::Unreadable);
        }
        said
    }
}

/// Lines of text.
fn lines(format: Format, said: &[Said]) -> String {
    let mut text = String::new();
    for said in said {
        text += &match (*said, format) {
            (Said::Point(Sample { series, at_us, value, .. }), _) => {
                let value = value.unwrap_or_default();
                match format {
                    Format::Graphite => format!("{series} {value} {}", seconds(at_us)),
                    Format::Statsd => format!("{series}:{value}|g|T{}", seconds(at_us)),
                    _ => format!("{series} value={value} {at_us}"),
                }
            }
            (Said::Count { series, start_us, end_us }, _) => {
                format!("{series} value=1i,_start={start_us}i,_end={end_us}i {end_us}")
            }
            (Said::Now, _) => "now 7 -1".to_owned(),
            (Said::Hit, _) => "hits:1|c".to_owned(),
            (Said::Fraction, _) => "fractions:1|c|@0.4".to_owned(),
            (Said::Time(ms), _) => format!("times:{ms}|ms"),
            (Said::User(user), _) => format!("users:{user}|s"),
            (Said::Level(level), _) => format!("gauge:{level}|g"),
            (Said::Change(change), _) => format!("gauge:{change:+}|g"),
            (Said::Unreadable, format) => format.unreadable().0.to_owned(),
        };
        text.push('\n');
    }
    text
}

/// Seconds since the epoch; those before it are whole.
fn seconds(at_us: i64) -> String {
    let seconds = at_us.div_euclid(SECOND_US);
    match at_us.rem_euclid(SECOND_US) {
        0 => seconds.to_string(),
        part_us => format!("{seconds}.{part_us:06}"),
    }
}

impl Sent {
    /// Whether it is one of its times, in microseconds since the epoch, that a daemon hears from it;
    /// none if all are of the future.
    pub(crate) fn may_say(&self, heard_us: Option<i64>) -> bool {
        let mut times = self.said.iter().filter_map(|said| match said {
            Said::Point(sample) => Some(sample.at_us),
            Said::Count { end_us, .. } => Some(*end_us),
            _ => None,
        });
        let latest_us = self.arrived.latest_us.saturating_add(FUTURE_US);
        match heard_us {
            Some(heard_us) => self.given.format != Format::Statsd && times.any(|us| us == heard_us),
            None => self.given.format == Format::Statsd || times.all(|us| us > latest_us),
        }
    }
}

impl Given {
    /// Reads `4:statsd`.
    pub(crate) fn read(text: &str) -> Option<Given> {
        let (number, name) = text.split_once(':')?;
        let format = Format::ALL.into_iter().find(|format| format.name() == name)?;
        Some(Given { number: number.parse().ok()?, format })
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.number, self.format.name())
    }
}
