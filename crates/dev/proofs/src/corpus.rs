//! The corpus of influxdata/line-protocol (`lineprotocol/testdata/corpus.json`), read by our parser
//! and compared with the results of its own decoder.

use std::collections::BTreeMap;

use formats::text::{Influx, Reader};
use formats::{Arrival, Lines, Precision, UpdateContent};
use serde_json::Value;
use series::{Kind, Limits};

/// Number of inputs by outcome, with an example of each.
pub type Outcomes = BTreeMap<String, (u64, String)>;

/// The numbers of an input, by series and microsecond.
type Numbers = BTreeMap<(Vec<Vec<u8>>, i64), f64>;

/// Reads every input of a corpus.
///
/// # Errors
/// A message about a file that is not such a corpus.
pub fn compare(corpus: &str) -> Result<Outcomes, String> {
    let corpus: Value = serde_json::from_str(corpus).map_err(|error| error.to_string())?;
    let inputs = corpus["decode"].as_object().ok_or("it has no inputs under \"decode\"")?;
    let mut outcomes = Outcomes::new();
    for case in inputs.values() {
        let (input, output) = (&case["input"], &case["output"]);
        let text = bytes(&input["text"]).ok_or("an input has no text")?;
        let outcome = outcome(&text, input, output)?;
        let example = || String::from_utf8_lossy(&text).into_owned();
        outcomes.entry(outcome).or_insert_with(|| (0, example())).0 += 1;
    }
    Ok(outcomes)
}

fn outcome(text: &[u8], input: &Value, output: &Value) -> Result<String, String> {
    let precision = match input["precision"].as_str() {
        Some("1s") => Precision::Seconds,
        Some("1ms") => Precision::Milliseconds,
        Some("1µs") => Precision::Microseconds,
        _ => Precision::Nanoseconds,
    };
    let now_us = input["defaultTime"].as_i64().unwrap_or(0) / 1_000;
    let (numbers, reasons) = read(text, precision, now_us)?;
    if output["error"].is_string() {
        let outcome = match (reasons.is_empty(), numbers.is_empty()) {
            (false, _) => "both refuse",
            (true, true) => "the decoder refuses, and tachograph finds nothing to take",
            (true, false) => "only the decoder refuses",
        };
        return Ok(outcome.to_owned());
    }
    if !reasons.is_empty() {
        return Ok(format!("only tachograph refuses: {}", reasons.join(", ")));
    }
    let (wanted, texts) = decoded(output).ok_or("an output cannot be read")?;
    let outcome = match (numbers == wanted, texts) {
        (true, false) => "the same",
        (true, true) => "the same numbers; texts left out",
        (false, _) if numbers.values().eq(wanted.values()) => "another default time",
        (false, _) => "other numbers",
    };
    Ok(outcome.to_owned())
}

/// The results of our parser: numbers, and the distinct reasons.
fn read(
    text: &[u8],
    precision: Precision,
    now_us: i64,
) -> Result<(Numbers, Vec<&'static str>), String> {
    let limits = Limits { future_us: i64::MAX, ..Limits::DEFAULT };
    let mut reader = Reader::new(Box::new(Influx::new(Kind::Gauge, precision)), limits, 1_000);
    let mut lines = Lines::quoted(text, reader.quotes(), true);
    let (mut numbers, mut reasons) = (Numbers::new(), Vec::new());
    let arrival = Arrival { now_us, at_us: Some(now_us) };
    while let Some(line) = lines.next().map_err(|error| error.to_string())? {
        let parsed = reader.line(line, arrival).map_err(|error| error.to_string())?.clone();
        for (series, update) in &parsed.updates {
            let UpdateContent::Point(point) = update.what else { continue };
            let name = reader.book().name(*series);
            let tags = name.tags().iter().map(|(key, value)| (key.as_str(), value.as_str()));
            let key = key(name.measurement(), name.field(), tags);
            numbers.insert((key, point.at_us), point.reading.as_f64());
        }
        reasons.extend(parsed.reasons.iter().map(|reason| reason.name()));
    }
    reasons.sort_unstable();
    reasons.dedup();
    Ok((numbers, reasons))
}

fn key<T: AsRef<[u8]>>(
    measurement: T,
    field: T,
    tags: impl Iterator<Item = (T, T)>,
) -> Vec<Vec<u8>> {
    let mut tags: Vec<[Vec<u8>; 2]> =
        tags.map(|(key, value)| [key.as_ref().to_vec(), value.as_ref().to_vec()]).collect();
    tags.sort();
    let names = [measurement.as_ref().to_vec(), field.as_ref().to_vec()];
    names.into_iter().chain(tags.into_iter().flatten()).collect()
}

/// The results in the corpus: numbers, and whether there were texts as well.
fn decoded(output: &Value) -> Option<(Numbers, bool)> {
    let (mut numbers, mut texts) = (Numbers::new(), false);
    for point in output["result"].as_array().into_iter().flatten() {
        let at_us = point["time"].as_i64()?.div_euclid(1_000);
        let pairs = point["tags"].as_array().into_iter().flatten();
        let tags: Option<Vec<_>> =
            pairs.map(|tag| bytes(&tag["key"]).zip(bytes(&tag["value"]))).collect();
        let tags = tags?;
        for field in point["fields"].as_array().into_iter().flatten() {
            let (form, value) = field["value"].as_object()?.iter().next()?;
            let number = match form.as_str() {
                "bool" => f64::from(u8::from(value.as_bool()?)),
                "float" | "int" | "uint" => value.as_f64()?,
                _ => {
                    texts = true;
                    continue;
                }
            };
            let key = key(bytes(&point["name"])?, bytes(&field["key"])?, tags.iter().cloned());
            numbers.insert((key, at_us), number);
        }
    }
    Some((numbers, texts))
}

/// A text of the corpus: literal, or in Base64 if it is not UTF-8.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value.as_str() {
        Some(text) => Some(text.as_bytes().to_vec()),
        None => from_base64(value["binary"].as_str()?),
    }
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A corpus in the form of the real one, with our own inputs.
    const CORPUS: &str = r#"{"decode": {
        "1": {"input": {"text": "a,t=1 v=2i,w=\"x\" 3000", "precision": "1ns", "defaultTime": 0},
              "output": {"result": [{"time": 3000, "name": "a", "tags": [{"key": "t", "value": "1"}],
                "fields": [{"key": "v", "value": {"int": 2}}, {"key": "w", "value": {"string": "x"}}]}]}},
        "2": {"input": {"text": "a v", "precision": "1s", "defaultTime": 0}, "output": {"error": "no value"}},
        "3": {"input": {"text": {"binary": "YSB2PTE="}, "precision": "1ns", "defaultTime": 5000},
              "output": {"result": [{"time": 5000, "name": {"binary": "YQ=="},
                "fields": [{"key": "v", "value": {"float": 1}}]}]}},
        "4": {"input": {"text": "a v=1 5", "precision": "1s", "defaultTime": 0},
              "output": {"result": [{"time": 5000000000, "name": "a",
                "fields": [{"key": "v", "value": {"float": 7}}]}]}}
    }}"#;

    #[test]
    fn inputs_are_classified_by_the_results_of_both_decoders() {
        let outcomes = compare(CORPUS).unwrap_or_else(|what| panic!("{what}"));
        let counts: Vec<(&str, u64)> =
            outcomes.iter().map(|(outcome, (count, _))| (outcome.as_str(), *count)).collect();
        let wanted = [
            ("both refuse", 1),
            ("other numbers", 1),
            ("the same", 1),
            ("the same numbers; texts left out", 1),
        ];
        assert_eq!(counts, wanted);
        assert!(compare("{}").is_err());
    }
}
