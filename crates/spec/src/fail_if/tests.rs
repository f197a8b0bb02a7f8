use proptest::prelude::*;

use super::*;

/// `tcp` and `unix` with p99 of 1 ms and 2 ms, throughput of 1000 and 2000, no errors; memory was not measured.
fn measured(variant: &str, metric: &str) -> Option<f64> {
    let times = match variant {
        "tcp" => 1.0,
        "unix" | "my app 1.0" | "old-1" => 2.0,
        _ => return None,
    };
    match metric {
        "p50" | "p90" | "p99" => Some(times * 1e6),
        "throughput" => Some(times * 1000.0),
        "cpu" => Some(10_000.0),
        "errors" => Some(0.0),
        _ => None,
    }
}

fn holds(text: &str) -> Result<bool, String> {
    let names = ["tcp", "unix", "my app 1.0", "old-1"].map(str::to_owned);
    FailIf::parse(text)
        .and_then(|condition| condition.with_variants(&names))
        .and_then(|condition| condition.evaluate(&measured))
        .map_err(|error| error.to_string())
}

#[test]
fn conditions_are_decided() {
    let cases = [
        ("b.p99 > 1.05 * a.p99", true),
        ("unix.p99 > 2.05 * tcp.p99", false),
        ("a.p99 >= 1ms", true),
        ("a.p99 < 1000us", false),
        ("a.throughput < 1k", false),
        ("a.throughput <= 1k", true),
        ("a.errors > 0", false),
        ("'my app 1.0'.p99 > a.p99", true),
        ("\"my app 1.0\".p99 > a.p99", true),
        ("old-1.p99 > a.p99", true),
        ("b.p99-a.p99 > 0.5ms", true),
        ("b.p99 - a.p99 > 150% * a.p99", false),
        ("1 + 2 * 3 > 6", true),
        ("(1 + 2) * 3 > 9", false),
        ("7 - 3 - 2 > 2", false),
        ("8 / 4 / 2 >= 1", true),
        ("-1 < 0", true),
        ("- - 1 > 0", true),
        ("1 > 2 or 2 > 1 and 1 > 2", false),
        ("(1 > 2 or 2 > 1) and 2 > 1", true),
        ("((a.p99)) < (b.p99)", true),
        ("1 / 0 > 5", true),
        ("64KiB < 65_537", true),
    ];
    for (text, expected) in cases {
        assert_eq!(holds(text), Ok(expected), "{text}");
    }
}

#[test]
fn a_name_is_stronger_than_a_position() {
    let names = ["b", "a"].map(str::to_owned);
    let condition = FailIf::parse("a.p99 > b.p99").unwrap().with_variants(&names).unwrap();
    let value = |variant: &str, _: &str| Some(if variant == "a" { 2.0 } else { 1.0 });
    assert_eq!(condition.evaluate(&value), Ok(true));
}

#[test]
fn errors_show_the_place() {
    let cases = [
        ("", "the condition ends where a number or VARIANT.METRIC should be", 0..0, ""),
        (
            "a.p99",
            "this is a value and not yet a condition",
            0..5,
            "compare it with <, <=, > or >=",
        ),
        ("a.p98 > 1", "'p98' is not a metric", 2..5, "did you mean 'p90'?"),
        (
            "a.rate > 1",
            "'rate' is not a metric",
            2..6,
            "there are: throughput, p50, p90, p99, cpu, memory, errors",
        ),
        ("a > 1", "'a' needs a metric", 0..1, "write a.p99, for example"),
        ("unx.p99 > 1", "there is no variant 'unx'", 0..7, "did you mean 'unix'?"),
        ("e.p99 > 1", "there is no variant 'e'", 0..5, "there are: tcp, unix, my app 1.0, old-1"),
        ("a.p99 > 5 parsecs", "'parsecs' needs a metric", 10..17, "write parsecs.p99, for example"),
        (
            "a.p99 > 5pc",
            "'5pc' is not a number with a unit known here",
            8..11,
            "write 1.05, 5%, 5ms, 80us or 64MiB",
        ),
        ("a.p99 == 1", "two measured values are never equal", 6..7, "compare with <, <=, > or >="),
        ("a.p99 > 1 ; b", "';' is not understood", 10..11, ""),
        ("a.p99 > (1", "the condition ends where ')' should be", 10..10, ""),
        ("a.p99 > 1)", "')' stands where 'and', 'or' or the end should be", 9..10, ""),
        ("1 < 2 < 3", "comparisons do not follow each other", 6..7, "join them with 'and'"),
        ("(1 < 2) + 1 > 0", "a condition is not a value to compute with", 6..7, ""),
        ("'a.p99 > 1", "this quotation mark is not closed", 0..10, ""),
        ("a.memory > 1", "'memory' of 'tcp' was not measured", 0..8, ""),
        (
            "0 / 0 > 1",
            "the condition cannot be decided: a side of it has no value, such as 0 / 0",
            0..9,
            "",
        ),
    ];
    let names = ["tcp", "unix", "my app 1.0", "old-1"].map(str::to_owned);
    for (text, message, span, help) in cases {
        let error = FailIf::parse(text)
            .and_then(|condition| condition.with_variants(&names))
            .and_then(|condition| condition.evaluate(&measured))
            .expect_err(text);
        assert_eq!(error.message, message, "{text}");
        assert_eq!(error.help.as_deref().unwrap_or_default(), help, "{text}");
        assert_eq!(error.place.expect(text).span, span, "{text}");
    }
}

#[test]
fn an_error_is_drawn_below_the_condition() {
    insta::assert_snapshot!(holds("b.p99 > 1.05 * a.p89").unwrap_err(), @r"
    'p89' is not a metric
     --> --fail-if:1:18
      |
    1 | b.p99 > 1.05 * a.p89
      |                  ^^^
      |
      = help: did you mean 'p99'?
    ");
}

#[test]
fn what_is_too_deep_or_too_long_is_refused() {
    let deep = format!("{}1{} > 0", "(".repeat(51), ")".repeat(51));
    assert_eq!(
        FailIf::parse(&deep).expect_err("too deep").message,
        "the condition is nested more than 50 deep"
    );
    let long = format!("1 > 0{}", " ".repeat(4096));
    assert_eq!(
        FailIf::parse(&long).expect_err("too long").message,
        "a condition can have 4096 bytes and this one has 4101"
    );
    let chain = format!("1{} > 0", "+1".repeat(2000));
    assert_eq!(holds(&chain), Ok(true), "a long sum is not deep");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_but_never_panics(
        text in ".{0,60}|([ab]\\.p99|[0-9.]{1,4}(ms|%|k)?|[-+*/()<>=]| and | or | |'x'\\.cpu){0,30}"
    ) {
        if let Ok(condition) = FailIf::parse(&text) {
            let _ = condition.evaluate(&|_, _| Some(1.0));
            let _ = condition.with_variants(&["x".to_owned()]);
        }
    }

    #[test]
    fn arithmetic_and_comparison_agree_with_rust(a in 0u32..1000, b in 1u32..1000, c in 0u32..1000) {
        let (x, y, z) = (f64::from(a), f64::from(b), f64::from(c));
        let of = |text: String| FailIf::parse(&text).unwrap().evaluate(&|_, _| None).unwrap();
        prop_assert_eq!(of(format!("{a} + {b} * {c} > {a} * {b} - {c}")), x + y * z > x * y - z);
        prop_assert_eq!(of(format!("{a} / {b} <= {c} / {b}")), x / y <= z / y);
        prop_assert_eq!(of(format!("{a} < {b} and {b} < {c}")), x < y && y < z);
        prop_assert_eq!(of(format!("{a} < {b} or {b} >= {c}")), x < y || y >= z);
    }
}
