//! Messages of Graphite lines, written in place: all have the same length, so only digits change.

use base::Nanos;
use spec::Lines;

/// Digits of a time in seconds.
const TIME_DIGITS: usize = 10;

/// Characters of a value: `12.3`.
const VALUE_CHARS: usize = 4;

/// Writes one thread's messages, one after another.
///
/// Points follow each other as from a program that reports all of its series at once: every series
/// at one time, then every series an interval later. After [`Lines::SPAN`] the times begin again,
/// with the numbers of new series.
#[derive(Debug)]
pub(crate) struct LineWriter {
    message: Vec<u8>,
    line_bytes: usize,
    /// Where a series' number begins in its line.
    number_at: usize,
    /// How many digits it has.
    digits: usize,
    /// The thread's series, and the number of all threads' series.
    series: std::ops::Range<u64>,
    all: u64,
    next: u64,
    /// How often the times have begun again.
    passes: u64,
    /// Times in seconds since the epoch: the first, the one after the last, and the next.
    first_s: u64,
    end_s: u64,
    next_s: u64,
    interval_s: u64,
    /// Number of the time in the sequence, which varies the values.
    round: u64,
}

impl LineWriter {
    /// The writer of one of `threads` threads, whose newest possible time is `now_s`, in seconds
    /// since the epoch.
    pub(crate) fn new(lines: &Lines, thread: u32, threads: u32, now_s: u64) -> LineWriter {
        let all = u64::from(lines.series);
        let share = |thread: u32| all * u64::from(thread) / u64::from(threads.max(1));
        let series = share(thread)..share(thread + 1);
        let digits = lines.number_digits();
        let line = format!(
            "{}.{} {} {}\n",
            lines.prefix,
            "0".repeat(digits),
            "00.0",
            "0".repeat(TIME_DIGITS)
        );
        debug_assert_eq!(
            line.len(),
            lines.line_bytes(),
            "the length that the plan was checked with"
        );
        let second = Nanos::from_secs(1).0;
        let first_s = now_s.saturating_sub(Lines::SPAN.0 / second);
        LineWriter {
            message: line.repeat(lines.per_message as usize).into_bytes(),
            line_bytes: line.len(),
            number_at: lines.prefix.len() + 1,
            digits,
            next: series.start,
            series,
            all,
            passes: 0,
            first_s,
            end_s: now_s,
            next_s: first_s,
            interval_s: (lines.interval.0 / second).max(1),
            round: 0,
        }
    }

    /// The next message.
    pub(crate) fn next_message(&mut self) -> &[u8] {
        let (number_at, digits) = (self.number_at, self.digits);
        let value_at = number_at + digits + 1;
        let time_at = value_at + VALUE_CHARS + 1;
        for line in self.message.chunks_exact_mut(self.line_bytes) {
            let value = (self.next * 7 + self.round * 13) % 1_000;
            let number = self.passes * self.all + self.next;
            write_digits(&mut line[number_at..number_at + digits], number);
            write_digits(&mut line[value_at..value_at + 2], value / 10);
            write_digits(&mut line[value_at + 3..value_at + 4], value);
            write_digits(&mut line[time_at..time_at + TIME_DIGITS], self.next_s);
            self.next += 1;
            if self.next == self.series.end {
                self.next = self.series.start;
                self.round += 1;
                self.next_s += self.interval_s;
                if self.next_s >= self.end_s {
                    self.next_s = self.first_s;
                    self.passes += 1;
                }
            }
        }
        &self.message
    }
}

/// Writes the last digits of a number, with leading zeros.
fn write_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_800_000_000;
    const FIRST_S: u64 = NOW_S - 72_000;

    fn lines(per_message: u32, series: u32, interval_s: u64) -> Lines {
        let interval = Nanos::from_secs(interval_s);
        Lines { per_message, series, prefix: "a.b".to_owned(), interval }
    }

    fn text(writer: &mut LineWriter) -> String {
        String::from_utf8(writer.next_message().to_vec()).unwrap()
    }

    #[test]
    fn all_series_come_at_one_time_and_then_an_interval_later() {
        let mut writer = LineWriter::new(&lines(2, 3, 10), 0, 1, NOW_S);
        let (first, second) = (FIRST_S, FIRST_S + 10);
        let expected = format!("a.b.000000 00.0 {first}\na.b.000001 00.7 {first}\n");
        assert_eq!(text(&mut writer), expected);
        let expected = format!("a.b.000002 01.4 {first}\na.b.000000 01.3 {second}\n");
        assert_eq!(text(&mut writer), expected);
    }

    #[test]
    fn every_message_has_the_same_length_and_threads_share_the_series() {
        let lines = lines(7, 1_000, 60);
        let mut seen = std::collections::BTreeSet::new();
        for thread in 0..3 {
            let mut writer = LineWriter::new(&lines, thread, 3, NOW_S);
            for _ in 0..60 {
                let text = text(&mut writer);
                assert_eq!(text.len(), lines.message_bytes());
                let names = text.lines().map(|line| line[..10].to_owned());
                seen.extend(names.map(|name| (name, thread)));
            }
        }
        assert_eq!(seen.len(), 1_000, "no series has two threads");
    }

    #[test]
    fn before_the_times_reach_the_present_they_begin_again_with_new_series() {
        let mut writer = LineWriter::new(&lines(1, 2, 3_600), 0, 1, NOW_S);
        let of = |number: u64, value: &str, at: u64| format!("a.b.{number:06} {value} {at}\n");
        assert_eq!(text(&mut writer), of(0, "00.0", FIRST_S));
        assert_eq!(text(&mut writer), of(1, "00.7", FIRST_S));
        assert_eq!(text(&mut writer), of(0, "01.3", FIRST_S + 3_600));
        let last = (3..40).map(|_| text(&mut writer)).last().unwrap();
        assert_eq!(last, of(1, "25.4", NOW_S - 3_600));
        assert_eq!(text(&mut writer), of(2, "26.0", FIRST_S));
    }
}
