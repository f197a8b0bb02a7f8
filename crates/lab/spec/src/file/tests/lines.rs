//! Messages of lines: what is read, and what is refused with its position.

use base::Nanos;

use super::*;
use crate::load::{Exchange, Lines};

/// An experiment with one variant, whose target is in line 2, column 35, and a `[load]` that begins
/// in line 7.
fn raw(target: &str, more: &str, load: &str) -> String {
    let variant =
        format!("{{ name = \"a\", target = \"{target}\", process = {{ command = \"a\" }}{more} }}");
    format!("\nvariant = [{variant}]\n{HEAD}[load]\n{load}")
}

const COUNTED: &str = r#", served_by = { url = "http://h:1/", pattern = 'n (\d+)', discarded = 'd (\d+)', per_request = 3 }"#;

#[test]
fn a_message_of_lines_has_a_length_that_is_known_beforehand() {
    let load =
        "exchange = \"lines\"\nlines = 3\nseries = 70\nprefix = \"a.b-c\"\ninterval = \"10s\"\n";
    let variant = &plan(&raw("udp://127.0.0.1:$PORT", COUNTED, load)).parts[0].variants[0];
    let interval = Nanos::from_secs(10);
    let lines = Lines { per_message: 3, series: 70, prefix: "a.b-c".to_owned(), interval };
    assert_eq!(variant.load.exchange, Exchange::Lines(lines.clone()));
    assert_eq!(lines.line_bytes(), "a.b-c.000069 12.3 1800000000\n".len());
    assert_eq!(lines.message_bytes(), 87);
    let Some(ServedBy::Http { discarded, per_request, .. }) = &variant.served_by else {
        panic!("{:?}", variant.served_by);
    };
    assert_eq!((discarded.as_deref(), *per_request), (Some(r"d (\d+)"), 3));
    for target in ["tcp://h:1", "unix:$SOCKET"] {
        plan(&raw(target, "", "exchange = \"lines\"\n"));
    }
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let lines = |more: &str| format!("exchange = \"lines\"\n{more}\n");
    let refused = |load: &str| refusal(&raw("tcp://h:1", "", load));
    for (more, message, column) in [
        ("lines = 0", "lines must be at least 1: the number of lines in a message", 9),
        ("series = 0", "series must be at least 1, one per thread", 10),
        (
            "prefix = \"a b\"",
            "prefix must be letters, digits, '.', '-' and '_', such as \"load\"",
            10,
        ),
        ("interval = \"500ms\"", "interval must be whole seconds, from \"1s\" to \"20h\"", 12),
        (
            "lines = 3000",
            "3000 lines of 28 bytes are more than fit into a datagram (65507 bytes)",
            9,
        ),
        ("engine = \"io-uring\"", "exchange = \"lines\" needs engine = \"epoll\"", 10),
        (
            "new_connection = true",
            "exchange = \"lines\" sends many messages over each connection",
            18,
        ),
        (
            "expect_length = 1",
            "exchange = \"lines\" has no response, so expect_length has no meaning",
            17,
        ),
        ("size = 5", "size belongs to exchange = \"echo\"", 8),
    ] {
        assert_eq!(refused(&lines(more)), (message.to_owned(), 9, column, String::new()));
    }
    assert_eq!(
        refused("exchange = \"bulk\"\nchunk = 1\nprefix = \"a\"\n"),
        ("prefix belongs to exchange = \"lines\"".to_owned(), 10, 10, String::new())
    );
}

#[test]
fn a_target_that_cannot_carry_lines_or_lose_them_unnoticed_is_refused() {
    let at_target = |message: &str, help: &str| (message.to_owned(), 2, 35, help.to_owned());
    let lines = "exchange = \"lines\"\n";
    assert_eq!(
        refusal(&raw("http://h:1/", "", lines)),
        at_target(
            "an http:// target supports only exchange = \"http\"",
            "for raw bytes write tcp://host:port or unix:/path/to.sock"
        )
    );
    for load in ["", "exchange = \"echo\"\nsize = 1\n"] {
        assert_eq!(
            refusal(&raw("udp://h:1", "", load)),
            at_target(
                "a udp:// target supports only exchange = \"lines\"",
                "set exchange = \"lines\" in [load], or write tcp://host:port"
            )
        );
    }
    assert_eq!(
        refusal(&raw("unix-seqpacket:$SOCKET", "", lines)),
        at_target(
            "sockets of this kind do not support exchange = \"lines\"",
            "write tcp://host:port, udp://host:port, unix:/path or unix-dgram:/path"
        )
    );
    let uncounted = |target: &str, by: &str| {
        let (message, line, column, _) = refusal(&raw(target, by, lines));
        assert_eq!(message, "datagrams could be lost here without being counted");
        assert_eq!((line, column), (2, 35));
    };
    uncounted("unix-dgram:$SOCKET", "");
    uncounted("udp://h:1", ", served_by = { url = \"http://h:1/\", pattern = '(\\d+)' }");
    plan(&raw("unix-dgram:$SOCKET", ", served_by = { log = \"$DIR/log\" }", lines));
}

#[test]
fn a_request_may_add_more_than_one_to_a_count() {
    let by = ", served_by = { counter_file = \"$DIR/n\", per_request = 100 }";
    let variant =
        &plan(&raw("unix:$SOCKET", by, "exchange = \"echo\"\nsize = 1\n")).parts[0].variants[0];
    let path = "$DIR/n".to_owned();
    assert_eq!(variant.served_by, Some(ServedBy::CounterFile { path, per_request: 100 }));
}

#[test]
fn keys_of_the_count_are_checked() {
    for (by, message) in [
        ("log = \"/a\", per_request = 2", "per_request belongs to url or counter_file"),
        (
            "url = \"http://h:1/\", pattern = '(\\d)', per_request = 0",
            "per_request must be at least 1",
        ),
        (
            "url = \"http://h:1/\", pattern = '(\\d)', discarded = 'x'",
            "the pattern needs one group around the number, such as (\\d+)",
        ),
    ] {
        let by = format!(", served_by = {{ {by} }}");
        assert_eq!(refusal(&raw("tcp://h:1", &by, "exchange = \"lines\"\n")).0, message);
    }
}
