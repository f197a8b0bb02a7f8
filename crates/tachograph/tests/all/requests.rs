//! `--request-file`: many kinds of request, here and on other machines.

use crate::support::{Place, Server, TACHOGRAPH, assert_valid};

const FILE: &str = "{\"path\": \"/\", \"weight\": 3}\n\
    {\"name\": \"item\", \"path\": \"/items/{{ id }}\", \"data\": \"ids.csv\"}\n";

fn place() -> Place {
    let place = Place::new();
    place.write("kinds.jsonl", FILE);
    place.write("ids.csv", "id\n1\n2\n");
    place
}

#[test]
fn a_comparison_has_the_counts_and_the_ratio_of_each_kind() {
    let place = place();
    let server = |delay: &str| {
        let listens = "serve-fixture --listen tcp://127.0.0.1:$PORT";
        format!("{TACHOGRAPH} {listens} --delay-every 1 --delay {delay}")
    };
    let (short, long) = (server("1ms"), server("4ms"));
    let ended = place.compare(&[
        "--request-file",
        "kinds.jsonl",
        "-n",
        "short",
        "-n",
        "long",
        "--closed-only",
        "--json",
        "--export-markdown",
        "r.md",
        "--export-html",
        "r.html",
        &short,
        &long,
    ]);
    let json = ended.json();
    assert_valid("compare-2.json", &json);
    assert_eq!(json["parts"][0]["load"]["kinds"][1]["requests"], 2);
    let sum = |trial: &serde_json::Value, column: &str| -> u64 {
        let kinds = trial["kinds"].as_array().unwrap();
        kinds.iter().map(|kind| kind[column].as_u64().unwrap()).sum()
    };
    for variant in json["variants"].as_array().unwrap() {
        for trial in variant["trials"].as_array().unwrap() {
            for column in ["sent", "completed", "failed", "in_flight"] {
                assert_eq!(sum(trial, column), trial["ledger"][column], "{column}");
            }
            // Of a deck of four, at most one is dealt in part.
            let of = |kind: usize| trial["kinds"][kind]["sent"].as_i64().unwrap();
            assert!((of(0) - 3 * of(1)).abs() <= 6, "{} and {}", of(0), of(1));
        }
    }
    let kinds = json["parts"][0]["kinds"].as_array().unwrap();
    let names: Vec<&str> = kinds.iter().map(|kind| kind["kind"].as_str().unwrap()).collect();
    assert_eq!(names, ["GET /", "item"]);
    for kind in kinds {
        let ratio = kind["ratio"].as_f64().unwrap();
        assert!(ratio > 1.5, "four times as long: {kind}");
    }
    for file in ["r.md", "r.html"] {
        let text = std::fs::read_to_string(place.path(file)).unwrap();
        assert!(text.contains("long ÷ short") && text.contains("item"), "{file}");
    }
    place.run(&["report"]).prints("request").prints("long ÷ short").prints("2 kinds of request");
    assert!(place.leftovers().is_empty());
}

#[test]
fn what_cannot_be_sent_is_said_before_anything_is() {
    let place = place();
    place.write("bad.jsonl", "{\"path\": \"/\"}\n{\"path\": \"/\", \"wieght\": 2}\n");
    let (_server, url) = Server::http(&[]);
    let with_path = format!("{url}a");
    for (args, words) in [
        (["kinds.jsonl", &with_path], "the requests in a file have paths of their own"),
        (["none.jsonl", &url], "cannot read none.jsonl: No such file"),
        (["bad.jsonl", &url], "bad.jsonl:2:1"),
        (["bad.jsonl", &url], "unknown field `wieght`"),
        (["ids.csv", &url], "neither JSON lines, nor a HAR, nor an access log"),
    ] {
        let [file, url] = args;
        place.run(&["load", "-n", "9", "--request-file", file, url]).status(2).says(words);
    }
    let raw = ["load", "--exchange", "echo", "--request-file", "kinds.jsonl", "tcp://127.0.0.1:9"];
    place.run(&raw).status(2).says("--request-file needs a target of HTTP");
    let command = format!("{TACHOGRAPH} serve-fixture --listen tcp://127.0.0.1:$PORT");
    place
        .run(&["compare", "--request-file", "kinds.jsonl", "--path", "/x", &command, &command])
        .status(2)
        .says("leave out --path");
}

#[test]
fn a_log_is_sent_again_and_what_is_left_out_is_counted() {
    let place = Place::new();
    let line = |request: &str, status: u32| {
        format!("::1 - - [29/Nov/2026:10:00:00 +0000] \"{request}\" {status} 12\n")
    };
    let log = [line("GET /a HTTP/1.1", 200), line("GET /a?x HTTP/1.1", 200)].concat()
        + &line("GET /b HTTP/1.1", 404)
        + &line("POST /c HTTP/1.1", 200);
    place.write("access.log", &log);
    let (_server, url) = Server::http(&[]);
    // The server answers everything with 200: what the log saw as 404 fails, and nothing else.
    let ended = place.run(&["load", "-n", "300", "--request-file", "access.log", "--json", &url]);
    ended.says("note: left out of access.log: requests whose body is not in the log (1)");
    let json = ended.json();
    let kinds = json["kinds"].as_array().unwrap();
    let shown: Vec<(&str, u64, u64)> = kinds
        .iter()
        .map(|kind| {
            let column = |name: &str| kind[name].as_u64().unwrap();
            (kind["name"].as_str().unwrap(), column("completed"), column("failed"))
        })
        .collect();
    // The warm-up ends after some time, so the first deck and the last may be dealt in part.
    let [("GET /a", completed, 0), ("GET /b 404", 0, failed)] = shown[..] else {
        panic!("{shown:?}")
    };
    assert_eq!(completed + failed, 300);
    assert!(completed.abs_diff(2 * failed) <= 6, "{shown:?}");
    assert_eq!(json["errors"]["status 200"], failed);
}
