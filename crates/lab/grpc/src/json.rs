//! Messages from JSON ("ProtoJSON Format" in the documentation of Protocol Buffers).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

use crate::descriptor::{MessageField, MessageType, kind};
use crate::error::hint;
use crate::schema::Schema;
use crate::well_known::{self, NULL, VALUE};
use crate::wire::{self, WireType};

/// A value that does not fit, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// `items[3].price`
    pub(crate) path: String,
    pub(crate) why: String,
}

impl Misfit {
    pub(crate) fn new(why: impl Into<String>) -> Misfit {
        Misfit { path: String::new(), why: why.into() }
    }

    /// The same inside of a field.
    fn of_field(mut self, name: &str) -> Misfit {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{name}{dot}{}", self.path);
        self
    }

    /// The same inside of an element or the entry of a map.
    fn of_element(self, place: &dyn std::fmt::Display) -> Misfit {
        self.of_field(&format!("[{place}]"))
    }
}

/// Encodes a message.
pub(crate) fn message(schema: &Schema, name: &str, value: &Value) -> Result<Vec<u8>, Misfit> {
    if name == ANY {
        return any(schema, value);
    }
    if let Some(encoded) = well_known::message(name, value) {
        return encoded.map_err(Misfit::new);
    }
    let lacks = || {
        Misfit::new(format!(
            "cannot be encoded: the descriptors lack '{name}'; make them with --include_imports"
        ))
    };
    let known = schema.message(name).ok_or_else(lacks)?;
    let mut out = Vec::new();
    if well_known::is_wrapper(name) {
        for field in &known.fields {
            add_field(schema, field, value, &mut out)?;
        }
        return Ok(out);
    }
    let Value::Object(members) = value else {
        return Err(expected("an object", value));
    };
    add_members(schema, known, members, &mut out)?;
    Ok(out)
}

fn add_members(
    schema: &Schema,
    known: &MessageType,
    members: &Map<String, Value>,
    out: &mut Vec<u8>,
) -> Result<(), Misfit> {
    let names = |field: &MessageField, key: &str| field.json_name == key || field.name == key;
    let is_unknown = |key: &&String| !known.fields.iter().any(|field| names(field, key));
    if let Some(key) = members.keys().find(is_unknown) {
        let all = known.fields.iter().map(|field| field.json_name.as_str());
        let why = format!("is no field of {}; {}", known.name, hint(key, all));
        return Err(Misfit { path: key.clone(), why });
    }
    let mut chosen: BTreeMap<u64, &str> = BTreeMap::new();
    for field in &known.fields {
        let mut given = members.iter().filter(|(key, _)| names(field, key));
        let (first, second) = (given.next(), given.next());
        if let Some((key, _)) = second {
            return Err(Misfit::new("is given under both of its names").of_field(key));
        }
        let Some((key, value)) = first.filter(|(_, value)| !value.is_null() || takes_null(field))
        else {
            if field.is_required {
                return Err(Misfit::new("is required").of_field(&field.json_name));
            }
            continue;
        };
        if let Some(other) = field.alternatives.and_then(|group| chosen.insert(group, key)) {
            return Err(Misfit::new(format!("cannot be set beside '{other}'")).of_field(key));
        }
        add_field(schema, field, value, out).map_err(|misfit| misfit.of_field(key))?;
    }
    Ok(())
}

/// Whether null is a value of the field, and not its absence.
fn takes_null(field: &MessageField) -> bool {
    !field.is_repeated && matches!(field.type_name.as_str(), VALUE | NULL)
}

fn add_field(
    schema: &Schema,
    field: &MessageField,
    value: &Value,
    out: &mut Vec<u8>,
) -> Result<(), Misfit> {
    if !field.is_repeated {
        let content = FieldContent::of(schema, field, value)?;
        if !(field.is_implicit && content.is_default()) {
            content.write(field.number, out);
        }
        return Ok(());
    }
    if let Some(entry) = schema.message(&field.type_name).filter(|entry| entry.is_map_entry) {
        return add_map(schema, field, entry, value, out);
    }
    let Value::Array(elements) = value else {
        return Err(expected("an array", value));
    };
    let mut all = Vec::new();
    for (at, element) in elements.iter().enumerate() {
        let content = FieldContent::of(schema, field, element);
        all.push(content.map_err(|misfit| misfit.of_element(&at))?);
    }
    let is_number =
        !matches!(all.first(), None | Some(FieldContent::Bytes(_) | FieldContent::Group(_)));
    if field.is_packed && is_number {
        let mut packed = Vec::new();
        all.iter().for_each(|content| content.write_bare(&mut packed));
        wire::write_bytes(out, field.number, &packed);
    } else {
        all.iter().for_each(|content| content.write(field.number, out));
    }
    Ok(())
}

fn add_map(
    schema: &Schema,
    field: &MessageField,
    entry: &MessageType,
    value: &Value,
    out: &mut Vec<u8>,
) -> Result<(), Misfit> {
    let (Value::Object(members), [key_field, value_field]) = (value, entry.fields.as_slice())
    else {
        return Err(expected("an object", value));
    };
    for (key, value) in members {
        let entry = || -> Result<Vec<u8>, Misfit> {
            let mut entry = Vec::new();
            let key = match (key_field.kind, key.as_str()) {
                (kind::BOOL, "true") => Value::Bool(true),
                (kind::BOOL, "false") => Value::Bool(false),
                (_, key) => Value::String(key.to_owned()),
            };
            FieldContent::of(schema, key_field, &key)?.write(key_field.number, &mut entry);
            FieldContent::of(schema, value_field, value)?.write(value_field.number, &mut entry);
            Ok(entry)
        };
        let entry = entry().map_err(|misfit| misfit.of_element(&format_args!("{key:?}")))?;
        wire::write_bytes(out, field.number, &entry);
    }
    Ok(())
}

/// The content of a field on the wire.
#[derive(Clone, Debug, PartialEq)]
enum FieldContent {
    Varint(u64),
    Fixed32(u32),
    Fixed64(u64),
    Bytes(Vec<u8>),
    Group(Vec<u8>),
}

impl FieldContent {
    fn of(schema: &Schema, field: &MessageField, value: &Value) -> Result<FieldContent, Misfit> {
        use FieldContent::{Bytes, Fixed32, Fixed64, Group, Varint};
        Ok(match field.kind {
            kind::DOUBLE => Fixed64(float(value)?.to_bits()),
            kind::FLOAT => {
                let number = float(value)?;
                if number.is_finite() && !(number as f32).is_finite() {
                    return Err(Misfit::new(format!("is out of range: {value}")));
                }
                Fixed32((number as f32).to_bits())
            }
            kind::INT32 => Varint(integer::<i32>(value)? as u64),
            kind::INT64 => Varint(integer::<i64>(value)? as u64),
            kind::UINT32 => Varint(integer::<u32>(value)?.into()),
            kind::UINT64 => Varint(integer(value)?),
            kind::SINT32 => Varint(zigzag(integer::<i32>(value)?.into())),
            kind::SINT64 => Varint(zigzag(integer(value)?)),
            kind::FIXED32 => Fixed32(integer(value)?),
            kind::FIXED64 => Fixed64(integer(value)?),
            kind::SFIXED32 => Fixed32(integer::<i32>(value)? as u32),
            kind::SFIXED64 => Fixed64(integer::<i64>(value)? as u64),
            kind::BOOL => match value {
                Value::Bool(value) => Varint((*value).into()),
                _ => return Err(expected("true or false", value)),
            },
            kind::STRING => match value {
                Value::String(text) => Bytes(text.clone().into_bytes()),
                _ => return Err(expected("a string", value)),
            },
            kind::BYTES => Bytes(bytes(value)?),
            kind::ENUM => Varint(member(schema, &field.type_name, value)? as u64),
            kind::MESSAGE => Bytes(message(schema, &field.type_name, value)?),
            kind::GROUP => Group(message(schema, &field.type_name, value)?),
            other => return Err(Misfit::new(format!("has a type that is unknown ({other})"))),
        })
    }

    /// Whether it is what a field without a value means.
    fn is_default(&self) -> bool {
        match self {
            FieldContent::Varint(value) | FieldContent::Fixed64(value) => *value == 0,
            FieldContent::Fixed32(value) => *value == 0,
            FieldContent::Bytes(bytes) => bytes.is_empty(),
            FieldContent::Group(_) => false,
        }
    }

    fn write(&self, number: u32, out: &mut Vec<u8>) {
        let wire_type = match self {
            FieldContent::Varint(_) => WireType::Varint,
            FieldContent::Fixed32(_) => WireType::Fixed32,
            FieldContent::Fixed64(_) => WireType::Fixed64,
            FieldContent::Bytes(_) => WireType::Length,
            FieldContent::Group(_) => WireType::GroupStart,
        };
        wire::write_key(out, number, wire_type);
        self.write_bare(out);
        if matches!(self, FieldContent::Group(_)) {
            wire::write_key(out, number, WireType::GroupEnd);
        }
    }

    fn write_bare(&self, out: &mut Vec<u8>) {
        match self {
            FieldContent::Varint(value) => wire::write_varint(out, *value),
            FieldContent::Fixed32(value) => out.extend_from_slice(&value.to_le_bytes()),
            FieldContent::Fixed64(value) => out.extend_from_slice(&value.to_le_bytes()),
            FieldContent::Bytes(bytes) => {
                wire::write_varint(out, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
            FieldContent::Group(content) => out.extend_from_slice(content),
        }
    }
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// A whole number, also as a string or with an exponent.
fn integer<T: TryFrom<i128>>(value: &Value) -> Result<T, Misfit> {
    let whole = |number: f64| {
        let is_whole = number.fract() == 0.0 && number.abs() < 2.0_f64.powi(65);
        is_whole.then_some(number as i128)
    };
    let number = match value {
        Value::Number(number) => number.as_i128().or_else(|| number.as_f64().and_then(whole)),
        Value::String(text) => text.parse().ok().or_else(|| decimal(text).and_then(whole)),
        _ => None,
    };
    let number = number.ok_or_else(|| expected("a whole number", value))?;
    T::try_from(number).map_err(|_| Misfit::new(format!("is out of range: {number}")))
}

fn float(value: &Value) -> Result<f64, Misfit> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            text => decimal(text),
        },
        _ => None,
    };
    number.ok_or_else(|| expected("a number", value))
}

fn decimal(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    text.parse().ok().filter(|number: &f64| is_plain && number.is_finite())
}

fn bytes(value: &Value) -> Result<Vec<u8>, Misfit> {
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let Value::String(text) = value else {
        return Err(expected("a string of base64", value));
    };
    let standard = text.replace('-', "+").replace('_', "/");
    let decoded = GeneralPurpose::new(&STANDARD, config).decode(standard);
    decoded.map_err(|_| expected("a string of base64", value))
}

/// The number of an enum's value.
fn member(schema: &Schema, name: &str, value: &Value) -> Result<i32, Misfit> {
    let text = match value {
        Value::String(text) => text,
        Value::Null if name == NULL => return Ok(0),
        _ => return integer(value).map_err(|_| expected("the name of a value", value)),
    };
    let lacks = || Misfit::new(format!("cannot be encoded: the descriptors lack '{name}'"));
    let known = schema.enumeration(name).ok_or_else(lacks)?;
    let found = known.values.iter().find(|member| member.name == *text);
    found.map(|member| member.number).ok_or_else(|| {
        let all = known.values.iter().map(|member| member.name.as_str());
        Misfit::new(format!("is no value of {name}: {value}; {}", hint(text, all)))
    })
}

const ANY: &str = "google.protobuf.Any";

/// A message of any type, which is in its `@type`.
fn any(schema: &Schema, value: &Value) -> Result<Vec<u8>, Misfit> {
    let Value::Object(members) = value else {
        return Err(expected("an object", value));
    };
    let Some(Value::String(url)) = members.get("@type") else {
        return match members.is_empty() {
            true => Ok(Vec::new()),
            false => Err(Misfit::new("needs its type in \"@type\"")),
        };
    };
    let name = url.rsplit('/').next().unwrap_or(url);
    let mut inner = members.clone();
    inner.remove("@type");
    let encoded = if name == ANY || well_known::has_own_form(name) {
        message(schema, name, inner.get("value").unwrap_or(&Value::Null))?
    } else {
        message(schema, name, &Value::Object(inner))?
    };
    let mut out = Vec::new();
    wire::write_bytes(&mut out, 1, url.as_bytes());
    if !encoded.is_empty() {
        wire::write_bytes(&mut out, 2, &encoded);
    }
    Ok(out)
}

/// Characters of a wrong value that are shown.
const SHOWN_MAX: usize = 40;

fn expected(what: &str, value: &Value) -> Misfit {
    let mut shown = value.to_string();
    if let Some((end, _)) = shown.char_indices().nth(SHOWN_MAX) {
        shown.truncate(end);
        shown.push('…');
    }
    Misfit::new(format!("must be {what}, not {shown}"))
}

#[cfg(test)]
mod tests;
