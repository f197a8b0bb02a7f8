use super::super::tests::{read, read_at};
use super::*;

fn statsd() -> Statsd {
    Statsd::new(Step::from_secs(10).unwrap())
}

fn at(text: &str) -> String {
    let arrival = Arrival { now_us: 1_767_225_600_000_000, at_us: Some(1_430_701_282_000_000) };
    read_at(statsd(), text, arrival).join(", ")
}

#[test]
fn metrics_of_the_documentation() {
    for (text, shown) in [
        ("gorets:1|c", "gorets:count Count 1 1430701280..1430701290"),
        ("gorets:1|c|@0.1", "gorets:count Count 10 1430701280..1430701290"),
        ("gorets:1|c:2|c|@0.5:3|c", "gorets:count Count 8 1430701280..1430701290"),
        ("gaugor:333|g", "gaugor Gauge 333 @1430701282"),
        (
            "gaugor:333|g\ngaugor:-10|g\ngaugor:+4|g",
            "gaugor Gauge 333 @1430701282, gaugor Gauge 323 @1430701282, \
             gaugor Gauge 327 @1430701282",
        ),
        ("fresh:+4|g", "fresh Gauge 4 @1430701282"),
        (
            "uniques:765|s\nuniques:765|s\nuniques:1|s",
            "uniques:distinct Level 2 1430701280..1430701290",
        ),
        (
            "page.views:1:2:32|d|#env:dev,new|c:ci-83",
            "page.views:n{env=dev,new=true} Count 3 1430701280..1430701290, \
             page.views:mean{env=dev,new=true} Level 11.666666666666666 1430701280..1430701290, \
             page.views:min{env=dev,new=true} Level 1 1430701280..1430701290, \
             page.views:max{env=dev,new=true} Level 32 1430701280..1430701290, \
             page.views:p50{env=dev,new=true} Level 2 1430701280..1430701290, \
             page.views:p90{env=dev,new=true} Level 32 1430701280..1430701290, \
             page.views:p99{env=dev,new=true} Level 32 1430701280..1430701290",
        ),
        (
            "page.views:15|c|#env:dev|T1430701299",
            "page.views:count{env=dev} Count 15 1430701290..1430701300",
        ),
        ("hits;zone=b:2|c|#host:a", "hits:count{host=a,zone=b} Count 2 1430701280..1430701290"),
        ("1430701305.25 hits:2|c", "hits:count Count 2 1430701300..1430701310"),
    ] {
        assert_eq!(at(text), shown, "{text}");
    }
}

#[test]
fn malformed_lines_have_their_reason() {
    for (text, shown) in [
        ("gorets", "! not_statsd"),
        ("gorets:1", "! not_statsd"),
        ("gorets:|c", "! no_value"),
        (":1|c", "! empty_name"),
        ("gorets:1|x", "! unknown_type"),
        ("_e{5,4}:title|text", "! unknown_type"),
        ("gorets:one|c", "! bad_number"),
        ("gorets:-1|c", "! negative_counter"),
        ("gorets:nan|c", "! not_a_number"),
        ("gorets:inf|g", "! infinite"),
        ("gorets:1e300|c", "! too_large"),
        ("gorets:1|c|@0", "! bad_rate"),
        ("gorets:1|c|@1.5", "! bad_rate"),
        ("gorets:1|c|@nan", "! bad_rate"),
        ("gorets:1|c|what", "! not_statsd"),
        ("gorets:1|c|Tnow", "! bad_time"),
        ("gorets:1|c|#a:1,a:2", "! duplicate_tag"),
    ] {
        assert_eq!(at(text), shown, "{text}");
    }
    assert_eq!(read(statsd(), "gorets:1|c"), ["! no_time"]);
}

#[test]
fn one_bad_value_does_not_lose_the_others() {
    assert_eq!(at("a:1:x:2|c"), "! bad_number, a:count Count 3 1430701280..1430701290");
}

#[test]
fn counts_are_whole_and_fractions_are_owed_to_the_next_window() {
    // A rate of 0.3 makes 3.33 of each: after three windows, 10.
    let lines = "0 a:1|c|@0.3\n10 a:1|c|@0.3\n20 a:1|c|@0.3";
    assert_eq!(
        read(statsd(), lines),
        ["a:count Count 3 0..10", "a:count Count 4 10..20", "a:count Count 3 20..30"]
    );
    let tenth = "0 a:0.1|c\n".repeat(10);
    assert_eq!(read(statsd(), &tenth), ["a:count Count 1 0..10"]);
}

#[test]
fn windows_close_as_time_passes() {
    let lines = "5 a:1|c\n15 a:2|c\n9 a:4|c\n31 a:8|c\n45 a:16|c";
    assert_eq!(
        read(statsd(), lines),
        [
            "a:count Count 5 0..10",
            "a:count Count 2 10..20",
            "a:count Count 8 30..40",
            "a:count Count 16 40..50"
        ]
    );
}

#[test]
fn a_line_from_the_far_future_closes_no_window() {
    let lines = "5 a:1|c\n99999999999 a:1|c\n6 a:2|c";
    assert_eq!(read(statsd(), lines), ["! future", "a:count Count 3 0..10"]);
}

#[test]
fn lines_of_very_many_windows_do_not_fill_the_memory() {
    let mut lines = "1000000 a:1|c\n".to_owned();
    lines.extend((0..3_000).map(|i| format!("{} a:1|c\n", i * 10)));
    let shown = read(statsd(), &lines);
    assert_eq!(shown.len(), 3_001);
    assert!(shown[0].ends_with(" 0..10"), "the oldest is closed when there are too many");
}

#[test]
fn sampled_times_weigh_as_what_they_stand_for() {
    let shown = at("t:10|ms|@0.1\nt:100|ms");
    assert!(shown.starts_with("t:n Count 11 "), "{shown}");
    assert!(shown.contains("t:p50 Level 10 "), "{shown}");
    assert!(shown.contains("t:p99 Level 100 "), "{shown}");
}
