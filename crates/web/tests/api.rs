//! Requests as Grafana sends them, over SQLite and PostgreSQL.

#![allow(clippy::unwrap_used)] // a test may fail anywhere, its helpers included

use serde_json::{Value, json};
use series::{Delta, Interval, Kind, SECOND_US, SlotKey, Spec, Step};
use serve::Readers;
use store::{Changes, Identity, NewSeries, Retention, SeriesLimit, Writer};
use throwaway::Throwaway;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// 2026-03-01T00:00:00Z.
const MIDNIGHT_S: i64 = 1_772_323_200;

/// Ten minutes of requests: acme has a gap, and its first slot is known for one second.
fn record(place: &str) {
    let mut store = store::open(place).unwrap();
    let steps = [10, 60, 3_600].map(|step_s| Retention::from_secs(step_s, None).unwrap());
    store.retain(&steps).unwrap();
    let step = Step::from_secs(10).unwrap();
    let named = |measurement: &str, field: &str, customer: &str| {
        let identity = Identity {
            field: field.to_owned(),
            ..Identity::new(measurement, [("customer", customer)])
        };
        NewSeries::new(identity, Spec::new(Kind::Count, step))
    };
    let wanted = [
        named("shop.requests", "value", "acme"),
        named("shop.requests", "value", "bolt"),
        named("cpu", "user", "acme"),
    ];
    let made = store.series(&wanted, &SeriesLimit::DEFAULT).unwrap();
    let ids: Vec<i64> = made.into_iter().map(|made| made.unwrap().id).collect();
    let mut changes = Changes::default();
    let mut count = |series: i64, from_s: i64, length_s: i64, count: i64| {
        let from_us = (MIDNIGHT_S + from_s) * SECOND_US;
        let interval = Interval::count(from_us, from_us + length_s * SECOND_US, count).unwrap();
        for (slot_us, part) in interval.slots(step) {
            changes.add(step, SlotKey { slot_us, series, lane: 0 }, Delta::widen(part));
        }
    };
    count(ids[0], 9, 1, 7);
    count(ids[0], 10, 230, 460);
    count(ids[0], 360, 240, 240);
    count(ids[1], 0, 600, 1_200);
    count(ids[2], 0, 600, 600);
    store.apply(Writer(1), 1, &changes).unwrap();
}

struct Server {
    address: std::net::SocketAddr,
}

impl Server {
    async fn start(place: &str) -> Server {
        let router = web::router(&Readers::new(place), web::Places::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Server { address }
    }

    async fn send(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A server that refuses a long form may close the connection before it is sent.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    async fn get(&self, path: &str) -> (u16, String) {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")).await
    }

    async fn post(&self, path: &str, form: &str) -> (u16, String) {
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Type: \
             application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        ))
        .await
    }

    /// The JSON of a successful answer.
    async fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path).await;
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }
}

/// The range of the data.
fn range() -> String {
    format!("from={MIDNIGHT_S}&until={}", MIDNIGHT_S + 600)
}

fn values(series: &Value) -> Vec<Option<f64>> {
    series["datapoints"].as_array().unwrap().iter().map(|point| point[0].as_f64()).collect()
}

async fn check(place: &str) {
    record(place);
    let server = Server::start(place).await;
    let range = range();

    let found = server.json(&format!("/render?target=shop.requests&format=json&{range}")).await;
    assert_eq!(found[0]["target"], "shop.requests;customer=acme");
    assert_eq!(found[0]["tags"], json!({"customer": "acme", "name": "shop.requests"}));
    assert_eq!(found[0]["datapoints"][0], json!([null, MIDNIGHT_S]), "hardly known");
    assert_eq!(found[0]["datapoints"][1], json!([2, MIDNIGHT_S + 10]));
    assert_eq!(values(&found[0]).len(), 60);
    assert_eq!(values(&found[0])[24..36], [None; 12], "the gap is unknown, not 0");

    // The same from a form, at the width of a small panel: every count is in its band.
    let form = format!("target=shop.requests&target=cpu.*&format=json&maxDataPoints=11&{range}");
    let (status, body) = server.post("/render", &form).await;
    assert_eq!(status, 200, "{body}");
    let found: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(found.as_array().unwrap().len(), 3);
    let bands = values(&found[0]);
    assert_eq!(bands.len(), 10);
    assert_eq!(bands[0], Some((7.0 + 100.0) / 51.0), "total ÷ known time, not a mean of means");
    assert_eq!(found[0]["datapoints"][1][1], MIDNIGHT_S + 60);

    let counts = "hitcount(shop.requests;customer=acme,'10min')";
    let found = server.json(&format!("/render?target={counts}&{range}")).await;
    assert_eq!(values(&found[0]), [Some(707.0)]);
    let target = "aliasByTags(seriesByTag('name=shop.requests','customer=~b'),'customer')";
    let found = server.json(&format!("/render?target={target}&{range}&noNullPoints=1")).await;
    assert_eq!((&found[0]["target"], values(&found[0]).len()), (&json!("bolt"), 60));

    let csv = format!("/render?target=alias(cpu.user,'c')&format=csv&{range}&maxDataPoints=2");
    let (_, csv) = server.get(&csv).await;
    assert_eq!(csv.lines().next(), Some("c,2026-03-01 00:00:00,1"));
    let (_, raw) =
        server.get(&format!("/render?target=limit(cpu.user,1)&format=raw&{range}")).await;
    assert!(raw.starts_with("cpu.user;customer=acme,1772323200,1772323800,10|1.0,1.0,"), "{raw}");

    let branch = |name: &str| json!({"id": name, "text": name, "leaf": 0, "expandable": 1, "allowChildren": 1, "context": {}});
    let nodes = server.json("/metrics/find?query=*").await;
    assert_eq!(nodes, json!([branch("cpu"), branch("shop")]));
    let leaf = server.json("/metrics/find?query=shop.req*").await;
    assert_eq!((&leaf[0]["id"], &leaf[0]["leaf"]), (&json!("shop.requests"), &json!(1)));
    let expanded = server.json("/metrics/expand?query=*.{user,requests}").await;
    assert_eq!(expanded, json!({"results": ["cpu.user", "shop.requests"]}));
    let svg = format!("/render?target=cpu.user&format=svg&width=400&title=A%26B&{range}");
    let (status, svg) = server.get(&svg).await;
    assert!(status == 200 && svg.starts_with("<svg xmlns="), "{status} {svg}");
    assert!(svg.contains(">A&amp;B<") && svg.contains("<polyline class=\"line trace"), "{svg}");
    let completed = server.json("/metrics/find?format=completer&query=sh").await;
    assert_eq!(completed["metrics"][0]["path"], "shop.");
    assert_eq!(server.json("/metrics/index.json").await, json!(["cpu.user", "shop.requests"]));

    assert_eq!(server.json("/tags").await, json!([{"tag": "customer"}, {"tag": "name"}]));
    let customer = server.json("/tags/customer?filter=a").await;
    assert_eq!(customer["values"], json!([{"value": "acme", "count": 2}]));
    let expr = "expr=name%3Dshop.requests";
    let tags = server.json(&format!("/tags/autoComplete/tags?{expr}&tagPrefix=c")).await;
    assert_eq!(tags, json!(["customer"]));
    let values = format!("/tags/autoComplete/values?{expr}&tag=customer&valuePrefix=b");
    assert_eq!(server.json(&values).await, json!(["bolt"]));
    let series = server.json("/tags/findSeries?expr=customer%3Dbolt").await;
    assert_eq!(series, json!(["shop.requests;customer=bolt"]));

    assert_eq!(server.get("/version").await.1, "1.1.10");
    let functions = server.json("/functions").await;
    assert_eq!(functions["summarize"]["params"][2]["default"], "sum");
    assert_eq!(functions["scale"]["params"][1]["required"], true);
    assert_eq!(server.json("/functions/scale").await["group"], "Transform");
}

#[tokio::test(flavor = "multi_thread")]
async fn grafana_reads_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    check(folder.path().join("record.sqlite").to_str().unwrap()).await;
}

#[test]
fn grafana_reads_postgresql() {
    let server = Throwaway::start(&["fsync=off"]).unwrap();
    let url = server.database("grafana").unwrap();
    record(&url);
    let check = async {
        let served = Server::start(&url).await;
        let path = format!("/render?target=shop.requests&maxDataPoints=11&{}", range());
        let found = served.json(&path).await;
        assert_eq!(values(&found[0])[0], Some((7.0 + 100.0) / 51.0));
        let found = served.json(&format!("/render?target=cpu.*&{}", range())).await;
        assert_eq!(values(&found[0]), [Some(1.0); 60]);
        served
    };
    // Connections to PostgreSQL must not be closed on the runtime's threads.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(check);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("record.sqlite");
    record(place.to_str().unwrap());
    let server = Server::start(place.to_str().unwrap()).await;
    for (path, status, sentence) in [
        ("/render", 400, "no target: add target=PATH, such as target=servers.*.cpu"),
        (
            "/render?target=a&from=-1x",
            400,
            "'-1x' is not a time: use a Unix time, 'now', an age such as -1h, HH:MM_YYYYMMDD or YYYYMMDD",
        ),
        ("/render?target=a&from=now", 400, "the range is empty: 'until' must be after 'from'"),
        (
            "/render?target=a&format=png",
            400,
            "format 'png' is not supported: use json, csv, raw or svg",
        ),
        ("/render?target=a&format=svg&width=9", 400, "'width' must be from 200 to 4000 pixels"),
        ("/render?target=a&maxDataPoints=0", 400, "'maxDataPoints' must be a number of at least 1"),
        ("/render?target=a&xFilesFactor=2", 400, "'xFilesFactor' must be from 0 to 1"),
        (
            "/render?target=scale(a",
            400,
            "cannot parse the target 'scale(a' at character 8: expected ',' or ')'",
        ),
        ("/render?target=shop.requests&from=19700101&until=now", 400, "the query would read "),
        ("/metrics/find", 400, "no query: add query=PATH, such as query=servers.*"),
        (
            "/metrics/find?query=a&format=pickle",
            400,
            "format 'pickle' is not supported: use treejson, json, completer or nodelist",
        ),
        ("/metrics/find?query=[a", 400, "'[a' is not a valid path: a '[' is not closed"),
        ("/tags/findSeries", 400, "no expression: add expr=TAG=VALUE, such as expr=name=cpu"),
        ("/tags/autoComplete/values", 400, "no tag: add tag=NAME, such as tag=host"),
        ("/tags/nothing", 404, "no series has this tag; /tags lists all tags"),
        ("/functions/nothing", 404, "unknown function; /functions lists all of them"),
    ] {
        let (found, body) = server.get(path).await;
        assert_eq!(found, status, "{path}: {body}");
        assert!(body.starts_with(sentence) && body.ends_with('\n'), "{path}: {body}");
        assert_eq!(body.lines().count(), 1);
    }
    let targets = "target=a&".repeat(501);
    let (status, body) = server.post("/render", &targets).await;
    assert_eq!(
        (status, body.as_str()),
        (400, "the request has 501 targets, but the limit is 500\n")
    );
    assert_eq!(server.get("/render?target=no.such.path").await, (200, "[]".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path().join("none.sqlite").to_str().unwrap()).await;
    let (status, body) = server.get("/render?target=a").await;
    assert!(status == 503 && body.contains("none.sqlite"), "{status} {body}");
}
