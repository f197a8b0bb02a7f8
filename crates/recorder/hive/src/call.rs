//! One call of a Thrift service: a message with the request, and one with the response.
//!
//! The arguments of a call are a struct whose field 1 is the request, and its result a struct whose
//! field 0 is the response.

use std::fmt::Display;
use std::io::{Read, Write};

use thrift::TConfiguration;
use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TInputProtocol as _, TMessageIdentifier,
    TMessageType, TOutputProtocol as _,
};

use crate::error::{Fault, first_line};
use crate::stream::{ANSWER_MAX, HiveStream};
use crate::tree::{Fields, Tree, TreeReader, TreeType};

/// Limit on the name in the head of a message, in bytes. The `thrift` crate reserves memory for it
/// before it arrives; all other strings are read by `tree`.
const NAME_MAX: usize = 4096;

/// A field of a struct.
#[derive(Clone, Copy)]
pub(crate) struct FieldName {
    /// Its number, which is all that a message contains.
    pub(crate) id: i16,
    /// Its struct and name, for errors.
    pub(crate) name: &'static str,
}

/// The response in the result of a call.
const RESPONSE: FieldName = FieldName { id: 0, name: "the response" };
/// The text of the struct that is sent instead of a result if a call fails.
const EXCEPTION_MESSAGE: FieldName = FieldName { id: 1, name: "TApplicationException.message" };

/// A struct of a response.
pub(crate) struct ResponseStruct {
    /// The call, for errors.
    pub(crate) call: &'static str,
    fields: Fields,
}

impl ResponseStruct {
    pub(crate) fn new(call: &'static str, fields: Fields) -> ResponseStruct {
        ResponseStruct { call, fields }
    }

    /// Takes the content of a field that may be missing. If several fields have its number, the
    /// last one counts, as for other clients.
    pub(crate) fn optional<T: TreeType>(&mut self, field: FieldName) -> Result<Option<T>, Fault> {
        let Some(at) = self.fields.iter().rposition(|(id, _)| *id == field.id) else {
            return Ok(None);
        };
        let (_, tree) = self.fields.swap_remove(at);
        let found = tree.kind();
        let content = T::content(tree);
        let name = field.name;
        let wrong = || self.wrong(format_args!("{name} has type {found} instead of {}", T::KIND));
        content.ok_or_else(wrong).map(Some)
    }

    /// Takes the content of a field.
    pub(crate) fn required<T: TreeType>(&mut self, field: FieldName) -> Result<T, Fault> {
        let content = self.optional(field)?;
        content.ok_or_else(|| self.wrong(format_args!("{} is missing", field.name)))
    }

    /// Takes a struct in a field.
    pub(crate) fn part(&mut self, field: FieldName) -> Result<ResponseStruct, Fault> {
        Ok(ResponseStruct { call: self.call, fields: self.required(field)? })
    }

    /// The error for a response that is not the expected one.
    pub(crate) fn wrong(&self, what: impl Display) -> Fault {
        unexpected(self.call, what)
    }
}

fn unexpected(call: &str, what: impl Display) -> Fault {
    Fault::Thrift(format!("{call}: {what}"))
}

/// Calls `name` with message number `sequence`, and returns the response.
pub(crate) fn call<S: Read + Write>(
    stream: &mut HiveStream<S>,
    name: &'static str,
    sequence: i32,
    request: Fields,
) -> Result<ResponseStruct, Fault> {
    stream.begin();
    let received =
        send(stream, name, sequence, request).and_then(|()| receive(stream)).map_err(|error| {
            match stream.fault.take() {
                Some(fault) => fault,
                None if stream.is_exhausted() => Fault::Long { call: name, limit: ANSWER_MAX },
                None => unexpected(name, words(error)),
            }
        });
    let (head, fields) = received?;
    let mut content = ResponseStruct::new(name, fields);
    if head.message_type == TMessageType::Exception {
        let message: Option<Vec<u8>> = content.optional(EXCEPTION_MESSAGE)?;
        let message = message.unwrap_or_default();
        let message = first_line(&String::from_utf8_lossy(&message));
        return Err(Fault::Call { call: name, message });
    }
    let expected = TMessageIdentifier::new(name, TMessageType::Reply, sequence);
    if head != expected {
        let message = |head: &TMessageIdentifier| {
            format!("{} {} of {}", head.message_type, head.sequence_number, head.name)
        };
        let (found, expected) = (message(&head), message(&expected));
        return Err(unexpected(name, format_args!("it is {found} instead of {expected}")));
    }
    content.part(RESPONSE)
}

fn send<S: Read + Write>(
    stream: &mut HiveStream<S>,
    name: &str,
    sequence: i32,
    request: Fields,
) -> thrift::Result<()> {
    let mut out = TBinaryOutputProtocol::new(stream, true);
    out.write_message_begin(&TMessageIdentifier::new(name, TMessageType::Call, sequence))?;
    Tree::Struct(vec![(1, Tree::Struct(request))]).write(&mut out)?;
    out.write_message_end()?;
    out.flush()
}

fn receive<S: Read + Write>(
    stream: &mut HiveStream<S>,
) -> thrift::Result<(TMessageIdentifier, Fields)> {
    let limits = TConfiguration::builder()
        .max_message_size(Some(ANSWER_MAX as usize))
        .max_string_size(Some(NAME_MAX))
        .build()?;
    let mut input = TBinaryInputProtocol::with_config(stream, true, limits);
    let head = input.read_message_begin()?;
    let fields = TreeReader::new(&mut input).read_struct()?;
    input.read_message_end()?;
    Ok((head, fields))
}

/// What an error says of its cause; its own words are only its kind.
fn words(error: thrift::Error) -> String {
    match error {
        thrift::Error::Transport(error) => error.message,
        thrift::Error::Protocol(error) => error.message,
        thrift::Error::Application(error) => error.message,
        thrift::Error::User(error) => error.to_string(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::handshake::tests::Script;
    use crate::stream::Packing;

    /// A message of the server.
    pub(crate) fn message(head: &TMessageIdentifier, content: Fields) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = TBinaryOutputProtocol::new(&mut bytes, true);
        out.write_message_begin(head).unwrap();
        Tree::Struct(content).write(&mut out).unwrap();
        bytes
    }

    /// The message with a response.
    pub(crate) fn reply(name: &str, sequence: i32, response: Fields) -> Vec<u8> {
        let head = TMessageIdentifier::new(name, TMessageType::Reply, sequence);
        message(&head, vec![(0, Tree::Struct(response))])
    }

    #[track_caller]
    fn fails(answer: Vec<u8>, text: &str) {
        let mut stream = HiveStream::new(Script::new(answer), Packing::Bare);
        let error = call(&mut stream, "GetInfo", 7, Vec::new()).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_call_is_one_message_there_and_one_back() {
        let answer = reply("GetInfo", 7, vec![(3, Tree::Bool(true))]);
        let mut server = Script::new(answer);
        let mut stream = HiveStream::new(&mut server, Packing::Bare);
        let request = vec![(1, Tree::I32(5))];
        let mut response = call(&mut stream, "GetInfo", 7, request).unwrap();
        let three = FieldName { id: 3, name: "three" };
        assert!(response.required::<bool>(three).unwrap());
        let sent = b"\x80\x01\0\x01\0\0\0\x07GetInfo\0\0\0\x07\x0c\0\x01\x08\0\x01\0\0\0\x05\0\0";
        assert_eq!(server.sent, sent);
    }

    #[test]
    fn a_failed_call_has_the_words_of_the_server() {
        let head = TMessageIdentifier::new("GetInfo", TMessageType::Exception, 7);
        let exception = |content| message(&head, vec![(1, content), (2, Tree::I32(1))]);
        let text = exception(Tree::text("Invalid method\n\tat java.lang"));
        fails(text, "GetInfo failed: Invalid method");
        fails(message(&head, Vec::new()), "GetInfo failed: no reason");
        fails(
            exception(Tree::Bool(true)),
            "the answer is not the expected Thrift message (GetInfo: \
             TApplicationException.message has type bool instead of string)",
        );
    }

    #[test]
    fn the_answer_to_another_call_is_refused() {
        let wrong = |found: &str| {
            format!(
                "the answer is not the expected Thrift message (GetInfo: it is {found} instead of \
                 Reply 7 of GetInfo)"
            )
        };
        fails(reply("GetInfo", 6, Vec::new()), &wrong("Reply 6 of GetInfo"));
        fails(reply("Other", 7, Vec::new()), &wrong("Reply 7 of Other"));
        let head = TMessageIdentifier::new("GetInfo", TMessageType::Call, 7);
        fails(message(&head, Vec::new()), &wrong("Call 7 of GetInfo"));
    }

    #[test]
    fn what_is_wrong_with_a_message_is_said() {
        let wrong =
            |what: &str| format!("the answer is not the expected Thrift message (GetInfo: {what})");
        let head = TMessageIdentifier::new("GetInfo", TMessageType::Reply, 7);
        fails(message(&head, Vec::new()), &wrong("the response is missing"));
        fails(
            message(&head, vec![(0, Tree::I32(1))]),
            &wrong("the response has type i32 instead of struct"),
        );
        fails(b"HTTP/1.1 400".to_vec(), &wrong("received bad version: [72, 84]"));
        let name = b"\x80\x01\0\x02\x7f\xff\xff\xff".to_vec();
        let limit = "Byte array size 2147483647 exceeds maximum allowed size of 4096";
        fails(name, &wrong(limit));
        let bytes = reply("GetInfo", 7, Vec::new());
        fails(bytes[..bytes.len() - 1].to_vec(), "the server closed the connection");
    }

    #[test]
    fn of_fields_with_one_number_the_last_one_counts() {
        let fields = vec![(1, Tree::I32(1)), (1, Tree::I32(2))];
        let mut response = ResponseStruct::new("GetInfo", fields);
        let one = FieldName { id: 1, name: "one" };
        assert_eq!(response.required::<i32>(one).unwrap(), 2);
    }
}
