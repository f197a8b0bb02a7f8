//! The JSON of every sample run against the published schemas.
#![allow(clippy::unwrap_used)] // a test may fail anywhere, its helpers included

mod sample;

use jsonschema::Validator;
use serde_json::Value;
use tachograph_report::{LoadReport, json};

fn schema(text: &str) -> (Value, Validator) {
    let schema: Value = serde_json::from_str(text).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    (schema, validator)
}

fn load() -> Validator {
    schema(include_str!("../../../docs/schema/load-1.json")).1
}

fn compare() -> Validator {
    schema(include_str!("../../../docs/schema/compare-1.json")).1
}

fn complaints(validator: &Validator, value: &Value) -> Vec<String> {
    validator.iter_errors(value).map(|e| format!("{} at {}", e, e.instance_path())).collect()
}

#[test]
fn every_run_fits_its_schema() {
    for (name, run) in sample::all() {
        let validator = if name == "load" { load() } else { compare() };
        assert_eq!(complaints(&validator, &json(&run)), [] as [String; 0], "{name}");
    }
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
        include_str!("../../../docs/schema/load-1.json"),
        include_str!("../../../docs/schema/compare-1.json"),
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
        |v| v["schema"] = 2.into(),
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
    assert_eq!(value["schema"], 1);
    assert_eq!(value["verdict"], "ok");
    assert_eq!(value["started"], "2026-11-21T07:15:30.25Z");
    let unix = &value["variants"][1];
    let summary = &run.parts[0].variants[1].summaries[0];
    assert_eq!(unix["throughput_per_s"]["low"], summary.throughput_per_s.low);
    assert_eq!(unix["trials"].as_array().unwrap().len(), 26);
    assert_eq!(unix["ledger"]["served"], unix["ledger"]["completed"]);
    assert_eq!(value["comparisons"][0]["verdict"], "faster");
    assert_eq!(value["comparisons"][0]["baseline"], "tcp");
    assert_eq!(value["validity"][0]["check"], "steal");
}

#[test]
fn a_run_that_is_invalid_or_cut_off_says_why() {
    let invalid = json(&sample::invalid());
    assert_eq!(invalid["verdict"], "invalid");
    assert!(invalid["reasons"][0].as_str().unwrap().contains("3 requests fewer"));
    let cut_off = json(&sample::cut_off());
    assert_eq!(cut_off["verdict"], "invalid");
    assert_eq!(cut_off["state"], "cut_off");
    assert!(cut_off["reasons"][0].as_str().unwrap().starts_with("Cut off: "));
    assert_eq!(json(&sample::interrupted())["verdict"], "ok");
}

#[test]
fn numbers_that_are_not_numbers_are_null() {
    let mut run = sample::tcp_unix();
    run.parts[0].variants[0].summaries[0].throughput_per_s.high = f64::INFINITY;
    run.parts[0].comparisons[0].ratio.low = f64::NAN;
    run.parts[0].blocks[0].trials[0].window = base::Nanos::ZERO;
    let value = json(&run);
    assert!(value["variants"][0]["throughput_per_s"]["high"].is_null());
    assert!(value["comparisons"][0]["low"].is_null());
    assert_eq!(complaints(&compare(), &value), [] as [String; 0]);
}

#[test]
fn a_load_in_a_closed_loop_has_latency_equal_to_service_time() {
    let report = LoadReport::from_run(&sample::load()).unwrap();
    let value = report.to_json();
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
    let mut report = LoadReport::from_run(&sample::load()).unwrap();
    report.reasons.push("2 of 10338 requests failed: 2 timeout".to_owned());
    report.ledger.errors.insert("timeout".to_owned(), 2);
    report.duration = base::Nanos::ZERO;
    report.service_time = record::Distribution::default();
    report.completed_by_step.clear();
    let value = report.to_json();
    assert_eq!(value["verdict"], "invalid");
    assert_eq!(value["throughput_per_s"], 0.0);
    assert_eq!(complaints(&load(), &value), [] as [String; 0]);
}
