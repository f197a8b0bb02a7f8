//! Words of a script as values, and values as words.

use series::Step;

/// `5s`, `1.5h`, `-10us`, or `5` for seconds, in microseconds.
pub(crate) fn time_us(word: &str) -> Result<i64, String> {
    let split = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
    let (number, unit) = word.split_at(split);
    let unit_us = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "" | "s" => 1e6,
        "m" => 60e6,
        "h" => 3_600e6,
        "d" => 86_400e6,
        _ => return Err(format!("'{word}' is not a time")),
    };
    let number: f64 = number.parse().map_err(|_| format!("'{word}' is not a time"))?;
    Ok((number * unit_us).round() as i64)
}

pub(crate) fn step(word: &str) -> Result<Step, String> {
    Step::try_from(time_us(word)?)
}

/// Microseconds in seconds, without trailing zeros.
pub(crate) fn seconds(us: i64) -> String {
    format!("{}s", us as f64 / 1e6)
}

pub(crate) fn number(word: &str) -> Result<f64, String> {
    word.parse().map_err(|_| format!("'{word}' is not a number"))
}

/// A number, or `-` for nothing.
pub(crate) fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// `key=value` options after the fixed words.
pub(crate) fn option<'a>(words: &[&'a str], key: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}
