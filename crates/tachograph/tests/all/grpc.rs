//! `--grpc`: servers of grpcio, whose own counts of what they answered are the client's.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::nginx::make_certificate;
use crate::support::{Place, Server, assert_valid, free_port};

/// Services of tests, described.
const SHOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/grpc/tests/shop.binpb");

/// The server.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/grpc_shop.py");

const PLACE: &str = "shop.v1.Orders/Place";

const ORDER: &str = "{\"buyer\": \"ann\", \"items\": [{\"name\": \"pen\", \"priceCents\": 250}]}";

fn python() -> PathBuf {
    let packages = ["grpcio==1.85.1", "grpcio-reflection==1.85.1", "protobuf==7.36.2"];
    let packages = packages.map(str::to_owned);
    stage::python::ensure_env(&packages, None, &mut |_| ()).unwrap().join("python")
}

/// A command that starts the server at an address.
fn command(address: &str, options: &str) -> String {
    format!("{} {SCRIPT} {address} {SHOP} {options}", python().display())
}

/// A server that is stopped when the test ends.
struct Shop(Child);

impl Shop {
    /// Starts it in the place of a test.
    fn start(place: &Place, address: &str, options: &str) -> Shop {
        let mut sh = Command::new("sh");
        sh.args(["-c", &format!("exec {}", command(address, options))]);
        let mut child = sh.current_dir(place.dir.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "listening\n");
        Shop(child)
    }

    /// Starts it on a free port; its URL.
    fn on_port(place: &Place, options: &str) -> (Shop, String) {
        let port = free_port();
        let shop = Shop::start(place, &format!("127.0.0.1:{port}"), options);
        (shop, format!("http://127.0.0.1:{port}/"))
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a server says about its calls, by status.
fn counts(place: &Place) -> Value {
    serde_json::from_str(&std::fs::read_to_string(place.path("counts")).unwrap()).unwrap()
}

#[test]
fn the_servers_count_is_the_clients_over_every_transport() {
    let place = Place::new();
    make_certificate(&place);
    let port = free_port();
    let (plain, secure) = (format!("127.0.0.1:{port}"), "--tls cert.pem key.pem");
    let mutual = format!("{secure} --client-authority cert.pem");
    let socket = format!("unix:{}", place.path("s").display());
    let (tcp, tls) = (format!("http://{plain}"), format!("https://localhost:{port}/"));
    let unix = format!("http://{socket}:/");
    let trusted = ["--cacert", "cert.pem"];
    let shown = ["--cacert", "cert.pem", "--cert", "cert.pem", "--key", "key.pem"];
    let protoset = ["--protoset", SHOP];
    for (address, options, target, further) in [
        (&plain, "--reflection v1", &tcp, &[][..]),
        (&plain, "--aio", &tcp, &["--new-connection"]),
        (&socket, "--aio --reflection none", &unix, &protoset[..]),
        (&socket, "", &unix, &["--streams", "8"]),
        (&plain, secure, &tls, &trusted),
        (&plain, &mutual, &tls, &shown),
    ] {
        let served = format!("{options} --counts counts --served served");
        let shop = Shop::start(&place, address, &served);
        std::fs::write(place.path("served"), "0").unwrap();
        let call = ["load", "--grpc", PLACE, "--body", ORDER, "-c", "4", "-n", "500", "--json"];
        let counted = ["--served-by", "counter_file=served"];
        let ended = place.run(&[&call[..], &counted, further, &[target]].concat());
        let json = ended.status(0).json();
        assert_valid("load-2.json", &json);
        assert_eq!(json["ledger"]["completed"], 500, "{options} {target}");
        assert_eq!(json["ledger"]["served"], 500, "{options} {target}");
        assert_eq!(json["load"]["method"], PLACE);
        assert_eq!(
            (&json["load"]["exchange"], &json["load"]["http"]),
            (&json!("grpc"), &json!("2"))
        );
        let all = json["ledger"]["completed"].as_u64().unwrap()
            + json["warm_up"]["completed"].as_u64().unwrap();
        assert_eq!(counts(&place), json!({ "OK": all }), "{options} {target}");
        drop(shop);
        for file in ["s", "counts", "served"] {
            let _ = std::fs::remove_file(place.path(file));
        }
    }
    place.run(&["report"]).prints("gRPC shop.v1.Orders/Place");
    place.run(&["report", "--markdown"]).prints("gRPC shop.v1.Orders/Place");
    place.run(&["report", "--html", "r.html"]);
    let html = std::fs::read_to_string(place.path("r.html")).unwrap();
    assert!(html.contains("gRPC shop.v1.Orders/Place"));
}

#[test]
fn each_status_is_counted_by_its_name() {
    for (seed, aio) in [(1, ""), (2, "--aio")] {
        let place = Place::new();
        let options = format!("{aio} --share 0.3 --seed {seed} --counts counts");
        let (_shop, url) = Shop::on_port(&place, &options);
        let call =
            ["load", "--grpc", PLACE, "--body", ORDER, "-c", "5", "-n", "400", "--json", &url];
        let ended = place.run(&call);
        let json = ended.status(1).json();
        let counts = counts(&place);
        let mut before = 0;
        for (status, name) in [
            ("UNAVAILABLE", "UNAVAILABLE (14)"),
            ("NOT_FOUND", "NOT_FOUND (5)"),
            ("INTERNAL", "INTERNAL (13)"),
        ] {
            let (done, measured) = (counts[status].as_u64(), json["errors"][name].as_u64());
            // The warm-up's failures are only known together.
            before += done.unwrap().checked_sub(measured.unwrap()).unwrap();
        }
        assert_eq!(before, json["warm_up"]["failed"], "{json}");
        let sum = |column: &str| -> u64 {
            ["ledger", "warm_up"].map(|part| json[part][column].as_u64().unwrap()).iter().sum()
        };
        assert_eq!(sum("completed"), counts["OK"], "{json}");
        place.run(&["report"]).prints("UNAVAILABLE (14)");
    }
}

#[test]
fn commands_are_asked_once_and_compared() {
    let place = Place::new();
    let (tcp, unix) = (command("127.0.0.1:$PORT", "--aio"), command("unix:$SOCKET", "--aio"));
    let ended = place.run(&[
        "compare",
        "--grpc",
        PLACE,
        "--body",
        ORDER,
        "--quick",
        "--max-time",
        "10s",
        "--closed-only",
        "--json",
        &tcp,
        &unix,
    ]);
    let json = ended.json();
    assert_valid("compare-2.json", &json);
    assert_eq!(json["parts"][0]["load"]["method"], PLACE);
    for variant in json["variants"].as_array().unwrap() {
        let trials = variant["trials"].as_array().unwrap();
        assert!(!trials.is_empty(), "{}", ended.err);
        for trial in trials {
            assert_eq!(trial["ledger"]["failed"], 0, "{trial}");
            assert!(trial["ledger"]["completed"].as_u64().unwrap() > 0, "{trial}");
        }
    }
    place.run(&["report"]).prints("gRPC shop.v1.Orders/Place");
}

#[test]
fn lines_of_a_file_call_methods_in_their_proportions() {
    let place = Place::new();
    place.write(
        "calls.jsonl",
        "{\"grpc\": \"shop.v1.Orders/Place\", \"body\": {\"buyer\": \"{{ name }}\"}, \"data\": \
         \"names.csv\", \"weight\": 3}\n\
         {\"grpc\": \"shop.v1.Stock.Count\", \"body\": {\"priceCents\": 7}}\n",
    );
    place.write("names.csv", "name\nann\nbob\n");
    let (_shop, url) = Shop::on_port(&place, "--counts counts");
    let calls = ["load", "--request-file", "calls.jsonl", "-n", "400", "--json", &url];
    let json = place.run(&calls).status(0).json();
    assert_valid("load-2.json", &json);
    let kinds = json["kinds"].as_array().unwrap();
    let of = |name: &str| {
        let kind = kinds.iter().find(|kind| kind["name"] == name).unwrap();
        kind["completed"].as_i64().unwrap()
    };
    let (orders, counts) = (of("shop.v1.Orders/Place"), of("shop.v1.Stock/Count"));
    assert_eq!(orders + counts, 400);
    assert!((orders - 3 * counts).abs() <= 6, "of a deck of four, at most one is dealt in part");
    place.run(&["report"]).prints("gRPC").prints("shop.v1.Stock/Count");
}

#[test]
fn what_cannot_be_called_is_said_before_the_load() {
    let place = Place::new();
    place.write("text.txt", "no descriptors");
    place.write("mixed.jsonl", "{\"path\": \"/\"}\n{\"grpc\": \"a.B/C\"}\n");
    place.write("both.jsonl", "{\"path\": \"/\", \"grpc\": \"a.B/C\"}\n");
    let (_shop, url) = Shop::on_port(&place, "");
    let (_silent, without) = Shop::on_port(&place, "--reflection none");
    let (_http, http) = Server::http(&[]);
    let (_http2, http2) = Server::http(&["--http2"]);
    let with_path = format!("{url}a");
    let call = |method| vec!["--grpc", method];
    let body = |body| vec!["--grpc", PLACE, "--body", body];
    for (target, args, words) in [
        (&url, call("Place"), "'Place' is not a method of gRPC"),
        (
            &url,
            call("shop.v1.Orderz/Place"),
            "has no service 'shop.v1.Orderz'; did you mean 'shop.v1.Orders'?",
        ),
        (&url, call("shop.v1.Orders/Plaice"), "has no method 'Plaice'; did you mean 'Place'?"),
        (&url, call("shop.v1.Orders/Watch"), "only unary methods can be called"),
        (&url, body("{"), "is not JSON: EOF while parsing an object at line 1 column 1"),
        (&url, body("{\"items\": [{\"name\": 1}]}"), "'items[0].name' must be a string, not 1"),
        (
            &url,
            body("{\"buyerr\": 1}"),
            "'buyerr' is no field of shop.v1.Order; did you mean 'buyer'?",
        ),
        (
            &without,
            call(PLACE),
            "(gRPC server reflection); give their descriptors with --protoset FILE",
        ),
        (
            &http,
            call(PLACE),
            "it does not speak HTTP/2 on this port, which --http2 and --grpc need",
        ),
        (&http2, call(PLACE), "cannot describe its services: not gRPC"),
        (&with_path, call(PLACE), "a call by gRPC has no path"),
        (
            &url,
            vec!["--grpc", PLACE, "--protoset", "text.txt"],
            "text.txt is not a set of descriptors",
        ),
        (&url, vec!["--grpc", PLACE, "--protoset", "missing"], "cannot read missing"),
        (&url, vec!["--protoset", SHOP], "add --grpc"),
        (&url, vec!["--grpc", PLACE, "--method", "GET"], "cannot be used with"),
        (&url, vec!["--grpc", PLACE, "--expect-status", "200"], "cannot be used with"),
        (&url, vec!["--streams", "2"], "--streams needs --http2"),
        (&url, vec!["--request-file", "mixed.jsonl"], "cannot be mixed"),
        (&url, vec!["--request-file", "both.jsonl"], "either a \"path\" or a \"grpc\""),
    ] {
        let all = [&["load", "-n", "10"], args.as_slice(), &[target]].concat();
        place.run(&all).status(2).says(words);
    }
    let raw = ["load", "--grpc", PLACE, "tcp://127.0.0.1:1"];
    place.run(&raw).status(2).says("--grpc needs a target of HTTP, not raw bytes");
    let path = ["compare", "--grpc", PLACE, "--path", "/x", "a $PORT", "b $PORT"];
    place.run(&path).status(2).says("a call by gRPC has no path; leave out --path");
    let urls = ["compare", "--grpc", PLACE, &url, &with_path];
    place.run(&urls).status(2).says("a call by gRPC has no path; leave out the URL's");
    // A method that is not known without a descriptor is the server's to refuse.
    let encoded = ["load", "--grpc", "a.B/C", "--binary", "-n", "10", &url];
    place.run(&encoded).status(1).prints("UNIMPLEMENTED (12)");
}

#[test]
fn an_encoded_message_needs_no_descriptor() {
    let place = Place::new();
    std::fs::write(place.path("order.bin"), b"\x0a\x03ann\x12\x00").unwrap();
    let (_shop, url) = Shop::on_port(&place, "--reflection none --counts counts");
    std::fs::write(place.path("receipt.bin"), b"\x08\x01\x12\x03ann").unwrap();
    let call = ["load", "--grpc", PLACE, "--binary", "--body", "@order.bin"];
    let expected = ["--expect-body", "@receipt.bin", "-n", "200", "--json", &url];
    let json = place.run(&[&call[..], &expected].concat()).status(0).json();
    assert_eq!(json["ledger"]["completed"], 200);
    std::fs::write(place.path("receipt.bin"), b"\x08\x02\x12\x03ann").unwrap();
    let json = place.run(&[&call[..], &expected].concat()).status(1).json();
    assert_eq!(json["errors"], json!({ "body differs": 200 }));
}
