use proptest::prelude::*;

use super::*;

/// `tcp` and `unix` with p99 of 1 ms and 2 ms, throughput of 1000 and 2000, no errors; all exact.
fn exactly(measured: &VariantMetric) -> Interval {
    let times = if measured.variant == "tcp" { 1.0 } else { 2.0 };
    Interval::exactly(match measured.metric {
        "p50" | "p90" | "p99" => times * 1e6,
        "throughput" => times * 1000.0,
        "cpu" => 10_000.0,
        _ => 0.0,
    })
}

/// Each figure known to ±10%.
fn roughly(measured: &VariantMetric) -> Interval {
    let Interval { low, high } = exactly(measured);
    Interval { low: 0.9 * low, high: 1.1 * high }
}

fn one_part() -> Vec<(String, Vec<String>)> {
    vec![("main".to_owned(), ["tcp", "unix", "my app 1.0", "old-1"].map(str::to_owned).to_vec())]
}

fn read(text: &str) -> Result<FailIf, SpecError> {
    FailIf::parse(text).and_then(|condition| condition.with_parts(&one_part()))
}

fn decide(text: &str, value: &dyn Fn(&VariantMetric) -> Interval) -> Truth {
    read(text).expect(text).decide(&mut |test| test.over(value))
}

#[test]
fn a_single_target_had_to_be_named_in_a_condition() {
    let one = [("load".to_owned(), vec!["http://127.0.0.1/".to_owned()])];
    let condition = FailIf::parse("p99 > 20ms or failed > 0").unwrap().with_parts(&one).unwrap();
    let mut named = Vec::new();
    condition.decide(&mut |test| {
        named.extend(test.measured().iter().map(|m| (m.variant.clone(), m.metric)));
        Truth::Undecided
    });
    let target = "http://127.0.0.1/".to_owned();
    assert_eq!(named, [(target.clone(), "p99"), (target, "failed")]);
    let error = read("p99 > 20ms").unwrap_err().to_string();
    assert!(
        error.contains("there are several variants, so the variant has to be named"),
        "{error}"
    );
    assert!(error.contains("write VARIANT.p99; the variants are: tcp, unix,"), "{error}");
    assert!(read("speed > 1").unwrap_err().to_string().contains("'speed' needs a metric"));
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
        let expected = if expected { Truth::Holds } else { Truth::DoesNotHold };
        assert_eq!(decide(text, &exactly), expected, "{text}");
    }
}

#[test]
fn what_intervals_leave_open_is_undecided() {
    let cases = [
        ("b.p99 > 1.05 * a.p99", Truth::Holds),
        ("b.p99 > 1.9 * a.p99", Truth::Undecided),
        ("b.p99 > 2.5 * a.p99", Truth::DoesNotHold),
        ("a.p99 < 1ms", Truth::Undecided),
        ("a.p99 < 2ms and b.p99 < 3ms", Truth::Holds),
        ("a.p99 < 1ms and b.p99 < 1ms", Truth::DoesNotHold),
        ("a.p99 < 1ms and b.p99 < 3ms", Truth::Undecided),
        ("a.p99 < 1ms or b.p99 < 1ms", Truth::Undecided),
        ("a.p99 < 1ms or b.p99 < 3ms", Truth::Holds),
        ("b.p99 / (a.p99 - 1ms) > 0", Truth::Undecided),
        ("a.errors > 0", Truth::DoesNotHold),
        ("a.errors >= 0", Truth::Holds),
        ("-a.p99 < 0", Truth::Holds),
        ("0 / 0 > 1", Truth::Undecided),
    ];
    for (text, expected) in cases {
        assert_eq!(decide(text, &roughly), expected, "{text}");
    }
}

#[test]
fn a_ratio_is_found_however_it_is_written() {
    let found = |text: &str| {
        let mut found = None;
        read(text).expect(text).decide(&mut |test| {
            found = test.as_ratio().map(|ratio| {
                let (of, to) = (ratio.of.variant.clone(), ratio.to.variant.clone());
                (of, ratio.comparison, to, (ratio.bound * 1e9).round() / 1e9)
            });
            Truth::Undecided
        });
        found
    };
    let of = |of: &str, comparison, to: &str, bound| {
        Some((of.to_owned(), comparison, to.to_owned(), bound))
    };
    for text in [
        "b.p99 > 1.05 * a.p99",
        "1.05 * a.p99 < b.p99",
        "b.p99 / a.p99 > 1.05",
        "b.p99 - a.p99 > 5% * a.p99",
        "(b.p99 - a.p99) / a.p99 > 5%",
        "b.p99 / a.p99 - 1 > 5%",
        "100 * (b.p99 / a.p99 - 1) > 5",
        "b.p99 > a.p99 + a.p99 * 5 / 100",
        "2 * b.p99 > 2.1 * a.p99",
    ] {
        let (of_, comparison, to, bound) = found(text).expect(text);
        let as_it_is = (of_.as_str(), comparison, to.as_str(), bound);
        // `1.05 * a < b` is a ÷ b < 1 ÷ 1.05 as well.
        let turned = ("tcp", Comparison::Less, "unix", (1e9 / 1.05_f64).round() / 1e9);
        assert!(
            as_it_is == ("unix", Comparison::Greater, "tcp", 1.05) || as_it_is == turned,
            "{text}: {as_it_is:?}"
        );
    }
    assert_eq!(found("a.cpu <= b.cpu"), of("tcp", Comparison::LessOrEqual, "unix", 1.0));
    for text in [
        "b.p99 > 1ms",
        "b.p99 > a.p50",
        "b.p99 > a.p99 + 1us",
        "b.p99 + a.p99 > 0",
        "b.p99 > b.p99",
        "b.p99 * a.p99 > 1",
        "1 > 0",
        "b.p99 / (a.p99 - 1ms) > 2",
        "b.p99 > 'old-1'.p99 + a.p99",
    ] {
        assert_eq!(found(text), None, "{text}");
    }
}

#[test]
fn a_plan_of_several_parts_needs_the_part() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let parts =
        [("small".to_owned(), names(&["x", "y"])), ("large files".to_owned(), names(&["x", "z"]))];
    let read = |text: &str| FailIf::parse(text).and_then(|c| c.with_parts(&parts));
    let found = |text: &str| {
        let mut found = Vec::new();
        read(text).expect(text).decide(&mut |test| {
            let name = |m: &&VariantMetric| format!("{}/{}", m.part.as_deref().unwrap(), m.variant);
            found.extend(test.measured().iter().map(name));
            Truth::Undecided
        });
        found.join(" ")
    };
    assert_eq!(found("small/y.p99 > small/a.p99"), "small/y small/x");
    assert_eq!(found("'large files'/z.p99 > 'large files'/'x'.p99"), "large files/z large files/x");
    assert_eq!(found("small/b.p99/small/a.p99 > 1"), "small/y small/x");
    let refused = |text: &str| read(text).expect_err(text).to_string();
    insta::assert_snapshot!(refused("b.p99 > 1.05 * a.p99"), @r"
    name the part, because there are several
     --> --fail-if:1:1
      |
    1 | b.p99 > 1.05 * a.p99
      | ^^^^^
      |
      = help: write PART/b.p99; the parts are: small, large files
    ");
    insta::assert_snapshot!(refused("smal/x.p99 > 1"), @r"
    there is no part 'smal'
     --> --fail-if:1:1
      |
    1 | smal/x.p99 > 1
      | ^^^^^^^^^^
      |
      = help: did you mean 'small'?
    ");
    insta::assert_snapshot!(refused("small/other.p99 > 1"), @r"
    there is no variant 'other'
     --> --fail-if:1:1
      |
    1 | small/other.p99 > 1
      | ^^^^^^^^^^^^^^^
      |
      = help: there are: x, y
    ");
}

#[test]
fn a_name_is_stronger_than_a_position() {
    let parts = [("main".to_owned(), ["b", "a"].map(str::to_owned).to_vec())];
    let condition = FailIf::parse("a.p99 > b.p99").unwrap().with_parts(&parts).unwrap();
    let value = |of: &VariantMetric| Interval::exactly(if of.variant == "a" { 2.0 } else { 1.0 });
    assert_eq!(condition.decide(&mut |test| test.over(&value)), Truth::Holds);
}

#[test]
fn errors_show_the_place() {
    let cases = [
        ("", "the condition ends where a number or VARIANT.METRIC should be", 0..0, ""),
        ("a.p99", "this is a value, not a condition", 0..5, "compare it with <, <=, > or >="),
        ("a.p98 > 1", "'p98' is not a metric", 2..5, "did you mean 'p90'?"),
        (
            "a.rate > 1",
            "'rate' is not a metric",
            2..6,
            "there are: throughput, p50, p90, p99, cpu, memory, failed, errors, capacity",
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
        ("1 < 2 < 3", "comparisons cannot be chained", 6..7, "join them with 'and'"),
        ("(1 < 2) + 1 > 0", "a condition cannot be used as a value", 6..7, ""),
        ("'a.p99 > 1", "this quotation mark is not closed", 0..10, ""),
    ];
    for (text, message, span, help) in cases {
        let error = read(text).expect_err(text);
        assert_eq!(error.message, message, "{text}");
        assert_eq!(error.help.as_deref().unwrap_or_default(), help, "{text}");
        assert_eq!(error.place.expect(text).span, span, "{text}");
    }
}

#[test]
fn an_error_is_drawn_below_the_condition() {
    insta::assert_snapshot!(read("b.p99 > 1.05 * a.p89").unwrap_err(), @r"
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
        "a condition can have at most 4096 bytes, not 4101"
    );
    let chain = format!("1{} > 0", "+1".repeat(2000));
    assert_eq!(decide(&chain, &exactly), Truth::Holds, "a long sum is not deep");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_but_never_panics(
        text in ".{0,60}|([ab]\\.p99|[0-9.]{1,4}(ms|%|k)?|[-+*/()<>=]| and | or | |'x'\\.cpu){0,30}"
    ) {
        if let Ok(condition) = FailIf::parse(&text) {
            condition.decide(&mut |test| {
                test.as_ratio();
                test.over(&|_| Interval { low: 1.0, high: 2.0 })
            });
            let _ = condition.with_parts(&[("p".to_owned(), vec!["x".to_owned()])]);
        }
    }

    #[test]
    fn arithmetic_and_comparison_agree_with_rust(a in 0u32..1000, b in 1u32..1000, c in 0u32..1000) {
        let (x, y, z) = (f64::from(a), f64::from(b), f64::from(c));
        let of = |text: String| decide(&text, &exactly) == Truth::Holds;
        prop_assert_eq!(of(format!("{a} + {b} * {c} > {a} * {b} - {c}")), x + y * z > x * y - z);
        prop_assert_eq!(of(format!("{a} / {b} <= {c} / {b}")), x / y <= z / y);
        prop_assert_eq!(of(format!("{a} < {b} and {b} < {c}")), x < y && y < z);
        prop_assert_eq!(of(format!("{a} < {b} or {b} >= {c}")), x < y || y >= z);
    }

    #[test]
    fn a_ratio_says_the_same_as_its_test(
        (k, m, n) in (-3.0..3.0_f64, -3.0..3.0_f64, -3.0..3.0_f64),
        (x, y) in (0.1..9.0_f64, 0.1..9.0_f64),
    ) {
        let text = format!("({k:.3} * b.p99 + a.p99 * {m:.3}) / a.p99 >= {n:.3} * b.p99 / a.p99");
        let value = |of: &VariantMetric| Interval::exactly(if of.variant == "unix" { x } else { y });
        let mut tests = Vec::new();
        read(&text).unwrap().decide(&mut |test| {
            tests.push(test.clone());
            Truth::Undecided
        });
        if let Some(ratio) = tests[0].as_ratio() {
            let (of, to) = (value(ratio.of).low, value(ratio.to).low);
            // Skip cases that rounding could decide.
            if (of / to - ratio.bound).abs() > 1e-9 * ratio.bound.abs() {
                let bound = Interval::exactly(ratio.bound);
                let found = ratio.comparison.decide(Interval::exactly(of / to), bound);
                prop_assert_eq!(found, tests[0].over(&value), "{}", text);
            }
        }
    }
}
