//! Methods that can be called, and questions to a server that answers them from a file.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use std::collections::BTreeSet;

use grpc::reflection::{Inquiry, Question};
use grpc::{GrpcError, Schema};
use spec::{CallBodies, Calls, Exchange, HttpRequest, Load};

const SHOP: &[u8] = include_bytes!("shop.binpb");

fn call(method: &str, body: &str) -> Load {
    let request = HttpRequest { body: body.into(), ..HttpRequest::default() };
    let calls = Calls { method: Some(method.to_owned()), bodies: CallBodies::Json };
    Load { exchange: Exchange::Http(request), grpc: Some(calls), ..Load::default() }
}

fn refusal(method: &str, body: &str) -> String {
    let schema = Schema::of_set(SHOP, "shop.binpb").unwrap();
    grpc::encode(&call(method, body), &schema).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_called_is_refused_with_what_can() {
    for (method, body, wanted) in [
        (
            "shop.v1.Order/Place",
            "",
            "shop.binpb has no service 'shop.v1.Order'; did you mean 'shop.v1.Orders'?",
        ),
        (
            "a.B/Place",
            "",
            "shop.binpb has no service 'a.B'; there are: shop.v1.Orders, shop.v1.Stock",
        ),
        (
            "shop.v1.Orders/place",
            "",
            "the service 'shop.v1.Orders' has no method 'place'; did you mean 'Place'?",
        ),
        (
            "shop.v1.Orders/Watch",
            "",
            "'shop.v1.Orders/Watch' is a streaming method; only unary methods can be called",
        ),
        (
            "shop.v1.Orders/PlaceAll",
            "",
            "'shop.v1.Orders/PlaceAll' is a streaming method; only unary methods can be called",
        ),
        (
            "shop.v1.Orders/Place",
            "{",
            "the body of a call of 'shop.v1.Orders/Place' is not JSON: EOF while parsing an object at line 1 column 1; an encoded message needs --binary",
        ),
        (
            "shop.v1.Orders/Place",
            "{\"items\": [1]}",
            "the body of a call of 'shop.v1.Orders/Place' is not a shop.v1.Order: 'items[0]' must be an object, not 1",
        ),
        (
            "shop.v1.Orders/Place",
            "3",
            "the body of a call of 'shop.v1.Orders/Place' is not a shop.v1.Order: must be an object, not 3",
        ),
    ] {
        assert_eq!(refusal(method, body), wanted);
    }
    for wrong in [&b""[..], b"\x0a\x05abc", b"syntax = \"proto3\";", b"\x12\x00"] {
        let refused = Schema::of_set(wrong, "x.proto").unwrap_err();
        assert_eq!(refused, GrpcError::NotDescriptors { path: "x.proto".to_owned() });
    }
}

/// The content of field 1 of each descriptor, and the descriptor.
fn files() -> Vec<(String, Vec<u8>)> {
    let (mut rest, mut files) = (SHOP, Vec::new());
    while let [0x0a, low, high, content @ ..] = rest {
        let (length, content) = match *low < 0x80 {
            true => (usize::from(*low), &rest[2..]),
            false => (usize::from(low & 0x7f) | usize::from(*high) << 7, content),
        };
        let (file, after) = content.split_at(length);
        let name = String::from_utf8(file[2..][..usize::from(file[1])].to_vec()).unwrap();
        files.push((name, file.to_vec()));
        rest = after;
    }
    files
}

/// A field of bytes of less than 16 KiB.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len() as u16;
    let head = [number << 3 | 2, (length & 0x7f) as u8 | 0x80, (length >> 7) as u8];
    [&head[..], content].concat()
}

/// What a server answers that describes one file at a time.
fn answer(question: &Question) -> Vec<u8> {
    let wanted = match question {
        Question::Service(name) if name.starts_with("shop.v1.") => "shop.proto",
        Question::File(name) => name.as_str(),
        Question::Services => {
            let service = |name: &str| field(1, &field(1, name.as_bytes()));
            return field(6, &[service("shop.v1.Orders"), service("shop.v1.Stock")].concat());
        }
        Question::Service(_) => "",
    };
    match files().into_iter().find(|(name, _)| name == wanted) {
        Some((_, file)) => field(4, &field(1, &file)),
        None => field(7, &[&[0x08, 5][..], &field(2, b"not found")].concat()),
    }
}

fn inquire(service: &str) -> Result<(Schema, Vec<String>), GrpcError> {
    let mut inquiry = Inquiry::new("the server", BTreeSet::from([service.to_owned()]));
    let mut asked = Vec::new();
    loop {
        let questions = inquiry.questions();
        if questions.is_empty() {
            return Ok((inquiry.into_schema(), asked));
        }
        for question in questions {
            inquiry.answer(&question, &answer(&question))?;
            asked.push(format!("{question:?}"));
        }
    }
}

#[test]
fn a_server_is_asked_for_the_service_and_then_for_what_its_file_imports() {
    let (schema, asked) = inquire("shop.v1.Orders").unwrap();
    let wanted = ["Service(\"shop.v1.Orders\")", "File(\"google/protobuf/timestamp.proto\")"];
    assert_eq!(asked, wanted);
    let load = call("shop.v1.Orders/Place", "{\"due\": \"1970-01-01T00:00:01Z\"}");
    let encoded = grpc::encode(&load, &schema).unwrap();
    let Exchange::Http(request) = &encoded.exchange else { panic!("a request") };
    assert_eq!(request.body, b"\0\0\0\0\x04\x1a\x02\x08\x01");
    assert_eq!(encoded.grpc.map(|calls| calls.bodies), Some(CallBodies::Encoded));
}

#[test]
fn a_service_that_the_server_does_not_know_is_named_with_those_that_it_does() {
    let refused = inquire("shop.v2.Orders").unwrap_err().to_string();
    assert_eq!(
        refused,
        "the server has no service 'shop.v2.Orders'; did you mean 'shop.v1.Orders'?"
    );
    let mut inquiry = Inquiry::new("the server", BTreeSet::from(["a.B".to_owned()]));
    let garbage = inquiry.answer(&Question::Service("a.B".to_owned()), b"\xff").unwrap_err();
    assert_eq!(
        garbage.to_string(),
        "the server cannot describe its services: its answer cannot be read; use --protoset FILE \
         instead"
    );
}

#[test]
fn no_descriptors_and_no_json_make_it_panic() {
    let body = "{\"buyer\": \"a\", \"items\": [{\"tags\": {\"x\": true}}], \"due\": \"1970-01-01T00:00:01Z\"}";
    let load = call("shop.v1.Orders/Place", body);
    for at in 0..SHOP.len() {
        // Cut off, and with each of a few bytes in the place of another.
        let changed = [0, 1, SHOP[at] ^ 1, SHOP[at].wrapping_add(1), 0x80, 0xff].map(|byte| {
            let mut changed = SHOP.to_vec();
            changed[at] = byte;
            changed
        });
        for bytes in changed.iter().map(Vec::as_slice).chain([&SHOP[..at]]) {
            if let Ok(schema) = Schema::of_set(bytes, "changed") {
                let _ = grpc::encode(&load, &schema);
            }
        }
    }
    let schema = Schema::of_set(SHOP, "shop.binpb").unwrap();
    for at in 0..body.len() {
        for byte in ["", "\"", "{", "0", "null", "-1e999", "[[["] {
            let changed = format!("{}{byte}{}", &body[..at], &body[at + 1..]);
            let _ = grpc::encode(&call("shop.v1.Orders/Place", &changed), &schema);
        }
    }
}
