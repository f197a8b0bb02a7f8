//! The page in headless Chromium, along a person's clicks.

#![allow(clippy::unwrap_used)] // a test may fail anywhere, its helpers included

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use series::{Delta, Interval, Kind, SECOND_US, SlotKey, Spec, Step};
use serve::Readers;
use store::{Changes, Identity, NewSeries, Retention, SeriesLimit, Writer};

/// 2026-03-01T00:00:00Z.
const MIDNIGHT_S: i64 = 1_772_323_200;

/// Two hours of requests of two customers, with a gap of ten minutes.
fn record(place: &Path) -> i64 {
    let mut store = store::Sqlite::open(place).unwrap();
    let steps = [10, 60, 3_600].map(|step_s| Retention::from_secs(step_s, None).unwrap());
    use store::Store as _;
    store.retain(&steps).unwrap();
    let step = Step::from_secs(10).unwrap();
    let named = |customer| {
        let identity = Identity::new("shop.requests", [("customer", customer)]);
        NewSeries::new(identity, Spec::new(Kind::Count, step))
    };
    let names = [named("acme"), named("<b>bolt</b>")];
    let made = store.series(&names, &SeriesLimit::DEFAULT).unwrap();
    let ids: Vec<i64> = made.into_iter().map(|made| made.unwrap().id).collect();
    let mut changes = Changes::default();
    let mut total = 0;
    for slot in 0..720_i64 {
        for (place, id) in ids.iter().enumerate() {
            if place == 0 && (300..360).contains(&slot) {
                continue;
            }
            let wave = ((slot as f64 / 60.0).sin() * 40.0) as i64;
            let count = 100 + wave + (slot * 7919 % 23) - 60 * place as i64;
            total += if place == 0 { count } else { 0 };
            let from_us = (MIDNIGHT_S + slot * 10) * SECOND_US;
            let interval = Interval::count(from_us, from_us + 10 * SECOND_US, count).unwrap();
            for (slot_us, part) in interval.slots(step) {
                changes.add(step, SlotKey { slot_us, series: *id, lane: 0 }, Delta::widen(part));
            }
        }
    }
    store.apply(Writer(1), 1, &changes).unwrap();
    total
}

/// Figures of a daemon, as crate `serve` writes them.
const METRICS: &str = "\
# HELP tachograph_lines Lines received, by way.
# TYPE tachograph_lines counter
tachograph_updates_total 12340
tachograph_journal_bytes 1048576
tachograph_journal_max_bytes 1073741824
tachograph_head_bytes 0
tachograph_head_max_bytes 67108864
tachograph_full 0
tachograph_lines_total{way=\"graphite_stream\"} 12345
tachograph_lines_total{way=\"statsd_datagram\"} 155
tachograph_datagrams_total{way=\"statsd_datagram\"} 51
tachograph_datagrams_dropped_total{way=\"statsd_datagram\"} 9
tachograph_oldest_unwritten_seconds 3.25
tachograph_refused_lines_total{way=\"graphite_stream\",sender=\"192.0.2.1\",reason=\"bad_number\"} 5
tachograph_turned_away_total{way=\"http\",sender=\"<b>x</b>\",reason=\"no_token\"} 70
# EOF
";

/// Serves the page on a port of its own; the runtime ends with the test.
struct Server {
    address: String,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    fn start(place: &Path) -> Server {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let places = web::Places { runs: Some(place.to_owned()), is_postgres: false };
        let router = web::router(&Readers::new(place.to_str().unwrap()), places)
            .route("/metrics", axum::routing::get(|| async { METRICS }))
            .route("/health", axum::routing::get(|| async { "ok\n" }));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Server { address, _runtime: runtime }
    }
}

/// Chromium, spoken to over a pipe in its DevTools protocol.
struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Value,
    last: u64,
    /// Everything that the page requested or logged as an error.
    requested: Vec<String>,
    errors: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    fn start() -> Browser {
        let profile = tempfile::tempdir().unwrap();
        // The protocol is on descriptors 3 and 4, which a shell can set without unsafe code.
        let script = "exec chromium --headless --no-sandbox --disable-gpu --disable-quic \
                      --no-first-run --disable-background-networking --disable-component-update \
                      --disable-sync --remote-debugging-pipe --user-data-dir=\"$0\" about:blank \
                      3<&0 4>&1 </dev/null >/dev/null";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .arg(profile.path())
            // What it leaves there when it is killed goes with the profile.
            .env("TMPDIR", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut browser = Browser {
            child,
            to,
            from: BufReader::new(from),
            session: Value::Null,
            last: 0,
            requested: Vec::new(),
            errors: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        browser.session = browser.call("Target.attachToTarget", target)["sessionId"].clone();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends a command, and waits for its result.
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut command = json!({"id": self.last, "method": method, "params": parameters});
        if self.session.is_string() {
            command["sessionId"] = self.session.clone();
        }
        self.to.write_all(command.to_string().as_bytes()).unwrap();
        self.to.write_all(b"\0").unwrap();
        loop {
            let mut bytes = Vec::new();
            self.from.read_until(0, &mut bytes).unwrap();
            assert!(
                bytes.pop().is_some(),
                "chromium ended; install it with: sudo apt install chromium"
            );
            let message: Value = serde_json::from_slice(&bytes).unwrap();
            match message["method"].as_str() {
                Some("Network.requestWillBeSent") => {
                    let url = message["params"]["request"]["url"].as_str().unwrap();
                    self.requested.push(url.to_owned());
                }
                Some("Runtime.exceptionThrown") => {
                    self.errors.push(message["params"]["exceptionDetails"].to_string());
                }
                Some("Log.entryAdded") => {
                    let entry = &message["params"]["entry"];
                    if entry["level"] == "error" {
                        self.errors.push(entry.to_string());
                    }
                }
                _ => {}
            }
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// The value of an expression; promises are awaited.
    fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
        });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until a condition holds, frame by frame; fails after ten seconds with what is shown.
    fn wait(&mut self, condition: &str) {
        let look = format!(
            "new Promise(done => {{ const end = performance.now() + 10000; const look = () => \
             ({condition}) ? done('') : performance.now() > end ? done(document.body.innerText) : \
             requestAnimationFrame(look); look(); }})"
        );
        let shown = self.value(&look);
        assert_eq!(shown, "", "{condition}");
    }

    fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
        self.wait("document.readyState === 'complete'");
    }

    fn size(&mut self, width: u32, height: u32, is_dark: bool) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500,
        });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if is_dark { "dark" } else { "light" };
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.call("Emulation.setEmulatedMedia", json!({"features": [feature]}));
    }

    /// The middle of the element that a selector finds.
    fn middle(&mut self, selector: &str) -> (f64, f64) {
        let place = self.value(&format!(
            "(() => {{ const e = document.querySelector({selector:?}); \
             e.scrollIntoView({{block: 'nearest'}}); const r = e.getBoundingClientRect(); \
             return [r.left + r.width / 2, r.top + r.height / 2]; }})()"
        ));
        (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
    }

    fn mouse(&mut self, kind: &str, (x, y): (f64, f64)) {
        let buttons = u8::from(kind != "mouseReleased");
        let event = json!({
            "type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1,
        });
        self.call("Input.dispatchMouseEvent", event);
    }

    fn click(&mut self, selector: &str) {
        let at = self.middle(selector);
        self.mouse("mousePressed", at);
        self.mouse("mouseReleased", at);
    }

    fn drag(&mut self, selector: &str, by: f64) {
        let (x, y) = self.middle(selector);
        self.mouse("mousePressed", (x, y));
        for part in 1..=5 {
            self.mouse("mouseMoved", (x + by * f64::from(part) / 5.0, y));
        }
        self.mouse("mouseReleased", (x + by, y));
    }

    fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key});
            if key == "Enter" && kind == "keyDown" {
                event["text"] = json!("\r");
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// A picture, kept where `TACHOGRAPH_SCREENSHOTS` says, for people to look at.
    fn picture(&mut self, name: &str) {
        let Ok(folder) = std::env::var("TACHOGRAPH_SCREENSHOTS") else { return };
        let parameters = json!({"format": "png", "captureBeyondViewport": true});
        let picture = self.call("Page.captureScreenshot", parameters);
        let text = Path::new(&folder).join(format!("{name}.png.base64"));
        std::fs::write(text, picture["data"].as_str().unwrap()).unwrap();
    }

    /// How long the page took until a person could use it, kept beside the pictures: milliseconds
    /// from the navigation to the end of the last thing that it fetched.
    fn note_time(&mut self) {
        let Ok(folder) = std::env::var("TACHOGRAPH_SCREENSHOTS") else { return };
        let taken = self.value(
            "Math.max(...performance.getEntriesByType('resource').map(e => e.responseEnd), \
             performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd)",
        );
        std::fs::write(Path::new(&folder).join("usable-after-ms"), taken.to_string()).unwrap();
    }

    /// The rows of the table of totals.
    fn totals(&mut self) -> Vec<Vec<String>> {
        let rows = self.value(
            "[...document.querySelectorAll('#totals tbody tr')].map(r => [...r.cells].map(c => \
             c.textContent))",
        );
        serde_json::from_value(rows).unwrap()
    }
}

#[test]
fn a_person_finds_a_series_and_its_total() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("record.sqlite");
    let total = record(&place);
    let server = Server::start(&place);
    let mut browser = Browser::start();
    browser.size(1280, 800, false);
    browser.open(&server.address);
    browser.wait("document.querySelectorAll('#found button').length === 2");
    browser.note_time();

    // Search, and choose the only series found.
    browser.click("#search");
    browser.write("REQUESTS acme");
    browser.wait("document.querySelectorAll('#found button').length === 1");
    browser.click("#found button");
    browser.wait(
        "document.querySelector('#chart canvas') && !document.querySelector('#totals').hidden",
    );
    let shown = base_count(total);
    let rows = browser.totals();
    assert_eq!(rows[0][..2], ["shop.requests;customer=acme".to_owned(), shown.clone()]);
    assert_eq!(rows[0][5], "91.7%", "the gap is unknown");
    browser.picture("light");
    let sql = browser.value("document.querySelector('#sql').textContent");
    let sql = sql.as_str().unwrap().to_owned();
    assert!(sql.contains("FROM every_10s\nWHERE measurement = 'shop.requests'"), "{sql}");
    assert_eq!(sum_by_sql(&place, &sql), total as f64, "the statement gives the same total");
    let curl = browser.value("document.querySelector('#curl').textContent");
    assert!(curl.as_str().unwrap().starts_with(&format!("curl '{}render?target=", server.address)));

    // Zoom by dragging: the total is that of the selection.
    browser.drag("#chart .u-over", 200.0);
    browser.wait("!document.querySelector('#back').disabled");
    let zoomed = browser.totals()[0][1].clone();
    assert_ne!(zoomed, shown);
    let part = browser.value("document.querySelector('#sql').textContent");
    let part = sum_by_sql(&place, part.as_str().unwrap());
    assert_eq!(zoomed, base_count(part as i64), "the area of the selection is its count");

    // By keyboard: out again, and back.
    browser.value("document.querySelector('#chart').focus()");
    browser.key("Backspace");
    browser.wait(&format!(
        "document.querySelector('#totals tbody td:nth-child(2)').textContent === '{shown}'"
    ));
    browser.key("+");
    browser.wait("!document.querySelector('#back').disabled");
    browser.key("Backspace");
    browser.wait("document.querySelector('#back').disabled");

    // A renamed series is the same.
    browser.open("about:blank");
    browser.open(&format!(
        "{}#explore?target=alias(shop.requests;customer%3Dacme,'a')",
        server.address
    ));
    browser.wait("document.querySelectorAll('#totals tbody tr').length === 1");
    assert_eq!(browser.totals()[0][..2], ["a".to_owned(), shown.clone()]);

    // A target with functions, and its error.
    browser.value("document.querySelector('#target').value = ''");
    browser.click("#target");
    browser.write("shop.requests | scale(2");
    browser.key("Enter");
    browser.wait(
        "document.querySelector('#message').textContent.startsWith('cannot parse the target')",
    );
    browser.write(")");
    browser.key("Enter");
    browser.wait("document.querySelectorAll('#totals tbody tr').length === 2");
    let names: Vec<String> = browser.totals().into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(names[0], "scale(shop.requests;customer=<b>bolt</b>,2)", "a name is never HTML");
    browser.size(1280, 800, true);
    browser.wait("matchMedia('(prefers-color-scheme: dark)').matches");
    browser.picture("dark");

    // On a phone, nothing is wider than the screen.
    browser.size(400, 800, false);
    browser
        .wait("innerWidth === 400 && document.querySelector('#chart canvas').clientWidth <= 376");
    assert_eq!(browser.value("document.documentElement.scrollWidth"), 400);
    browser.picture("phone");

    // The view is in the address, so it can be sent to others.
    let address = browser.value("location.href");
    browser.open("about:blank");
    browser.open(address.as_str().unwrap());
    browser.wait("document.querySelectorAll('#totals tbody tr').length === 2");

    browser.click("#to-runs");
    browser.wait("!document.querySelector('#no-runs').hidden");
    let note = browser.value("document.querySelector('#no-runs').textContent");
    assert_eq!(note, "No runs yet. Record one: tachograph compare COMMAND COMMAND");
    browser.picture("no-runs");

    browser.click("#to-health");
    browser.wait("document.querySelectorAll('#refused tbody tr').length === 2");
    let text = |selector: &str| {
        format!(
            "[...document.querySelectorAll('{selector} tbody tr')].map(r => [...r.cells].map(c => \
             c.textContent).join('|'))"
        )
    };
    let shown = browser.value(&text("#figures"));
    for row in [
        "Record|can be read and written",
        "Senders|need not wait",
        "Oldest line that is not in the record|3.25 s",
        "Journal|1 MiB of 1 GiB (0.1%)",
        "Memory of unwritten updates|0 B of 64 MiB (0.0%)",
        "Lines received|12,500",
        "by graphite stream|12,345",
        "by statsd datagram|155",
        "Datagrams dropped by the kernel|9 of 60",
        "Updates accepted|12,340",
    ] {
        assert!(shown.as_array().unwrap().contains(&json!(row)), "{row} is not in {shown}");
    }
    let refused = browser.value(&text("#refused"));
    assert_eq!(refused[0], "<b>x</b>|http|no token|requests, connections or datagrams|70");
    assert_eq!(refused[1], "192.0.2.1|graphite_stream|bad number|lines|5");
    browser.picture("health");

    let own = |url: &&String| url.starts_with(&server.address) || !url.starts_with("http");
    assert_eq!(browser.requested.iter().find(|url| !own(url)), None, "fetched from elsewhere");
    let expected = |error: &&String| error.contains("status of 400");
    assert_eq!(browser.errors.iter().find(|error| !expected(error)), None);
}

/// A store with one series of counts, and a function that adds requests of the last two minutes: of
/// ten seconds after those before.
fn growing(place: &Path) -> impl FnMut(i64) {
    use store::Store as _;
    let mut store = store::Sqlite::open(place).unwrap();
    store.retain(&[Retention::from_secs(10, None).unwrap()]).unwrap();
    let step = Step::from_secs(10).unwrap();
    let identity = Identity::new("live.requests", [("host", "a")]);
    let name = NewSeries::new(identity, Spec::new(Kind::Count, step));
    let made = store.series(&[name], &SeriesLimit::DEFAULT).unwrap();
    let series = made.into_iter().next().unwrap().unwrap().id;
    let recent_s = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() / 10 * 10 - 100;
    let recent_s = i64::try_from(recent_s).unwrap();
    let mut batch = 0;
    move |count| {
        let from_us = (recent_s + batch * 10) * SECOND_US;
        let interval = Interval::count(from_us, from_us + 10 * SECOND_US, count).unwrap();
        let mut changes = Changes::default();
        for (slot_us, part) in interval.slots(step) {
            changes.add(step, SlotKey { slot_us, series, lane: 0 }, Delta::widen(part));
        }
        batch += 1;
        store.apply(Writer(1), u64::try_from(batch).unwrap(), &changes).unwrap();
    }
}

#[test]
fn what_arrives_is_seen_while_it_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("record.sqlite");
    let mut add = growing(&place);
    add(1_000);
    let server = Server::start(&place);
    let mut browser = Browser::start();
    browser.size(1280, 800, false);
    browser.open(&server.address);
    browser.wait("document.querySelectorAll('#found button').length === 1");
    browser.click("#found button");
    let total = |count: &str| {
        format!(
            "document.querySelector('#totals tbody td:nth-child(2)')?.textContent === '{count}'"
        )
    };
    browser.wait(&total("1,000"));
    let is_pressed = "document.querySelector('#live').getAttribute('aria-pressed')";
    assert_eq!(browser.value(is_pressed), "false");
    browser.click("[data-range='900']");
    browser.click("#live");
    assert_eq!(browser.value(is_pressed), "true");
    add(234);
    browser.wait(&total("1,234"));
    add(1);
    browser.wait(&total("1,235"));
    browser.picture("live");
    // The address has it, and a zoom ends it.
    browser.wait("location.hash.includes('live=slide')");
    browser.value("document.querySelector('#chart').focus()");
    browser.key("+");
    browser.wait(&format!("{is_pressed} === 'false' && !location.hash.includes('live=')"));
    assert_eq!(browser.errors, Vec::<String>::new());
}

#[test]
fn an_empty_record_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("record.sqlite");
    drop(store::open(place.to_str().unwrap()).unwrap());
    let server = Server::start(&place);
    let mut browser = Browser::start();
    browser.size(1280, 800, false);
    browser.open(&server.address);
    browser.wait("document.querySelector('#chart').textContent === 'Nothing is recorded yet.'");
    let note = browser.value("document.querySelector('#count').textContent");
    assert_eq!(note, "No series yet. Send some, or import a file: tachograph import FILE");
    browser.picture("empty");
}

#[test]
fn the_page_is_small() {
    let files = ["index.html", "page.css", "page.js", "uplot/uplot.min.js", "uplot/uplot.min.css"];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let sizes = files.map(|file| std::fs::metadata(folder.join(file)).unwrap().len());
    assert!(sizes.iter().sum::<u64>() <= 200_000, "{sizes:?}");
}

/// A count as the page shows it.
fn base_count(count: i64) -> String {
    let digits = count.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap()).collect();
    groups.join(",")
}

/// The sum of the totals that a statement reads.
fn sum_by_sql(place: &Path, sql: &str) -> f64 {
    let db = rusqlite::Connection::open(place).unwrap();
    let inner = sql.trim_end_matches(';');
    db.query_row(&format!("SELECT sum(total) FROM ({inner})"), [], |row| row.get(0)).unwrap()
}
