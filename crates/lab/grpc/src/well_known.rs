//! Messages of `google.protobuf` that JSON writes in a form of its own.

use serde_json::{Map, Value};

use crate::wire::{self, WireType};

pub(crate) const VALUE: &str = "google.protobuf.Value";
pub(crate) const NULL: &str = "google.protobuf.NullValue";
const STRUCT: &str = "google.protobuf.Struct";
const LIST: &str = "google.protobuf.ListValue";
const TIMESTAMP: &str = "google.protobuf.Timestamp";
const DURATION: &str = "google.protobuf.Duration";
const FIELD_MASK: &str = "google.protobuf.FieldMask";

/// Messages of a single value, which JSON writes as that value.
const WRAPPERS: [&str; 9] = [
    "google.protobuf.DoubleValue",
    "google.protobuf.FloatValue",
    "google.protobuf.Int64Value",
    "google.protobuf.UInt64Value",
    "google.protobuf.Int32Value",
    "google.protobuf.UInt32Value",
    "google.protobuf.BoolValue",
    "google.protobuf.StringValue",
    "google.protobuf.BytesValue",
];

pub(crate) fn is_wrapper(name: &str) -> bool {
    WRAPPERS.contains(&name)
}

/// Whether a message of this type is not written as an object of its fields.
pub(crate) fn has_own_form(name: &str) -> bool {
    is_wrapper(name) || [VALUE, STRUCT, LIST, TIMESTAMP, DURATION, FIELD_MASK].contains(&name)
}

/// Encodes a message of one of these types; `None` for others, and for those of a single value.
pub(crate) fn message(name: &str, value: &Value) -> Option<Result<Vec<u8>, String>> {
    let as_text = |what: &str, read: fn(&str) -> Option<Vec<u8>>| match value.as_str().map(read) {
        Some(Some(bytes)) => Ok(bytes),
        _ => Err(format!("must be {what}, not {value}")),
    };
    Some(match (name, value) {
        (TIMESTAMP, _) => as_text("a time such as \"2026-01-31T12:00:00Z\"", timestamp),
        (DURATION, _) => as_text("a duration such as \"1.5s\"", duration),
        (FIELD_MASK, _) => as_text("paths such as \"name,items.price\"", field_mask),
        (VALUE, _) => Ok(any_value(value)),
        (STRUCT, Value::Object(members)) => Ok(structure(members)),
        (STRUCT, _) => Err(format!("must be an object, not {value}")),
        (LIST, Value::Array(elements)) => Ok(list(elements)),
        (LIST, _) => Err(format!("must be an array, not {value}")),
        _ => return None,
    })
}

/// Seconds and nanoseconds.
fn seconds_and_nanos(seconds: i64, nanos: i32) -> Vec<u8> {
    let mut out = Vec::new();
    wire::write_number(&mut out, 1, seconds as u64);
    wire::write_number(&mut out, 2, i64::from(nanos) as u64);
    out
}

/// From the year 1 to 9999 (`timestamp.proto`).
fn timestamp(text: &str) -> Option<Vec<u8>> {
    let all = text.parse::<jiff::Timestamp>().ok()?.as_nanosecond();
    let seconds = i64::try_from(all.div_euclid(1_000_000_000)).ok()?;
    let nanos = all.rem_euclid(1_000_000_000) as i32;
    (seconds >= -62_135_596_800).then(|| seconds_and_nanos(seconds, nanos))
}

/// At most 10,000 years (`duration.proto`).
fn duration(text: &str) -> Option<Vec<u8>> {
    let number = text.strip_suffix('s')?;
    let (sign, number) = match number.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, number),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_plain(whole) || !is_plain(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds = whole.parse::<i64>().ok().filter(|seconds| *seconds <= 315_576_000_000)?;
    let nanos: i32 = format!("{fraction:0<9}").parse().ok()?;
    Some(seconds_and_nanos(sign * seconds, sign as i32 * nanos))
}

/// Paths, separated by commas; names in JSON have capital letters where the others have underscores.
fn field_mask(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for path in text.split(',').filter(|_| !text.is_empty()) {
        let mut name = String::new();
        for letter in path.chars() {
            match letter {
                'A'..='Z' => name.extend(['_', letter.to_ascii_lowercase()]),
                'a'..='z' | '0'..='9' | '.' => name.push(letter),
                _ => return None,
            }
        }
        wire::write_bytes(&mut out, 1, name.as_bytes());
    }
    Some(out)
}

/// Any JSON (`struct.proto`).
fn any_value(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Value::Null => out.extend([1 << 3, 0]),
        Value::Number(number) => {
            wire::write_key(&mut out, 2, WireType::Fixed64);
            out.extend(number.as_f64().unwrap_or(f64::NAN).to_le_bytes());
        }
        Value::String(text) => wire::write_bytes(&mut out, 3, text.as_bytes()),
        Value::Bool(value) => out.extend([4 << 3, u8::from(*value)]),
        Value::Object(members) => wire::write_bytes(&mut out, 5, &structure(members)),
        Value::Array(elements) => wire::write_bytes(&mut out, 6, &list(elements)),
    }
    out
}

fn structure(members: &Map<String, Value>) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in members {
        let mut entry = Vec::new();
        wire::write_bytes(&mut entry, 1, key.as_bytes());
        wire::write_bytes(&mut entry, 2, &any_value(value));
        wire::write_bytes(&mut out, 1, &entry);
    }
    out
}

fn list(elements: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    elements.iter().for_each(|element| wire::write_bytes(&mut out, 1, &any_value(element)));
    out
}
