//! One call of a Thrift service: a message with the request, and one with the response.
//!
//! In Thrift's binary protocol, the arguments of a call are a struct whose field 1 is the request,
//! and its result a struct whose field 0 is the response.

use std::io::{Read, Write};

use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TFieldIdentifier, TInputProtocol as _,
    TMessageIdentifier, TMessageType, TOutputProtocol as _, TSerializable, TStructIdentifier,
    TType,
};
use thrift::{ProtocolErrorKind, TConfiguration};

use crate::error::{Fault, first_line};
use crate::link::{ANSWER_MAX, Link};

/// Calls `name` with message number `sequence`.
pub(crate) fn call<S: Read + Write, A: TSerializable>(
    link: &mut Link<S>,
    name: &'static str,
    sequence: i32,
    request: &impl TSerializable,
) -> Result<A, Fault> {
    link.begin();
    let result = send(link, name, sequence, request).and_then(|()| receive(link, name, sequence));
    result.map_err(|error| match link.fault.take() {
        Some(fault) => fault,
        None if link.is_exhausted() => Fault::Long { call: name, limit: ANSWER_MAX },
        None => fault(name, error),
    })
}

fn fault(name: &'static str, error: thrift::Error) -> Fault {
    match error {
        thrift::Error::Application(error) => {
            Fault::Call { call: name, message: first_line(&error.message) }
        }
        other => Fault::Thrift(format!("{name}: {other}")),
    }
}

fn send<S: Read + Write>(
    link: &mut Link<S>,
    name: &str,
    sequence: i32,
    request: &impl TSerializable,
) -> thrift::Result<()> {
    let mut out = TBinaryOutputProtocol::new(link, true);
    out.write_message_begin(&TMessageIdentifier::new(name, TMessageType::Call, sequence))?;
    out.write_struct_begin(&TStructIdentifier::new("args"))?;
    out.write_field_begin(&TFieldIdentifier::new("req", TType::Struct, 1))?;
    request.write_to_out_protocol(&mut out)?;
    out.write_field_end()?;
    out.write_field_stop()?;
    out.write_struct_end()?;
    out.write_message_end()?;
    out.flush()
}

fn receive<S: Read + Write, A: TSerializable>(
    link: &mut Link<S>,
    name: &str,
    sequence: i32,
) -> thrift::Result<A> {
    let limit = Some(ANSWER_MAX as usize);
    let limits =
        TConfiguration::builder().max_message_size(limit).max_string_size(limit).build()?;
    let mut input = TBinaryInputProtocol::with_config(link, true, limits);
    let message = input.read_message_begin()?;
    if message.message_type == TMessageType::Exception {
        let error = thrift::Error::read_application_error_from_in_protocol(&mut input)?;
        input.read_message_end()?;
        return Err(thrift::Error::Application(error));
    }
    thrift::protocol::verify_expected_sequence_number(sequence, message.sequence_number)?;
    thrift::protocol::verify_expected_service_call(name, &message.name)?;
    thrift::protocol::verify_expected_message_type(TMessageType::Reply, message.message_type)?;
    let mut response = None;
    input.read_struct_begin()?;
    loop {
        let field = input.read_field_begin()?;
        match (field.field_type, field.id) {
            (TType::Stop, _) => break,
            (TType::Struct, Some(0)) => response = Some(A::read_from_in_protocol(&mut input)?),
            (other, _) => input.skip(other)?,
        }
        input.read_field_end()?;
    }
    input.read_struct_end()?;
    input.read_message_end()?;
    response.ok_or_else(|| {
        let message = "the response is missing".to_owned();
        thrift::ProtocolError::new(ProtocolErrorKind::InvalidData, message).into()
    })
}
