//! The JSON of every sample run, checked with the published schemas.
#![allow(clippy::unwrap_used)] // a test may fail anywhere, its helpers included

mod sample;

use jsonschema::Validator;
use record::{Offer, RunState};
use report::{LoadReport, Style, html, is_invalid, json, reasons, terminal};
use serde_json::Value;

fn schema(text: &str) -> (Value, Validator) {
    let schema: Value = serde_json::from_str(text).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    (schema, validator)
}

fn load() -> Validator {
    schema(include_str!("../../../docs/schema/load-2.json")).1
}

fn compare() -> Validator {
    schema(include_str!("../../../docs/schema/compare-2.json")).1
}

fn capacity() -> Validator {
    schema(include_str!("../../../docs/schema/capacity-1.json")).1
}

fn complaints(validator: &Validator, value: &Value) -> Vec<String> {
    validator.iter_errors(value).map(|e| format!("{} at {}", e, e.instance_path())).collect()
}

#[test]
fn every_run_fits_its_schema() {
    for (name, run) in sample::all() {
        let validator = match run.kind {
            record::RunKind::Load => load(),
            record::RunKind::Capacity => capacity(),
            _ => compare(),
        };
        assert_eq!(complaints(&validator, &json(&run)), [] as [String; 0], "{name}");
    }
}

#[test]
fn effects_are_those_of_the_changes() {
    let run = sample::changed();
    let value = json(&run);
    let ratio = |part: usize| {
        value["comparisons"]
            .as_array()
            .unwrap()
            .iter()
            .find(|c| c["part"] == run.parts[part].name.as_str() && c["primary"] == true)
            .unwrap()["ratio"]
            .as_f64()
            .unwrap()
    };
    let effects = value["effects"].as_array().unwrap();
    let found: Vec<_> = effects
        .iter()
        .map(|e| (e["from"].as_str().unwrap(), e["part"].as_str().unwrap()))
        .collect();
    assert_eq!(
        found,
        [("as-published", "one-thread"), ("one-thread", "one-cpu"), ("as-published", "one-cpu")]
    );
    for (effect, (from, to)) in effects.iter().zip([(0, 1), (1, 2), (0, 2)]) {
        let number = |key: &str| effect[key].as_f64().unwrap();
        assert!((number("effect") - ratio(to) / ratio(from)).abs() < 1e-12, "{effect}");
        assert!(number("low") < number("effect") && number("effect") < number("high"), "{effect}");
    }
    assert!(effects[0]["low"].as_f64().unwrap() < 1.0 && effects[2]["low"].as_f64().unwrap() > 1.0);
}

/// Walks through all objects of a schema.
fn objects<'a>(schema: &'a Value, found: &mut Vec<&'a Value>) {
    match schema {
        Value::Object(map) => {
            if map.contains_key("properties") {
                found.push(schema);
            }
            map.values().for_each(|value| objects(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| objects(value, found)),
        _ => {}
    }
}

#[test]
fn a_schema_allows_and_requires_exactly_what_it_names() {
    for text in [
        include_str!("../../../docs/schema/load-2.json"),
        include_str!("../../../docs/schema/compare-2.json"),
        include_str!("../../../docs/schema/capacity-1.json"),
        include_str!("../../../docs/schema/replay-1.json"),
    ] {
        let (schema, _) = schema(text);
        let mut found = Vec::new();
        objects(&schema, &mut found);
        assert!(found.len() > 3);
        for object in found {
            let mut names: Vec<&str> =
                object["properties"].as_object().unwrap().keys().map(String::as_str).collect();
            let mut required: Vec<&str> = object["required"]
                .as_array()
                .unwrap()
                .iter()
                .map(|v| v.as_str().unwrap())
                .collect();
            names.sort_unstable();
            required.sort_unstable();
            assert_eq!(names, required);
            assert_eq!(object["additionalProperties"], false, "{names:?}");
        }
    }
}

#[test]
fn a_schema_refuses_what_is_missing_or_of_another_kind() {
    let good = json(&sample::tcp_unix());
    let changes: [fn(&mut Value); 4] = [
        |v| drop(v.as_object_mut().unwrap().remove("verdict")),
        |v| v["schema"] = 1.into(),
        |v| v["variants"][0]["latency_ns"]["p99"] = 1.5.into(),
        |v| v["comparisons"][0]["verdict"] = "better".into(),
    ];
    for change in changes {
        let mut bad = good.clone();
        change(&mut bad);
        assert_eq!(complaints(&compare(), &bad).len(), 1);
    }
}

#[test]
fn the_figures_are_those_of_the_run() {
    let run = sample::tcp_unix();
    let value = json(&run);
    assert_eq!(value["schema"], 2);
    assert_eq!(value["verdict"], "ok");
    assert_eq!(value["started"], "2026-11-21T07:15:30.25Z");
    let unix = &value["variants"][1];
    let summary = &run.parts[0].variants[1].summaries[0];
    assert_eq!(unix["throughput_per_s"]["low"], summary.throughput_per_s.low);
    assert_eq!(unix["trials"].as_array().unwrap().len(), 26);
    assert_eq!(unix["ledger"]["served"], unix["ledger"]["completed"]);
    assert_eq!(value["comparisons"][0]["verdict"], "faster");
    assert_eq!(value["comparisons"][0]["baseline"], "tcp");
    assert_eq!(value["validity"][1]["check"], "null_server");
    assert_eq!(value["validity"][1]["fact"]["factor"], 2.4);
    assert_eq!(value["parts"][0]["disturbance"]["rounds_left_out"], 12);
    let slices = unix["trials"][0]["slices"].as_array().unwrap();
    assert_eq!(slices.len(), run.parts[0].blocks[0].trials[1].slices.len());
    assert_eq!(slices[1]["round"], 1);
}

#[test]
fn a_run_that_is_invalid_or_cut_off_says_why() {
    let invalid = json(&sample::invalid());
    assert_eq!(invalid["verdict"], "invalid");
    assert!(invalid["reasons"][0].as_str().unwrap().contains("3 requests fewer"));
    let because = invalid["comparisons"][0]["because"][0].as_u64().unwrap() as usize;
    assert_eq!(invalid["validity"][because]["check"], "ledger");
    let refused = json(&sample::refused());
    let last = refused["comparisons"].as_array().unwrap().last().unwrap();
    let because = last["because"][0].as_u64().unwrap() as usize;
    assert_eq!(refused["validity"][because]["check"], "failures");
    let cut_off = json(&sample::cut_off());
    assert_eq!(cut_off["verdict"], "invalid");
    assert_eq!(cut_off["state"], "cut_off");
    assert!(cut_off["reasons"][0].as_str().unwrap().starts_with("Cut off: "));
    let stopped = json(&sample::interrupted());
    assert_eq!(stopped["verdict"], "incomplete");
    assert_eq!(stopped["reasons"][0], "too few blocks for a verdict (5 of 6)");
}

#[test]
fn numbers_that_are_not_numbers_are_null() {
    let mut run = sample::tcp_unix();
    run.parts[0].variants[0].summaries[0].throughput_per_s.high = f64::INFINITY;
    run.parts[0].comparisons[0].judgement.ratio.low = f64::NAN;
    run.parts[0].blocks[0].trials[0].window = base::Nanos::ZERO;
    let value = json(&run);
    assert!(value["variants"][0]["throughput_per_s"]["high"].is_null());
    assert!(value["comparisons"][0]["low"].is_null());
    assert_eq!(complaints(&compare(), &value), [] as [String; 0]);
}

#[test]
fn a_verdict_names_the_warnings_that_weaken_it() {
    let value = json(&sample::tcp_unix());
    assert_eq!(value["comparisons"][0]["weakened_by"], serde_json::json!([0, 1]));
    // The null server limits throughput, not the CPU that a request costs.
    assert_eq!(value["comparisons"][3]["metric"], "cpu");
    assert_eq!(value["comparisons"][3]["weakened_by"], serde_json::json!([0]));
    assert_eq!(
        json(&sample::invalid())["comparisons"][0]["weakened_by"],
        serde_json::json!([]),
        "an INVALID verdict is not weakened further"
    );
}

#[test]
fn what_disturbed_two_variants_weakens_the_comparison_of_these() {
    use record::{Disturber, Fact, Finding, Severity};
    let mut run = sample::layers();
    let uneven = |new: Disturber| {
        let mut fact = sample::uneven().parts[0].findings.pop().unwrap().fact;
        if let Fact::Uneven { source, .. } = &mut fact {
            *source = new;
        }
        fact
    };
    run.parts[0].findings = vec![
        Finding::of_variant(Severity::Warning, 2, uneven(Disturber::Steal)),
        Finding::of_variant(Severity::Warning, 2, uneven(Disturber::Lateness)),
    ];
    let value = json(&run);
    for comparison in value["comparisons"].as_array().unwrap() {
        let is_disturbed = comparison["variant"] == "uvicorn";
        let wanted = if is_disturbed { serde_json::json!([0]) } else { serde_json::json!([]) };
        assert_eq!(comparison["weakened_by"], wanted, "{comparison}");
    }
}

#[test]
fn a_rate_that_was_not_sustained_is_told_in_a_field() {
    let value = json(&sample::overloaded());
    assert_eq!(value["variants"][0]["sustained"], false);
    assert_eq!(value["variants"][1]["sustained"], true);
    assert!(json(&sample::layers())["variants"][0]["sustained"].is_null());
    assert_eq!(value["comparisons"][0]["weakened_by"], serde_json::json!([]));
}

#[test]
fn an_end_without_a_bound_is_null() {
    let value = json(&sample::unbounded());
    let open = &value["variants"][1]["offers"][1];
    assert_eq!(
        open["p99_ns"],
        serde_json::json!({ "geometric_mean": 480_000_000, "low": 410_000_000, "high": null })
    );
    assert_eq!(
        open["p90_ns"],
        serde_json::json!({ "geometric_mean": null, "low": 37_000_000, "high": null })
    );
    assert_eq!(value["variants"][0]["offers"][1]["p50_ns"]["low"], 0);
    assert!(value["comparisons"][2]["high"].is_null());
    assert_eq!(value["comparisons"][2]["low"], 140.0);
}

#[test]
fn a_secondary_metric_that_is_invalid_leaves_the_run_valid() {
    let run = sample::late();
    let value = json(&run);
    assert_eq!((value["verdict"].as_str(), is_invalid(&run)), (Some("ok"), false));
    assert_eq!(reasons(&run), [] as [String; 0]);
    let verdicts: Vec<(&str, &str)> = value["comparisons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["metric"].as_str().unwrap(), c["verdict"].as_str().unwrap()))
        .collect();
    assert_eq!(
        verdicts,
        [("throughput", "faster"), ("p50", "invalid"), ("p99", "invalid"), ("cpu", "faster")]
    );
    let uneven = sample::uneven();
    assert!(is_invalid(&uneven));
    assert!(reasons(&uneven)[0].starts_with("other processes were busy during 62% of unix's"));
}

#[test]
fn too_little_data_for_a_verdict_was_ok() {
    for (run, reason) in [
        (sample::few_blocks(), "too few blocks for a verdict (2 of 6)"),
        (sample::hopeless(), "too few blocks for a verdict (0 of 6)"),
    ] {
        let value = json(&run);
        assert_eq!(
            (&value["verdict"], &value["reasons"][0]),
            (&"incomplete".into(), &reason.into())
        );
        assert!(!is_invalid(&run));
        assert_eq!(complaints(&compare(), &value), [] as [String; 0]);
    }
    // With enough blocks, a run that was stopped is complete if its intervals decide.
    let mut stopped = sample::tcp_unix();
    stopped.state = RunState::Interrupted;
    assert_eq!(json(&stopped)["verdict"], "ok");
    stopped.parts[0].comparisons[0].judgement.verdict = stats::Verdict::Inconclusive;
    assert_eq!(json(&stopped)["reasons"][0], "stopped before every comparison had its verdict");
    // A complete run whose interval is too wide has its verdict: inconclusive.
    stopped.state = RunState::Done;
    assert_eq!(json(&stopped)["verdict"], "ok");
}

#[test]
fn a_run_that_failed_is_invalid() {
    let mut run = sample::tcp_unix();
    assert!(!is_invalid(&run));
    run.state = RunState::Failed;
    run.error = Some("no space is left for the record".to_owned());
    assert!(is_invalid(&run));
    assert_eq!(reasons(&run), ["no space is left for the record"]);
    assert_eq!(json(&run)["verdict"], "invalid");
}

/// A percentile is computed in one way, so it is the same number wherever it is printed.
#[test]
fn a_percentile_is_the_same_number_everywhere() {
    let run = sample::tcp_unix();
    let value = json(&run);
    let text = terminal(&run, &Style::default());
    let page = html(&run);
    for (index, variant) in run.parts[0].variants.iter().enumerate() {
        let open = variant.summaries.iter().find(|s| s.offer == Offer::Open).unwrap();
        let p50 = open.p50_ns.value.round() as u64;
        let of_variant = &value["variants"][index];
        assert_eq!(of_variant["latency_ns"]["p50"], p50);
        assert_eq!(of_variant["offers"][1]["p50_ns"]["geometric_mean"], p50);
        let printed = base::Nanos(p50).to_string();
        let row = text.lines().find(|line| line.starts_with(&variant.name)).unwrap();
        assert!(row.contains(&printed), "{row}");
        assert!(page.contains(&format!("<td>{printed}<small>")), "{printed}");
        assert!(page.contains(&format!("{}: 50% took at most {printed}", variant.name)));
    }
}

#[test]
fn a_load_in_a_closed_loop_has_latency_equal_to_service_time() {
    let run = sample::load();
    let value = json(&run);
    assert_eq!(value["latency_ns"], value["service_time_ns"]);
    assert_eq!(value["client"]["threads"], 1);
    let series: u64 =
        value["series"]["completed"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(value["ledger"]["completed"], series);
    assert!(value["ledger"]["served"].is_null());
    assert_eq!(LoadReport::from_run(&sample::tcp_unix()), None);
}

#[test]
fn a_load_that_failed_is_invalid_and_fits_the_schema() {
    let mut run = sample::load_unsustained();
    let value = json(&run);
    assert_eq!(value["verdict"], "invalid");
    assert!(value["reasons"][0].as_str().unwrap().starts_with("the server did not sustain"));
    assert_eq!(value["ledger"]["reconnected"], 4);
    assert_eq!(value["client"]["thread_cpu_ns"].as_array().unwrap().len(), 2);

    let trial = &mut run.parts[0].blocks[0].trials[1];
    trial.window = base::Nanos::ZERO;
    trial.service_time = record::Distribution::default();
    trial.completed_by_step.clear();
    trial.client.clear();
    let value = json(&run);
    assert_eq!(value["throughput_per_s"], 0.0);
    assert!(value["client"]["cpu_ns"].is_null() && value["client"]["busiest"].is_null());
    assert_eq!(complaints(&load(), &value), [] as [String; 0]);
}

#[test]
fn a_load_that_was_stopped_says_so() {
    let mut run = sample::load();
    run.state = RunState::Interrupted;
    assert_eq!(json(&run)["state"], "interrupted");
    assert!(terminal(&run, &Style::default()).contains("\nStopped early: "));
}
