//! Descriptors of files, as protoc and buf write them and servers send them.
//!
//! The numbers of fields are those of `google/protobuf/descriptor.proto`. What is not needed to write a
//! message is not read.

use crate::wire::{self, WireValue};

/// Messages in messages, at most.
const DEPTH_MAX: u32 = 100;

/// A file of definitions.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileDescriptor {
    pub(crate) name: String,
    pub(crate) imports: Vec<String>,
    /// Messages at every depth, with their full names.
    pub(crate) messages: Vec<MessageType>,
    pub(crate) enums: Vec<EnumType>,
    pub(crate) services: Vec<ServiceType>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct MessageType {
    /// The full name, without a leading dot.
    pub(crate) name: String,
    /// By number.
    pub(crate) fields: Vec<MessageField>,
    /// Whether it is an entry of a map: key and value.
    pub(crate) is_map_entry: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct MessageField {
    pub(crate) name: String,
    pub(crate) json_name: String,
    pub(crate) number: u32,
    pub(crate) is_repeated: bool,
    pub(crate) is_required: bool,
    /// Whether the default is not written.
    pub(crate) is_implicit: bool,
    pub(crate) is_packed: bool,
    /// One of `FieldDescriptorProto.Type`.
    pub(crate) kind: u64,
    /// The full name of its type, if that is a message or an enum.
    pub(crate) type_name: String,
    /// The number of its group of alternatives.
    pub(crate) alternatives: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct EnumType {
    pub(crate) name: String,
    pub(crate) values: Vec<EnumMember>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct EnumMember {
    pub(crate) name: String,
    pub(crate) number: i32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceType {
    pub(crate) name: String,
    pub(crate) methods: Vec<ServiceMethod>,
}

/// A method of a service.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceMethod {
    pub(crate) name: String,
    /// The full name of the request's message.
    pub(crate) input: String,
    pub(crate) client_streams: bool,
    pub(crate) server_streams: bool,
}

/// `FieldDescriptorProto.Type`.
pub(crate) mod kind {
    pub(crate) const DOUBLE: u64 = 1;
    pub(crate) const FLOAT: u64 = 2;
    pub(crate) const INT64: u64 = 3;
    pub(crate) const UINT64: u64 = 4;
    pub(crate) const INT32: u64 = 5;
    pub(crate) const FIXED64: u64 = 6;
    pub(crate) const FIXED32: u64 = 7;
    pub(crate) const BOOL: u64 = 8;
    pub(crate) const STRING: u64 = 9;
    pub(crate) const GROUP: u64 = 10;
    pub(crate) const MESSAGE: u64 = 11;
    pub(crate) const BYTES: u64 = 12;
    pub(crate) const UINT32: u64 = 13;
    pub(crate) const ENUM: u64 = 14;
    pub(crate) const SFIXED32: u64 = 15;
    pub(crate) const SFIXED64: u64 = 16;
    pub(crate) const SINT32: u64 = 17;
    pub(crate) const SINT64: u64 = 18;
}

/// What a file, or a field, says about its encoding (`FeatureSet`, of editions); 0 if nothing.
#[derive(Clone, Copy, Debug, Default)]
struct FeatureSet {
    presence: u64,
    repeated: u64,
    messages: u64,
}

impl FeatureSet {
    /// `FieldPresence.LEGACY_REQUIRED`, `FieldPresence.IMPLICIT`, `RepeatedFieldEncoding.EXPANDED`, `MessageEncoding.DELIMITED`.
    const REQUIRED: u64 = 3;
    const IMPLICIT: u64 = 2;
    const EXPANDED: u64 = 2;
    const DELIMITED: u64 = 2;

    fn read(&mut self, bytes: &[u8]) -> Option<()> {
        wire::read(bytes, |number, value| {
            let place = match number {
                1 => &mut self.presence,
                3 => &mut self.repeated,
                5 => &mut self.messages,
                _ => return Some(()),
            };
            *place = value.number()?;
            Some(())
        })
    }
}

/// The files of a `FileDescriptorSet`; `None` if the bytes are not one.
pub(crate) fn files(set: &[u8]) -> Option<Vec<FileDescriptor>> {
    let mut files = Vec::new();
    wire::read(set, |number, value| {
        if number == 1 {
            files.push(FileDescriptor::read(value.bytes()?)?);
        }
        Some(())
    })?;
    Some(files)
}

impl FileDescriptor {
    /// Reads a `FileDescriptorProto`; `None` if the bytes are not one.
    pub(crate) fn read(bytes: &[u8]) -> Option<FileDescriptor> {
        let mut file = FileDescriptor::default();
        let (mut package, mut syntax, mut features) =
            (String::new(), String::new(), FeatureSet::default());
        // Definitions depend on what comes after them.
        let (mut messages, mut enums, mut services) = (Vec::new(), Vec::new(), Vec::new());
        wire::read(bytes, |number, value| {
            match number {
                1 => file.name = value.text()?,
                2 => package = value.text()?,
                3 => file.imports.push(value.text()?),
                4 => messages.push(value.bytes()?),
                5 => enums.push(value.bytes()?),
                6 => services.push(value.bytes()?),
                8 => wire::read(value.bytes()?, |number, value| match number {
                    50 => features.read(value.bytes()?),
                    _ => Some(()),
                })?,
                12 => syntax = value.text()?,
                _ => {}
            }
            Some(())
        })?;
        if syntax == "proto3" {
            features.presence = FeatureSet::IMPLICIT;
        } else if syntax.is_empty() || syntax == "proto2" {
            features.repeated = FeatureSet::EXPANDED;
        }
        messages.iter().try_for_each(|bytes| file.add_message(&package, bytes, features, 0))?;
        enums.iter().try_for_each(|bytes| file.add_enum(&package, bytes))?;
        services.iter().try_for_each(|bytes| file.add_service(&package, bytes))?;
        Some(file)
    }

    /// Adds a message in `depth` others.
    fn add_message(
        &mut self,
        scope: &str,
        bytes: &[u8],
        mut features: FeatureSet,
        depth: u32,
    ) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        let mut message = MessageType::default();
        let (mut fields, mut nested, mut enums) = (Vec::new(), Vec::new(), Vec::new());
        wire::read(bytes, |number, value| {
            match number {
                1 => message.name = full(scope, &value.text()?),
                2 => fields.push(value.bytes()?),
                3 => nested.push(value.bytes()?),
                4 => enums.push(value.bytes()?),
                7 => wire::read(value.bytes()?, |number, value| {
                    if number == 7 {
                        message.is_map_entry = value.number()? != 0;
                    }
                    Some(())
                })?,
                _ => {}
            }
            Some(())
        })?;
        if message.is_map_entry {
            // Their values are never delimited, whatever their file says.
            features.messages = 0;
        }
        for bytes in fields {
            message.fields.push(field(bytes, features)?);
        }
        message.fields.sort_by_key(|field| field.number);
        let scope = message.name.clone();
        self.messages.push(message);
        nested.iter().try_for_each(|bytes| self.add_message(&scope, bytes, features, depth + 1))?;
        enums.iter().try_for_each(|bytes| self.add_enum(&scope, bytes))
    }

    fn add_enum(&mut self, scope: &str, bytes: &[u8]) -> Option<()> {
        let mut all = EnumType::default();
        wire::read(bytes, |number, value| {
            match number {
                1 => all.name = full(scope, &value.text()?),
                2 => {
                    let mut member = EnumMember::default();
                    wire::read(value.bytes()?, |number, value| {
                        match number {
                            1 => member.name = value.text()?,
                            2 => member.number = value.number()? as i32,
                            _ => {}
                        }
                        Some(())
                    })?;
                    all.values.push(member);
                }
                _ => {}
            }
            Some(())
        })?;
        self.enums.push(all);
        Some(())
    }

    fn add_service(&mut self, scope: &str, bytes: &[u8]) -> Option<()> {
        let mut service = ServiceType::default();
        wire::read(bytes, |number, value| {
            match number {
                1 => service.name = full(scope, &value.text()?),
                2 => service.methods.push(method(value.bytes()?)?),
                _ => {}
            }
            Some(())
        })?;
        self.services.push(service);
        Some(())
    }
}

fn method(bytes: &[u8]) -> Option<ServiceMethod> {
    let mut method = ServiceMethod::default();
    wire::read(bytes, |number, value| {
        match number {
            1 => method.name = value.text()?,
            2 => method.input = without_dot(value)?,
            5 => method.client_streams = value.number()? != 0,
            6 => method.server_streams = value.number()? != 0,
            _ => {}
        }
        Some(())
    })?;
    Some(method)
}

fn field(bytes: &[u8], mut features: FeatureSet) -> Option<MessageField> {
    let mut field = MessageField::default();
    let (mut packed, mut is_optional) = (None, false);
    wire::read(bytes, |number, value| {
        match number {
            1 => field.name = value.text()?,
            3 => field.number = u32::try_from(value.number()?).ok()?,
            4 => {
                let label = value.number()?;
                (field.is_required, field.is_repeated) = (label == 2, label == 3);
            }
            5 => field.kind = value.number()?,
            6 => field.type_name = without_dot(value)?,
            8 => wire::read(value.bytes()?, |number, value| {
                match number {
                    2 => packed = Some(value.number()? != 0),
                    21 => features.read(value.bytes()?)?,
                    _ => {}
                }
                Some(())
            })?,
            9 => field.alternatives = Some(value.number()?),
            10 => field.json_name = value.text()?,
            17 => is_optional = value.number()? != 0,
            _ => {}
        }
        Some(())
    })?;
    field.is_required |= features.presence == FeatureSet::REQUIRED;
    if field.json_name.is_empty() {
        field.json_name = camel_case(&field.name);
    }
    let is_plain = !matches!(field.kind, kind::MESSAGE | kind::GROUP) && !field.is_repeated;
    field.is_implicit = is_plain
        && features.presence == FeatureSet::IMPLICIT
        && !is_optional
        && field.alternatives.is_none();
    field.is_packed = packed.unwrap_or(features.repeated != FeatureSet::EXPANDED);
    if field.kind == kind::MESSAGE && features.messages == FeatureSet::DELIMITED {
        field.kind = kind::GROUP;
    }
    Some(field)
}

fn without_dot(value: WireValue<'_>) -> Option<String> {
    Some(value.text()?.trim_start_matches('.').to_owned())
}

fn full(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

/// The name in JSON of a field whose descriptor does not say it (`ToJsonName` of protoc): without
/// underscores, and with capital letters where they were.
pub(crate) fn camel_case(name: &str) -> String {
    let mut out = String::new();
    let mut is_next_capital = false;
    for letter in name.chars() {
        if letter == '_' {
            is_next_capital = true;
        } else if std::mem::take(&mut is_next_capital) {
            out.push(letter.to_ascii_uppercase());
        } else {
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_json() {
        for (name, wanted) in [
            ("name", "name"),
            ("first_name", "firstName"),
            ("a__b_1c", "aB1c"),
            ("_lead", "Lead"),
            ("Upper_x", "UpperX"),
        ] {
            assert_eq!(camel_case(name), wanted);
        }
    }
}
