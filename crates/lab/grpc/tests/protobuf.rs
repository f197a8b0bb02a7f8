//! The peer is the protobuf package of Python: random messages of random types, by a seed, which it
//! writes as JSON and compares with what is made of that, byte for byte in length and field for field.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use base64::Engine as _;
use grpc::Schema;
use spec::{CallBodies, Calls, Exchange, HttpRequest, Load};

const CASES: &str = "150";
const PREFIX_BYTES: usize = 5;

fn python() -> PathBuf {
    let packages = ["protobuf==7.36.2".to_owned()];
    stage::python::ensure_env(&packages, None, &mut |_| ()).unwrap().join("python")
}

fn script(what: &str, seed: u64) -> Command {
    let mut command = Command::new(python());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/protobuf.py");
    command.args([path, what, CASES, &seed.to_string()]);
    command
}

/// The message that a call of `t.v1.S/M` sends.
fn encoded(schema: &Schema, json: &str) -> Vec<u8> {
    let body = json.as_bytes().to_vec();
    let calls = Calls { method: Some("t.v1.S/M".to_owned()), bodies: CallBodies::Json };
    let load = Load {
        exchange: Exchange::Http(HttpRequest { body, ..HttpRequest::default() }),
        grpc: Some(calls),
        ..Load::default()
    };
    let encoded = grpc::encode(&load, schema).unwrap_or_else(|error| panic!("{error}\n{json}"));
    let Exchange::Http(request) = encoded.exchange else { panic!("a request") };
    request.body[PREFIX_BYTES..].to_vec()
}

#[test]
fn messages_are_those_of_protobufs_own_json() {
    for seed in 1..=2 {
        let made = script("make", seed).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut lines = String::new();
        for line in String::from_utf8(made.stdout).unwrap().lines() {
            let (descriptors, json) = line.split_once('\t').unwrap();
            let set = base64::engine::general_purpose::STANDARD.decode(descriptors).unwrap();
            let schema = Schema::of_set(&set, "t.binpb").unwrap();
            let hexadecimal = |byte: &u8| format!("{byte:02x}");
            lines.extend(encoded(&schema, json).iter().map(hexadecimal));
            lines.push('\n');
        }
        let mut check = script("check", seed);
        let mut child = check
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It reads no further than to the first difference.
        let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
        let checked = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&checked.stderr);
        assert_eq!(checked.stdout, b"all equal\n", "seed {seed}: {said}");
    }
}
