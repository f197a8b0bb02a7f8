//! Wrapping, widths and units for people.

use anstyle::{AnsiColor, Style as Ansi};
use base::{CpuSet, Nanos};
use stats::Estimate;

/// Style of terminal text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether to use escape codes; colour never carries information alone.
    pub colour: bool,
    /// Columns of the terminal; at least 40.
    pub width: usize,
}

impl Default for Style {
    /// Plain text in 80 columns, as for a pipe.
    fn default() -> Style {
        Style { colour: false, width: 80 }
    }
}

impl Style {
    pub(crate) fn columns(&self) -> usize {
        self.width.clamp(40, 160)
    }

    /// The text in a tone, if colours are wanted.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let style = match tone {
            Tone::Plain => Ansi::new(),
            Tone::Bold => Ansi::new().bold(),
            Tone::Dim => Ansi::new().dimmed(),
            Tone::Good => AnsiColor::Green.on_default().bold(),
            Tone::Warn => AnsiColor::Yellow.on_default(),
            Tone::Bad => AnsiColor::Red.on_default().bold(),
        };
        format!("{}{text}{}", style.render(), style.render_reset())
    }
}

/// What a text is to its reader.
#[derive(Clone, Copy)]
pub(crate) enum Tone {
    Plain,
    Bold,
    Dim,
    Good,
    Warn,
    Bad,
}

/// Width of a text without escape codes, in columns of a terminal.
pub(crate) fn width(text: &str) -> usize {
    textwrap::core::display_width(text)
}

/// Text on one line: control characters, which could move the cursor, become spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The text, or its beginning with an ellipsis, in at most `columns` columns.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    let text = one_line(text);
    if width(&text) <= columns {
        return text;
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if width(&kept) >= columns {
            kept.pop();
            break;
        }
    }
    format!("{}…", kept.trim_end())
}

pub(crate) fn left(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

pub(crate) fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Lines of at most `columns`, broken between words; lines after the first are indented by `hang`.
/// A longer word is a line of its own.
pub(crate) fn wrap(text: &str, columns: usize, hang: usize) -> Vec<String> {
    wrap_indented(text, columns, "", &" ".repeat(hang))
}

/// Text in lines of at most `columns`, each indented by `indent` and ended; empty for no words.
pub fn indented(text: &str, indent: usize, columns: usize) -> String {
    let indent = " ".repeat(indent);
    if text.trim().is_empty() {
        return String::new();
    }
    wrap_indented(text, columns, &indent, &indent).iter().map(|line| format!("{line}\n")).collect()
}

fn wrap_indented(text: &str, columns: usize, first: &str, others: &str) -> Vec<String> {
    let text = one_line(text);
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let options = textwrap::Options::new(columns)
        .initial_indent(first)
        .subsequent_indent(others)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    let words = words.join(" ");
    let lines = textwrap::wrap(&words, options);
    lines.into_iter().map(std::borrow::Cow::into_owned).collect()
}

/// A duration in nanoseconds that may be unknown.
pub(crate) fn time(nanos: f64) -> String {
    if nanos.is_finite() && nanos >= 0.0 {
        Nanos(nanos.round() as u64).to_string()
    } else {
        "–".to_owned()
    }
}

/// The ends of an interval, `None` where nothing bounds it: what is estimated is positive, so an
/// end of 0 is no bound.
pub(crate) fn bounds(estimate: &Estimate) -> [Option<f64>; 2] {
    [estimate.low, estimate.high].map(|end| Some(end).filter(|end| end.is_finite() && *end > 0.0))
}

/// An estimate without its interval; if only a bound is known, the bound: `480 ms`, `≥ 480 ms`,
/// `–`.
pub(crate) fn value(estimate: &Estimate, write: impl Fn(f64) -> String) -> String {
    match estimate.value.is_finite() {
        true => write(estimate.value),
        false => range(estimate, write).unwrap_or_else(|| "–".to_owned()),
    }
}

/// The interval beside [`value`], with a common unit if possible: `895–911 µs`, `≥ 410 ms` without
/// an upper bound, `≤ 560 ms` without a lower one; `None` without any.
pub(crate) fn interval(estimate: &Estimate, write: impl Fn(f64) -> String) -> Option<String> {
    range(estimate, write).filter(|_| estimate.value.is_finite())
}

/// An estimate where there is no room for intervals: one that is bounded on one side only has its
/// bound beside it, `480 ms (≥ 410)`.
pub(crate) fn figure(estimate: &Estimate, write: impl Fn(f64) -> String) -> String {
    let one_sided = bounds(estimate).iter().flatten().count() == 1;
    let alone = value(estimate, &write);
    let Some(bound) = interval(estimate, write).filter(|_| one_sided) else { return alone };
    let unit = alone.split_once(' ').map_or("", |(_, unit)| unit);
    let bound = match bound.rsplit_once(' ') {
        Some((number, same)) if same == unit => number,
        _ => &bound,
    };
    format!("{alone} ({bound})")
}

fn range(estimate: &Estimate, write: impl Fn(f64) -> String) -> Option<String> {
    match bounds(estimate) {
        [Some(low), Some(high)] => {
            let (low, high) = (write(low), write(high));
            Some(match (low.split_once(' '), high.split_once(' ')) {
                (Some((number, unit)), Some((_, same))) if unit == same => {
                    format!("{number}–{high}")
                }
                _ => format!("{low}–{high}"),
            })
        }
        [Some(low), None] => Some(format!("≥ {}", write(low))),
        [None, Some(high)] => Some(format!("≤ {}", write(high))),
        [None, None] => None,
    }
}

/// Bytes per second in powers of 1000: `3.21 GB/s`.
pub(crate) fn bandwidth(bytes_per_s: f64) -> String {
    let scaled = |value: f64, unit: &str| {
        let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
        format!("{value:.digits$} {unit}")
    };
    match bytes_per_s {
        b if !b.is_finite() => "–".to_owned(),
        b if b < 999.5 => scaled(b, "B/s"),
        b if b < 999.5e3 => scaled(b / 1e3, "kB/s"),
        b if b < 999.5e6 => scaled(b / 1e6, "MB/s"),
        b => scaled(b / 1e9, "GB/s"),
    }
}

/// A number of bytes in powers of 1024 without trailing zeros: `64 B`, `1 KiB`, `1.5 MiB`.
pub(crate) fn size(bytes: f64) -> String {
    let text = base::Bytes(bytes.max(0.0).round() as u64).to_string();
    match text.split_once(' ') {
        Some((number, unit)) => format!("{} {unit}", without_zeros(number)),
        None => text,
    }
}

/// A number without zeros at the end of its decimals.
pub(crate) fn without_zeros(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

/// The unit of a number's second digit, at least 1.
pub(crate) fn second_digit(value: f64) -> f64 {
    10f64.powf(value.max(1.0).log10().floor() - 1.0).max(1.0)
}

/// A ratio and its interval: `1.12×` and `1.10–1.13`, or `≥ 1.10`; more digits for a narrow
/// interval, and `–` for unknown values.
pub(crate) fn ratio(estimate: &Estimate) -> (String, String) {
    let spread = (estimate.high - estimate.low).abs();
    let digits = if spread < 0.02 { 3 } else { 2 };
    let number = |value: f64| {
        if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.digits$}") }
    };
    let dash = || "–".to_owned();
    let value = estimate.value.is_finite().then(|| format!("{}×", number(estimate.value)));
    (value.unwrap_or_else(dash), interval(estimate, number).unwrap_or_else(dash))
}

/// `CPU 1`, `CPUs 0-3`.
pub(crate) fn cpus(set: &CpuSet) -> String {
    format!("{} {set}", if set.iter().count() == 1 { "CPU" } else { "CPUs" })
}

/// `1 block`, `2 blocks`, `1,000 blocks`.
pub(crate) fn plural(count: u64, one: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {one}{s}", base::format_count(count))
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// The text with a capital first letter.
pub(crate) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// Words as a sentence: with a capital letter and a full stop.
pub(crate) fn sentence(words: &str) -> String {
    capitalised(words) + "."
}

/// A command line that a shell parses into these arguments.
pub(crate) fn shell(arguments: &[String]) -> String {
    shell_words::join(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_hang() {
        assert_eq!(wrap("one two three four", 9, 2), ["one two", "  three", "  four"]);
        assert_eq!(wrap("abcdefghijkl xyz", 6, 0), ["abcdefghijkl", "xyz"]);
        assert_eq!(wrap("", 6, 0), [""]);
        assert_eq!(wrap("a\u{1b}[31mb", 80, 0), ["a [31mb"]);
        assert_eq!(wrap("東京 大阪", 5, 0), ["東京", "大阪"], "two columns each");
        assert_eq!(indented("incomprehensibilities", 2, 10), "  incomprehensibilities\n");
        assert_eq!(indented("one two three", 2, 9), "  one two\n  three\n");
        assert_eq!(indented(" ", 2, 9), "");
    }

    #[test]
    fn names_that_are_too_long_end_in_an_ellipsis() {
        assert_eq!(fit("gunicorn", 8), "gunicorn");
        assert_eq!(fit("gunicorn -b", 9), "gunicorn…");
        assert_eq!(fit("日本語", 3), "日…");
    }

    #[test]
    fn units_for_people() {
        assert_eq!(bandwidth(3.214e9), "3.21 GB/s");
        assert_eq!(bandwidth(22_044.0), "22.0 kB/s");
        assert_eq!(bandwidth(f64::NAN), "–");
        assert_eq!(
            ["64 B", "1 KiB", "1.5 MiB", "0 B"],
            [64.0, 1024.0, 1_572_864.0, -1.0].map(size)
        );
        assert_eq!(size(10.0 * 1024.0), "10 KiB");
        assert_eq!(time(5_440_000.4), "5.44 ms");
        assert_eq!(time(f64::NAN), "–");
        let wide = Estimate { value: 1.144, low: 1.119, high: 1.171 };
        assert_eq!(ratio(&wide), ("1.14×".to_owned(), "1.12–1.17".to_owned()));
        let narrow = Estimate { value: 1.0012, low: 0.9961, high: 1.0063 };
        assert_eq!(ratio(&narrow), ("1.001×".to_owned(), "0.996–1.006".to_owned()));
        let unknown = Estimate { value: f64::NAN, low: f64::NAN, high: f64::INFINITY };
        assert_eq!(ratio(&unknown), ("–".to_owned(), "–".to_owned()));
        let unbounded = Estimate { value: 1.5, low: 0.0, high: f64::INFINITY };
        assert_eq!(ratio(&unbounded), ("1.50×".to_owned(), "–".to_owned()));
        let at_least = Estimate { value: 1.5, low: 1.2, high: f64::INFINITY };
        assert_eq!(ratio(&at_least), ("1.50×".to_owned(), "≥ 1.20".to_owned()));
    }

    #[test]
    fn an_estimate_that_is_bounded_on_one_side_says_on_which() {
        const NONE: f64 = f64::NAN;
        for (value, low, high, alone, beside, in_a_cell) in [
            (903e3, 895e3, 911e3, "903 µs", "895–911 µs", "903 µs"),
            (903e3, 895e3, 1.2e6, "903 µs", "895 µs–1.20 ms", "903 µs"),
            (480e6, 410e6, f64::INFINITY, "480 ms", "≥ 410 ms", "480 ms (≥ 410)"),
            (480e6, 0.0, 560e6, "480 ms", "≤ 560 ms", "480 ms (≤ 560)"),
            (1.2e9, 410e6, f64::INFINITY, "1.20 s", "≥ 410 ms", "1.20 s (≥ 410 ms)"),
            (f64::INFINITY, 480e6, f64::INFINITY, "≥ 480 ms", "", "≥ 480 ms"),
            (NONE, 410e6, 560e6, "410–560 ms", "", "410–560 ms"),
            (480e6, 0.0, f64::INFINITY, "480 ms", "", "480 ms"),
            (NONE, NONE, NONE, "–", "", "–"),
        ] {
            let estimate = Estimate { value, low, high };
            assert_eq!(super::value(&estimate, time), alone);
            assert_eq!(interval(&estimate, time).unwrap_or_default(), beside);
            assert_eq!(figure(&estimate, time), in_a_cell);
        }
    }
}
