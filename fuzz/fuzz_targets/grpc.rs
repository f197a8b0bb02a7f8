//! Calls by gRPC: any descriptors and any JSON are a message, or an error that can be shown.
#![no_main]

use grpc::Schema;
use libfuzzer_sys::fuzz_target;
use spec::{CallBodies, Calls, Exchange, HttpRequest, Load};

const SHOP: &[u8] = include_bytes!("../../crates/lab/grpc/tests/shop.binpb");

fuzz_target!(|input: (&[u8], &str)| {
    let (descriptors, body) = input;
    let request = HttpRequest { body: body.into(), ..HttpRequest::default() };
    let method = Some("shop.v1.Orders/Place".to_owned());
    let load = Load {
        exchange: Exchange::Http(request),
        grpc: Some(Calls { method, bodies: CallBodies::Json }),
        ..Load::default()
    };
    // What follows known descriptors replaces or extends their definitions.
    for set in [descriptors.to_vec(), [SHOP, descriptors].concat()] {
        let encoded = Schema::of_set(&set, "fuzz").and_then(|schema| grpc::encode(&load, &schema));
        if let Err(error) = encoded {
            assert!(!error.to_string().is_empty());
        }
    }
});
