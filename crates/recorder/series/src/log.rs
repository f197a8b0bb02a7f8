//! Updates of one lane in a few bytes each, in order of arrival.
//!
//! ```text
//!  point     tag │ [step to the next time, zigzag varint] │ value
//!  interval  tag │ [start − end before, zigzag varint] │ [length, zigzag varint] │ value
//! ```
//!
//! Predictable parts are omitted: a point one step after the previous one, and an interval that
//! begins where the last one ended and has the same length, have no times. A number that is an
//! integer, or an integer number of hundredths or thousandths, is stored as its difference from the
//! previous one; any other as its eight bytes. Every update is restored bit for bit.

use crate::{Amount, Cover, Interval, Point, Reading, Sense};

/// Bits of a tag: which times follow.
const TIME: u8 = 1;
const LENGTH: u8 = 2;

/// Bit of a tag in [`put_points`]: the number of points that have it follows, in one byte; all but the
/// first come without.
const REPEATED: u8 = 64;

/// The number's form, in the tag bits above those of the times.
const FORM_SHIFT: u8 = 2;
const WHOLE: u8 = 0;
const HUNDREDTHS: u8 = 1;
const THOUSANDTHS: u8 = 2;
const BITS: u8 = 3;
const UNSIGNED: u8 = 4;
const SIGNED: u8 = 5;
const COUNT: u8 = 6;
const RETRACTED: u8 = 7;
const CORRECTED: u8 = 8;
const UNKNOWN: u8 = 9;

/// Limit on a number stored as an integer; every double up to it is exact.
const WHOLE_MAX: f64 = 4_503_599_627_370_496.0;

/// Updates of one lane: points or intervals, never both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    bytes: Vec<u8>,
    count: u32,
    before: EncoderState,
    /// The form of the last level.
    form: u8,
}

/// The state that the next update is encoded against.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct EncoderState {
    /// The time of a point, or the end of an interval.
    at_us: i64,
    /// From the point before to the last one, or the length of the last interval.
    length_us: i64,
    number: i64,
}

impl Log {
    /// Number of updates.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of its updates.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The time of the last point, or the end of the last interval, in microseconds since the
    /// epoch; `None` where there is none.
    pub fn last_us(&self) -> Option<i64> {
        (self.count > 0).then_some(self.before.at_us)
    }

    /// The reading of the last point if it is an integer: that of a counter, derive or absolute.
    pub fn last_whole(&self) -> i64 {
        self.before.number
    }

    /// Adds a point.
    pub fn push_point(&mut self, point: Point) {
        let (form, number) = match point.reading {
            Reading::Level(value) => self.form_of(value),
            Reading::Unsigned(value) => (UNSIGNED, value as i64),
            Reading::Signed(value) => (SIGNED, value),
            Reading::Unknown => (UNKNOWN, self.before.number),
        };
        let length_us = point.at_us.wrapping_sub(self.before.at_us);
        let tag = if length_us == self.before.length_us { 0 } else { TIME };
        self.bytes.push(tag | form << FORM_SHIFT);
        if tag & TIME != 0 {
            put(&mut self.bytes, length_us);
        }
        self.put_number(form, number);
        self.before.at_us = point.at_us;
        self.before.length_us = length_us;
        self.count += 1;
    }

    /// Adds an interval; returns false, without adding it, if there is no form for it: a retracted
    /// level.
    pub fn push_interval(&mut self, interval: Interval) -> bool {
        let Cover { span, amount, sense } = interval.cover();
        let (form, number) = match (amount, sense) {
            (Amount::Count(count), Sense::Add) => (COUNT, count),
            (Amount::Count(count), Sense::Retract) => (RETRACTED, count),
            (Amount::Count(count), Sense::Correct) => (CORRECTED, count),
            (Amount::Level(value), Sense::Add) => self.form_of(value),
            (Amount::Level(_), Sense::Retract | Sense::Correct) => return false,
        };
        let gap_us = span.start_us().wrapping_sub(self.before.at_us);
        let mut tag = if gap_us == 0 { 0 } else { TIME };
        tag |= if span.us() == self.before.length_us { 0 } else { LENGTH };
        self.bytes.push(tag | form << FORM_SHIFT);
        if tag & TIME != 0 {
            put(&mut self.bytes, gap_us);
        }
        if tag & LENGTH != 0 {
            put(&mut self.bytes, span.us());
        }
        self.put_number(form, number);
        self.before.at_us = span.end_us();
        self.before.length_us = span.us();
        self.count += 1;
        true
    }

    /// The form that restores a level bit for bit, and its number: that of the level before, if it
    /// does.
    fn form_of(&mut self, value: f64) -> (u8, i64) {
        let forms = [self.form, WHOLE, HUNDREDTHS, THOUSANDTHS];
        let found = forms.into_iter().find_map(|form| Some((form, number_of(form, value)?)));
        let (form, number) = found.unwrap_or((BITS, value.to_bits() as i64));
        self.form = form;
        (form, number)
    }

    fn put_number(&mut self, form: u8, number: i64) {
        if form == BITS {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        } else {
            put(&mut self.bytes, number.wrapping_sub(self.before.number));
            self.before.number = number;
        }
    }

    /// The points, in order of arrival.
    pub fn points(&self) -> Points<'_> {
        self.points_from(Mark::default())
    }

    /// The points after a mark of this log.
    pub fn points_from(&self, mark: Mark) -> Points<'_> {
        Points(self.reader(mark))
    }

    /// The intervals, in order of arrival.
    pub fn intervals(&self) -> Intervals<'_> {
        self.intervals_from(Mark::default())
    }

    /// The intervals after a mark of this log.
    pub fn intervals_from(&self, mark: Mark) -> Intervals<'_> {
        Intervals(self.reader(mark))
    }

    fn reader(&self, mark: Mark) -> LogReader<'_> {
        let bytes = self.bytes.get(mark.read..).unwrap_or_default();
        LogReader { all: self.bytes.len(), bytes, before: mark.before }
    }
}

/// A position between two updates of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mark {
    /// Bytes before it.
    read: usize,
    before: EncoderState,
}

/// Appends points as a log has them, but of adjacent ones with the same tag only the first has it.
pub(crate) fn put_points<'a>(bytes: &mut Vec<u8>, points: impl Iterator<Item = &'a Point>) {
    let mut log = Log { bytes: std::mem::take(bytes), ..Log::default() };
    // Where the latest run of equal tags begins, its tag, and its number of points.
    let (mut begin, mut tag, mut count) = (0, u8::MAX, 0_u8);
    for point in points {
        let at = log.bytes.len();
        log.push_point(*point);
        if log.bytes[at] != tag || count == u8::MAX {
            (begin, tag, count) = (at, log.bytes[at], 1);
            continue;
        }
        log.bytes.remove(at);
        count += 1;
        if count == 2 {
            log.bytes[begin] |= REPEATED;
            log.bytes.insert(begin + 1, count);
        }
        log.bytes[begin + 1] = count;
    }
    *bytes = log.bytes;
}

/// The inverse of [`put_points`]; `None` for invalid bytes.
pub(crate) fn points_of(bytes: &[u8]) -> Option<Vec<Point>> {
    let mut reader = LogReader { all: bytes.len(), bytes, before: EncoderState::default() };
    let mut points = Vec::new();
    while !reader.bytes.is_empty() {
        let tag = reader.byte()?;
        let count = if tag & REPEATED == 0 { 1 } else { reader.byte().filter(|n| *n > 1)? };
        for _ in 0..count {
            points.push(reader.tagged_point(tag & !REPEATED)?);
        }
    }
    Some(points)
}

/// The points of a [`Log`].
#[derive(Clone, Debug)]
pub struct Points<'a>(LogReader<'a>);

impl Points<'_> {
    /// The position after the latest point.
    pub fn mark(&self) -> Mark {
        self.0.mark()
    }
}

impl Iterator for Points<'_> {
    type Item = Point;
    fn next(&mut self) -> Option<Point> {
        self.0.point()
    }
}

/// The intervals of a [`Log`].
#[derive(Clone, Debug)]
pub struct Intervals<'a>(LogReader<'a>);

impl Intervals<'_> {
    /// The position after the latest interval.
    pub fn mark(&self) -> Mark {
        self.0.mark()
    }
}

impl Iterator for Intervals<'_> {
    type Item = Interval;
    fn next(&mut self) -> Option<Interval> {
        self.0.interval()
    }
}

#[derive(Clone, Debug)]
struct LogReader<'a> {
    /// Total number of bytes.
    all: usize,
    bytes: &'a [u8],
    before: EncoderState,
}

impl LogReader<'_> {
    fn mark(&self) -> Mark {
        Mark { read: self.all - self.bytes.len(), before: self.before }
    }

    fn point(&mut self) -> Option<Point> {
        let tag = self.byte()?;
        self.tagged_point(tag)
    }

    fn tagged_point(&mut self, tag: u8) -> Option<Point> {
        let length_us = if tag & TIME == 0 { self.before.length_us } else { self.varint()? };
        let form = tag >> FORM_SHIFT;
        let number = self.number(form)?;
        let reading = match form {
            UNSIGNED => Reading::Unsigned(number as u64),
            SIGNED => Reading::Signed(number),
            UNKNOWN => Reading::Unknown,
            _ => Reading::Level(level_of(form, number)?),
        };
        let at_us = self.before.at_us.wrapping_add(length_us);
        self.before.at_us = at_us;
        self.before.length_us = length_us;
        Some(Point { at_us, reading })
    }

    fn interval(&mut self) -> Option<Interval> {
        let tag = self.byte()?;
        let gap_us = if tag & TIME == 0 { 0 } else { self.varint()? };
        let length_us = if tag & LENGTH == 0 { self.before.length_us } else { self.varint()? };
        let form = tag >> FORM_SHIFT;
        let number = self.number(form)?;
        let start_us = self.before.at_us.wrapping_add(gap_us);
        let end_us = start_us.wrapping_add(length_us);
        self.before.at_us = end_us;
        self.before.length_us = length_us;
        match form {
            COUNT => Interval::count(start_us, end_us, number).ok(),
            RETRACTED => Interval::count(start_us, end_us, number).ok().map(Interval::inverse),
            CORRECTED => Interval::correction(start_us, end_us, number).ok(),
            _ => Interval::level(start_us, end_us, level_of(form, number)?).ok(),
        }
    }

    fn number(&mut self, form: u8) -> Option<i64> {
        if form == BITS {
            let (number, rest) = self.bytes.split_first_chunk::<8>()?;
            self.bytes = rest;
            return Some(i64::from_le_bytes(*number));
        }
        self.before.number = self.before.number.wrapping_add(self.varint()?);
        Some(self.before.number)
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*byte)
    }

    fn varint(&mut self) -> Option<i64> {
        take(&mut self.bytes)
    }
}

/// A number as a zigzag varint: seven bits per byte, low ones first.
pub(crate) fn put(bytes: &mut Vec<u8>, number: i64) {
    let mut value = (number << 1 ^ number >> 63) as u64;
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Takes a number from the front; `None` for invalid bytes.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}

/// The number of a level in a form; `None` if the form does not restore it.
fn number_of(form: u8, value: f64) -> Option<i64> {
    let scale = match form {
        WHOLE => 1.0,
        HUNDREDTHS => 100.0,
        THOUSANDTHS => 1_000.0,
        _ => return None,
    };
    let number = nearest_whole(value * scale);
    let exact = (number as i64 as f64 / scale).to_bits() == value.to_bits();
    (number.abs() <= WHOLE_MAX && exact).then_some(number as i64)
}

/// The integer nearest to a number, or either of the two if it is within rounding of the middle. Unlike
/// [`f64::round`], it needs no call of a library on x86-64 without SSE4.1, for which we compile.
pub fn nearest_whole(value: f64) -> f64 {
    // From here on, there are no fractions.
    if value.abs() < WHOLE_MAX { (value + 0.5_f64.copysign(value)) as i64 as f64 } else { value }
}

fn level_of(form: u8, number: i64) -> Option<f64> {
    match form {
        WHOLE => Some(number as f64),
        HUNDREDTHS => Some(number as f64 / 100.0),
        THOUSANDTHS => Some(number as f64 / 1_000.0),
        BITS => Some(f64::from_bits(number as u64)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECOND_US;
    use proptest::prelude::*;

    #[test]
    fn an_update_that_follows_the_one_before_takes_two_or_three_bytes() {
        let (mut points, mut counts) = (Log::default(), Log::default());
        for i in 0..1_000_i64 {
            let reading = Reading::Level((i * 37 % 1_000) as f64);
            points.push_point(Point { at_us: i * 10 * SECOND_US, reading });
            let start_us = i * 10 * SECOND_US;
            let count = Interval::count(start_us, start_us + 10 * SECOND_US, i * 37 % 50).unwrap();
            assert!(counts.push_interval(count));
        }
        assert!(points.size() <= 3_010, "{}", points.size());
        assert!(counts.size() <= 2_010, "{}", counts.size());
        assert_eq!((points.len(), points.last_us()), (1_000, Some(9_990 * SECOND_US)));
        assert_eq!(Log::default().last_us(), None);
    }

    #[test]
    fn points_at_regular_times_share_their_tags() {
        let point = |i: i64| Point {
            at_us: i * 10 * SECOND_US,
            reading: Reading::Level((i * 37 % 50) as f64),
        };
        let points: Vec<Point> = (0..1_000).map(point).collect();
        let mut bytes = Vec::new();
        put_points(&mut bytes, points.iter());
        assert!(bytes.len() <= 1_020, "{}", bytes.len());
    }

    #[test]
    fn a_level_that_is_taken_back_has_no_form() {
        let mut log = Log::default();
        let level = Interval::level(0, 5, 1.5).unwrap();
        assert!(!log.push_interval(level.inverse()));
        assert!(log.is_empty() && log.size() == 0);
    }

    #[test]
    fn bytes_that_are_cut_or_not_ours_are_refused() {
        let reading = Reading::Level(0.1 + 0.2);
        let points = [1, 2, 3].map(|at| Point { at_us: at << 50, reading });
        let mut bytes = Vec::new();
        put_points(&mut bytes, points.iter());
        assert_eq!(points_of(&bytes).as_deref(), Some(&points[..]));
        for cut in 1..bytes.len() {
            assert!(points_of(&bytes[..cut]).is_none_or(|read| read.len() < 3), "{cut}");
        }
        assert_eq!(points_of(&[COUNT << FORM_SHIFT, 0]), None);
        assert_eq!(points_of(&[0xff; 12]), None);
        assert_eq!(points_of(&[REPEATED, 0]), None, "a run of none");
    }

    fn level() -> impl Strategy<Value = f64> {
        prop_oneof![
            (-1_000_i64..1_000).prop_map(|v| v as f64),
            (-100_000_i64..100_000).prop_map(|v| v as f64 / 100.0),
            (-100_000_i64..100_000).prop_map(|v| v as f64 / 1_000.0),
            -1e200..1e200_f64,
            Just(-0.0),
        ]
    }

    fn reading() -> impl Strategy<Value = Reading> {
        prop_oneof![
            level().prop_map(Reading::Level),
            any::<u64>().prop_map(Reading::Unsigned),
            any::<i64>().prop_map(Reading::Signed),
            Just(Reading::Unknown),
        ]
    }

    proptest! {
        #[test]
        fn points_come_back_to_the_bit(
            found in prop::collection::vec((any::<i64>(), reading()), 0..50)
        ) {
            let mut log = Log::default();
            let points: Vec<Point> =
                found.into_iter().map(|(at_us, reading)| Point { at_us, reading }).collect();
            points.iter().for_each(|point| log.push_point(*point));
            let back: Vec<Point> = log.points().collect();
            prop_assert_eq!(&back, &points);
            let mut bytes = Vec::new();
            put_points(&mut bytes, points.iter());
            prop_assert_eq!(points_of(&bytes), Some(back.clone()));
            let bits = |point: &Point| point.reading.as_f64().to_bits();
            let (back, points): (Vec<_>, Vec<_>) =
                back.iter().zip(&points).map(|(a, b)| (bits(a), bits(b))).unzip();
            prop_assert_eq!(back, points);
        }

        #[test]
        fn reading_continues_from_a_mark(
            found in prop::collection::vec((any::<i64>(), reading()), 1..20),
            cut in 0_usize..20,
        ) {
            let mut log = Log::default();
            found.iter().for_each(|(at_us, reading)| {
                log.push_point(Point { at_us: *at_us, reading: *reading });
            });
            let mut points = log.points();
            let mut first: Vec<Point> = points.by_ref().take(cut.min(found.len())).collect();
            first.extend(log.points_from(points.mark()));
            let wanted: Vec<Point> = log.points().collect();
            prop_assert_eq!(first, wanted);
        }

        #[test]
        fn intervals_come_back_to_the_bit(
            found in prop::collection::vec(
                (-1_i64 << 60..1 << 60, 1_i64..1 << 40, level(), 0..3, -5_i64..1 << 53),
                0..50,
            )
        ) {
            let mut log = Log::default();
            let mut intervals = Vec::new();
            for (start_us, length_us, level, form, count) in found {
                let end_us = start_us + length_us;
                let interval = match form {
                    0 => Interval::count(start_us, end_us, count),
                    1 => Interval::correction(start_us, end_us, count),
                    _ => Interval::level(start_us, end_us, level),
                };
                let interval = interval.unwrap();
                prop_assert!(log.push_interval(interval));
                intervals.push(interval);
            }
            let back: Vec<Interval> = log.intervals().collect();
            prop_assert_eq!(back, intervals);
        }
    }
}
